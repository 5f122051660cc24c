"""`modtok warmup`: compile every kernel and store it on disk.

Kernels are compiled in groups, each in a process of its own, as many at once as there are cores.
A group that uses the kernels of another waits for it and loads them. `python -m
modtok_cli.cli.warmup GROUP` is such a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent
from modtok_cli.base.progress import SILENT, Progress

# Covers every kernel: text and JSON lines, long and short words, digits.
_TEXT = {"en": "one two three, one two 33 threes\n", "fi": "yksi kaksi kolme, yksi kaksi 3\n"}


@dataclass(frozen=True)
class Group:
    """Kernels that `run` compiles, on texts in a directory; `after` are compiled before."""

    run: Callable[[Path], None]
    after: tuple[str, ...] = ()


def _learning(data: Path) -> None:
    from modtok_cli.learn.sequential import SequentialLearner
    from modtok_cli.text.counts import WordCounts

    learner = SequentialLearner(270, (), passes=2)
    for language, text in _TEXT.items():
        words = [*(f" {word}".encode() for word in text.split()), b"a" * 200]
        learner.add(language, WordCounts.from_pairs((word, 5) for word in words))


def _text(data: Path) -> None:
    from modtok_cli.text.corpus import write_counts

    write_counts(data=data, output=data / "counts")


def _merges(data: Path) -> None:
    from modtok_cli.construct.bpe_seq import bpe_seq
    from modtok_cli.measure.nsl import nsl
    from modtok_cli.modular.adopt import adopt
    from modtok_cli.text.corpus import write_counts

    output, counts = data / "tokenizer", data / "counts"
    write_counts(data=data, output=counts)
    bpe_seq(data=counts, output=output, k=270, passes=2)
    nsl([f"{output}@each", str(output)], [data / "en.txt"])
    adopt(output / "tokenizer.json", data=counts)


def _fewest_tokens(data: Path) -> None:
    from modtok_cli.construct.bpe_merge import bpe_merge
    from modtok_cli.measure.nsl import nsl

    output = data / "tokenizer"
    bpe_merge(data=data, output=output, k=270)
    nsl([f"{output}@each"], [data / "en.txt"])


def _unigram(data: Path) -> None:
    from modtok_cli.construct.unigram_merge import unigram_merge
    from modtok_cli.measure.nsl import nsl

    output = data / "tokenizer"
    unigram_merge(data=data, output=output, k=280)
    nsl([f"{output}@each"], [data / "en.txt"])


def _pretokenizers(data: Path) -> None:
    from modtok_cli.text.pretokenizer import pretokenizers

    for each in pretokenizers().values():
        _ = each.splitter  # compiled or loaded on first use


def _rows(data: Path) -> None:
    import modtok_cli.training.rows.kernel  # noqa: F401 - explicit signatures: compiled on import


GROUPS: dict[str, Group] = {  # the longest first, where it does not wait
    "learning": Group(_learning),
    "text": Group(_text),
    "Unigram": Group(_unigram, after=("text",)),
    "pre-tokenizers": Group(_pretokenizers, after=("text",)),
    "rows": Group(_rows),
    "merges": Group(_merges, after=("text", "learning")),
    "fewest tokens": Group(_fewest_tokens, after=("text", "learning")),
}


def warmup(*, processes: int | None = None, progress: Progress = SILENT) -> dict[str, float]:
    """Run a tiny job through every kernel; seconds by group of kernels.

    Args:
        processes: groups compiled at once; the number of cores if None.

    Raises:
        ModtokError: a group failed.
    """
    seconds: dict[str, float] = {}
    waiting = dict(GROUPS)
    running: dict[Future[float], str] = {}
    count = processes or os.cpu_count() or 1
    with (
        progress.task("compiling", total=len(GROUPS), unit="groups") as task,
        ThreadPoolExecutor(count) as pool,
    ):
        while waiting or running:
            for name, group in list(waiting.items()):
                if len(running) < count and all(other in seconds for other in group.after):
                    running[pool.submit(_run, name)] = name
                    del waiting[name]
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                seconds[name] = future.result()
                progress.note(f"{name} kernels ready after {seconds[name]:.1f} s")
                task.advance(1)
    return seconds


def _run(name: str) -> float:
    """Compile a group in a process of its own; seconds."""
    began = time.perf_counter()
    words = [sys.executable, "-m", "modtok_cli.cli.warmup", name]
    ended = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        raise ModtokError(f"warmup: the {name} kernels failed: {last}")
    return time.perf_counter() - began


def compile_group(name: str) -> None:
    """Compile one group in this process."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        for suffix, (language, text) in zip(("txt", "jsonl"), _TEXT.items(), strict=True):
            long = text * 5 + "a" * 200
            content = json.dumps({"text": long}) if suffix == "jsonl" else long
            (data / f"{language}.{suffix}").write_text(content)
        GROUPS[name].run(data)


if __name__ == "__main__":
    die_with_parent()
    compile_group(sys.argv[1])
