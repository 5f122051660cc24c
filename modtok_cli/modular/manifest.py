"""The manifest of a modular directory, checked field by field.

A checksum of the manifest itself and the SHA-256 of every other file detect all damage and
manual edits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import orjson

from modtok_cli import __version__
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.reading import read_file
from modtok_cli.base.signature import digest
from modtok_cli.modular.corpora import Corpus
from modtok_cli.modular.json_frame import REBUILD
from modtok_cli.modular.segmenters.registry import SEGMENTATIONS
from modtok_cli.text.pretokenizer import pretokenizers

if TYPE_CHECKING:
    from modtok_cli.modular.tokenizer import ModularTokenizer

FORMAT = 2
NAME = "manifest.json"
TOKENIZER = "tokenizer.json"
ARRAYS = "arrays.safetensors"
REFERENCES = "references"
MODEL = "tokenizer.model"
BYTE_ORDER = "gpt2"
LARGEST = 1 << 26
MISSING = "no tokenizer in {}/: learn one with modtok bpe-seq, or pass -t"
"""Most bytes of a manifest."""


def reference_name(language: str) -> str:
    """Path of a language's reference within the directory."""
    return f"{REFERENCES}/{language}.json"


def write_manifest(tokenizer: ModularTokenizer, files: Mapping[str, bytes]) -> bytes:
    """The manifest of a tokenizer whose other files are `files` (path → content)."""
    tokens = tokenizer.token_membership.sum(axis=0).tolist()
    merges = tokenizer.merge_membership.sum(axis=0).tolist()
    rows = []
    for i, language in enumerate(tokenizer.languages):
        corpus = tokenizer.corpora.get(language)
        reference = reference_name(language)
        rows.append(
            {
                "language": language,
                "tokens": tokens[i],
                "merges": merges[i],
                "corpus": None if corpus is None else vars(corpus),
                "reference": reference if reference in files else None,
            }
        )
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "written_by": f"modtok {__version__}",
        "signature": tokenizer.signature,
        "algorithm": tokenizer.algorithm,
        "segmentation": tokenizer.segmentation,
        "pretokenizer": tokenizer.pretokenizer.name,
        "pattern": tokenizer.pretokenizer.pattern,
        "byte_order": BYTE_ORDER,
        "k": tokenizer.k,
        "tokens": tokenizer.size,
        "merges": len(tokenizer.merges),
        "specials": list(tokenizer.vocabulary.specials),
        "settings": dict(tokenizer.settings),
        "languages": rows,
        "files": {
            path: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in sorted(files.items())
        },
    }
    manifest["checksum"] = _checksum(manifest)
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2) + b"\n"


