"""A hundred and more synthetic languages, made of real ones.

    python -m benchmarks many_languages make CORPUS WORKSPACE [--languages 100] [--megabytes 3]

Writes WORKSPACE/data/<label>.jsonl.zst and WORKSPACE/test/<label>.txt from CORPUS, which
has <lang>.jsonl.zst. The corpora take turns: the first of each is as it is (`fi`), the others are
invented languages (`fi-x-s1`, `fi-x-s2`, ...) of other documents of the same corpus. In an
invented language the letters of a word are exchanged, vowels for vowels and consonants for
consonants, in a way of its own; a quarter of all words stay, as names and loans do. So words have
the lengths and frequencies of real ones, and vocabularies overlap in part.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import zstandard

from benchmarks.common import emit, parser_of, texts

VOWELS = set("aeiouyæøœıαεηιουωаеиоуыэюяіє")
KEPT_PERCENT = 25
TEST_EACH = 50
_WORD = re.compile(r"\w+")


def alphabet(sample: str) -> list[list[str]]:
    """Lower-case letters in use, vowels and consonants apart."""
    counts = Counter(character for character in sample.lower() if character.isalpha())
    letters = sorted(c for c, number in counts.items() if number > len(sample) / 1e4)

    def is_vowel(letter: str) -> bool:
        return unicodedata.normalize("NFD", letter)[0] in VOWELS

    return [[c for c in letters if is_vowel(c)], [c for c in letters if not is_vowel(c)]]


def exchange(groups: list[list[str]], key: str) -> dict[int, str]:
    """Translation of letters to others of their group, also of capitals."""
    table = {}
    for group in groups:
        shuffled = random.Random(key).sample(group, len(group))
        for old, new in zip(group, shuffled, strict=True):
            table[ord(old)] = new
            if len(old.upper()) == len(new.upper()) == 1:
                table[ord(old.upper())] = new.upper()
    return table


def translator(table: dict[int, str]) -> Callable[[re.Match[str]], str]:
    """The word of a match, or its translation."""
    known: dict[str, str] = {}

    def translated(match: re.Match[str]) -> str:
        word = match[0]
        if word not in known:
            kept = zlib.crc32(word.lower().encode()) % 100 < KEPT_PERCENT
            known[word] = word if kept else word.translate(table)
        return known[word]

    return translated


def documents(found: list[str], version: int, versions: int) -> Iterator[str]:
    """Every `versions`-th document first, so that languages differ in content too."""
    for start in range(versions):
        yield from found[(version + start) % versions :: versions]


def make(options: argparse.Namespace) -> None:
    corpora = sorted(options.corpus.glob("*.jsonl.zst"))
    versions = -(-options.languages // len(corpora))
    for part in ("data", "test"):
        (options.workspace / part).mkdir(parents=True, exist_ok=True)
    for index, path in enumerate(corpora):
        base, found = path.name.partition(".")[0], list(texts(path))
        groups = alphabet(" ".join(found[:300]))
        for version in range(versions):
            if version * len(corpora) + index < options.languages:
                label = f"{base}-x-s{version}" if version else base
                word = translator(exchange(groups, label) if version else {})
                write(options, label, documents(found, version, versions), word)


def write(
    options: argparse.Namespace,
    label: str,
    found: Iterable[str],
    word: Callable[[re.Match[str]], str],
) -> None:
    """The files of a language, of `--megabytes` at most."""
    lines, held, size = [], [], 0
    for index, text in enumerate(found):
        if size > options.megabytes * 1e6:
            break
        text = _WORD.sub(word, text)
        size += len(text.encode())
        if index % TEST_EACH == TEST_EACH - 1:
            held.append(text.replace("\n", " "))
        else:
            lines.append(json.dumps({"text": text}, ensure_ascii=False))
    content = "\n".join(lines).encode()
    (options.workspace / "data" / f"{label}.jsonl.zst").write_bytes(zstandard.compress(content))
    (options.workspace / "test" / f"{label}.txt").write_text("\n".join(held) + "\n", "utf-8")
    emit({"what": "language", "label": label, "megabytes": round(size / 1e6, 2)})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=["make"])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--languages", type=int, default=100)
    parser.add_argument("--megabytes", type=float, default=3)
    make(parser.parse_args())
