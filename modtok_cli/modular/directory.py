"""The modular directory on disk: written whole or not at all, read with every check.

manifest.json           what it is: see `manifest`
arrays.safetensors      T, as modtok reads it: tokens, merges or scores, and packed bits of
                        tokens × languages and merges × languages; for fewest tokens also token
                        counts, and merges if there are any
tokenizer.json          T, as the `tokenizers` library loads it; read here if T is adopted only
tokenizer.model         T, as SentencePiece loads it (Unigram, whole characters)
references/<lang>.json  monolingual tokenizers to compare with

The arrays are mapped into memory and hashed whole. Of a subset only the languages in question are
unpacked and checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array, offsets_of
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, refuse_others
from modtok_cli.base.membership import Membership
from modtok_cli.base.reading import LARGEST, read_file
from modtok_cli.base.tensors import ArraysFile
from modtok_cli.modular import manifest as manifests
from modtok_cli.modular.manifest import ARRAYS, TOKENIZER, Manifest
from modtok_cli.modular.segmenters import segmentation
from modtok_cli.modular.segmenters.interface import ModularSegmenter
from modtok_cli.modular.segmenters.json_frame import REBUILD, parse_document
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import PreTokenizer, find_pretokenizer

if TYPE_CHECKING:
    from modtok_cli.modular.tokenizer import ModularTokenizer

AnyVocabulary = TypeVar("AnyVocabulary", bound=Vocabulary)

_OURS = {manifests.NAME, TOKENIZER, ARRAYS, manifests.REFERENCES, manifests.MODEL}

_SMALL = 1 << 24

References = Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]


def is_modular(path: Path) -> bool:
    """Whether `path` is a directory with a manifest."""
    return (path / manifests.NAME).is_file()


def save(tokenizer: ModularTokenizer, directory: Path, references: References) -> None:
    """Write a modular directory, whole or not at all; an older one is replaced.

    `references`: language → content of its plain `tokenizer.json`, or a function that gives
    that, called when everything else is ready.
    """
    from safetensors.numpy import save as save_tensors

    check_place(directory)
    whole = tokenizer.full()
    files = {TOKENIZER: whole.to_json(), ARRAYS: save_tensors(_tensors(tokenizer))}
    if tokenizer.segmenter.has_model(tokenizer.settings):
        files[manifests.MODEL] = whole.to_model()
    if callable(references):
        references = references()
    stray = sorted(set(references) - set(tokenizer.languages))
    if stray:
        raise UsageError(f"references of unknown languages: {', '.join(stray)}")
    for language in sorted(references):
        files[manifests.reference_name(language)] = references[language]
    with atomic_directory(directory) as beside:
        if references:
            (beside / manifests.REFERENCES).mkdir()
        for path, data in files.items():
            (beside / path).write_bytes(data)
        (beside / manifests.NAME).write_bytes(manifests.write_manifest(tokenizer, files))


def _tensors(tokenizer: ModularTokenizer) -> dict[str, npt.NDArray[Any]]:
    return {
        "merges": tokenizer.merge_membership.packed(),
        "tokens": tokenizer.token_membership.packed(),
        **tokenizer.segmenter.tensors(),
    }


def check_place(directory: Path) -> None:
    """Refuse a place for a modular directory that holds anything else."""
    refuse_others(directory, _OURS.__contains__)


@dataclass(frozen=True)
class Stored:
    """What a directory holds of T, for some of its languages; not validated yet.

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
        """That of the manifest."""
        return find_pretokenizer(self.manifest.pretokenizer)

    def vocabulary(self, kind: type[AnyVocabulary]) -> AnyVocabulary:
        """T's tokens."""
        specials = self.manifest.specials
        data = self.arrays.take("token_data", np.uint8, (None,))
        lengths = self.arrays.take("token_lengths", np.int32, (self.manifest.tokens,))
        offsets = offsets_of(lengths)
        if (lengths < 1).any() or offsets[-1] != len(data):
            raise self.arrays.broken("token_lengths", f"not those of {len(data)} bytes")
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

    def segmenter(self) -> ModularSegmenter:
        """Vocabulary and rules, whose memberships have the sizes that the manifest says."""
        segmenter = segmentation(self.manifest.segmentation).from_files(self)
        _check_digest(self.arrays.sha256, self.directory, ARRAYS, self.manifest)
        members = {"tokens": self.token_members, "merges": segmenter.merge_membership}
        sizes = {name: mask.sizes().tolist() for name, mask in members.items()}
        for place, column in enumerate(self.columns):
            row = self.manifest.languages[column]
            for name in members:
                size, said = sizes[name][place], getattr(row, name)
                if size != said:
                    raise ModtokError(
                        f"field '{name}': '{row.language}' has {size}, the manifest says {said}",
                        where=self.arrays.where,
                        remedy=REBUILD,
                    )
        return segmenter

    def verify(self, tokenizer: ModularTokenizer) -> None:
        """Compare the tokenizer made of all of it with what the manifest says of all files."""
        if tokenizer.signature != self.manifest.signature:
            raise ModtokError(
                f"field 'signature': the files give {tokenizer.signature}, "
                f"the manifest says {self.manifest.signature}",
                where=self.directory / manifests.NAME,
                remedy=REBUILD,
            )
        read_checked(self.directory, TOKENIZER, self.manifest)


def read(directory: Path, choose: Callable[[Manifest], Sequence[int]] | None = None) -> Stored:
    """Read a modular directory, all but its references.

    `choose`: from the manifest, which languages to read memberships of; all by default.
    """
    manifest = manifests.read_manifest(directory)
    languages = len(manifest.languages)
    columns = range(languages) if choose is None else choose(manifest)
    arrays = ArraysFile.open(directory / ARRAYS, largest=_largest(manifest, ARRAYS), remedy=REBUILD)
    tokens, merges = (
        _members(arrays, name, rows, languages, columns)
        for name, rows in (("tokens", manifest.tokens), ("merges", manifest.merges))
    )
    return Stored(directory, manifest, arrays, columns, tokens, merges)


def _members(
    arrays: ArraysFile, name: str, rows: int, languages: int, columns: Sequence[int]
) -> Membership:
    """The columns of a membership of so many rows and languages."""
    packed = arrays.take(name, np.uint8, (rows, (languages + 7) // 8))
    spare = languages % 8
    if spare and (packed[:, -1] >> spare).any():
        raise arrays.broken(name, f"bits beyond the {languages} languages")
    return Membership(packed.T, languages).select(columns)


def _largest(manifest: Manifest, name: str) -> int:
    """Bytes that a file may have: not much more than the manifest says."""
    return max(_SMALL, min(manifest.files[name].bytes, LARGEST))


def read_checked(directory: Path, name: str, manifest: Manifest) -> bytes:
    """A file as it was written."""
    largest = _largest(manifest, name)
    data = read_file(directory / name, largest=largest, factor=16, remedy=REBUILD)
    _check_digest(hashlib.sha256(data).hexdigest(), directory, name, manifest)
    return data


def _check_digest(sha256: str, directory: Path, name: str, manifest: Manifest) -> None:
    if sha256 != manifest.files[name].sha256:
        raise ModtokError(
            "changed after it was written: its SHA-256 is not "
            f"'files.{name}.sha256' of manifest.json",
            where=directory / name,
            remedy=REBUILD,
        )


def read_references(directory: Path) -> dict[str, bytes]:
    """Monolingual `tokenizer.json` files of a directory, by language in training order."""
    manifest = manifests.read_manifest(directory)
    return {
        row.language: read_checked(directory, row.reference, manifest)
        for row in manifest.languages
        if row.reference is not None
    }
