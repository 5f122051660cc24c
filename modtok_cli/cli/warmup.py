"""`modtok warmup`: compile every kernel and store it on disk.

Kernels are compiled in groups by processes of their own, as many as there are cores, which take
one group after the other (`python -m modtok_cli.cli.warmup`). Most groups are modules, whose
kernels have explicit signatures and are compiled on import. Groups hardly share kernels, so each
is compiled once. A command whose kernels are not on disk has its own groups compiled in the same
way when it comes to the first one (`prepare`).
"""

from __future__ import annotations

import importlib
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from modtok_cli.base.compiling import LABEL
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.kernel_cache import storage
from modtok_cli.base.processes import die_with_parent
from modtok_cli.base.progress import SILENT, Progress, Task

TICK = 0.25
"""Seconds between the moves of the bar."""

_IMPORTS = 1  # seconds until a process has imported numba


@dataclass(frozen=True)
class Group:
    """Kernels of modules, and those that `run` compiles.

    `seconds`: about how long it takes on one core.
    """

    seconds: int
    modules: tuple[str, ...] = ()
    run: Callable[[], None] | None = None


def _learn() -> None:
    from modtok_cli.learn.bpe import learn_plain
    from modtok_cli.text.counts import WordCounts

    learn_plain(WordCounts.from_pairs([(b"aab", 5), (b"ab", 3)]), 258)


def _add_tables() -> None:
    import numpy as np

    from modtok_cli.text.counts import WordCounts, merge_counts
    from modtok_cli.text.counts_kernel import first_disorder

    table = merge_counts([WordCounts.from_pairs([(word, 1)]) for word in (b"a", b"b")])
    for data in (table.data, np.frombuffer(table.data.tobytes(), dtype=np.uint8)):
        first_disorder(data, table.offsets)


def _split(*names: str) -> None:
    from modtok_cli.text.pretokenizer import pretokenizers

    for name in names:
        _ = pretokenizers()[name].splitter  # compiled or loaded on first use


def _split_chunks() -> None:
    from modtok_cli.modular.chunks import Chunks

    Chunks([b"a b"])


_OTHERS = ("gemma", "gpt2", "llama3", "none", "o200k", "phrases", "qwen2", "smollm")
GROUPS: dict[str, Group] = {  # the longest first
    "merge loop": Group(9, run=_learn),
    "encoding": Group(7, ("modular.encode_kernel", "text.pack_kernel")),
    "merging": Group(5, ("learn.symbol_kernel", "learn.merge_kernel")),
    "pre-tokenizers": Group(5, run=partial(_split, *_OTHERS)),
    "rows": Group(5, ("training.rows.kernel",)),
    "counting": Group(4, ("text.count_kernel",)),
    "reading": Group(4, ("text.json_kernel",)),
    "pruning": Group(3, ("learn.prune_kernel",)),
    "superwords": Group(3, run=_split_chunks),
    "EM": Group(2, ("learn.em_kernel",)),
    "tries": Group(2, ("learn.trie_kernel",)),
    "search": Group(2, ("learn.viterbi_kernel",)),
    "tables": Group(2, run=_add_tables),
    "splitting": Group(1, run=partial(_split, "bpe")),
    "splitting for Unigram": Group(1, run=partial(_split, "unigram")),
    "derivation": Group(1, ("modular.derivation_kernel",)),
}

_LEARNING = ("merge loop", "merging", "counting", "splitting", "reading")
_ENCODING = ("merging", "encoding", "splitting")
_MEASURING = (*_ENCODING, "counting")
# What a command needs for its usual work on text, with a tokenizer by merges. Others compile what
# they need one kernel after the other.
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bpe", "bpe-seq", "bpe-concat", "bpe-parity"), _LEARNING),
    "bpe-merge": (*_LEARNING, "tries", "search", "pruning"),
    "unigram-merge": (
        *("EM", "tries", "search", "merging", "encoding"),
        *("counting", "splitting for Unigram", "reading", "tables"),
    ),
    "encode": _ENCODING,
    **dict.fromkeys(("nsl", "fairness", "check", "origin"), _MEASURING),
    "adopt": (*_MEASURING, "reading", "derivation"),
    "pretrain": (*_MEASURING, "rows"),
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
    """About how many seconds groups take: their sum over the processes, or the longest of them.

    >>> duration(("merge loop", "tries"), 2), duration(("merging", "counting", "reading"), 2)
    (10, 8)
    """
    seconds = [GROUPS[name].seconds for name in names]
    return _IMPORTS + max(-(-sum(seconds) // processes), *seconds)


def warmup(
    names: Sequence[str] | None = None,
    *,
    processes: int | None = None,
    progress: Progress = SILENT,
    label: str = "compiling",
) -> dict[str, float]:
    """Run a tiny job through every kernel; seconds by group of kernels.

    Args:
        names: the groups; None for all.
        processes: groups compiled at once; the number of cores if None.

    Raises:
        ModtokError: a group failed.
    """
    groups = {name: GROUPS[name] for name in GROUPS if names is None or name in names}
    seconds: dict[str, float] = {}
    running: dict[Future[float], str] = {}
    count = min(processes or os.cpu_count() or 1, len(groups))
    with (
        progress.task(label, total=100, unit="%") as task,
        _workers(count) as idle,
        ThreadPoolExecutor(count) as pool,
    ):
        bar = _Bar(task, groups)
        waiting = list(groups)
        while waiting or running:
            while waiting and len(running) < count:
                name = waiting.pop(0)
                running[pool.submit(_run, name, idle)] = name
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


class _Worker:
    """A process that compiles groups."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the worker
        words = [sys.executable, "-m", "modtok_cli.cli.warmup"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=self._errors, text=True, bufsize=1
        )

    def compile(self, name: str) -> None:
        """Compile a group.

        Raises:
            ModtokError: it failed, or the process ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{name}\n")
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = ""
        if said != "\n":
            raise ModtokError(f"warmup: the {name} kernels failed: {said.strip() or self._end()}")

    def _end(self) -> str:
        """Why the process ended: the last line that it wrote."""
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return lines[-1] if lines else f"exit status {status}"

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


@contextmanager
def _workers(count: int) -> Iterator[queue.SimpleQueue[_Worker]]:
    """Processes that end with the block."""
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    with ExitStack() as stack:
        for _ in range(count):
            worker = _Worker()
            stack.callback(worker.close)
            idle.put(worker)
        yield idle


def _run(name: str, idle: queue.SimpleQueue[_Worker]) -> float:
    """Compile a group by an idle process; seconds."""
    began = time.perf_counter()
    worker = idle.get()
    worker.compile(name)
    idle.put(worker)
    return time.perf_counter() - began


def compile_group(name: str) -> None:
    """Compile one group in this process."""
    group = GROUPS[name]
    for module in group.modules:
        importlib.import_module(f"modtok_cli.{module}")
    if group.run is not None:
        group.run()


def _serve() -> None:
    """Compile the groups that are named on lines of stdin; an empty line for each, or an error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may come between
    for line in sys.stdin:
        try:
            compile_group(line.strip())
            answers.write("\n")
        except Exception as error:
            answers.write(f"{type(error).__name__}: {error}".replace("\n", " ") + "\n")
        answers.flush()


if __name__ == "__main__":
    die_with_parent()
    _serve()
