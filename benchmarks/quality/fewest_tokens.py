"""Fewest tokens, merges, Unigram and joint BPE: NSL, size, time, speed.

    python -m benchmarks fewest_tokens CORPUS PARALLEL [--k 16000,20000,24000] [--work DIR]

CORPUS holds the training text of each language, PARALLEL <lang>.txt to measure on. Every
construction is learned by the function behind its command, with what it finds in --work
(left there; what is there already is not timed). NSL is measured against monolingual BPE by
merges with the same k, and with the largest k. Prints JSON lines, then Markdown tables.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from benchmarks.common import LANGUAGES, describe, emit
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.measure.references import References
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.text.readers import read_documents

NAMES = LANGUAGES


def build(name: str, k: int, place: Path, learn: Callable[[Path], Any]) -> ModularTokenizer:
    """Learn it if it is not there, and say how long it took."""
    output = place / f"{name.replace('/', '-')}-{k}"
    if not output.is_dir():
        wall, work = time.perf_counter(), time.process_time()
        learn(output)
        emit(
            {
                "what": "learn",
                "construction": name,
                "k": k,
                "seconds": round(time.perf_counter() - wall, 1),
                "cpu_seconds": round(time.process_time() - work, 1),
            }
        )
    return ModularTokenizer.load(output)


class Measure:
    """NSL of subsets on the parallel text, against references of several sizes."""

    def __init__(self, parallel: Path, references: dict[int, Path]) -> None:
        self.parallel = parallel
        self.references = {k: References(path) for k, path in references.items()}
        self.reference_tokens = cache(self._reference_tokens)
        self.text = cache(self._text)

    def _text(self, language: str, pretokenizer: PreTokenizer) -> WordCounts:
        return count_corpus([self.parallel / f"{language}.txt"], pretokenizer=pretokenizer)

    def tokens(self, tokenizer: Subtokenizer, language: str) -> int:
        counts = self.text(language, tokenizer.pretokenizer)
        return int(tokenizer.token_lengths(counts) @ counts.counts)

    def _reference_tokens(self, k: int, language: str) -> int:
        return self.tokens(self.references[k][language].tokenizer, language)

    def nsl(
        self, tokenizer: ModularTokenizer, subsets: Iterable[tuple[str, tuple[str, ...]]], k: int
    ) -> dict[str, float]:
        """Language → NSL, measured with the subset named beside it."""
        return {
            language: self.tokens(tokenizer.subset(subset), language)
            / self.reference_tokens(k, language)
            for language, subset in subsets
        }


def subsets_of(kind: str) -> list[tuple[str, tuple[str, ...]]]:
    """For each language the set that it is measured with."""
    rng = random.Random(0)
    if kind == "single":
        return [(name, (name,)) for name in NAMES]
    if kind == "with English":
        return [(name, (name, "en")) for name in NAMES if name != "en"]
    if kind == "random fours":
        others = {name: [n for n in NAMES if n != name] for name in NAMES}
        return [(name, (name, *rng.sample(others[name], 3))) for name in NAMES for _ in range(3)]
    return [(name, tuple(NAMES)) for name in NAMES]


KINDS = ("single", "with English", "random fours", "all")


def table(measure: Measure, tokenizer: ModularTokenizer, name: str, k: int, top: int) -> list[str]:
    """One Markdown row per reference size."""
    rows = []
    joint = name == "joint"
    for against in sorted({k, top}):
        cells = []
        for kind in KINDS:
            if joint and kind != "all":
                cells.append("–")
                continue
            found: list[float] = []
            worst = ("", 0.0)
            for pair in subsets_of(kind):
                value = measure.nsl(tokenizer, [pair], against)[pair[0]]
                found.append(value)
                worst = max(worst, (pair[0], value), key=lambda entry: entry[1])
            row = {
                "what": "nsl",
                "construction": name,
                "k": k,
                "references_k": against,
                "kind": kind,
                "size": tokenizer.size,
                "mean": round(statistics.mean(found), 4),
                "max": round(worst[1], 4),
                "worst": worst[0],
                "signature": tokenizer.signature,
            }
            if kind in ("single", "all"):
                row["each"] = {
                    pair[0]: round(value, 4)
                    for pair, value in zip(subsets_of(kind), found, strict=True)
                }
            emit(row)
            cells.append(f"{row['mean']:.3f} ({row['max']:.3f} {row['worst']})")
        rows.append(f"| {name} | {k:,} | {against:,} | {tokenizer.size:,} | {' | '.join(cells)} |")
    return rows


def encoding(tokenizer: ModularTokenizer, name: str, corpus: Path) -> str:
    """MB per second of processor time, our encoder and the library on the same file."""
    texts: list[str] = []
    for language in ("en", "fi", "fr"):
        left = 700_000
        path = next(corpus.glob(f"{language}.*"))
        for document in read_documents(path):
            left -= len(document.text)
            if left < 0:
                break
            texts.append(document.text.decode())
    size = sum(len(text.encode()) for text in texts)
    cells = []
    subsets = {"en,fi,fr": tokenizer.subset(["en", "fi", "fr"]), "T": tokenizer.full()}
    for label, subset in subsets.items():
        library = Tokenizer.from_buffer(subset.to_json())
        library.encode_special_tokens = True
        calls: dict[str, Callable[[], Any]] = {
            "ours": lambda s=subset: s.encode_batch(texts, 1),
            "library": lambda t=library: t.encode_batch_fast(texts, add_special_tokens=False),
        }
        row: dict[str, Any] = {"what": "encode", "construction": name, "subset": label}
        row |= {"bytes": size, "mb_per_cpu_second": {}, "first_call": {}}
        for who, call in calls.items():
            seconds = []
            for _ in range(3):
                start = time.process_time()
                ids = call()
                seconds.append(time.process_time() - start)
            row["first_call"][who] = round(size / seconds[0] / 1e6, 1)
            row["mb_per_cpu_second"][who] = round(size / min(seconds) / 1e6, 1)
            row["tokens"] = sum(len(one) for one in ids)
        emit(row)
        cells += [str(row["mb_per_cpu_second"][who]) for who in calls]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--k", default="16000,20000,24000")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--encode-only", action="store_true")
    parser.add_argument("--quick", action="store_true", help="no joint BPE and no Unigram")
    given = parser.parse_args()
    sizes = sorted(map(int, given.k.split(",")))
    top = sizes[-1]
    place = given.work or Path(tempfile.mkdtemp())
    place.mkdir(parents=True, exist_ok=True)
    emit({"what": "machine", "text": describe()})
    common: dict[str, Any] = {"data": given.corpus}
    made: dict[tuple[str, int], ModularTokenizer] = {}
    for k in sizes:
        for name, learn in {
            "bpe-seq/merges": lambda o, k=k: bpe_seq(NAMES, output=o, k=k, **common),
            "bpe-seq/least": lambda o, k=k: bpe_seq(
                NAMES, output=o, k=k, segmentation="fewest-tokens", references=False, **common
            ),
            "bpe-merge/least": lambda o, k=k: bpe_merge(NAMES, output=o, k=k, **common),
        }.items():
            made[name, k] = build(name, k, place, learn)
    made["bpe-merge/least, whole characters", top] = build(
        "bpe-merge/whole", top, place,
        lambda o: bpe_merge(
            NAMES, output=o, k=top, whole_characters=True, references=False, **common
        ),
    )  # fmt: skip
    if not given.quick:
        made["unigram-merge", top] = build(
            "unigram-merge", top, place,
            lambda o: unigram_merge(NAMES, output=o, k=top, references=False, **common),
        )  # fmt: skip
        same = made["bpe-merge/least", top].size
        made["joint", top] = build(
            "joint", top, place, lambda o: bpe(NAMES, output=o, k=same, joint=True, **common)
        )
    references = {k: place / f"bpe-merge-least-{k}" / "references" for k in sizes}
    measure = Measure(given.parallel, references)
    lines: list[str] = []
    for (name, k), found in () if given.encode_only else made.items():
        lines += table(measure, found, name, k, top)
    speeds = [encoding(made[name, top], name, given.corpus) for name, k in made if k == top]
    print("\n| construction | k | references | size of T | " + " | ".join(KINDS) + " |")
    print("|---|---:|---:|---:|---|---|---|---|")
    print("\n".join(lines))
    print("\n| construction | en,fi,fr: ours | library | T: ours | library |")
    print("|---|---:|---:|---:|---:|")
    print("\n".join(speeds))


if __name__ == "__main__":
    main()
