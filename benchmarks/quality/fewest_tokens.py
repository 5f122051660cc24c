"""Fewest tokens, merges, Unigram and joint BPE: NSL, size and time.

    python -m benchmarks fewest_tokens CORPUS PARALLEL [--k 16000,20000,24000] [--work DIR]

CORPUS holds the training text of each language, PARALLEL <lang>.txt to measure on. Every
construction is learned by the function behind its command, with what it finds in --work
(left there; what is there already is not timed). NSL is measured against monolingual BPE by
merges with the same k, and with the largest k. Prints JSON lines.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import modtok_cli as modtok
from benchmarks.common import LANGUAGES, describe, emit, parser_of
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


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


KINDS = ("single", "with English", "all")


def nsl_of(
    tokenizer: ModularTokenizer,
    kind: str,
    parallel: Path,
    references: Path,
    languages: Sequence[str] = LANGUAGES,
) -> dict[str, float]:
    """Language → NSL with the subset of a kind."""
    found = {}
    for name in languages:
        subset = {"single": [name], "with English": [name, "en"], "all": languages}[kind]
        if (kind, name) != ("with English", "en"):
            text = parallel / f"{name}.txt"
            (row,) = modtok.nsl(tokenizer.subset(subset), text, references=references)
            found[name] = row["nsl"]
    return found


def emit_nsl(
    tokenizer: ModularTokenizer, name: str, k: int, references: dict[int, Path], parallel: Path
) -> None:
    """A row for each size of the references and kind of set; joint BPE has only one."""
    sizes = sorted({k, max(references)})
    for against, kind in product(sizes, ("all",) if name == "joint" else KINDS):
        found = nsl_of(tokenizer, kind, parallel, references[against])
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
    parser = parser_of(__doc__)
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
    for (name, k), tokenizer in made.items():
        emit_nsl(tokenizer, name, k, references, given.parallel)
