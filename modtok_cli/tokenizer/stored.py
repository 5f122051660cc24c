"""The part of T that a modular directory holds, read with every check of files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from modtok_cli.base.arrays import Int32Array, offsets_of
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.membership import Membership
from modtok_cli.base.read_file import LARGEST, read_file
from modtok_cli.base.tensors import ArraysFile
from modtok_cli.text.pretokenizer import PreTokenizer, find_pretokenizer
from modtok_cli.tokenizer.manifest import TOKENIZER, Manifest
from modtok_cli.tokenizer.segmenters.json_frame import REBUILD, parse_document
from modtok_cli.tokenizer.vocabulary import Vocabulary

AnyVocabulary = TypeVar("AnyVocabulary", bound=Vocabulary)

_SMALL = 1 << 24


@dataclass(frozen=True)
class Stored:
    """The part of T that a directory holds, for some of its languages; not validated yet.

    Attributes:
        arrays: the file of arrays.
        columns: places of the languages in the manifest, ascending.
        token_members, merge_members: (V, n) and (M, n), of these languages.
    """

    directory: Path
    manifest: Manifest
    arrays: ArraysFile
    columns: Sequence[int]
    token_members: Membership
    merge_members: Membership

    @property
    def pretokenizer(self) -> PreTokenizer:
        """The signature of the manifest."""
        return find_pretokenizer(self.manifest.pretokenizer)

    def vocabulary(self, kind: type[AnyVocabulary]) -> AnyVocabulary:
        """T's tokens."""
        specials = self.manifest.specials
        data = self.arrays.take("token_data", np.uint8, (None,))
        lengths = self.arrays.take("token_lengths", np.int32, (self.manifest.tokens,))
        offsets = offsets_of(lengths)
        if (lengths < 1).any() or offsets[-1] != len(data):
            raise self.arrays.broken("token_lengths", f"do not add up to {len(data)} bytes")
        head = [special.encode() for special in specials]
        same = lengths[: len(head)].tolist() == list(map(len, head))
        if not same or data[: offsets[len(head)]].tobytes() != b"".join(head):
            raise self.arrays.broken("specials", f"not {specials!r}, as the manifest says")
        return kind(specials, data, offsets)

    def merge_table(self) -> Int32Array:
        """T's merges, (M, 3) int32."""
        merges = self.arrays.take("merge_table", np.int32, (self.manifest.merges, 3))
        if len(merges) and (merges.min() < 0 or merges.max() >= self.manifest.tokens):
            raise self.arrays.broken("merge_table", "contains an unknown token id")
        return merges

    def document(self) -> tuple[Mapping[str, Any], str]:
        """The content of `tokenizer.json`, and its name."""
        where = str(self.directory / TOKENIZER)
        return parse_document(read_checked(self.directory, TOKENIZER, self.manifest), where), where


def largest(manifest: Manifest, name: str) -> int:
    """Bytes that a file may have: not much more than the manifest says."""
    return max(_SMALL, min(manifest.files[name].bytes, LARGEST))


def read_checked(directory: Path, name: str, manifest: Manifest) -> bytes:
    """A file as it was written."""
    most = largest(manifest, name)
    data = read_file(directory / name, largest=most, factor=16, remedy=REBUILD)
    check_digest(hashlib.sha256(data).hexdigest(), directory, name, manifest)
    return data


def check_digest(sha256: str, directory: Path, name: str, manifest: Manifest) -> None:
    """Compare the SHA-256 of a file with the manifest's."""
    if sha256 != manifest.files[name].sha256:
        raise ModtokError(
            "changed after it was written: its SHA-256 is not "
            f"'files.{name}.sha256' of manifest.json",
            where=directory / name,
            remedy=REBUILD,
        )
