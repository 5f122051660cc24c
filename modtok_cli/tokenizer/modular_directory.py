"""The modular directory on disk: written whole or not at all, read with every check.

manifest.json           what it is: see `manifest`
arrays.safetensors      T, as modtok reads it: tokens, merges or scores, and packed bits of
                        tokens × languages and merges × languages; for fewest tokens also token
                        counts, and merges if there are any
tokenizer.json          T, as the `tokenizers` library loads it; read here if T is adopted only
tokenizer.model         T, as SentencePiece loads it (Unigram, whole characters)
references/<lang>.json  monolingual tokenizers to compare with
README.md               model card; one that its user wrote is kept

The arrays are mapped into memory and hashed whole. Of a subset only the languages in question are
unpacked and checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, is_there, refuse_others
from modtok_cli.base.membership import Membership
from modtok_cli.base.tensors import Array, ArraysFile
from modtok_cli.tokenizer import manifest as manifests
from modtok_cli.tokenizer.manifest import ARRAYS, TOKENIZER, Manifest
from modtok_cli.tokenizer.model_card import README, readme
from modtok_cli.tokenizer.segmenters.interface import ModularSegmenter, segmentation
from modtok_cli.tokenizer.segmenters.json_frame import REBUILD
from modtok_cli.tokenizer.stored import Stored, check_digest, largest, read_checked
from modtok_cli.tokenizer.tokenizer_card import directory_card

_OURS = {manifests.NAME, TOKENIZER, ARRAYS, manifests.REFERENCES, manifests.MODEL, README}

References = Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]


def signature_at(directory: Path) -> str | None:
    """The signature of a modular directory; None of anything else."""
    return str(manifests.read_manifest(directory).signature) if is_modular(directory) else None


def is_modular(path: Path) -> bool:
    """Whether `path` is a directory with a manifest."""
    file = path / manifests.NAME
    return is_there(file) and file.is_file()


def save(
    directory: Path,
    document: bytes,
    arrays: Mapping[str, Array],
    model: bytes | None,
    manifest: Manifest,
    references: References,
) -> None:
    """Write a modular directory, whole or not at all; an older one is replaced.

    `document` is `tokenizer.json`, `model` a SentencePiece model if there is one. `manifest` is
    without what it says of files. `references`: language → content of its plain `tokenizer.json`,
    or a function that gives that, called when everything else is ready.
    """
    from safetensors.numpy import save as save_tensors

    check_place(directory)
    files = {TOKENIZER: document, ARRAYS: save_tensors(dict(arrays))}
    if model is not None:
        files[manifests.MODEL] = model
    if callable(references):
        references = references()
    stray = sorted(set(references) - {row.language for row in manifest.languages})
    if stray:
        raise UsageError(f"references of unknown languages: {', '.join(stray)}")
    for language in sorted(references):
        files[manifests.reference_name(language)] = references[language]
    manifest_json = manifests.write_manifest(manifest, files)
    files[README] = readme(directory_card(manifest), directory)
    with atomic_directory(directory) as beside:
        if references:
            (beside / manifests.REFERENCES).mkdir()
        for path, data in files.items():
            (beside / path).write_bytes(data)
        (beside / manifests.NAME).write_bytes(manifest_json)


def check_place(directory: Path) -> None:
    """Refuse a place for a modular directory that holds anything else."""
    refuse_others(directory, _OURS.__contains__)


def read(directory: Path, choose: Callable[[Manifest], Sequence[int]] | None = None) -> Stored:
    """Read a modular directory, all but its references.

    `choose`: from the manifest, which languages to read memberships of; all by default.
    """
    manifest = manifests.read_manifest(directory)
    languages = len(manifest.languages)
    columns = range(languages) if choose is None else choose(manifest)
    arrays = ArraysFile.open(directory / ARRAYS, largest=largest(manifest, ARRAYS), remedy=REBUILD)
    tokens, merges = (
        _members(arrays, name, rows, languages, columns)
        for name, rows in (("tokens", manifest.tokens), ("merges", manifest.merges))
    )
    return Stored(directory, manifest, arrays, columns, tokens, merges)


def segmenter_of(stored: Stored) -> ModularSegmenter:
    """Vocabulary and rules, whose memberships have the sizes that the manifest says."""
    segmenter = segmentation(stored.manifest.segmentation).from_files(stored)
    check_digest(stored.arrays.sha256, stored.directory, ARRAYS, stored.manifest)
    members = {"tokens": stored.token_members, "merges": segmenter.merge_membership}
    sizes = {name: mask.sizes().tolist() for name, mask in members.items()}
    for place, column in enumerate(stored.columns):
        row = stored.manifest.languages[column]
        for name in members:
            size, said = sizes[name][place], getattr(row, name)
            if size != said:
                raise ModtokError(
                    f"field '{name}': '{row.language}' has {size}, the manifest says {said}",
                    where=stored.arrays.where,
                    remedy=REBUILD,
                )
    return segmenter


def verify(stored: Stored, signature: str) -> None:
    """Compare the tokenizer's signature, and `tokenizer.json`, with what the manifest says."""
    if signature != stored.manifest.signature:
        raise ModtokError(
            f"field 'signature': the files give {signature}, "
            f"the manifest says {stored.manifest.signature}",
            where=stored.directory / manifests.NAME,
            remedy=REBUILD,
        )
    read_checked(stored.directory, TOKENIZER, stored.manifest)


def _members(
    arrays: ArraysFile, name: str, rows: int, languages: int, columns: Sequence[int]
) -> Membership:
    """The columns of a membership of so many rows and languages."""
    packed = arrays.take(name, np.uint8, (rows, (languages + 7) // 8))
    spare = languages % 8
    if spare and (packed[:, -1] >> spare).any():
        raise arrays.broken(name, f"bits beyond the {languages} languages")
    return Membership(packed.T, languages).select(columns)


def read_references(directory: Path) -> dict[str, bytes]:
    """Monolingual `tokenizer.json` files of a directory, by language in training order."""
    manifest = manifests.read_manifest(directory)
    return {
        row.language: read_checked(directory, row.reference, manifest)
        for row in manifest.languages
        if row.reference is not None
    }
