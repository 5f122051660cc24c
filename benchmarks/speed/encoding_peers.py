"""Encoding: our encoder beside gigatoken, fastokens and `tokenizers`, in turns, with the same ids.

    python -m benchmarks encoding_peers TOKENIZER TEXT... --langs en,fr

TOKENIZER is a modular directory that was learned with `--pretokenizer gpt2`: the pattern that all
of them know. The peers are measured if they are installed (`pip install gigatoken fastokens`).
Every turn runs each tokenizer in a process of its own, on one core and on two, and encodes the same
documents three times, after one word many times: the first pass fills its cache, the third is with
a full one. Prints a JSON object per peer, threads and pass, with the median, least and greatest of
the turns, in MB/s, and the median of MB per second of CPU time, which other load disturbs less.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import emit, in_a_process, parser_of, release, spread
from modtok_cli.text.readers import read_documents
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

Encode = Callable[[Sequence[bytes]], Any]


def ours(tokenizer: Path, languages: Sequence[str], file: Path, threads: int) -> Encode:
    subset = ModularTokenizer.load(tokenizer).subset(languages)
    return lambda texts: subset.encode_utf8(texts, threads)


def ours_flat(tokenizer: Path, languages: Sequence[str], file: Path, threads: int) -> Encode:
    subset = ModularTokenizer.load(tokenizer).subset(languages)
    return lambda texts: subset.encode_flat(texts, threads)[0]


def gigatoken(tokenizer: Path, languages: Sequence[str], file: Path, threads: int) -> Encode:
    import gigatoken

    peer = gigatoken.Tokenizer(str(file))
    return lambda texts: peer.encode_batch(texts, parallel=threads > 1)


def fastokens(tokenizer: Path, languages: Sequence[str], file: Path, threads: int) -> Encode:
    from fastokens._native import Tokenizer

    peer = Tokenizer.from_file(str(file))
    return lambda texts: peer.encode_batch([text.decode() for text in texts], False)


def library(tokenizer: Path, languages: Sequence[str], file: Path, threads: int) -> Encode:
    from tokenizers import Tokenizer

    peer = Tokenizer.from_file(str(file))
    return lambda texts: peer.encode_batch_fast(
        [text.decode() for text in texts], add_special_tokens=False
    )


PEERS: dict[str, tuple[str, Callable[..., Encode]]] = {
    "modtok": ("modtok", ours),
    "modtok, flat": ("modtok", ours_flat),
    "gigatoken": ("gigatoken", gigatoken),
    "fastokens": ("fastokens", fastokens),
    "tokenizers": ("tokenizers", library),
}


def flat_ids(found: Any) -> list[int]:
    """All ids one after the other, of whatever a peer gives."""
    if isinstance(found, np.ndarray):
        return [int(number) for number in found]
    ids: list[int] = []
    for each in found.to_list() if hasattr(found, "to_list") else found:
        part = getattr(each, "ids", each)
        ids.extend(int(number) for number in part)
    return ids


def read_texts(paths: Sequence[Path], megabytes: float) -> list[bytes]:
    texts: list[bytes] = []
    for path in paths:
        left = megabytes * 1e6
        for document in read_documents(path):
            left -= len(document.text)
            if left < 0:
                break
            texts.append(bytes(document.text))
    return texts


def measure(options: argparse.Namespace) -> None:
    """One peer in this process: its ids of a sample, or MB/s of three passes."""
    texts = read_texts(options.text, options.megabytes)
    make = PEERS[options.peer][1]
    encode = make(options.tokenizer, options.langs.split(","), options.file, options.threads)
    if options.sample:
        ids = flat_ids(encode(texts[:: max(1, len(texts) // 500)]))
        emit({"ids": len(ids), "hash": hashlib.sha256(str(ids).encode()).hexdigest()})
        return
    encode([b"word " * (1 << 14)])
    rates, of_cpu = [], []
    size = sum(map(len, texts)) / 1e6
    for _ in range(3):
        start, cpu = time.perf_counter(), time.process_time()
        encode(texts)
        rates.append(size / (time.perf_counter() - start))
        of_cpu.append(size / (time.process_time() - cpu))
    emit({"rates": rates, "of_cpu": of_cpu, "bytes": sum(map(len, texts)), "documents": len(texts)})


def measured(options: argparse.Namespace, peer: str, threads: int, *more: str) -> dict[str, Any]:
    """`measure` in a process of its own, on as many cores as threads: caches are its own."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    found: dict[str, Any] = in_a_process(
        "encoding_peers", options.tokenizer, *options.text, "--langs", options.langs,
        "--megabytes", options.megabytes, "--file", options.file, "--peer", peer,
        "--threads", threads, *more, preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip
    return found


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--langs", default="en,fr")
    parser.add_argument("--megabytes", type=float, default=16, help="of each text file at most")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--without", default="", help="peers to leave out, as in: tokenizers")
    for name in ("--file", "--peer", "--threads", "--sample"):  # of the processes that measure
        kind = {"--file": Path, "--threads": int}.get(name, str)
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        measure(options)
        return
    with tempfile.TemporaryDirectory() as directory:
        options.file = Path(directory) / "tokenizer.json"
        languages = options.langs.split(",")
        subset = ModularTokenizer.load(options.tokenizer).subset(languages)
        options.file.write_bytes(subset.to_json())
        left_out = options.without.split(",")
        peers = [
            name
            for name, (package, _) in PEERS.items()
            if installed(package) and name not in left_out
        ]
        expected = measured(options, "modtok", 1, "--sample", "yes")
        for name in peers:
            found = measured(options, name, 1, "--sample", "yes")
            emit({"what": "same ids", "peer": name, "same": found == expected, **found})
        rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for _ in range(options.turns):
            for threads in (1, 2):
                for name in peers:
                    turn = measured(options, name, threads)
                    rows.setdefault((name, threads), []).append(turn)
    for (name, threads), turns in sorted(rows.items()):
        for number, which in ((0, "first"), (2, "third")):
            rates = [turn["rates"][number] for turn in turns]
            of_cpu = statistics.median(turn["of_cpu"][number] for turn in turns)
            emit(
                {
                    "what": "encode", "peer": name, "version": release(PEERS[name][0]),
                    "segmentation": subset.segmentation, "threads": threads, "pass": which,
                    "bytes": turns[0]["bytes"],
                    "documents": turns[0]["documents"], **spread(rates, 1, "mb_s"),
                    "mb_per_cpu_s": round(of_cpu, 1),
                }
            )  # fmt: skip


def installed(package: str) -> bool:
    return package == "modtok" or find_spec(package) is not None