def _checksum(manifest: Mapping[str, Any]) -> str:
    body = {name: value for name, value in manifest.items() if name != "checksum"}
    return digest(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), length=16)


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest, every field checked for its type and range.

    Raises:
        UsageError: no such directory.
        ModtokError: no such file, not JSON, or an invalid field; names the file and the field.
    """
    path = directory / NAME
    where = str(path)
    try:
        if not path.exists():
            raise FileNotFoundError
        manifest = orjson.loads(read_file(path, largest=LARGEST))
    except FileNotFoundError as error:
        if not directory.exists():
            raise UsageError(MISSING.format(directory)) from error
        raise ModtokError(
            "no such file", where=where, remedy="expected a directory that modtok wrote"
        ) from error
    except orjson.JSONDecodeError as error:
        raise ModtokError(f"not JSON: {error.msg}", where=where, remedy=REBUILD) from error
    if not isinstance(manifest, dict):
        raise ModtokError("not a JSON object", where=where, remedy=REBUILD)
    _Checker(manifest, where).check()
    if manifest["checksum"] != _checksum(manifest):
        raise ModtokError(
            "field 'checksum': the manifest was changed after it was written",
            where=where,
            remedy=REBUILD,
        )
    return manifest


def languages_of(directory: Path) -> list[str]:
    """The languages of a modular directory, in its order, without opening it.

    Raises:
        ModtokError: see `read_manifest`.
    """
    return [str(row["language"]) for row in read_manifest(directory)["languages"]]


class _Checker:
    def __init__(self, manifest: dict[str, Any], where: str) -> None:
        self.manifest = manifest
        self.where = where

    def fail(self, field: str, what: str) -> ModtokError:
        return ModtokError(f"field '{field}': {what}", where=self.where, remedy=REBUILD)

    def take(self, node: Mapping[str, Any], prefix: str, name: str, kind: type) -> Any:
        field = f"{prefix}{name}"
        if name not in node:
            raise self.fail(field, "missing")
        value = node[name]
        # In Python a bool is an int; in JSON it is not.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(field, f"is {value!r}, expected {_KINDS[kind]}")
        if isinstance(value, int) and value < 0:
            raise self.fail(field, f"is {value}, expected 0 or more")
        return value

    def check(self) -> None:
        top = self.manifest
        form = self.take(top, "", "format", int)
        if form != FORMAT:
            raise self.fail("format", f"is {form}, this modtok reads {FORMAT}")
        for name in ("written_by", "signature", "algorithm", "checksum"):
            self.take(top, "", name, str)
        if (value := self.take(top, "", "segmentation", str)) not in SEGMENTATIONS:
            raise self.fail("segmentation", f"'{value}' is not one of {', '.join(SEGMENTATIONS)}")
        if (value := self.take(top, "", "pretokenizer", str)) not in pretokenizers():
            raise self.fail("pretokenizer", f"'{value}' is not one of {', '.join(pretokenizers())}")
        if self.take(top, "", "pattern", str) != pretokenizers()[value].pattern:
            raise self.fail("pattern", f"is not the pattern of '{value}'")
        if self.take(top, "", "byte_order", str) != BYTE_ORDER:
            raise self.fail("byte_order", f"expected '{BYTE_ORDER}'")
        for name in ("k", "tokens", "merges"):
            self.take(top, "", name, int)
        if not all(isinstance(text, str) and text for text in self.take(top, "", "specials", list)):
            raise self.fail("specials", "contains a value that is not text")
        self.take(top, "", "settings", dict)
        self.check_files()
        self.check_languages()

    def check_files(self) -> None:
        files = self.take(self.manifest, "", "files", dict)
        for path, entry in files.items():
            if not inside(path):
                raise self.fail("files", f"'{path}' points outside the directory")
            if not isinstance(entry, dict):
                raise self.fail(f"files.{path}", "is not an object")
            self.take(entry, f"files.{path}.", "bytes", int)
            self.take(entry, f"files.{path}.", "sha256", str)
        for path in (TOKENIZER, ARRAYS):
            if path not in files:
                raise self.fail(f"files.{path}", "missing")

    def check_languages(self) -> None:
        seen = set()
        rows = self.take(self.manifest, "", "languages", list)
        if not rows:
            raise self.fail("languages", "is empty")
        for i, row in enumerate(rows):
            prefix = f"languages[{i}]."
            if not isinstance(row, dict):
                raise self.fail(f"languages[{i}]", "is not an object")
            language = self.take(row, prefix, "language", str)
            if not language or language in seen:
                raise self.fail(f"{prefix}language", f"'{language}' is empty or occurs twice")
            seen.add(language)
            self.take(row, prefix, "tokens", int)
            self.take(row, prefix, "merges", int)
            if row.get("corpus") is not None:
                corpus = self.take(row, prefix, "corpus", dict)
                self.take(corpus, f"{prefix}corpus.", "fingerprint", str)
                for name in ("documents", "characters", "bytes"):
                    self.take(corpus, f"{prefix}corpus.", name, int)
            if row.get("reference") is not None:
                reference = self.take(row, prefix, "reference", str)
                if not inside(reference):
                    raise self.fail(f"{prefix}reference", f"'{reference}' points outside")
                if reference not in self.manifest["files"]:
                    raise self.fail(f"{prefix}reference", f"'{reference}' is not in 'files'")


_KINDS = {str: "text", int: "an integer", list: "a list", dict: "an object"}


def inside(path: str) -> bool:
    """Whether a path of a manifest is relative and stays inside the directory."""
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path


def corpora(manifest: Mapping[str, Any]) -> dict[str, Corpus]:
    """Language → what it was learned from."""
    return {
        row["language"]: Corpus(
            **{name: row["corpus"][name] for name in Corpus.__dataclass_fields__}
        )
        for row in manifest["languages"]
        if row.get("corpus") is not None
    }
