"""Learning: `modtok bpe-seq` against the `tokenizers` library, whole commands.

python -m benchmarks learning DATA [--runs 3] [-k 24000]

modtok: bpe-seq over all languages, start-up, references and written files included.
library: the same monolingual tokenizers trained and written, on all cores.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.common import LANGUAGES, describe, emit, parser_of, texts, timed

PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+"


def library(data: Path, k: int, place: Path) -> None:
    """Train and write a tokenizer for each language, in this process."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    for language in LANGUAGES:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(PATTERN), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=k,
            special_tokens=["<|endoftext|>", "<|pad|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts(data / f"{language}.jsonl.zst"), trainer)
        tokenizer.save(f"{place}/{language}.json")


def compare(data: Path, k: int, runs: int, scratch: Path) -> None:
    options = [*("-m", "modtok_cli", "-q", "bpe-seq", "--langs", ",".join(LANGUAGES)), "--data"]
    ratios = []
    for i in range(runs + 1):
        commands = {
            "modtok": [*options, str(data), "-o", f"{scratch}/a{i}"],
            "library": ["-m", "benchmarks", "learning", str(data), "--peer", str(scratch)],
        }
        row: dict[str, float] = {"run": i}
        for name, words in commands.items():
            took = timed([sys.executable, *words, "-k", str(k)])
            row |= {f"{name}_wall": round(took.wall, 2), f"{name}_cpu": round(took.cpu, 2)}
            row[f"{name}_peak_mib"] = round(took.peak)
            if i == 0:
                break  # files come into the caches
        else:
            ratios.append(row["library_wall"] / row["modtok_wall"])
            emit({**row, "ratio": round(ratios[-1], 2)})
    emit({"median_ratio": round(statistics.median(ratios), 2)})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-k", type=int, default=24_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    given = parser.parse_args()
    if given.peer:
        library(given.data, given.k, given.peer)
        return
    print(describe())
    with tempfile.TemporaryDirectory() as directory:
        compare(given.data, given.k, given.runs, Path(directory))
