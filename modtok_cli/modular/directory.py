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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, refuse_others
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.modular import manifest as manifests
from modtok_cli.modular.manifest import MEMBERSHIP, REBUILD, TOKENIZER
from modtok_cli.modular.parse import misfit, parse_document, parse_plain
from modtok_cli.modular.tokenizer import ModularTokenizer, pack
from modtok_cli.modular.validate import validate

_OURS = {
    manifests.NAME,
    TOKENIZER,
    MEMBERSHIP,
    manifests.REFERENCES,
    manifests.MODEL,
}

References = Mapping[str, bytes] | Callable[[], Mapping[str, bytes]]


def is_modular(path: Path) -> bool:
    """Does `path` look like a modular directory?"""
    return (path / manifests.NAME).is_file()


def save(tokenizer: ModularTokenizer, directory: Path, references: References) -> None:
    """Write a modular directory, whole or not at all; an older one is replaced.

    `references`: language → content of its plain `tokenizer.json`, or a function that gives
    that, called when everything else is ready.

    Raises:
        UsageError: `directory` holds other things, or a reference is of no language of T.
        ModtokError: the tokenizer is not proper, or the file system refuses.
    """
    check_place(directory)
    if not tokenizer.is_sound:
        validate(tokenizer, "the tokenizer to be saved")
    files = {
        TOKENIZER: tokenizer.full().to_json(),
        MEMBERSHIP: save_tensors(_tensors(tokenizer)),
    }
    if tokenizer.scores is not None or tokenizer.settings.get("whole_characters") is True:
        files[manifests.MODEL] = tokenizer.full().to_model()
    if callable(references):
        references = references()
    stray = sorted(set(references) - set(tokenizer.languages))
    if stray:
        raise UsageError(f"references of languages that are not there: {', '.join(stray)}")
    for language in sorted(references):
        files[manifests.reference_name(language)] = references[language]
    with atomic_directory(directory) as beside:
        if references:
            (beside / manifests.REFERENCES).mkdir()
        for path, data in files.items():
            (beside / path).write_bytes(data)
        (beside / manifests.NAME).write_bytes(manifests.write_manifest(tokenizer, files))


def _tensors(tokenizer: ModularTokenizer) -> dict[str, npt.NDArray[Any]]:
    tensors: dict[str, npt.NDArray[Any]] = {
        "merges": pack(tokenizer.merge_membership),
        "tokens": pack(tokenizer.token_membership),
    }
    if tokenizer.token_counts is not None:
        # A Unigram file has no place for merges, but to go on learning they are needed.
        tensors["merge_table"] = np.ascontiguousarray(tokenizer.merges, dtype="<i4")
        tensors["token_counts"] = np.concatenate(tokenizer.token_counts).astype("<i8")
    return tensors


def check_place(directory: Path) -> None:
    """Refuse a place for a modular directory that holds anything else.

    Raises:
        UsageError: so.
    """
    refuse_others(directory, _OURS.__contains__)


