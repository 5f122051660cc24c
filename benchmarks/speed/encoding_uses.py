"""Encoding where it is used: a corpus from file to file, and the stream of pretraining.

    python -m benchmarks encoding_uses TOKENIZER --data DIR --langs en,fr [--turns 5]

TOKENIZER is a modular directory with an end of text, DIR the text of its languages. `files` runs
`modtok encode --format bin` as a command, on one thread and two, and counts MB/s of text; `seconds`
includes starting Python. `stream` packs batches in this process as a worker of `pretrain` does and
counts tokens/s, of wall time and of CPU time: each batch has another subset (`--sampling
sub:1`), after a first turn that is not counted. `subset` makes subsets of three languages, and
encodes a word with each; the first one also pays for what is loaded once. Run it in an older
checkout for the state before.
Prints a JSON object per row, with medians, least and greatest of the turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from benchmarks.common import emit, parser_of, spread
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training.data.sampling import Mixture, Regime
from modtok_cli.training.data.slot_packer import SlotPacker, StreamPlan
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import text_stores


def files(options: argparse.Namespace) -> None:
    found = language_files(options.data, options.langs.split(","))
    texts = [str(path) for paths in found.values() for path in paths]
    with tempfile.TemporaryDirectory() as scratch:
        for threads in (1, 2):
            words = [sys.executable, "-m", "modtok_cli", "encode", "-t", str(options.tokenizer)]
            words += ["--langs", options.langs, "--format", "bin", "-o", f"{scratch}/out"]
            words += ["--force", "--json", "-q", "--threads", str(threads), *texts]
            rates = []
            for _ in range(options.turns):
                start = time.perf_counter()
                done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
                seconds = time.perf_counter() - start
                facts = orjson.loads(done.stdout)
                rates.append(facts["bytes"] / 1e6 / seconds)
            emit(
                {"what": "files", "threads": threads, "unit": "MB/s", **spread(rates, 1)}
                | {name: facts[name] for name in ("bytes", "tokens", "documents")}
            )


def stream(options: argparse.Namespace) -> None:
    languages = options.langs.split(",")
    subtokenizers = SubtokenizerCache.load(options.tokenizer)
    with tempfile.TemporaryDirectory() as scratch:
        stores = text_stores(language_files(options.data, languages), Path(scratch))
        mixture = Mixture.of({name: store.text_bytes for name, store in stores.items()})
        plan = StreamPlan(
            options.tokenizer, {}, Regime.parse("sub:1"), 0.5, mixture, seed=1, slots=1, group=1,
            rows=options.rows, length=options.length,
        )  # fmt: skip
        packer = SlotPacker(plan, 0, stores, subtokenizers)
        rates, of_cpu = [], []
        for turn in range(options.turns + 1):
            start, cpu = time.perf_counter(), time.process_time()
            for step in range(options.batches):
                packer.batch(turn * options.batches + step)
            tokens = options.batches * options.rows * options.length
            if turn > 0:
                rates.append(tokens / (time.perf_counter() - start))
                of_cpu.append(tokens / (time.process_time() - cpu))
        shape = {name: getattr(options, name) for name in ("rows", "length", "batches")}
        emit({"what": "stream", "unit": "tokens/s", **spread(rates, 1), **shape})
        emit({"what": "stream", "unit": "tokens/s of CPU", **spread(of_cpu, 1), **shape})


def subset(options: argparse.Namespace) -> None:
    tokenizer = ModularTokenizer.load(options.tokenizer)
    languages = tokenizer.languages
    made, used = [], []
    for i in range(min(options.turns + 1, len(languages) - 2)):
        start = time.perf_counter()
        some = tokenizer.subset(languages[i : i + 3])
        made.append(1e3 * (time.perf_counter() - start))
        some.encode("word")
        used.append(1e3 * (time.perf_counter() - start))
    facts = {"of": len(languages), "tokens_of_t": tokenizer.size}
    for what, milliseconds in (("new subset", made), ("new subset and a word", used)):
        if len(milliseconds) > 1:
            first = round(milliseconds[0], 2)
            rest = spread(milliseconds[1:], 2)
            emit({"what": what, "unit": "ms", **rest, "first": first, **facts})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--langs", default="en,fr")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--only", choices=("files", "stream", "subset"))
    options = parser.parse_args()
    for part in (files, stream, subset):
        if options.only in (None, part.__name__):
            part(options)
