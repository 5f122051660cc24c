"""Tokens of the same lines in all languages: equal and fair budgets, parity-aware and joint BPE.

    python -m benchmarks fair_budgets CORPUS NTREX --langs en,fi,fr,el,hu,ne,sw,te,si -k 4000

CORPUS has LANG.jsonl.zst, NTREX has LANG.txt. Lines 1 to 998 choose the budgets (and are the
development text of `ParityBpeTrainer`), the others are measured. A modular tokenizer is measured
with the subset of each language and as a whole; the others have about as many tokens. Prints a JSON
line for each: Gini coefficient and max/min of the tokens by language, tokens, their number relative
to equal budgets, and processor seconds with the counting of words.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import modtok_cli as modtok
from benchmarks.common import LANGUAGES, describe, emit, parser_of, texts
from modtok_cli.text.pretokenizer import BPE

CHOOSE = 998


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--langs", default=",".join(LANGUAGES))
    parser.add_argument("-k", type=int, default=4000)
    parser.add_argument("--parity", nargs="*", default=[], choices=["base", "window"])
    options = parser.parse_args()
    emit({"what": "machine", "machine": describe(), "langs": options.langs, "k": options.k})
    with tempfile.TemporaryDirectory() as scratch:
        measure(options, options.langs.split(","), Path(scratch))


def split(parallel: Path, languages: Sequence[str], place: Path) -> tuple[Path, Path]:
    """Directories with the lines that choose budgets, and with those that are measured."""
    parts = place / "chosen", place / "measured"
    for part, lines in zip(parts, (slice(CHOOSE), slice(CHOOSE, None)), strict=True):
        part.mkdir(parents=True, exist_ok=True)
        for language in languages:
            text = (parallel / f"{language}.txt").read_text("utf-8").rstrip("\n").split("\n")
            if len(text) <= CHOOSE:
                raise SystemExit(f"{parallel}: {language} has no lines after the first {CHOOSE}")
            (part / f"{language}.txt").write_text("\n".join(text[lines]) + "\n", "utf-8")
    return parts


def measure(options: argparse.Namespace, languages: list[str], place: Path) -> None:
    chosen, measured = split(options.parallel, languages, place)
    common: dict[str, Any] = {
        "data": options.corpus, "k": options.k, "references": False, "threads": 1
    }  # fmt: skip
    equal, size = 0, 0
    for command in (modtok.bpe_seq, modtok.bpe_merge):
        for share in (0.0, 0.5, 0.75, 1.0):
            fair: dict[str, Any] = {"fair": chosen, "fair_share": share} if share else {}
            made = place / f"{command.__name__}-{share}"
            seconds = timed(lambda: command(languages, output=made, **common, **fair))  # noqa: B023
            for tokenizer in (f"{made}@each", str(made)):
                row = of(tokenizer, measured)
                equal = equal or row["tokens"]
                size = size or row["size"] * (tokenizer == str(made))
                budgets = modtok.load(made).budgets
                emit({
                    "what": "fair", "tokenizer": command.__name__, "share": share,
                    "subset": "language" if "@" in tokenizer else "T", **row, "seconds": seconds,
                    "to_equal": row["tokens"] / equal, "budgets": budgets,
                })  # fmt: skip
    seconds = timed(
        lambda: modtok.bpe(languages, joint=True, data=options.corpus, k=size, threads=1,
                           output=place / "joint")
    )  # fmt: skip
    row = of(str(place / "joint"), measured)
    others = {"what": "fair", "subset": "T", "to_equal": row["tokens"] / equal}
    emit({**others, "tokenizer": "joint BPE", **row, "seconds": seconds})
    for variant in options.parity:
        made = place / "parity.json"
        seconds = timed(lambda: parity(options.corpus, languages, chosen, size, variant, made))  # noqa: B023
        row = of(str(made), measured)
        others["to_equal"] = row["tokens"] / equal
        emit({**others, "tokenizer": f"ParityBpeTrainer {variant}", **row, "seconds": seconds})


def timed(call: Callable[[], Any]) -> float:
    """Processor seconds of a call."""

    def now() -> float:
        each = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
        return sum(one.ru_utime + one.ru_stime for one in each)

    began = now()
    call()
    return round(now() - began, 2)


def of(tokenizer: str, measured: Path) -> dict[str, Any]:
    """Tokens by language, and how even they are."""
    rows = modtok.fairness(tokenizer, measured)
    total = rows[-1]
    tokens = {row["language"]: row["tokens"] for row in rows[:-1]}
    return {
        "size": total["size"], "gini": total["tokens_gini"], "max_min": total["tokens_max_min"],
        "tokens": sum(tokens.values()), "tokens_by_language": tokens,
    }  # fmt: skip


def parity(
    corpus: Path, languages: Sequence[str], develop: Path, size: int, variant: str, path: Path,
    end: str | None = None,
) -> None:  # fmt: skip
    """Train parity-aware BPE of `size` tokens on the same text, with the same pre-tokenizer.

    `end`: a special token, which is one of them.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(BPE.pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip

    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.ParityBpeTrainer(
        num_merges=size - 256 - (end is not None), variant=variant, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    trainer.train_from_iterator(
        tokenizer,
        train_iterators=[texts(corpus / f"{language}.jsonl.zst") for language in languages],
        dev_iterators=[
            iter((develop / f"{language}.txt").read_text("utf-8").rstrip("\n").split("\n"))
            for language in languages
        ],
    )
    if end is not None:
        tokenizer.add_special_tokens([end])
    tokenizer.save(str(path))
