"""Superwords: NSL and size of T over their number, k and the amount of text.

    python -m benchmarks superwords CORPUS PARALLEL [--superwords 0,1000,4000] [--k 24000]

CORPUS holds the training text of each language, PARALLEL <lang>.txt to measure on. Every tokenizer
is learned by the function behind `bpe-merge --superwords`, with what it finds in --work (left
there; what is there already is not timed). --megabytes takes that much of each text. NSL is
measured against monolingual BPE by merges of the same k. Prints JSON lines.
"""

from __future__ import annotations

import statistics
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.common import LANGUAGES, describe, emit, parser_of
from benchmarks.quality.fewest_tokens import build, nsl_of
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.text.readers import read_documents
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


def part_of(corpus: Path, megabytes: float, place: Path, languages: list[str]) -> Path:
    """The first `megabytes` of the text of each language, as text files; all of it if 0."""
    if not megabytes:
        return corpus
    place.mkdir(parents=True, exist_ok=True)
    for language in languages:
        left = int(megabytes * 1e6)
        target = place / f"{language}.txt"
        if target.is_file():
            continue
        with target.open("wb") as file:
            for document in read_documents(corpus / f"{language}.jsonl.zst"):
                text = bytes(document.text).replace(b"\n", b" ")
                file.write(text + b"\n")
                left -= len(text)
                if left < 0:
                    break
    return place


def superwords_of(tokenizer: ModularTokenizer, language: str) -> int:
    """Number of superwords among the tokens of a language."""
    column = tokenizer.token_membership[:, tokenizer.languages.index(language)]
    return int((tokenizer.superwords & column).sum())


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--superwords", default="0,1000,4000")
    parser.add_argument("--k", default="24000")
    parser.add_argument("--langs", default=",".join(LANGUAGES))
    parser.add_argument("--megabytes", type=float, default=0.0)
    parser.add_argument("--work", type=Path)
    options = parser.parse_args()
    languages = options.langs.split(",")
    emit({"what": "machine", "machine": describe()})
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        amount = f"-{options.megabytes:g}mb" if options.megabytes else ""
        data = part_of(options.corpus, options.megabytes, work / f"text{amount}", languages)
        for k in map(int, options.k.split(",")):
            place = work / f"superwords-0{amount}-{k}"  # whose references all are measured by
            for number in dict.fromkeys([0, *map(int, options.superwords.split(","))]):
                learn = partial(bpe_merge, languages, data=data, k=k, superwords=number)
                tokenizer = build(f"superwords-{number}{amount}", k, work, learn)
                single, union = (
                    nsl_of(tokenizer, kind, options.parallel, place / "references", languages)
                    for kind in ("single", "all")
                )
                emit(
                    {
                        "what": "superwords",
                        "superwords": number,
                        "k": k,
                        "megabytes": options.megabytes,
                        "size": tokenizer.size,
                        "single": round(statistics.mean(single.values()), 4),
                        "worst": round(max(single.values()), 4),
                        "all": round(statistics.mean(union.values()), 4),
                        "all_worst": round(max(union.values()), 4),
                        "each": {name: round(value, 4) for name, value in single.items()},
                        "each_all": {name: round(value, 4) for name, value in union.items()},
                        "taken": {name: superwords_of(tokenizer, name) for name in languages},
                        "signature": tokenizer.signature,
                    }
                )
