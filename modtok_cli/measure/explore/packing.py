"""Tokenizers in the compact form that segment.js reads: JSON, and byte planes of arrays."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError
from modtok_cli.learn.fewest_tokens import EACH, LIKELIHOOD_STEPS
from modtok_cli.learn.pieces import UNKNOWN_PENALTY
from modtok_cli.measure.explore.pattern import js_pattern
from modtok_cli.modular.piece_vocabulary import PieceVocabulary
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.ranks import RankTokenizer
from modtok_cli.modular.segmenters.adopted import Library, ModularLibrary
from modtok_cli.modular.segmenters.fewest_tokens import FewestTokens
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.segmenters.unigram import Unigram
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.language_names import language_name

Packed = tuple[dict[str, Any], list[bytes]]


def packed_tokenizer(tokenizer: Tokenizer | ModularTokenizer, name: str) -> dict[str, Any]:
    """`meta` and `data` (base64 of deflated planes) of a tokenizer.

    Raises:
        UsageError: a segmentation that the page does not have.
    """
    if isinstance(tokenizer, RankTokenizer):
        meta, planes = _ranks(tokenizer)
        pattern = tokenizer.pattern
    elif isinstance(tokenizer, ModularTokenizer | Subtokenizer) and _is_known(tokenizer):
        meta, planes = _of_modtok(tokenizer)
        pattern = tokenizer.pretokenizer.pattern
    else:
        raise UsageError(
            "the page runs tokenizers of modtok, byte-level BPE and rank files, not this kind",
            where=name,
            remedy="leave it out",
        )
    meta |= {"name": name, "size": tokenizer.size, "pattern": js_pattern(pattern)}
    data = base64.b64encode(zlib.compress(b"".join(planes), 9)).decode()
    return {"meta": meta, "data": data}


def _is_known(tokenizer: ModularTokenizer | Subtokenizer) -> bool:
    """Whether the page has its segmentation; an adopted file must merge unchanged bytes."""
    segmenter = tokenizer.segmenter
    if not isinstance(segmenter, Library | ModularLibrary):
        return True
    form, before = segmenter.file.form, tokenizer.pretokenizer
    plain = before.rewrite is None and before.is_whole is None and not form.of_characters
    return form.is_native and plain and bool((tokenizer.vocabulary.byte_ids >= 0).all())


def _of_modtok(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    if isinstance(tokenizer, Subtokenizer):
        modular, kind = None, type(tokenizer.segmenter)
    else:
        modular, kind = tokenizer, tokenizer.segmenter.kind
    if kind in (Unigram, FewestTokens):
        meta, planes = _search(tokenizer)
    else:
        assert kind in (Merges, Library)
        meta, planes = _merges(tokenizer.vocabulary, tokenizer.merges)
    if modular is None:
        return meta, planes
    meta["languages"] = [{"code": code, "name": language_name(code)} for code in modular.languages]
    if kind is Merges:
        planes += _bits(modular.merge_membership)
    elif kind is Library:
        meta["between"] = True
    planes += _bits(modular.token_membership)
    if kind is FewestTokens:
        counts = np.concatenate(modular.token_counts)
        meta["counts"] = _width(int(counts.max(initial=0)))
        meta["members"] = [len(each) for each in modular.token_counts]
        meta["steps"] = LIKELIHOOD_STEPS.tolist()
        planes += _planes(counts, meta["counts"])
    return meta, planes


def _ranks(tokenizer: RankTokenizer) -> Packed:
    tokens = sorted(tokenizer.ranks, key=tokenizer.ranks.__getitem__)
    lengths = np.array([len(token) for token in tokens])
    ids = np.array([tokenizer.ranks[token] for token in tokens])
    meta = {"kind": "ranks", "tokens": len(tokens), "first": tokenizer.first}
    return meta, [*_planes(lengths, 2), *_planes(ids, 3), b"".join(tokens)]


def _merges(vocabulary: Vocabulary, merges: npt.NDArray[np.int32]) -> Packed:
    width = _width(len(vocabulary))
    meta = {
        "kind": "merges",
        "merges": len(merges),
        "width": width,
        "bytes": vocabulary.byte_ids.tolist(),
    }
    return meta, [plane for column in merges.T for plane in _planes(column, width)]


def _search(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    """Tokens, and the scores where they are the same in every subset."""
    vocabulary = tokenizer.vocabulary
    is_unigram = isinstance(vocabulary, PieceVocabulary)
    first = (
        vocabulary.first if isinstance(vocabulary, PieceVocabulary) else len(vocabulary.specials)
    )
    width = _width(int(vocabulary.lengths.max(initial=0)))
    meta: dict[str, Any] = {
        "kind": "search",
        "first": first,
        "each": 0 if is_unigram else 1,
        "penalty": UNKNOWN_PENALTY,
        "bytes": vocabulary.byte_ids.tolist(),
        "width": width,
        "scores": 8 if is_unigram else 0,
    }
    planes = [*_planes(vocabulary.lengths, width), vocabulary.data.tobytes()]
    scores = tokenizer.scores
    if is_unigram:
        assert scores is not None
        planes += _planes(scores.astype("<f8").view(np.uint64), 8)
    elif isinstance(tokenizer, Subtokenizer):
        assert scores is not None
        likelihoods = np.maximum(scores + EACH, 0).astype(np.int64)
        meta["scores"] = 2
        planes += _planes(likelihoods, 2)
    return meta, planes


def _width(largest: int) -> int:
    """Bytes of a number."""
    return max(1, (largest.bit_length() + 7) // 8)


def _planes(values: npt.NDArray[Any], width: int) -> list[bytes]:
    """All lowest bytes, then all second bytes, and so on."""
    return [
        (values >> values.dtype.type(8 * plane) & values.dtype.type(0xFF))
        .astype(np.uint8)
        .tobytes()
        for plane in range(width)
    ]


def _bits(members: npt.NDArray[np.bool_]) -> list[bytes]:
    """Rows of bits in planes of a byte for eight columns."""
    packed = np.packbits(members, axis=1, bitorder="little")
    return [np.ascontiguousarray(column).tobytes() for column in packed.T]
