"""Fewest tokens, merges, Unigram and joint BPE: NSL, size and time.

    python -m benchmarks fewest_tokens CORPUS PARALLEL [--k 16000,20000,24000] [--work DIR]

CORPUS holds the training text of each language, PARALLEL <lang>.txt to measure on. Every
construction is learned by the function behind its command, with what it finds in --work
(left there; what is there already is not timed). NSL is measured against monolingual BPE by
merges with the same k, and with the largest k. Prints JSON lines.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

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


def build(name: str, k: int, place: Path, learn: Callable[..., Any]) -> ModularTokenizer:
    """Learn it if it is not there, and say how long it took."""
    output = place / f"{name.replace('/', '-')}-{k}"
    if not output.is_dir():
        wall, work = time.perf_counter(), time.process_time()
        learn(output=output)
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
    if kind == "single":
        return [(name, (name,)) for name in LANGUAGES]
    if kind == "with English":
        return [(name, (name, "en")) for name in LANGUAGES if name != "en"]
    return [(name, LANGUAGES) for name in LANGUAGES]


KINDS = ("single", "with English", "all")


def emit_nsl(measure: Measure, tokenizer: ModularTokenizer, name: str, k: int, top: int) -> None:
    """A row for each size of the references and kind of set; joint BPE has only one."""
    for against, kind in product(sorted({k, top}), ("all",) if name == "joint" else KINDS):
        found = measure.nsl(tokenizer, subsets_of(kind), against)
        worst = max(found, key=found.__getitem__)
        emit(
            {
                "what": "nsl",
                "construction": name,
                "k": k,
                "references_k": against,
                "kind": kind,
                "size": tokenizer.size,
                "mean": round(statistics.mean(found.values()), 4),
                "max": round(found[worst], 4),
                "worst": worst,
                "signature": tokenizer.signature,
                "each": {language: round(value, 4) for language, value in found.items()},
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--k", default="16000,20000,24000")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--quick", action="store_true", help="no joint BPE and no Unigram")
    given = parser.parse_args()
    sizes = sorted(map(int, given.k.split(",")))
    top = sizes[-1]
    place = given.work or Path(tempfile.mkdtemp())
    place.mkdir(parents=True, exist_ok=True)
    emit({"what": "machine", "text": describe()})
    made: dict[tuple[str, int], ModularTokenizer] = {}

    def learn(name: str, k: int, construct: Callable[..., Any], size: int = 0, **more: Any) -> None:
        call = partial(construct, LANGUAGES, data=given.corpus, k=size or k, **more)
        made[name, k] = build(name, k, place, call)

    for k in sizes:
        learn("bpe-seq/merges", k, bpe_seq)
        learn("bpe-seq/least", k, bpe_seq, segmentation="fewest-tokens", references=False)
        learn("bpe-merge/least", k, bpe_merge)
    learn("bpe-merge/whole", top, bpe_merge, whole_characters=True, references=False)
    if not given.quick:
        learn("unigram-merge", top, unigram_merge, references=False)
        learn("joint", top, bpe, size=made["bpe-merge/least", top].size, joint=True)
    references = {k: place / f"bpe-merge-least-{k}" / "references" for k in sizes}
    measure = Measure(given.parallel, references)
    for (name, k), tokenizer in made.items():
        emit_nsl(measure, tokenizer, name, k, top)
