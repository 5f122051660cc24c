"""The manifest of a modular directory, checked field by field.

A checksum of the manifest itself and the SHA-256 of every other file detect all damage and
manual edits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.read_file import read_file
from modtok_cli.base.records import from_json
from modtok_cli.base.signature import digest
from modtok_cli.text.frequent import LeftOut
from modtok_cli.text.pretokenizer import pretokenizers, restore_pretokenizer
from modtok_cli.tokenizer.segmenters import SEGMENTATIONS
from modtok_cli.tokenizer.segmenters.json_frame import REBUILD

FORMAT = 2
NAME = "manifest.json"
TOKENIZER = "tokenizer.json"
ARRAYS = "arrays.safetensors"
REFERENCES = "references"
MODEL = "tokenizer.model"
BYTE_ORDER = "gpt2"
LARGEST = 1 << 26
"""Most bytes of a manifest."""


@dataclass(frozen=True)
class Corpus:
    """Text of a language: hash of the words learned from, its size, and what was left out."""

    fingerprint: str
    documents: int
    characters: int
    bytes: int
    left_out: LeftOut | None = None


@dataclass(frozen=True)
class LanguageEntry:
    """A language: sizes, what it was learned from, the file of its reference, and its own k.

    `k` is None if it is that of the manifest.
    """

    language: str
    tokens: int
    merges: int
    corpus: Corpus | None = None
    reference: str | None = None
    k: int | None = None


@dataclass(frozen=True)
class FileEntry:
    """Size and hash of another file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`."""

    format: int
    written_by: str
    signature: str
    algorithm: str
    segmentation: str
    pretokenizer: str
    pattern: str
    byte_order: str
    k: int
    tokens: int
    merges: int
    specials: tuple[str, ...]
    settings: dict[str, Any]
    languages: tuple[LanguageEntry, ...]
    files: dict[str, FileEntry]
    checksum: str


def reference_name(language: str) -> str:
    """Path of a language's reference within the directory."""
    return f"{REFERENCES}/{language}.json"


def write_manifest(manifest: Manifest, files: Mapping[str, bytes]) -> bytes:
    """The file of a manifest, completed by the other files (path → content)."""
    manifest = replace(
        manifest,
        languages=tuple(
            replace(
                row, reference=name if (name := reference_name(row.language)) in files else None
            )
            for row in manifest.languages
        ),
        files={
            path: FileEntry(len(data), hashlib.sha256(data).hexdigest())
            for path, data in sorted(files.items())
        },
    )
    content = asdict(manifest)
    for row in content["languages"]:
        if row["corpus"] and row["corpus"]["left_out"] is None:
            del row["corpus"]["left_out"]  # as before there was such a field
        if row["k"] is None:
            del row["k"]
    content["checksum"] = _checksum(content)
    return orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"


def _checksum(manifest: Mapping[str, Any]) -> str:
    body = {name: value for name, value in manifest.items() if name != "checksum"}
    return digest(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), length=16)


def absent(directory: Path) -> UsageError:
    """The error for a modular directory that is not there; that of a workspace has no name."""
    if str(directory) == "tokenizer":
        remedy = "learn one with modtok bpe-seq, or pass -t"
        return UsageError("no tokenizer in tokenizer/", remedy=remedy)
    return missing(directory, "check the name, or learn one with modtok bpe-seq")


def read_manifest(directory: Path) -> Manifest:
    """The manifest, every field checked for its type and range."""
    path = directory / NAME
    where = str(path)
    if not directory.exists():
        raise absent(directory)
    if not path.exists():
        raise missing(where, "expected a directory that modtok wrote")
    try:
        content = orjson.loads(read_file(path, largest=LARGEST))
    except orjson.JSONDecodeError as error:
        raise ModtokError(f"not JSON: {error.msg}", where=where, remedy=REBUILD) from error
    if not isinstance(content, dict):
        raise ModtokError("not a JSON object", where=where, remedy=REBUILD)
    try:
        if content.get("format", FORMAT) != FORMAT:
            what = f"field 'format': is {content['format']}, this modtok reads {FORMAT}"
            raise ModtokError(what, where=where)
        manifest = from_json(Manifest, content, where)
        for field, what in _faults(manifest):
            raise ModtokError(f"field '{field}': {what}", where=where)
    except ModtokError as error:
        raise ModtokError(error.what, where=where, remedy=REBUILD) from error
    if manifest.checksum != _checksum(content):
        raise ModtokError(
            "field 'checksum': the manifest was changed after it was written",
            where=where,
            remedy=REBUILD,
        )
    return manifest


def languages_of(directory: Path) -> list[str]:
    """The languages of a modular directory, in its order, without opening it."""
    return [row.language for row in read_manifest(directory).languages]


def _faults(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Fields of the right type with a value that is not possible, and what is wrong."""
    if manifest.segmentation not in SEGMENTATIONS:
        known = ", ".join(SEGMENTATIONS)
        yield "segmentation", f"'{manifest.segmentation}' is not one of {known}"
    try:
        if manifest.pattern != restore_pretokenizer(manifest.pretokenizer).pattern:
            yield "pattern", f"is not the pattern of '{manifest.pretokenizer}'"
    except UsageError:
        known = ", ".join(pretokenizers())
        yield "pretokenizer", f"'{manifest.pretokenizer}' is not one of {known}"
    if manifest.byte_order != BYTE_ORDER:
        yield "byte_order", f"expected '{BYTE_ORDER}'"
    if not all(manifest.specials):
        yield "specials", "contains a value that is not text"
    sizes = {name: getattr(manifest, name) for name in ("k", "tokens", "merges")}
    for path, entry in manifest.files.items():
        if not inside(path):
            yield "files", f"'{path}' points outside the directory"
        sizes[f"files.{path}.bytes"] = entry.bytes
    for path in {TOKENIZER, ARRAYS} - manifest.files.keys():
        yield f"files.{path}", "missing"
    if not manifest.languages:
        yield "languages", "is empty"
    known_languages = set()
    for i, row in enumerate(manifest.languages):
        prefix = f"languages[{i}]."
        if not row.language or row.language in known_languages:
            yield f"{prefix}language", f"'{row.language}' is empty or occurs twice"
        known_languages.add(row.language)
        sizes |= {f"{prefix}tokens": row.tokens, f"{prefix}merges": row.merges}
        sizes[f"{prefix}k"] = row.k or 0
        if row.corpus is not None:
            numbers = (row.corpus.documents, row.corpus.characters, row.corpus.bytes)
            sizes[f"{prefix}corpus"] = min(numbers)
        if row.reference is not None and not inside(row.reference):
            yield f"{prefix}reference", f"'{row.reference}' points outside"
        elif row.reference is not None and row.reference not in manifest.files:
            yield f"{prefix}reference", f"'{row.reference}' is not in 'files'"
    for field, size in sizes.items():
        if size < 0:
            yield field, f"is {size}, expected 0 or more"


def inside(path: str) -> bool:
    """Whether a path of a manifest is relative and stays inside the directory."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path
