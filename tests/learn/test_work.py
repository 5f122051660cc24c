"""What learning costs, in steps and bytes: never in seconds.

The bounds are what the sample needs, and a quarter more: twice the work fails.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zstandard

from helpers.sample import SAMPLE
from modtok_cli.base.progress import Silent
from modtok_cli.construct import bpe_seq as sequential
from modtok_cli.construct import words as words_to_learn
from modtok_cli.core import learn
from modtok_cli.core import segment as segment_core
from modtok_cli.core import text as core_text
from modtok_cli.learn.merges import grow
from modtok_cli.learn.sequential import SequentialLearner, learn_plain, segment
from modtok_cli.text import streams, text_format
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounter

FINNISH = SAMPLE / "data" / "fi.jsonl"
K = 900

Call = Callable[..., Any]


def counting(calls: Counter[str], name: str, function: Call) -> Call:
    """`function`, whose calls are counted."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[name] += 1
        return function(*args, **kwargs)

    return counted


def test_steps_of_the_merge_loop() -> None:
    counts = count_corpus([FINNISH])
    grown = learn_plain(counts, K)
    spent = grown.spent
    merges = len(grown.merges.merges)
    ids, _ = segment(grown.merges, counts)
    # Exact: a look at each pair of the words, and one for each symbol that vanishes.
    assert spent.scanned == len(counts.data) - len(counts)
    assert spent.joined == len(counts.data) - len(ids)
    assert spent.visited < 1.8 * spent.joined
    assert spent.rows < 1.6 * spent.joined
    assert spent.looked < 4 * merges


def test_steps_of_a_later_language() -> None:
    """It starts from words that T has segmented, and reads no list of another language."""
    learner = SequentialLearner(K)
    learner.add("fi", count_corpus([FINNISH]))
    counts = count_corpus([SAMPLE / "data" / "en.jsonl"])
    before = learner.merges
    symbols, offsets = segment(before, counts)
    scanned = len(symbols) - len(counts)
    spent = grow(before, symbols, offsets, counts, K).spent
    assert spent.scanned == scanned
    assert spent.visited < 1.8 * spent.joined
    assert spent.rows < 3 * spent.joined


def test_text_is_read_decompressed_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = FINNISH.read_bytes()
    text = line * 300  # three blocks
    path = tmp_path / "fi.jsonl.zst"
    path.write_bytes(zstandard.compress(text))
    calls: Counter[str] = Counter()

    def chunks(*args: Any) -> Iterator[bytes]:
        for chunk in streams.read_chunks(*args):
            calls["chunks"] += 1
            calls["bytes"] += len(chunk)
            yield chunk

    monkeypatch.setattr(text_format, "read_chunks", chunks)
    adds = counting(calls, "counter", core_text.Counter.add)
    monkeypatch.setattr(core_text.Counter, "add", adds)
    read: list[float] = []

    progress = Silent()
    task = SimpleNamespace(advance=read.append, describe=str)
    monkeypatch.setattr(progress, "task", lambda *_: nullcontext(task))
    table = count_corpus([path], progress=progress)
    assert sum(read) == path.stat().st_size
    assert calls["bytes"] == len(text)
    assert calls["chunks"] <= len(text) // streams.CHUNK + 1
    assert calls["counter"] <= calls["chunks"] + 3
    assert table.size.documents == text.count(b"\n")


def test_memory_of_a_table_of_words() -> None:
    """Slots (32 bytes each, 5/16 to 5/8 full), and the words in two orders beside them."""
    words = 150_000
    data = " ".join(f"{number * 7919 % 1_000_003:06d}x" for number in range(words)).encode()
    counter = WordCounter()
    counter.add_documents([b"warm up"])
    documents = [data]
    tracemalloc.start()
    counter = WordCounter()
    counter.add_documents(documents)
    counts = counter.result()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(counts) == words + 1  # the numbers and "x", which follows each
    assert peak < 250 * words


def test_a_build_counts_segments_and_learns_each_language_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    alive: list[int] = []
    original = words_to_learn.Words.take

    def take(self: Any, language: str) -> Any:
        found = original(self, language)
        alive.append(len(self._counted))
        return found

    monkeypatch.setattr(words_to_learn.Words, "take", take)
    for module, name in (
        (words_to_learn, "count_language"),
        (learn.LearnerHandle, "learn"),
        (segment_core.SegmenterHandle, "segment"),
    ):
        monkeypatch.setattr(module, name, counting(calls, name, getattr(module, name)))
    sequential.bpe_seq(data=SAMPLE / "data", output=tmp_path / "out", k=400, threads=1)
    languages = len(list((SAMPLE / "data").iterdir()))
    assert calls["count_language"] == languages
    # The first language is its own reference; it is segmented for its counts.
    assert calls["learn"] == 2 * languages - 1
    assert calls["segment"] == languages
    # Few tables of words are there at a time.
    assert max(alive) <= 2
