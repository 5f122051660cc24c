"""`modtok warmup`: compile every kernel and store it on disk.

Kernels are compiled in groups, each in a process of its own, as many at once as there are cores.
A group that uses the kernels of another waits for it and loads them. `python -m
modtok_cli.cli.warmup GROUP` is such a process. A command whose kernels are not on disk has its own
groups compiled in the same way when it comes to the first one (`prepare`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modtok_cli.base.compiling import LABEL
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.kernel_cache import storage
from modtok_cli.base.processes import die_with_parent
from modtok_cli.base.progress import SILENT, Progress, Task

if TYPE_CHECKING:
    from modtok_cli.modular.segmenters.interface import Segmenter

# Covers every kernel: text and JSON lines, long and short words, digits.
_TEXT = {"en": "one two three, one two 33 threes\n", "fi": "yksi kaksi kolme, yksi kaksi 3\n"}


TICK = 0.25
"""Seconds between the moves of the bar."""


@dataclass(frozen=True)
class Group:
    """Kernels that `run` compiles, on texts in a directory; `after` are compiled before.

    `seconds`: about how long it takes on one core, if those are there.
    """

    run: Callable[[Path], None]
    seconds: int
    after: tuple[str, ...] = ()


def _learning(data: Path) -> None:
    from modtok_cli.learn.sequential import SequentialLearner
    from modtok_cli.text.counts import WordCounts

    learner = SequentialLearner(270, ())
    for language, text in _TEXT.items():
        words = [*(f" {word}".encode() for word in text.split()), b"a" * 200]
        learner.add(language, WordCounts.from_pairs((word, 5) for word in words))


def _words(data: Path) -> None:
    import modtok_cli.learn.trie_kernel
    import modtok_cli.learn.word_kernel  # noqa: F401 - explicit signatures: compiled on import


def _text(data: Path) -> None:
    from modtok_cli.text.corpus import write_counts

    write_counts(data=data, output=data / "counts")


def _encode(segmenter: Segmenter) -> None:
    """Texts, words, and words that must be stored."""
    from modtok_cli.text.counts import WordCounts

    text = "".join(_TEXT.values())
    for _ in range(2):
        segmenter.encoder.texts([text.encode() * 5, b"a" * 300])
    words = sorted({f" {word}".encode() for word in text.split()})
    segmenter.encoder.words(WordCounts.from_pairs((word, 1) for word in words))


def _encoding(data: Path) -> None:
    import numpy as np

    from modtok_cli.learn.merges import byte_order
    from modtok_cli.modular.segmenters.merges import Merges
    from modtok_cli.modular.vocabulary import Vocabulary
    from modtok_cli.text.pretokenizers.bpe import PRETOKENIZER

    tokens = [*(bytes([byte]) for byte in byte_order()), b"on"]
    vocabulary = Vocabulary.from_tokens((), tokens)
    merges = np.array([[tokens.index(b"o"), tokens.index(b"n"), 256]], dtype=np.int32)
    _encode(Merges(vocabulary, PRETOKENIZER, merges))


def _search(data: Path) -> None:
    import numpy as np

    from modtok_cli.learn.fewest_tokens import file_scores, likelihoods
    from modtok_cli.learn.merges import byte_order
    from modtok_cli.modular.segmenters.fewest_tokens import FewestTokens
    from modtok_cli.modular.vocabulary import Vocabulary
    from modtok_cli.text.pretokenizers.bpe import PRETOKENIZER

    vocabulary = Vocabulary.from_tokens((), [*(bytes([byte]) for byte in byte_order()), b"on"])
    scores = file_scores(likelihoods(np.ones(257, dtype=np.int64)), 0)
    _encode(FewestTokens(vocabulary, PRETOKENIZER, scores))


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

    for superwords in (0, 5):
        output = data / f"tokenizer{superwords}"
        bpe_merge(data=data, output=output, k=270, superwords=superwords)
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
    "learning": Group(_learning, 12),
    "text": Group(_text, 8),
    "words": Group(_words, 4),
    "encoding": Group(_encoding, 7, after=("words",)),
    "search": Group(_search, 3, after=("encoding",)),
    "Unigram": Group(_unigram, 15, after=("text", "search")),
    "pre-tokenizers": Group(_pretokenizers, 5, after=("text",)),
    "rows": Group(_rows, 3),
    "merges": Group(_merges, 3, after=("text", "learning", "encoding")),
    "fewest tokens": Group(_fewest_tokens, 5, after=("text", "learning", "search")),
}

_MEASURING = ("words", "text", "encoding")
# What a command needs for a tokenizer by merges, its usual work. Others compile what they need
# one kernel after the other.
NEEDS: dict[str, tuple[str, ...]] = {
    "bpe": ("learning", "text", "words"),
    "bpe-seq": ("learning", "text", "words"),
    "bpe-concat": ("learning", "text", "words"),
    "bpe-parity": ("learning", "text", "words"),
    "bpe-merge": ("learning", "text", "words", "encoding", "search", "fewest tokens"),
    "unigram-merge": ("words", "text", "encoding", "search", "Unigram"),
    **dict.fromkeys(("nsl", "fairness", "check", "origin", "explore", "adopt"), _MEASURING),
    "pretrain": _MEASURING,
}


def prepare(command: str, progress: Progress) -> bool:
    """Compile what a command needs in other processes; whether it is on disk now.

    It is not where that takes no less time, or where nothing can be stored.
    """
    needed = NEEDS.get(command, ())
    count = os.cpu_count() or 1
    if min(len(needed), count) < 2 or storage()[0] is None:
        return False
    seconds = duration(needed, count)
    progress.note(f"{LABEL}, about {seconds} s: later starts load them from disk")
    try:
        warmup(needed, progress=progress, label=LABEL)
    except ModtokError:
        return False  # this process compiles them, and says what is wrong
    return True


def duration(names: Sequence[str], processes: int) -> int:
    """About how many seconds groups take: their sum over the processes, or the longest chain.

    >>> duration(("words", "encoding"), 2)
    11
    """
    work = sum(GROUPS[name].seconds for name in names)
    return max(-(-work // processes), *(_chain(name, names) for name in names))


def _chain(name: str, names: Sequence[str]) -> int:
    before = [_chain(other, names) for other in GROUPS[name].after if other in names]
    return GROUPS[name].seconds + max(before, default=0)


def warmup(
    names: Sequence[str] | None = None,
    *,
    processes: int | None = None,
    progress: Progress = SILENT,
    label: str = "compiling",
) -> dict[str, float]:
    """Run a tiny job through every kernel; seconds by group of kernels.

    Args:
        names: the groups, with those that they wait for; None for all.
        processes: groups compiled at once; the number of cores if None.

    Raises:
        ModtokError: a group failed.
    """
    seconds: dict[str, float] = {}
    waiting = {name: GROUPS[name] for name in (GROUPS if names is None else names)}
    running: dict[Future[float], str] = {}
    count = processes or os.cpu_count() or 1
    with (
        progress.task(label, total=100, unit="%") as task,
        ThreadPoolExecutor(count) as pool,
    ):
        bar = _Bar(task, waiting)
        while waiting or running:
            for name, group in list(waiting.items()):
                if len(running) < count and all(other in seconds for other in group.after):
                    running[pool.submit(_run, name)] = name
                    del waiting[name]
            for future in wait(running, timeout=TICK, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                seconds[name] = future.result()
                bar.end(name)
            bar.move(running.values())
    return seconds


class _Bar:
    """Moves with time: a group that is being compiled approaches its share without reaching it.

    After the expected time it has half of its share, after n times that n / (n + 1): on a busy
    machine the bar still moves, and the time that is left stays in proportion.
    """

    def __init__(self, task: Task, groups: Mapping[str, Group]) -> None:
        whole = sum(group.seconds for group in groups.values())
        self._shares = {name: 100 * group.seconds / whole for name, group in groups.items()}
        self._expected = {name: group.seconds for name, group in groups.items()}
        self._task = task
        self._began: dict[str, float] = {}
        self._done = dict.fromkeys(groups, 0.0)

    def move(self, running: Iterable[str]) -> None:
        now = time.perf_counter()
        for name in running:
            spent = (now - self._began.setdefault(name, now)) / self._expected[name]
            self._reach(name, self._shares[name] * spent / (1 + spent))

    def end(self, name: str) -> None:
        self._reach(name, self._shares[name])

    def _reach(self, name: str, amount: float) -> None:
        self._task.advance(amount - self._done[name])
        self._done[name] = amount


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
