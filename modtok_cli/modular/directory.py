"""The modular directory on disk: written whole or not at all, read with every check.

manifest.json           what it is: see `manifest`
tokenizer.json          T, as the `tokenizers` library loads it
tokenizer.model         T, as SentencePiece loads it (Unigram, whole characters)
membership.safetensors  tokens × languages and merges × languages, bits packed;
                        for fewest tokens also token counts, and merges if there are any
references/<lang>.json  monolingual tokenizers to compare with
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, refuse_others
from modtok_cli.base.reading import LARGEST, read_file
from modtok_cli.modular import manifest as manifests
from modtok_cli.modular.json_frame import REBUILD, parse_document
from modtok_cli.modular.manifest import MEMBERSHIP, TOKENIZER
from modtok_cli.modular.segmenters.interface import ModularSegmenter, Segmenter
from modtok_cli.modular.segmenters.registry import SEGMENTATIONS

if TYPE_CHECKING:
    from modtok_cli.modular.tokenizer import ModularTokenizer

_OURS = {
    manifests.NAME,
    TOKENIZER,
    MEMBERSHIP,
    manifests.REFERENCES,
    manifests.MODEL,
}

_SMALL = 1 << 24

Mask = npt.NDArray[np.bool_]
References = Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]


def is_modular(path: Path) -> bool:
    """Whether `path` is a directory with a manifest."""
    return (path / manifests.NAME).is_file()


def save(tokenizer: ModularTokenizer, directory: Path, references: References) -> None:
    """Write a modular directory, whole or not at all; an older one is replaced.

    `references`: language → content of its plain `tokenizer.json`, or a function that gives
    that, called when everything else is ready.

    Raises:
        UsageError: `directory` holds other files, or a reference has a language that T lacks.
        ModtokError: the file system refuses.
    """
    check_place(directory)
    whole = tokenizer.full()
    files = {TOKENIZER: whole.to_json(), MEMBERSHIP: save_tensors(_tensors(tokenizer))}
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


def pack(membership: Mask) -> npt.NDArray[np.uint8]:
    """(N, L) bool to (N, ⌈L / 8⌉) uint8, bit j % 8 of byte j // 8 for column j."""
    # Of a column-major array packbits makes another, whose memory safetensors would write as is.
    return np.ascontiguousarray(np.packbits(membership, axis=1, bitorder="little"))


def _tensors(tokenizer: ModularTokenizer) -> dict[str, npt.NDArray[Any]]:
    return {
        "merges": pack(tokenizer.merge_membership),
        "tokens": pack(tokenizer.token_membership),
        **tokenizer.segmenter.tensors(),
    }


def check_place(directory: Path) -> None:
    """Refuse a place for a modular directory that holds anything else.

    Raises:
        UsageError: it holds other files.
    """
    refuse_others(directory, _OURS.__contains__)


@dataclass(frozen=True)
class Contents:
    """A directory as it was read, before the tokenizer is validated.

    `whole` is T as the `tokenizer.json` has it, `data` that file.
    """

    directory: Path
    manifest: Mapping[str, Any]
    data: bytes
    whole: Segmenter
    segmenter: ModularSegmenter
    token_membership: Mask

    def verify(self, tokenizer: ModularTokenizer) -> None:
        """Compare the tokenizer made of it with sizes, signature and checksums of the manifest.

        Raises:
            ModtokError: a difference; names the file and the field.
        """
        manifest, where = self.manifest, str(self.directory / MEMBERSHIP)
        members = {"tokens": tokenizer.token_membership, "merges": tokenizer.merge_membership}
        for i, row in enumerate(manifest["languages"]):
            for name, mask in members.items():
                found = int(mask[:, i].sum())
                if found != row[name]:
                    raise ModtokError(
                        f"field '{name}': '{row['language']}' has {found}, "
                        f"the manifest says {row[name]}",
                        where=where,
                        remedy=REBUILD,
                    )
        if tokenizer.signature != manifest["signature"]:
            raise ModtokError(
                f"field 'signature': the files give {tokenizer.signature}, "
                f"the manifest says {manifest['signature']}",
                where=str(self.directory / manifests.NAME),
                remedy=REBUILD,
            )
        _check_digest(self.data, self.directory, TOKENIZER, manifest)
        if tokenizer.full().segmenter.digest() != self.whole.digest():
            raise ModtokError(
                "field 'model.vocab': the scores are not those of the membership file",
                where=str(self.directory / TOKENIZER),
                remedy=REBUILD,
            )


