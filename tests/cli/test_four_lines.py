"""The four lines that the project promises, word for word, in a fresh workspace.

The text is made up of syllables, enough of it for 24,000 tokens a language; training is kept
short by modtok.toml, as a user would.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from helpers.python_processes import write_command
from helpers.sample import SAMPLE

LINES = (
    "modtok bpe-seq --langs en,fi,fr -k 24000",
    "modtok extract --langs fr,en | modtok nsl flores.txt",
    "modtok pretrain --sampling sub:2",
    "modtok eval mcq",
)
LETTERS = {"en": "bcdfghjklm", "fi": "hjklmnprstv", "fr": "bcdfglmnprstv"}
SHORT = """
[pretrain]
steps = 2
seq_length = 128
batch_size = 4
workers = 0
[eval.mcq]
limit = 2
"""


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


@pytest.mark.skipif(
    not (find_spec("megatron") and find_spec("lm_eval")), reason="needs the extras [lm] and [eval]"
)
def test_the_four_lines(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for language, consonants in LETTERS.items():
        text = made_up(consonants, 5400)
        (tmp_path / "data" / f"{language}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "flores.txt").write_text(made_up(LETTERS["fr"], 40), encoding="utf-8")
    shutil.copytree(SAMPLE / "tasks", tmp_path / "tasks")
    (tmp_path / "modtok.toml").write_text(SHORT)
    command = tmp_path / "bin" / "modtok"
    command.parent.mkdir()
    write_command(command, "-m modtok_cli")
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MODTOK_")}
    environment = {**clean, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    rows = []
    for line in LINES:
        done = subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", line],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        rows.append([json.loads(row) for row in done.stdout.splitlines()])
    learned, measured, trained, scored = rows
    assert [(row["language"], row["tokens"]) for row in learned] == [
        ("en", 24000), ("fi", 24000), ("fr", 24000),
    ]  # fmt: skip
    assert learned[-1]["total"] < 3 * 24000
    (line,) = measured
    assert (line["language"], line["documents"]) == ("fr", 40)
    assert 0.9 < line["nsl"] < 1.1
    assert {row["language"] for row in trained} == {"en", "fi", "fr"}
    assert {row["language"] for row in scored} == {"en", "fi", "fr"}
    assert all(row["infer"] == "lang" for row in scored)
