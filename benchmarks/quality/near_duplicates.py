"""Near-duplicates of `corpus build`: precision and recall on planted copies with changed words.

    python -m benchmarks near_duplicates data/fi.jsonl.zst data/en.jsonl.zst

Pages of each file are its documents in one paragraph. Of some, a copy is planted in which a known
share of the words is replaced by random words of the language. A page counts as removed if the
build without near-duplicates keeps it and the one with them does not. Of an original and its copy
one is to go: a removal is right if the other stayed. Other removals are looked at: `alike` are
those of pages that share half of their n-grams with another page, planted by nobody.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import orjson
from datatrove.utils.text import ngrams, simplify_text

from benchmarks.common import emit, parser_of
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.near import CONFIG, WORD, Words
from modtok_cli.corpus.parts import read_part
from modtok_cli.text.readers import read_documents

SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
Shingles = frozenset[tuple[str, ...]]


def pages_of(path: Path, number: int, least: int) -> list[str]:
    """The first documents of at least `least` characters, each in one paragraph."""
    texts = (" ".join(document.text.decode().split()) for document in read_documents(path))
    return list(islice((text for text in texts if len(text) >= least), number))


def edited(text: str, share: float, words: Sequence[str], draw: random.Random) -> str:
    """The text with a share of its words replaced, at least one."""
    spans = [match.span() for match in WORD.finditer(text)]
    chosen = draw.sample(range(len(spans)), max(1, round(share * len(spans))))
    for start, stop in sorted((spans[place] for place in chosen), reverse=True):
        text = text[:start] + draw.choice(words) + text[stop:]
    return text


def shingles_of(text: str) -> Shingles:
    """The n-grams that the build compares."""
    return frozenset(ngrams(Words().word_tokenize(simplify_text(text)), CONFIG.n_grams))


def jaccard(a: Shingles, b: Shingles) -> float:
    """Share of n-grams that both have."""
    return len(a & b) / len(a | b) if a | b else 0.0


def kept(output: Path) -> set[int]:
    """Numbers of the pages that a build kept: their lines, by their offsets in the file."""
    return {
        int(record["source"].rpartition(":")[2])
        for path in output.glob("*/*.jsonl.zst")
        for record in read_part(path)
    }


def measure(path: Path, options: argparse.Namespace) -> None:
    """Rows of one language."""
    draw = random.Random(1)
    texts = pages_of(path, options.pages, options.characters)
    words = sorted(set(Words().word_tokenize(" ".join(texts[:100]))))
    planted: dict[int, tuple[int, float]] = {}  # copy → original, share
    each = min(options.copies, len(texts) // len(SHARES))
    originals = iter(draw.sample(range(len(texts)), each * len(SHARES)))
    for share in SHARES:
        for original in islice(originals, each):
            planted[len(texts)] = original, share
            texts.append(edited(texts[original], share, words, draw))
    order = list(range(len(texts)))
    draw.shuffle(order)
    with tempfile.TemporaryDirectory() as place:
        offsets: dict[int, int] = {}
        pages = Path(place) / "pages.jsonl"
        with pages.open("wb") as file:
            for number in order:
                offsets[file.tell()] = number
                file.write(orjson.dumps({"text": texts[number]}) + b"\n")
        found = []
        for near in (False, True):
            corpus_build(
                [pages],
                output=Path(place) / f"{near}",
                language_threshold=0.0,
                min_characters=1,
                near_duplicates=near,
            )
            found.append({offsets[place] for place in kept(Path(place) / f"{near}")})
    before, after = found
    removed = before - after
    sets = [shingles_of(text) for text in texts]
    right: Counter[float] = Counter()
    by_share: dict[float, list[float]] = {share: [] for share in SHARES}
    explained = set()
    for copy, (original, share) in planted.items():
        if not {copy, original} <= before:
            continue
        by_share[share].append(jaccard(sets[copy], sets[original]))
        gone = {copy, original} & removed
        if len(gone) == 1:
            right[share] += 1
            explained |= gone
    for share, values in by_share.items():
        expected = [
            1 - (1 - value**CONFIG.hashes_per_bucket) ** CONFIG.num_buckets for value in values
        ]
        emit(
            {
                "file": path.name,
                "changed_words": share,
                "pairs": len(values),
                "jaccard": round(sum(values) / len(values), 3),
                "expected_recall": round(sum(expected) / len(expected), 3),
                "recall": round(right[share] / len(values), 3),
            }
        )
    others = removed - explained
    alike = sum(
        any(jaccard(sets[one], sets[other]) >= 0.5 for other in after if other != one)
        for one in others
    )
    emit(
        {
            "file": path.name,
            "pages": len(before),
            "removed": len(removed),
            "removed_share": round(len(removed) / len(before), 4),
            "of_planted": len(explained),
            "other": len(others),
            "alike": alike,
            "precision": round((len(explained) + alike) / max(1, len(removed)), 4),
        }
    )


def main() -> None:
    """Measure each file."""
    parser = parser_of(__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="TEXT")
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--copies", type=int, default=150, help="planted copies of each share")
    parser.add_argument("--characters", type=int, default=500, help="least length of a page")
    options = parser.parse_args()
    for path in options.files:
        measure(path, options)
