"""Every command of the guide to a terabyte runs at a small size, with a stand-in for Slurm."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import orjson
import pytest

from helpers import fake_slurm
from helpers.documented import ROOT, joined
from helpers.python_processes import write_command
from helpers.sample import SAMPLE
from helpers.shell import shell
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.counts import count_documents
from modtok_cli.text.table_files import load_counts

PAGE = joined(ROOT / "docs" / "guides" / "terabyte.md")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    ")]
FOLDERS = {"en": "eng_Latn", "fi": "fin_Latn", "fr": "fra_Latn"}
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
SETTINGS = """
[pretrain]
workers = 0
seq_length = 64
[eval.bpb]
limit = 2
[eval.mcq]
limit = 2
"""
SECONDS = 300
HF = """#!/bin/sh
cd "hub/$2" && cp --parents $6 "../../../$8"
"""
"""`hf download REPO --repo-type dataset --include PATTERN --local-dir DIR`, from hub/."""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A workspace with text as FineWeb-2 has it, in a directory of a small Slurm."""
    place = tmp_path / "slurm"
    commands = fake_slurm.install(place)
    write_command(
        commands / "launch_pickled_pipeline", "-m datatrove.tools.launch_pickled_pipeline"
    )
    (commands / "hf").write_text(HF)
    (commands / "hf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    for name, value in (("SLURM_CPUS_PER_TASK", "1"), ("SLURM_JOB_ID", "1")):
        monkeypatch.setenv(name, value)
    write_workspace(tmp_path)
    yield tmp_path
    fake_slurm.stop(place)


def write_workspace(place: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    (place / "modtok.toml").write_text(SETTINGS)
    shutil.copytree(SAMPLE / "tasks", place / "tasks")
    hub = place / "hub" / "HuggingFaceFW"
    for name in ("fineweb", "heldout", "english"):
        (place / name).mkdir()
    for language, folder in FOLDERS.items():
        english = hub / "fineweb/sample/10BT"
        train = english if language == "en" else hub / "fineweb-2/data" / folder / "train"
        held = (
            english / "014_00000.parquet" if language == "en" else train.parent / "test/0.parquet"
        )
        for file in (held, train / "x"):
            file.parent.mkdir(parents=True, exist_ok=True)
        lines = (SAMPLE / "data" / f"{language}.jsonl").read_bytes().splitlines()
        texts = [orjson.loads(line)["text"] for line in lines]
        for half in range(2):
            table = pyarrow.table({"text": texts[half::2]})
            pyarrow.parquet.write_table(table, train / f"000_{half:05d}.parquet")
        parallel = (SAMPLE / "parallel" / f"{language}.txt").read_text().splitlines()
        pyarrow.parquet.write_table(pyarrow.table({"text": parallel}), held)


@pytest.mark.skipif(
    not all(map(find_spec, ("megatron", "lm_eval", "datatrove", "pyarrow"))),
    reason="needs the extras [lm], [eval], [corpus] and [data]",
)
def test_the_commands_run(cluster: Path) -> None:
    assert len(COMMANDS) >= 10
    statuses = []
    for line in COMMANDS:
        small = line
        for pattern, replacement in SMALL if "--dry-run" not in line else ():
            small = re.sub(pattern, replacement, small)
        until = time.monotonic() + SECONDS
        done = shell(small, cluster)
        statuses.append(done.returncode)
        while done.returncode == 75 and time.monotonic() < until:
            time.sleep(0.2)
            done = shell(small, cluster)
        assert done.returncode == 0, f"{line}: {done.stderr[-3000:]}"
    left = [line for line, status in zip(COMMANDS, statuses, strict=True) if status]
    assert [line.split("--")[0] for line in left] == ["modtok corpus count "]  # left to Slurm
    made = ("metrics.jsonl", "config.json")
    assert all((cluster / "runs" / "sub2-2.5b" / name).stat().st_size for name in made)
    assert (cluster / "fi-fr" / "model.safetensors").stat().st_size > 0
    tokenizer = ModularTokenizer.load(cluster / "tokenizer")
    assert tokenizer.languages == tuple(FOLDERS)
    for language in FOLDERS:
        lines = (SAMPLE / "data" / f"{language}.jsonl").read_bytes().splitlines()
        texts = [orjson.loads(line)["text"].encode() for line in lines]
        counted = load_counts(cluster / "counts" / f"{language}.counts")
        assert list(counted.pairs()) == list(count_documents([texts]).pairs())
