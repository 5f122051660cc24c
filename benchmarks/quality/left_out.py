"""Learning without rare words: what changes, and what `--memory` takes.

    python -m benchmarks left_out languages CORPUS HELD_OUT [-k 24000] [--langs fi,en]
    python -m benchmarks left_out invented CORPUS/fi.jsonl.zst WORK --words 150e6
        [--power 0.5] [--copies 0] [--zstd]
    python -m benchmarks left_out bounded WORK HELD_OUT/fi.txt... [--memory 4GB] [--megabytes 300]

`languages`: BPE of each language (CORPUS/<lang>.jsonl.zst) without words that occur less than
`min_count` times, or with a sample of those that occur less than `sample_weight` times
(`text.frequent`), beside BPE of all words: share of words, occurrences and bytes that are left out,
tokens in common, the rank of the first of BPE of all words that is missing, the first merges that
are the same and those that are proven to be (`learn.certain`), and tokens of HELD_OUT/<lang>.*
relative to BPE of all words (`nsl`).

`invented` writes WORK/data/fi/invented.txt: words of the beginning of one word and the end of
another, drawn by a power of their frequencies, the square roots by default, so that most occur
once; the text itself beside it, and between them with --copies. `bounded` learns from both with
each limit, without one ("none"), or without rare words ("min2": --min-count 2): processor time,
peak memory, what was left out, and tokens of the held-out texts. --megabytes: of the invented text
only so much.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import zstandard

from benchmarks.common import emit, parser_of, texts, timed
from modtok_cli.base.arrays import flatten
from modtok_cli.learn.certain import certain_merges
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.sequential import learn_plain, segment
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.frequent import frequent_words
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.vocabulary import gather

SETTINGS = ((2, 1), (3, 1), (5, 1), (10, 1), (1, 2), (1, 3), (1, 5), (1, 10), (1, 20))
STEP = 1_000_000


def length(merges: GlobalMerges, text: WordCounts) -> int:
    _, offsets = segment(merges, text)
    return int(np.diff(offsets) @ text.counts)


def languages(args: argparse.Namespace) -> None:
    named = args.langs.split(",") if args.langs else None
    for path in sorted(args.corpus.glob("*.jsonl.zst")):
        language = path.name.partition(".")[0]
        if named and language not in named:
            continue
        counts = count_corpus([path])
        held = count_corpus(list(args.held_out.glob(f"{language}.*")))
        whole = learn_plain(counts, args.k).merges
        every, base = whole.strings(), length(whole, held)
        for min_count, weight in SETTINGS:
            found = frequent_words(counts, min_count, weight)
            merges = learn_plain(found.counts, args.k).merges
            learned = set(merges.strings())
            same = (whole.merges[: len(merges.merges)] == merges.merges).all(axis=1)
            left_out = found.left_out
            emit(
                {
                    "language": language,
                    "k": args.k,
                    "min_count": min_count,
                    "sample_weight": weight,
                    "words": round(left_out.words / len(counts), 4),
                    "occurrences": round(left_out.occurrences / counts.occurrences, 4),
                    "bytes": round(left_out.bytes / counts.size.bytes, 4),
                    "common": round(sum(each in learned for each in every) / len(every), 4),
                    "first_missing": next(
                        (i - 256 for i, each in enumerate(every) if each not in learned), None
                    ),
                    "same_merges": int(np.argmin(same)),
                    "certain_merges": certain_merges(found, merges),
                    "nsl": round(length(merges, held) / base, 4),
                }
            )


def invented(args: argparse.Namespace) -> None:
    heads, tails, roots = [], [], []
    for word, count in count_corpus([args.text]).pairs():
        text = word.decode()
        if text.startswith(" ") and text[1:].isalpha() and len(text) > 6:
            cut = max(4, len(text) // 2)
            heads.append(text[:cut].encode())
            tails.append(text[cut:].encode())
            roots.append(count**args.power)
    ends = np.cumsum(roots) / sum(roots)
    # A draw is an entry of this table: a share is a multiple of 1 / 2^24.
    drawn = np.searchsorted(ends, (np.arange(1 << 24) + 0.5) / (1 << 24)).astype(np.int32)
    first = [b"\n" + head[1:] for head in heads]  # of a line
    data, offsets = flatten([*heads, *tails, *first])
    random = np.random.default_rng(args.seed)
    place = args.work / "data" / "fi"
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(args.text, place)
    path = place / ("invented.txt.zst" if args.zstd else "invented.txt")
    parts = np.empty((STEP, 2), dtype=np.int32)
    real = "\n".join(["", *texts(args.text)]).encode()
    with (
        zstandard.open(path, "wb", zstandard.ZstdCompressor(level=1))
        if args.zstd
        else path.open("wb") as file
    ):
        for _ in range(0, int(args.words), STEP):
            parts[:] = drawn[random.integers(0, len(drawn), parts.shape, dtype=np.int32)]
            parts[:, 1] += len(heads)
            parts[::1000, 0] += 2 * len(heads)
            file.write(gather(data, offsets, parts.reshape(-1))[0])
            for _ in range(args.copies):
                file.write(real)


def bounded(args: argparse.Namespace) -> None:
    held = {path.stem: count_corpus([path]) for path in args.held_out}
    with tempfile.TemporaryDirectory(dir=args.work) as scratch:
        data = args.work / "data"
        if args.megabytes:
            data = Path(scratch) / "data"
            (data / "fi").mkdir(parents=True)
            for path in (args.work / "data" / "fi").iterdir():
                with path.open("rb") as file:
                    part = file.read(int(args.megabytes * 1e6) if path.suffix == ".txt" else -1)
                whole = part[: part.rfind(b"\n") + 1] if path.suffix == ".txt" else part
                (data / "fi" / path.name).write_bytes(whole)
        for command in args.commands.split(","):
            for memory in args.memory.split(","):
                output = Path(scratch) / f"{command}-{memory}"
                line = [sys.executable, "-m", "modtok_cli", command, "--data", str(data), "-q"]
                line += ["-k", str(args.k), "-o", str(output)]
                if memory.startswith("min"):
                    line += ["--min-count", memory.removeprefix("min")]
                elif memory != "none":
                    line += ["--memory", memory]
                run = timed(line)
                tokenizer = ModularTokenizer.load(output).subset(["fi"])
                manifest = json.loads((output / "manifest.json").read_bytes())
                corpus = manifest["languages"][0]["corpus"]
                emit(
                    {
                        "command": command,
                        "memory": memory,
                        "megabytes": round(corpus["bytes"] / 1e6),
                        "cpu_seconds": round(run.cpu, 1),
                        "wall_seconds": round(run.wall, 1),
                        "peak_mb": round(run.peak * 2**20 / 1e6),
                        **corpus.get("left_out", {}),
                        "tokens": {
                            name: int(tokenizer.token_lengths(text) @ text.counts)
                            for name, text in held.items()
                        },
                    }
                )


def main() -> None:
    parser = parser_of(__doc__)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("languages")
    one.add_argument("corpus", type=Path)
    one.add_argument("held_out", type=Path)
    one.add_argument("--langs")
    two = parts.add_parser("invented")
    two.add_argument("text", type=Path)
    two.add_argument("work", type=Path)
    two.add_argument("--words", type=float, default=150e6)
    two.add_argument("--seed", type=int, default=2)
    two.add_argument("--power", type=float, default=0.5)
    two.add_argument("--copies", type=int, default=0, help="of the text after each million words")
    two.add_argument("--zstd", action="store_true", help="compress the text")
    three = parts.add_parser("bounded")
    three.add_argument("work", type=Path)
    three.add_argument("held_out", type=Path, nargs="+")
    three.add_argument("--memory", default="4GB")
    three.add_argument("--megabytes", type=float)
    three.add_argument("--commands", default="bpe-seq,bpe-merge")
    for part, call in ((one, languages), (two, invented), (three, bounded)):
        part.add_argument("-k", type=int, default=24000)
        part.set_defaults(call=call)
    args = parser.parse_args()
    args.call(args)
