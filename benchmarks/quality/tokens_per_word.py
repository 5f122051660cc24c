"""Tokens per word, and words in one token: published tokenizers beside subsets of modular ones.

    sh examples/open-weight/fetch.sh open-weight
    python -m benchmarks tokens_per_word NTREX open-weight/llama3-1.json ... --modular DIR...

NTREX has LANG.txt with one sentence a line. A tokenizer is any that `modtok.load` opens. A word is
what white space separates; no special token is counted. Of a modular tokenizer each language is
measured with its own subset, with that of the language and English, and with T. Prints a line for
each tokenizer, the fewest tokens first: rows, tokens per word by language, mean, worst, in how
many languages a subset is below the best published tokenizer, and the shares of words and of
different words in one token (`modtok check`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import modtok_cli as modtok
from benchmarks.common import LANGUAGES, emit, parser_of


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("published", nargs="+")
    parser.add_argument("--modular", nargs="+", default=[])
    args = parser.parse_args()
    lines = {x: (args.text / f"{x}.txt").read_text("utf-8").split("\n") for x in LANGUAGES}
    words = {language: sum(len(line.split()) for line in lines[language]) for language in LANGUAGES}

    def measured(name: str, tokenizers: dict[str, Any]) -> dict[str, Any]:
        ratios = {
            language: sum(map(len, tokenizers[language].encode_batch(lines[language])))
            / words[language]
            for language in LANGUAGES
        }
        worst = max(ratios, key=ratios.__getitem__)
        whole = {
            language: modtok.check(tokenizers[language], args.text / f"{language}.txt")[0]
            for language in LANGUAGES
        }
        shares = {
            name: {language: row[name] for language, row in whole.items()}
            for name in ("one_token_words", "one_token_types")
        }
        return {
            "tokenizer": name,
            "rows": max(each.size for each in tokenizers.values()),
            "mean": sum(ratios.values()) / len(ratios),
            "worst": worst,
            "worst_tokens_per_word": ratios[worst],
            "tokens_per_word": ratios,
            **{f"mean_{name}": sum(each.values()) / len(each) for name, each in shares.items()},
            **shares,
        }

    rows = []
    for spec in args.published:
        rows.append(measured(Path(spec).name, dict.fromkeys(LANGUAGES, modtok.load(spec))))
    best = {x: min(row["tokens_per_word"][x] for row in rows) for x in LANGUAGES}
    for spec in args.modular:
        loaded = modtok.load(spec)
        assert isinstance(loaded, modtok.ModularTokenizer), spec
        for name, more in (("LANG", []), ("LANG with English", ["en"]), ("full", LANGUAGES)):
            subsets = {x: loaded.subset(dict.fromkeys([x, *more])) for x in LANGUAGES}
            row = measured(f"{Path(spec).name}@{name}", subsets)
            below = [x for x in LANGUAGES if row["tokens_per_word"][x] < best[x]]
            rows.append({**row, "below_best_published": len(below)})
    for row in sorted(rows, key=lambda row: row["mean"]):
        emit(row)
