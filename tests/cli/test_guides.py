"""The scripts of the guides run, one after the other, in one workspace of the sample text."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.python_processes import write_command
from helpers.sample import SAMPLE
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {"K": "600", "ORDERS": "1", "SETS": "2", "STEPS": "3", "LIMIT": "1"}
SETTINGS = """
[pretrain]
workers = 0
seq_length = 128
batch_size = 4
[eval.mcq]
limit = 2
[eval.mt]
max_tokens = 4
[eval.sum]
max_tokens = 4
[unigram-merge]
iterations = 2
"""
LANGUAGES = ("en", "fi", "fr")


@pytest.mark.skipif(
    not (find_spec("megatron") and find_spec("lm_eval")), reason="needs the extras [lm] and [eval]"
)
def test_the_scripts_of_the_guides_run(tmp_path: Path) -> None:
    for folder in ("data", "parallel"):
        (tmp_path / folder).mkdir()
        for language in LANGUAGES:
            for file in (SAMPLE / folder).glob(f"{language}.*"):
                shutil.copy(file, tmp_path / folder)
    shutil.copytree(SAMPLE / "tasks", tmp_path / "tasks")
    (tmp_path / "modtok.toml").write_text(SETTINGS)
    commands = tmp_path / "bin"
    commands.mkdir()
    write_command(commands / "modtok", "-m modtok_cli")
    write_command(commands / "python")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MODTOK_")}
    environment = {**clean, **SMALL, "PATH": f"{commands}:{os.environ['PATH']}"}
    for name in ("researcher", "pretraining", "evaluator", "deployer"):
        done = subprocess.run(
            ["/bin/sh", str(EXAMPLES / "guides" / f"{name}.sh")],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
    made = ("nsl.svg", "report.html", "runs/first/metrics.jsonl", "results/mt-crossed.jsonl")
    for path in (*made, "fr-en-fi/model.safetensors", "fr-en.gguf"):
        assert (tmp_path / path).stat().st_size > 0


def test_the_settings_of_the_example_workspace_are_settings_that_exist() -> None:
    settings = tomllib.loads((EXAMPLES / "workspace" / "modtok.toml").read_text())
    known = {
        node.path: {param.name for param in node.command.get_params(node.ctx)}
        for node in nodes(command_tree())
        if not node.is_group
    }

    def check(table: dict[str, object], path: tuple[str, ...]) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                check(value, (*path, name))
            elif path == ("default",):
                assert any(name.replace("-", "_") in names for names in known.values()), name
            else:
                assert name.replace("-", "_") in known[path], (path, name)

    check(settings, ())


@pytest.mark.parametrize("script", sorted(EXAMPLES.rglob("*.s[hb]*")), ids=lambda path: path.name)
def test_scripts_are_sound_shell(script: Path) -> None:
    """Also those that need a cluster or the network, and are not run here."""
    subprocess.run(["/bin/sh", "-n", str(script)], check=True)
