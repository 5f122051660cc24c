"""Every command that writes: what to call, what it writes, and a workspace to call it in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from helpers.damaged import samples
from helpers.sample import ROOT, SAMPLE

RUN = ("--langs en,fi --model tiny --sampling sub:1 --batch-size 2 --micro-batch 1 --seq-length 32 "
       "--workers 1 -t bpe")  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One call.

    Attributes:
        command: words after `modtok`, without the options.
        options: the rest of the line.
        outputs: what it writes; a directory with all in it. None where all goes to standard
            output.
        again: options of the call that goes on after a kill; None for the same.
        grows: the output is a directory that grows while the command runs, by its design.
    """

    command: str
    options: str
    outputs: tuple[str, ...]
    again: str | None = None
    grows: bool = False

    @property
    def words(self) -> list[str]:
        return [*self.command.split(), *self.options.split()]


TEXTS = "parallel/en.txt parallel/fi.txt"
JOBS = (
    Job("sample", "written", ("written",)),
    Job("corpus build", "crawl.warc crawl.warc.gz -o web --workers 2", ("web",), None, True),
    Job("corpus build", "crawl.warc crawl.warc.gz -o web --workers 2 --langs en,fi "
        "--filters gopher-repetition,pii --quality-model quality.bin --quality-top 0.9", ("web",),
        None, True),
    Job("corpus count", "-o tables", ("tables/en.counts", "tables/fi.counts"), grows=True),
    Job("corpus count", "-o tables --memory 100MB", ("tables/en.counts", "tables/fi.counts"),
        grows=True),
    Job("corpus count", "-o tables --executor local --workers 2", ("tables",), None, True),
    Job("encode", "-t bpe --langs fi parallel/fi.txt --format npy -o ids", ("ids",)),
    Job("bpe", "-k 400 -o mono", ("mono",)),
    Job("bpe", "-k 400 --joint -o joint", ("joint",)),
    Job("bpe-seq", "-k 2000 -o seq", ("seq",)),
    Job("bpe-seq", "-k 500 --segmentation fewest-tokens -o seq", ("seq",)),
    Job("bpe-merge", "-k 400 -o merged", ("merged",)),
    Job("unigram", "-k 400 -o pieces", ("pieces",)),
    Job("unigram-merge", "-k 400 -o united", ("united",)),
    Job("extract", "-t bpe --langs fi -o fi.json", ("fi.json",)),
    Job("extract", "-t unigram --langs fi -o fi.model", ("fi.model",)),
    Job("adopt", "bpe/references/en.json --langs en,fi -o adopted", ("adopted",)),
    Job("bpe-seq", "--append fi -t bpe/references/en.json -k 400 -o grown", ("grown",)),
    Job("explore", "-t bpe -o page.html", ("page.html",)),
    Job("check", f"bpe {TEXTS} --plot c.svg", ("c.svg",)),
    Job("nsl", f"{TEXTS} -t bpe --plot n.svg", ("n.svg",)),
    Job("fairness", f"{TEXTS} -t bpe --plot f.svg", ("f.svg",)),
    Job("origin", f"{TEXTS} -t bpe --plot g.svg", ("g.svg",)),
    Job("report", "shown -o shown.html", ("shown.html",)),
    Job("pretrain", f"{RUN} --steps 6 --save-every 1 --name killed", ("runs/killed",),
        f"{RUN} --steps 6 --save-every 1 --name killed --resume", True),
    Job("slice", "runs/tiny --langs en -t bpe -o cut", ("cut",)),
    Job("graft", "part --onto runs/tiny -o runs/grafted", ("runs/grafted",)),
    Job("export", "runs/tiny --langs en -t bpe --inexact -o cut.gguf", ("cut.gguf",)),
    Job("export", "runs/tiny -t bpe --each --inexact -o gguf", ("gguf",)),
    Job("serve", "runs/tiny -t bpe -o served --prepare", ("served",)),
    Job("eval mcq", "runs/tiny -t bpe --eval-data tasks --langs en --tasks facts --limit 4 "
        "--examples mcq.jsonl --plot mcq.svg", ("mcq.jsonl", "mcq.svg")),
    Job("eval mt", "runs/tiny -t bpe --eval-data parallel --pairs en-fi --limit 4 "
        "--max-tokens 8 --examples mt.jsonl --plot mt.svg", ("mt.jsonl", "mt.svg")),
    Job("eval sum", "runs/tiny -t bpe --eval-data tasks --langs en,fi --limit 2 "
        "--max-tokens 8 --examples sum.jsonl --plot sum.svg", ("sum.jsonl", "sum.svg")),
    # It writes to standard output alone: nothing may be left, and the files it reads stay.
    Job("eval compare", "kept.jsonl kept.jsonl", ()),
)  # fmt: skip

# Commands that take an output and have no job here, and why.
ELSEWHERE = {
    "eval bpb": "its only output is a plot, written like those of nsl",
    "tokens": "it reads an adopted directory or a model; it writes one file through base.files",
    "transplant": "it reads a Hugging Face model; it writes one directory, as slice does",
    "eval fetch": "it needs the network; it writes through base.files like the others",
}


def workspace(root: Path, *, corpus: bool = True, runs: bool = True) -> None:
    """Everything that the jobs read; without extras only what the others need."""
    samples.light_samples(root)
    (root / "modtok.toml").unlink()
    shutil.copytree(SAMPLE / "parallel", root / "parallel")
    if corpus:
        samples.corpus_samples(root)
        shutil.rmtree(root / "made")
    if runs:
        words = ["pretrain", *RUN.split(), "--steps", "2", "--save-every", "2", "--name", "tiny"]
        call(words, root, check=True)
        call(["slice", "runs/tiny", "--langs", "en", "-t", "bpe", "-o", "part"], root, check=True)
        shutil.copytree(SAMPLE / "tasks", root / "tasks")


def environment(place: Path) -> dict[str, str]:
    """For a call: temporary files where they can be seen, one thread, no settings of ours."""
    (place / ".tmp").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MODTOK_")}
    return kept | {
        "TMPDIR": str(place / ".tmp"),
        "MODTOK_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }


def call(words: list[str], place: Path, **options: object) -> subprocess.CompletedProcess[bytes]:
    """`modtok WORDS…` in a workspace."""
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [sys.executable, "-m", "modtok_cli", *words],
        cwd=place,
        env=environment(place),
        capture_output=True,
        timeout=600,
        **{
            "check": False,
            **({} if "input" in options else {"stdin": subprocess.DEVNULL}),
            **options,
        },
    )
