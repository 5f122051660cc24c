"""The scripts of the guides, and the four lines that the project promises, in fresh workspaces.

The text of the four lines is made up of syllables, enough of it for 24,000 tokens a language.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.sample import ROOT, SAMPLE
from helpers.shell import shell
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.settings import load_settings

EXAMPLES = ROOT / "examples"
SMALL = {"K": "600", "ORDERS": "1", "SETS": "2", "STEPS": "3", "LIMIT": "1"}
SETTINGS = """
[pretrain]
steps = 2
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
LINES = (
    "modtok bpe-seq --langs en,fi,fr -k 24000",
    "modtok extract --langs fr,en | modtok nsl flores.txt",
    "modtok pretrain --sampling sub:2",
    "modtok eval mcq",
)
LETTERS = {"en": "bcdfghjklm", "fi": "hjklmnprstv", "fr": "bcdfglmnprstv"}
trains = pytest.mark.skipif(
    not (find_spec("megatron") and find_spec("lm_eval")), reason="needs the extras [lm] and [eval]"
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    shutil.copytree(SAMPLE / "tasks", tmp_path / "tasks")
    (tmp_path / "modtok.toml").write_text(SETTINGS)
    return tmp_path


def made_up(consonants: str, lines: int, words: int = 16000) -> str:
    """Lines of made-up words, each word at least once if there are lines enough."""
    draw = random.Random(consonants)
    syllables = [a + b for a in consonants for b in "aeiouy"]
    vocabulary = ["".join(draw.choices(syllables, k=draw.randint(2, 5))) for _ in range(words)]
    weights = list(itertools.accumulate(1 / (rank + 3) for rank in range(words)))
    texts = []
    for line in range(lines):
        rare = vocabulary[3 * line % words :][:3]
        texts.append(" ".join(rare + draw.choices(vocabulary, cum_weights=weights, k=8)))
    return "\n".join(texts) + "\n"


@trains
def test_the_four_lines(workspace: Path) -> None:
    for language, consonants in LETTERS.items():
        text = made_up(consonants, 5400)
        (workspace / "data" / f"{language}.txt").write_text(text, encoding="utf-8")
    (workspace / "flores.txt").write_text(made_up(LETTERS["fr"], 40), encoding="utf-8")
    rows = []
    for line in LINES:
        done = shell(line, workspace)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        rows.append([json.loads(row) for row in done.stdout.splitlines()])
    learned, measured, trained, scored = rows
    assert {row["language"]: row["tokens"] for row in learned} == dict.fromkeys(LETTERS, 24000)
    assert learned[-1]["total"] < 3 * 24000
    (line,) = measured
    assert (line["language"], line["documents"]) == ("fr", 40)
    assert 0.9 < line["nsl"] < 1.1
    assert {row["language"] for row in trained} == {row["language"] for row in scored} == {*LETTERS}
    assert all(row["infer"] == "lang" for row in scored)


@trains
def test_the_scripts_of_the_guides_run(workspace: Path) -> None:
    (workspace / "parallel").mkdir()
    for folder, language in itertools.product(("data", "parallel"), LETTERS):
        for file in (SAMPLE / folder).glob(f"{language}.*"):
            shutil.copy(file, workspace / folder)
    for name in ("researcher", "pretraining", "evaluator", "deployer"):
        done = shell(f"sh '{EXAMPLES}/guides/{name}.sh'", workspace, **SMALL)
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