def load(directory: Path) -> ModularTokenizer:
    """Read a modular directory and validate all of it but the references.

    Raises:
        ModtokError: a file is missing, damaged or changed by hand; names it and the field.
    """
    directory = Path(directory)
    manifest = manifests.read_manifest(directory)
    where = str(directory / TOKENIZER)
    data = _read(directory, TOKENIZER)
    document = parse_document(data, where)
    odd = misfit(document)
    if odd:
        raise ModtokError(f"field '{odd}': not as modtok writes it", where=where, remedy=REBUILD)
    plain = parse_plain(document, where)
    _same(plain.segmentation, manifest, "segmentation", where, "model.type")
    _same(plain.scheme, manifest, "scheme", where, "pre_tokenizer")
    _same(list(plain.vocabulary.specials), manifest, "specials", where, "added_tokens")
    _same(len(plain.vocabulary), manifest, "tokens", where, "model.vocab")
    tensors = _load_membership(directory, manifest)
    tokens, merges = tensors["tokens"], tensors["merges"]
    least = manifest["segmentation"] == FEWEST_TOKENS
    rules, token_counts = plain.merges, None
    if least:
        rules, token_counts = _least_tensors(tensors, manifest, str(directory / MEMBERSHIP))
    else:
        _same(len(rules), manifest, "merges", where, "model.merges")
    tokenizer = ModularTokenizer(
        algorithm=manifest["algorithm"],
        segmentation=manifest["segmentation"],
        languages=tuple(row["language"] for row in manifest["languages"]),
        k=manifest["k"],
        scheme=manifest["scheme"],
        vocabulary=plain.vocabulary,
        merges=rules,
        token_membership=tokens,
        merge_membership=merges,
        settings=manifest["settings"],
        corpora=manifests.corpora(manifest),
        scores=None if least else plain.scores,
        token_counts=token_counts,
    )
    validate(tokenizer, str(directory), distinct=True)
    tokenizer.trust()
    for i, row in enumerate(manifest["languages"]):
        for name, mask in (("tokens", tokens), ("merges", merges)):
            there = int(mask[:, i].sum())
            if there != row[name]:
                raise ModtokError(
                    f"field '{name}': '{row['language']}' has {there}, "
                    f"the manifest says {row[name]}",
                    where=str(directory / MEMBERSHIP),
                    remedy=REBUILD,
                )
    if tokenizer.signature != manifest["signature"]:
        raise ModtokError(
            f"field 'signature': the files give {tokenizer.signature}, "
            f"the manifest says {manifest['signature']}",
            where=str(directory / manifests.NAME),
            remedy=REBUILD,
        )
    _check_digest(data, directory, TOKENIZER, manifest)
    scores = tokenizer.full().scores if least else None
    if scores is not None and not np.array_equal(scores, plain.scores):  # type: ignore[arg-type]
        raise ModtokError(
            "field 'model.vocab': the scores differ from 'token_counts' in the membership file",
            where=where,
            remedy=REBUILD,
        )
    return tokenizer


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
    data = _read(directory, MEMBERSHIP)
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


def _least_tensors(
    tensors: Mapping[str, npt.NDArray[Any]], manifest: Mapping[str, Any], where: str
) -> tuple[npt.NDArray[np.int32], tuple[npt.NDArray[np.int64], ...]]:
    """Merges (M, 3), and the counts of each language's tokens."""
    sizes = [row["tokens"] for row in manifest["languages"]]
    expected: dict[str, tuple[type, tuple[int, ...]]] = {
        "merge_table": (np.int32, (manifest["merges"], 3)),
        "token_counts": (np.int64, (sum(sizes),)),
    }
    for name, (kind, shape) in expected.items():
        tensor = tensors.get(name)
        if tensor is None or tensor.dtype != kind or tensor.shape != shape:
            found = "missing" if tensor is None else f"{tensor.dtype} {tensor.shape}"
            raise ModtokError(
                f"field '{name}': {found}, expected {np.dtype(kind)} {shape}",
                where=where,
                remedy=REBUILD,
            )
    return tensors["merge_table"], tuple(np.split(tensors["token_counts"], np.cumsum(sizes)[:-1]))


def _read(directory: Path, name: str) -> bytes:
    path = directory / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModtokError(
            f"cannot read: {error.strerror}", where=str(path), remedy=REBUILD
        ) from error


def _check_digest(data: bytes, directory: Path, name: str, manifest: Mapping[str, Any]) -> None:
    if hashlib.sha256(data).hexdigest() != manifest["files"][name]["sha256"]:
        raise ModtokError(
            f"not what was written: its SHA-256 is not 'files.{name}.sha256' of manifest.json",
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
        ModtokError: it is not what was written.
    """
    directory = Path(directory)
    manifest = manifests.read_manifest(directory)
    for row in manifest["languages"]:
        if row["language"] == language and row.get("reference") is not None:
            data = _read(directory, row["reference"])
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
