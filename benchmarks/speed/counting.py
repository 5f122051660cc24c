"""Counting words: the core, reading and counting, and the library's pre-tokenizer.

    python -m benchmarks counting ../shared/data/corpus/fr.jsonl.zst [more files]

Prints one JSON object a line: per file the best of `--repeat` runs, each on one core, in
megabytes (10^6 bytes) of UTF-8 text a second. The library's figure is its pre-tokenizer
with the same pattern on the first `--library-mb` of the same documents; it counts nothing.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

import tokenizers
from tokenizers import Regex, pre_tokenizers

from benchmarks.common import best_seconds, emit
from modtok_cli import __version__
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounter
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_documents, read_spans

WARM = b"one word, two words; 1 2 3 \xc3\xa9t\xc3\xa9"


def measure(path: Path, repeat: int, library_mb: float) -> dict[str, object]:
    batches = list(read_spans(path))
    documents = [document.text for document in read_documents(path)]
    size = sum(map(len, documents))

    def count() -> WordCounter:
        counter = WordCounter()
        for spans in batches:
            counter.add_spans(spans.data, spans.starts, spans.stops)
        return counter

    counter = count()
    splitter = pre_tokenizers.Split(Regex(BPE.pattern), "isolated")
    some: list[str] = []
    some_size = 0
    for document in documents:
        if some_size < library_mb * 1e6:
            some.append(document.decode())
            some_size += len(document)

    def library() -> None:
        for text in some:
            splitter.pre_tokenize_str(text)

    def read() -> int:
        return sum(len(spans.starts) for spans in read_spans(path))

    table = counter.result()
    rates = {
        "core": size / best_seconds(count, repeat),
        "read": size / best_seconds(read, repeat),
        "read_and_count": size / best_seconds(lambda: count_corpus([path]), repeat),
        "library_pretokenizer": some_size / best_seconds(library, 1),
    }
    return {
        "file": path.name,
        "megabytes": round(size / 1e6, 2),
        "documents": len(documents),
        "words": table.occurrences,
        "unique_words": len(table),
        "sort_seconds": round(best_seconds(counter.result, repeat), 4),
        "megabytes_per_second": {name: round(rate / 1e6, 1) for name, rate in rates.items()},
        "modtok": __version__,
        "tokenizers": tokenizers.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--library-mb", dest="theirs", type=float, default=2.0)
    options = parser.parse_args()
    WordCounter().add_documents([WARM])
    for path in options.files:
        emit(measure(path, options.repeat, options.theirs))


if __name__ == "__main__":
    main()
