"""A hundred and more synthetic languages: learning, and what a tokenizer of all of them takes.

    python -m benchmarks many_languages make CORPUS WORKSPACE [--languages 100] [--megabytes 3]
    python -m benchmarks many_languages measure WORKSPACE [-k 24000] [--prompts 200]

`make` writes WORKSPACE/data/<label>.jsonl.zst and WORKSPACE/test/<label>.txt from CORPUS, which
has <lang>.jsonl.zst. The corpora take turns: the first of each is as it is (`fi`), the others are
invented languages (`fi-x-s1`, `fi-x-s2`, ...) of other documents of the same corpus. In an
invented language the letters of a word are exchanged, vowels for vowels and consonants for
consonants, in a way of its own; a quarter of all words stay, as names and loans do. So words have
the lengths and frequencies of real ones, and vocabularies overlap in part.

`measure` learns by `modtok bpe-seq` in a process of its own, then opens, cuts, encodes and routes
with the result. Processor seconds; subsets in milliseconds of the processor, the median of 15.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import time
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import zstandard

from benchmarks.common import emit, texts
from modtok_cli.inference.run.route import route, routing_references
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer

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


def run(*arguments: str) -> dict[str, object]:
    """Processor seconds and peak memory of a modtok command."""
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "modtok_cli", *arguments, "-q"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"modtok {arguments[0]} failed")
    return {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def seconds(call: Callable[[], object], repeat: int = 1) -> float:
    """Processor seconds of a call, the median."""
    spent = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


def bytes_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def measure(options: argparse.Namespace) -> None:
    data, place = options.workspace / "data", options.workspace / f"t{options.k}"
    learned = run("bpe-seq", "--data", str(data), "-k", str(options.k), "-o", str(place), "--force")
    emit({"what": "learn", "k": options.k, **learned})
    some = sorted(path.name.partition(".")[0] for path in data.iterdir())[::7][:3]
    cut = run(
        "extract",
        "-t",
        str(place),
        "--langs",
        ",".join(some),
        "-o",
        str(place) + ".json",
        "--force",
    )
    emit({"what": "extract three", **cut})
    emit(
        {
            "what": "open three",
            "cpu_seconds": seconds(lambda: open_tokenizer(f"{place}@{','.join(some)}"), 5),
        }
    )
    start = time.process_time()
    tokenizer = ModularTokenizer.load(place)
    languages = list(tokenizer.languages)
    emit(
        {
            "what": "tokenizer",
            "languages": len(languages),
            "size": tokenizer.size,
            "sum_of_subsets": sum(tokenizer.subset(name).size for name in languages),
            "load_cpu_seconds": round(time.process_time() - start, 2),
            "directory_mb": round(bytes_of(place) / 1e6, 1),
            "arrays_mb": round((place / "arrays.safetensors").stat().st_size / 1e6, 1),
            "tokenizer_json_mb": round((place / "tokenizer.json").stat().st_size / 1e6, 1),
        }
    )
    for name, chosen in (("one", some[:1]), ("three", some), ("all", languages)):
        spent = seconds(lambda chosen=chosen: tokenizer.subset(chosen), 15)  # type: ignore[misc]
        emit({"what": "subset", "of": name, "milliseconds": round(1e3 * spent, 2)})
    lines = {
        name: (options.workspace / "test" / f"{name}.txt").read_text("utf-8").split("\n")
        for name in languages
    }
    sample = [line[:2000].encode() for of in lines.values() for line in of[:5] if line]
    for name, those in (("three", tokenizer.subset(some)), ("all", tokenizer.full())):
        those.encode_utf8(sample)  # words enter the cache
        spent = seconds(lambda those=those: those.encode_utf8(sample), 5)  # type: ignore[misc]
        rate = sum(map(len, sample)) / spent / 1e6
        emit({"what": "encode", "by": name, "mb_per_second": round(rate, 1)})
    prices = routing_references(place, languages)
    prompts = [
        (name, line[:80]) for name, of in lines.items() for line in of[:20] if len(line) > 80
    ]
    prompts = random.Random(0).sample(prompts, min(options.prompts, len(prompts)))
    route([prompts[0][1]], prices)  # reads the references
    start = time.process_time()
    found = route([text for _, text in prompts], prices)
    spent = time.process_time() - start
    right = [one.languages[0] == name for (name, _), one in zip(prompts, found, strict=True)]
    emit(
        {
            "what": "route",
            "prompts": len(prompts),
            "cpu_seconds": round(spent, 2),
            "accuracy": round(statistics.mean(right), 4),
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("make")
    one.add_argument("corpus", type=Path)
    one.add_argument("workspace", type=Path)
    one.add_argument("--languages", type=int, default=100)
    one.add_argument("--megabytes", type=float, default=3)
    one.set_defaults(run=make)
    other = parts.add_parser("measure")
    other.add_argument("workspace", type=Path)
    other.add_argument("-k", type=int, default=24000)
    other.add_argument("--prompts", type=int, default=200)
    other.set_defaults(run=measure)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