def read(directory: Path) -> Contents:
    """Read a modular directory, all but its references.

    Raises:
        ModtokError: a file is missing, damaged or changed by hand; names it and the field.
    """
    manifest = manifests.read_manifest(directory)
    where = str(directory / TOKENIZER)
    data = _read(directory, TOKENIZER, manifest)
    document = parse_document(data, where)
    modular = SEGMENTATIONS[manifest["segmentation"]]
    odd = modular.kind.misfit(document)
    if odd:
        raise ModtokError(f"field '{odd}': not as modtok writes it", where=where, remedy=REBUILD)
    whole = modular.kind.from_json(document, where)
    _same(whole.pretokenizer.name, manifest, "pretokenizer", where, "pre_tokenizer")
    _same(list(whole.vocabulary.specials), manifest, "specials", where, "added_tokens")
    _same(whole.size, manifest, "tokens", where, "model.vocab")
    tensors = _load_membership(directory, manifest)
    segmenter = modular.from_files(
        whole, tensors["merges"], tensors, manifest, str(directory / MEMBERSHIP)
    )
    _same(len(segmenter.merges), manifest, "merges", where, "model.merges")
    return Contents(directory, manifest, data, whole, segmenter, tensors["tokens"])


def _same(found: Any, manifest: Mapping[str, Any], name: str, where: str, field: str) -> None:
    if found != manifest[name]:
        raise ModtokError(
            f"field '{field}': {found!r}, but manifest.json says {name} {manifest[name]!r}",
            where=where,
            remedy=REBUILD,
        )


def _load_membership(directory: Path, manifest: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The tensors, "tokens" and "merges" unpacked to bool (N, L)."""
    where = str(directory / MEMBERSHIP)
    data = _read(directory, MEMBERSHIP, manifest)
    try:
        tensors = load_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModtokError(f"not safetensors: {error}", where=where, remedy=REBUILD) from error
    width = len(manifest["languages"])
    for name in ("tokens", "merges"):
        shape = (manifest[name], (width + 7) // 8)
        packed = tensors.get(name)
        if packed is None or packed.dtype != np.uint8 or packed.shape != shape:
            found = "missing" if packed is None else f"{packed.dtype} {packed.shape}"
            raise ModtokError(
                f"field '{name}': {found}, expected uint8 {shape}", where=where, remedy=REBUILD
            )
        bits = np.unpackbits(packed, axis=1, bitorder="little")
        if bits[:, width:].any():
            raise ModtokError(
                f"field '{name}': bits beyond the {width} languages", where=where, remedy=REBUILD
            )
        tensors[name] = bits[:, :width].astype(np.bool_)
    _check_digest(data, directory, MEMBERSHIP, manifest)
    return tensors


def _read(directory: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
    """A file that is not much larger than the manifest says; other damage is found later."""
    largest = max(_SMALL, min(manifest["files"][name]["bytes"], LARGEST))
    return read_file(directory / name, largest=largest, factor=16, remedy=REBUILD)


def _check_digest(data: bytes, directory: Path, name: str, manifest: Mapping[str, Any]) -> None:
    if hashlib.sha256(data).hexdigest() != manifest["files"][name]["sha256"]:
        raise ModtokError(
            "changed after it was written: its SHA-256 is not "
            f"'files.{name}.sha256' of manifest.json",
            where=str(directory / name),
            remedy=REBUILD,
        )


def reference_languages(directory: Path) -> list[str]:
    """Languages that the directory holds a monolingual reference of, in training order."""
    manifest = manifests.read_manifest(Path(directory))
    return [row["language"] for row in manifest["languages"] if row.get("reference") is not None]


def read_reference(directory: Path, language: str) -> bytes:
    """Content of the monolingual `tokenizer.json` of a language.

    Raises:
        UsageError: there is none.
        ModtokError: it is changed after it was written.
    """
    directory = Path(directory)
    manifest = manifests.read_manifest(directory)
    for row in manifest["languages"]:
        if row["language"] == language and row.get("reference") is not None:
            data = _read(directory, row["reference"], manifest)
            _check_digest(data, directory, row["reference"], manifest)
            return data
    there = ", ".join(reference_languages(directory)) or "none"
    raise UsageError(
        f"no monolingual reference of '{language}' (there: {there})",
        where=str(directory),
        remedy="learn again without --no-references, or give one",
    )


def read_references(directory: Path) -> dict[str, bytes]:
    """All monolingual references, language → content."""
    return {
        language: read_reference(directory, language) for language in reference_languages(directory)
    }
