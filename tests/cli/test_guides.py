"""The scripts of the guides, and the guide to a terabyte."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from helpers import fake_slurm
from helpers.documented import joined
from helpers.python_processes import write_command
from helpers.sample import ROOT, SAMPLE, needs
from helpers.shell import shell
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.settings_file import load_settings
from modtok_cli.text.counts import count_documents
from modtok_cli.text.table_files import load_counts
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

EXAMPLES = ROOT / "examples"
LANGUAGES = ("en", "fi", "fr")
VARIABLES = {"K": "600", "ORDERS": "1", "SETS": "2", "STEPS": "3", "LIMIT": "1"}
SETTINGS = """
[pretrain]
steps = 2
workers = 0
seq_length = 128
batch_size = 4
[eval.bpb]
limit = 2
[eval.mcq]
limit = 2
[eval.mt]
max_tokens = 4
[eval.sum]
max_tokens = 4
[unigram-merge]
iterations = 2
"""
trains = needs("megatron", "lm_eval", "datatrove", "pyarrow")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Tasks and settings; text of three languages in data/ and parallel/."""
    shutil.copytree(SAMPLE / "tasks", tmp_path / "tasks")
    (tmp_path / "modtok.toml").write_text(SETTINGS)
    for folder in ("data", "parallel"):
        (tmp_path / folder).mkdir()
        for language in LANGUAGES:
            for file in (SAMPLE / folder).glob(f"{language}.*"):
                shutil.copy(file, tmp_path / folder)
    return tmp_path


@trains
def test_the_scripts_of_the_guides_run(workspace: Path) -> None:
    for name in ("researcher", "pretraining", "evaluator", "deployer"):
        done = shell(f"sh '{EXAMPLES}/guides/{name}.sh'", workspace, **VARIABLES)
        assert done.returncode == 0, f"{name}: {done.stderr[-3000:]}"
    made = ("nsl.svg", "report.html", "runs/first/metrics.jsonl", "results/mt-crossed.jsonl")
    for path in (*made, "fr-en-fi/model.safetensors", "fr-en.gguf"):
        assert (workspace / path).stat().st_size > 0


def test_the_settings_of_the_example_workspace_are_settings_that_exist() -> None:
    assert load_settings(command_tree(), EXAMPLES / "workspace")


@pytest.mark.parametrize("script", sorted(EXAMPLES.rglob("*.s[hb]*")), ids=lambda path: path.name)
def test_scripts_are_sound_shell(script: Path) -> None:
    """Also those that need a cluster or the network, and are not run here."""
    subprocess.run(["/bin/sh", "-n", str(script)], check=True)


PAGE = joined(ROOT / "docs" / "guides" / "terabyte.md")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
FOLDERS = dict(zip(LANGUAGES, ("eng_Latn", "fin_Latn", "fra_Latn"), strict=True))
# Sizes only, but for the plan. The job is run by its shell, in place of Slurm's.
SMALL = (
    (r"sbatch --nodes=8 (\S+)", r"sh \1"),
    ("-k 24000", "-k 600"),
    ("--count-tasks 400", "--count-tasks 3"),
    ("--memory 32GB", "--memory 1GB"),
    ("--model 2.5b", "--model tiny"),
    ("--steps 100000", "--steps 2"),
    ("--batch-size 512", "--batch-size 4"),
    ("--gpus 8", "--gpus 1"),
    (" --set parallelism.distributed_optimizer=true", ""),  # requires GPUs
)
SECONDS = 900
HF = """#!/bin/sh
cd "hub/$2" && cp --parents $6 "../../../$8"
"""
"""`hf download REPO --repo-type dataset --include PATTERN --local-dir DIR`, from hub/."""


def texts_of(language: str) -> list[str]:
    lines = (SAMPLE / "data" / f"{language}.jsonl").read_bytes().splitlines()
    return [orjson.loads(line)["text"] for line in lines]


@pytest.fixture
def cluster(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The workspace in a directory of a small Slurm, with text as FineWeb-2 has it."""
    import pyarrow
    import pyarrow.parquet

    if re.search(r"\s", str(workspace)):
        pytest.skip("jobs do not find a path with white space")
    commands = fake_slurm.install(workspace / "slurm")
    write_command(
        commands / "launch_pickled_pipeline", "-m datatrove.tools.launch_pickled_pipeline"
    )
    (commands / "hf").write_text(HF)
    (commands / "hf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    for name in ("SLURM_CPUS_PER_TASK", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "1")
    hub = workspace / "hub" / "HuggingFaceFW"
    for name in ("fineweb", "heldout", "english"):
        (workspace / name).mkdir()
    for language, folder in FOLDERS.items():
        english = hub / "fineweb/sample/10BT"
        train = english if language == "en" else hub / "fineweb-2/data" / folder / "train"
        held = (
            english / "014_00000.parquet" if language == "en" else train.parent / "test/0.parquet"
        )
        for file in (held, train / "x"):
            file.parent.mkdir(parents=True, exist_ok=True)
        for half in range(2):
            table = pyarrow.table({"text": texts_of(language)[half::2]})
            pyarrow.parquet.write_table(table, train / f"000_{half:05d}.parquet")
        parallel = (SAMPLE / "parallel" / f"{language}.txt").read_text().splitlines()
        pyarrow.parquet.write_table(pyarrow.table({"text": parallel}), held)
    yield workspace
    fake_slurm.stop(workspace / "slurm")


@trains
def test_the_commands_of_the_guide_to_a_terabyte_run(cluster: Path) -> None:
    assert len(COMMANDS) >= 10
    left = []
    for line in COMMANDS:
        small = line
        for pattern, replacement in SMALL if "--dry-run" not in line else ():
            small = re.sub(pattern, replacement, small)
        until = time.monotonic() + SECONDS
        while (done := shell(small, cluster)).returncode == 75 and time.monotonic() < until:
            left.append(line.split("--")[0])  # to Slurm
            time.sleep(0.2)
        assert done.returncode == 0, f"{line}: {done.stderr[-3000:]}"
    assert set(left) == {"modtok corpus count "}
    made = ("metrics.jsonl", "config.json")
    assert all((cluster / "runs" / "sub2-2.5b" / name).stat().st_size for name in made)
    assert (cluster / "fi-fr" / "model.safetensors").stat().st_size > 0
    assert ModularTokenizer.load(cluster / "tokenizer").languages == LANGUAGES
    for language in LANGUAGES:
        counted = load_counts(cluster / "counts" / f"{language}.counts")
        expected = count_documents([[text.encode() for text in texts_of(language)]])
        assert list(counted.pairs()) == list(expected.pairs())
