"""Learning one language in process: ours beside rustbpe, gigatoken and bpeasy, in turns.

    python -m benchmarks learning_peers CORPUS/fi.jsonl.zst CORPUS/en.jsonl.zst -k 24000

All learn k tokens (256 bytes, no special tokens) from the same documents with GPT-2's pattern.
Peers are measured if installed (`pip install rustbpe gigatoken bpeasy`). Every turn runs each in a
process of its own, after it has learned from a few words. The documents are in memory before the
clock starts, as each takes them: `bytes` for modtok, a text file for gigatoken, else `str`.

Prints a JSON object per file and peer: median, least and greatest seconds of the turns, on the
clock and of the processor, peak memory (with the documents), and how many tokens are also ours: of
equal counts, each takes another pair first. `benchmarks learning` measures 21 languages with
references as whole commands.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.common import describe, emit, in_a_process, parser_of, peak_of_self, release, spread
from modtok_cli.text.pretokenizer import find_pretokenizer
from modtok_cli.text.readers import read_documents

SEPARATOR = b"\0\0"  # of documents in gigatoken's file
SMALL = [b"one two three", b"one two four"]

Learn = Callable[[int], list[bytes]]


def ours(documents: Sequence[bytes], file: Path) -> Learn:
    from modtok_cli.learn.sequential import learn_plain
    from modtok_cli.text.counts import WordCounter

    def learn(k: int) -> list[bytes]:
        counter = WordCounter(find_pretokenizer("gpt2"))
        counter.add_documents(documents)
        return learn_plain(counter.result(), k).merges.strings()[256:]

    return learn


def rustbpe(documents: Sequence[bytes], file: Path) -> Learn:
    import rustbpe

    texts = [document.decode() for document in documents]

    def learn(k: int) -> list[bytes]:
        peer = rustbpe.Tokenizer()
        peer.train_from_iterator(iter(texts), k, pattern=find_pretokenizer("gpt2").pattern)
        return [bytes(token) for token, _ in peer.get_mergeable_ranks()[256:]]

    return learn


def gigatoken(documents: Sequence[bytes], file: Path) -> Learn:
    import gigatoken

    file.write_bytes(SEPARATOR.join(documents))
    source = gigatoken.TextFileSource([str(file)], separator=SEPARATOR)

    def learn(k: int) -> list[bytes]:
        vocabulary = gigatoken.train_bpe(source, k, [])[0]
        return [vocabulary[token] for token in range(256, len(vocabulary))]

    return learn


def bpeasy(documents: Sequence[bytes], file: Path) -> Learn:
    import bpeasy

    texts = [document.decode() for document in documents]

    def learn(k: int) -> list[bytes]:
        vocabulary = bpeasy.train_bpe(iter(texts), find_pretokenizer("gpt2").pattern, 1 << 16, k)
        return sorted((token for token in vocabulary if len(token) > 1), key=vocabulary.get)

    return learn


PEERS: dict[str, Callable[[Sequence[bytes], Path], Learn]] = {
    "modtok": ours,
    "rustbpe": rustbpe,
    "gigatoken": gigatoken,
    "bpeasy": bpeasy,
}


def measure(options: argparse.Namespace) -> None:
    """One peer in this process; the result is the last line, because gigatoken prints lines."""
    documents = [bytes(document.text) for document in read_documents(options.text[0])]
    with tempfile.TemporaryDirectory() as directory:
        make = PEERS[options.peer]
        make(SMALL, Path(directory) / "small.txt")(260)
        learn = make(documents, Path(directory) / "text.txt")
        start, used = time.perf_counter(), time.process_time()
        tokens = learn(options.k)
        seconds, processor = time.perf_counter() - start, time.process_time() - used
    options.tokens.write_bytes(b"".join(len(each).to_bytes(4, "big") + each for each in tokens))
    emit({"seconds": seconds, "processor": processor, "peak_mib": peak_of_self()})


def tokens_of(file: Path) -> list[bytes]:
    data, at, found = file.read_bytes(), 0, []
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def compare(text: Path, k: int, turns: int, scratch: Path) -> None:
    """All peers on one file."""
    peers = [name for name in PEERS if name == "modtok" or find_spec(name) is not None]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in peers}
    for _ in range(turns):
        for name in peers:
            words = ("--peer", name, "--tokens", scratch / name)
            took = in_a_process("learning_peers", text, "-k", k, *words, stderr=subprocess.DEVNULL)
            rows[name].append(took)
    mine = tokens_of(scratch / "modtok")
    for name in peers:
        theirs = tokens_of(scratch / name)
        same = next(
            (place for place, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b),
            min(len(mine), len(theirs)),
        )
        emit(
            {
                "what": "one language", "file": text.name, "k": k, "peer": name,
                "version": release(name),
                **spread([row["seconds"] for row in rows[name]], 3, "seconds"),
                "processor": round(statistics.median(row["processor"] for row in rows[name]), 3),
                "peak_mib": round(max(row["peak_mib"] for row in rows[name])),
                "tokens": len(theirs), "also_ours": len(set(mine) & set(theirs)),
                "equal_from_the_start": same,
                "sha256": hashlib.sha256(b"\0".join(theirs)).hexdigest()[:16],
            }
        )  # fmt: skip


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("-k", type=int, default=24_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--peer", help=argparse.SUPPRESS)  # of the processes that measure
    parser.add_argument("--tokens", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        measure(options)
        return
    emit({"machine": describe()})
    with tempfile.TemporaryDirectory() as scratch:
        for text in options.text:
            compare(text, options.k, options.turns, Path(scratch))
