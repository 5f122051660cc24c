"""What the filters of `corpus build` do to good text, and to text made bad, by language.

    python -m benchmarks page_filters CORPUS NTREX [--documents 200]

CORPUS has `LANG.jsonl.zst`, NTREX `LANG.txt`. A row of each language has counts. Repair: lines of
NTREX that it changes, and of lines with characters beyond ASCII, read as Latin-1, those that it
does not give back. Repetition: documents that are dropped; of pages of one or two documents with a
sentence of another repeated twelve times, those that are found. Stop words: documents that are
dropped. Language: pieces of six lines and documents whose score is under the threshold of their
language, and under 0.4. The last row is the sum.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path

from benchmarks.common import emit, parser_of, texts
from modtok_cli.corpus.filters import Repetition, has_stop_words
from modtok_cli.corpus.language import PAGE_CHARACTERS, THRESHOLD, LanguageModel
from modtok_cli.corpus.repair import repair


def repaired(lines: list[str]) -> Counter[str]:
    """Counts of repair."""
    misread = [line for line in lines if not line.isascii()]
    back = [repair(line.encode().decode("latin-1")) for line in misread]
    return Counter(
        lines=len(lines),
        changed=sum(repair(line) != line for line in lines),
        misread=len(misread),
        not_repaired=sum(map(str.__ne__, back, misread)),
    )


def repeated(documents: list[str], draw: random.Random) -> Counter[str]:
    """Counts of repetition; in turn the sentences follow each other, and are lines."""
    found = Repetition()
    counts = Counter(documents=len(documents), repetitive=0, planted=0, planted_found=0)
    for number, document in enumerate(documents):
        counts["repetitive"] += found.reason(document) is not None
        other = documents[(number + 1) % len(documents)].split("\n")
        sentences = [line for line in other if 60 < len(line) < 250]
        if sentences:
            last = documents[number - 1] if number % 2 else ""
            again = ("\n" if number % 4 < 2 else " ").join([draw.choice(sentences)] * 12)
            counts["planted"] += 1
            counts["planted_found"] += found.reason(f"{document}\n{last}\n{again}") is not None
    return counts


def identified(model: LanguageModel, language: str, pieces: list[str]) -> Counter[str]:
    """Counts of pages by their scores."""
    counts = Counter(pages=len(pieces), other_language=0, under_threshold=0, under_default=0)
    for piece in pieces:
        name, score = model.identify(piece[:PAGE_CHARACTERS])
        if name == language:
            counts["under_threshold"] += score < model.threshold(language)
            counts["under_default"] += score < THRESHOLD
        else:
            counts["other_language"] += 1
    return counts


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("ntrex", type=Path)
    parser.add_argument("--documents", type=int, default=200)
    options = parser.parse_args()
    model, total = LanguageModel(), Counter[str]()
    for path in sorted(options.ntrex.glob("*.txt")):
        language = path.stem
        lines = path.read_text("utf-8").split("\n")
        source = options.corpus / f"{language}.jsonl.zst"
        documents = list(islice(texts(source), options.documents))
        counts = repaired(lines)
        counts.update(repeated(documents, random.Random(1)))
        few = sum(not has_stop_words(document, language) for document in documents)
        pieces = [" ".join(lines[n : n + 6]) for n in range(0, len(lines), 6)]
        counts.update(few_stop_words=few)
        counts.update(identified(model, language, [*documents, *pieces]))
        emit({"language": language} | counts)
        total.update(counts)
    emit({"language": "all"} | total)
