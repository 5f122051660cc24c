"""Token counts of tokenizers × languages: ours and the `tokenizers` library.

    python -m benchmarks measuring FOLDER TOKENIZER... [--references DIR]

FOLDER holds <lang>.txt, TOKENIZER are modular directories or byte-level tokenizer.json files.
Both sides count the tokens of every text under every tokenizer; the totals are compared.
Loading is inside our time and outside the library's. Prints a JSON object a line.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from tokenizers import Tokenizer

from benchmarks.common import emit
from modtok_cli.measure.nsl import nsl
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer


def by_library(tokenizer: Tokenizer, texts: dict[str, list[str]], batch: bool) -> dict[str, int]:
    """Tokens of each text, line by line or in a batch on all cores."""
    found = {}
    for language, lines in texts.items():
        if batch:
            encodings = tokenizer.encode_batch_fast(lines, add_special_tokens=False)
            found[language] = sum(len(encoding.ids) for encoding in encodings)
        else:
            found[language] = sum(
                len(tokenizer.encode(line, add_special_tokens=False).ids) for line in lines
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tokenizer", nargs="+")
    parser.add_argument("--references", type=Path)
    options = parser.parse_args()

    paths = sorted(options.folder.glob("*.txt"))
    texts = {path.stem: path.read_text(encoding="utf-8").split("\n")[:-1] for path in paths}
    # Libraries and files come into the caches first.
    nsl(options.tokenizer[:1], paths[:1], references=options.references)
    start = time.perf_counter()
    rows = nsl(options.tokenizer, paths, references=options.references)
    ours = time.perf_counter() - start
    counted = {(row["tokenizer"], row["language"]): row["tokens"] for row in rows}

    library = {"one": 0.0, "batch": 0.0}
    loading = 0.0
    same = True
    for spec in options.tokenizer:
        start = time.perf_counter()
        opened = open_tokenizer(spec)
        loading += time.perf_counter() - start
        if not isinstance(opened, Subtokenizer):
            continue
        file = opened.to_json()
        for how in library:
            # Loaded anew: it keeps words that it has seen.
            tokenizer = Tokenizer.from_buffer(file)
            tokenizer.encode_special_tokens = True
            start = time.perf_counter()
            found = by_library(tokenizer, texts, batch=how == "batch")
            library[how] += time.perf_counter() - start
            same &= all(counted[spec, language] == tokens for language, tokens in found.items())
    emit(
        {
            "what": "table of tokens",
            "tokenizers": len(options.tokenizer),
            "languages": len(texts),
            "lines": sum(map(len, texts.values())),
            "bytes": sum(path.stat().st_size for path in paths),
            "ours_seconds": round(ours, 2),
            "of_that_loading_seconds": round(loading, 2),
            "library_line_by_line_seconds": round(library["one"], 2),
            "library_batch_seconds": round(library["batch"], 2),
            "times_faster_than_line_by_line": round(library["one"] / ours, 1),
            "same_totals": same,
            "cores": os.cpu_count(),
        }
    )


if __name__ == "__main__":
    main()
