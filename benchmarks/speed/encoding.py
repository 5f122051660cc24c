"""Encoding: our encoder and the `tokenizers` library on the same text.

    python -m benchmarks encoding TOKENIZER TEXT... [--languages en,fi,fr] [--repeat 3]

TOKENIZER is a modular directory, TEXT files of a document per line (.txt) or JSONL with
"text" (.jsonl, .jsonl.zst). Both encode the same texts with the same `tokenizer.json`,
extracted for the languages, and with T; ids are compared. Prints a JSON object a line.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from benchmarks.common import best, emit, first_call
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.readers import read_documents


def compare(subset: Subtokenizer, texts: Sequence[str], repeat: int, which: str) -> dict[str, Any]:
    size = sum(len(text.encode()) for text in texts)
    library = Tokenizer.from_buffer(subset.to_json())
    library.encode_special_tokens = True

    def by_library() -> Any:
        return library.encode_batch_fast(list(texts), add_special_tokens=False)

    # Both keep words they have seen: the first call is without, the others are with that.
    ours_cold = first_call(lambda: subset.encode_batch(texts))
    theirs_cold = first_call(by_library)
    ours_1, _ = best(repeat, lambda: subset.encode_batch(texts, 1))
    ours, ids = best(repeat, lambda: subset.encode_batch(texts))
    theirs, encodings = best(repeat, by_library)
    same = all(a.tolist() == b.ids for a, b in zip(ids, encodings, strict=True))
    return {
        "what": "encode",
        "tokenizer": which,
        "tokens": subset.size,
        "signature": subset.signature,
        "texts": len(texts),
        "bytes": size,
        "ours_mb_s": round(size / ours / 1e6, 1),
        "ours_one_thread_mb_s": round(size / ours_1 / 1e6, 1),
        "library_mb_s": round(size / theirs / 1e6, 1),
        "times_faster": round(theirs / ours, 1),
        "ours_first_mb_s": round(size / ours_cold / 1e6, 1),
        "library_first_mb_s": round(size / theirs_cold / 1e6, 1),
        "times_faster_first": round(theirs_cold / ours_cold, 1),
        "same_ids": same,
        "cores": os.cpu_count(),
    }


def new_subset(tokenizer: ModularTokenizer, languages: Sequence[str], line: str) -> dict[str, Any]:
    """Milliseconds from asking for a subset until its first line is encoded."""
    start = time.perf_counter()
    subset = tokenizer.subset(languages)
    taken = time.perf_counter()
    subset.encode(line)
    done = time.perf_counter()
    return {
        "what": "new subset",
        "languages": list(subset.languages),
        "of": len(tokenizer.languages),
        "tokens_of_t": tokenizer.size,
        "tokens": subset.size,
        "subset_ms": round(1e3 * (taken - start), 2),
        "first_line_ms": round(1e3 * (done - start), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--languages", default="en,fi,fr")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=8, help="of each text file at most")
    options = parser.parse_args()

    texts: list[str] = []
    for path in options.text:
        left = options.megabytes * 1e6
        for document in read_documents(path):
            left -= len(document.text)
            if left < 0:
                break
            texts.append(document.text.decode())
    start = time.perf_counter()
    tokenizer = ModularTokenizer.load(options.tokenizer)
    emit({"what": "load", "seconds": round(time.perf_counter() - start, 2), "of": tokenizer.size})
    languages = options.languages.split(",")
    # The first subset of a process also pays for what is loaded once.
    emit({**new_subset(tokenizer, languages, texts[0]), "first_of_the_process": True})
    others = [language for language in tokenizer.languages if language not in languages]
    for i in range(min(3, len(others) - 2)):
        emit(new_subset(tokenizer, others[i : i + 3], texts[0]))
    subset = tokenizer.subset(languages)
    emit(compare(subset, texts, options.repeat, ",".join(subset.languages)))
    emit(compare(tokenizer.full(), texts, options.repeat, "T"))


if __name__ == "__main__":
    main()
