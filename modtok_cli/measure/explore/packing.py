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
from modtok_cli.measure.explore.files import file_merges, runs, whole_file
from modtok_cli.measure.explore.pattern import js_pattern
from modtok_cli.measure.explore.planes import byte_planes, packed_bits, width_of
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
    whole = whole_file(tokenizer)
    if isinstance(tokenizer, RankTokenizer):
        meta, planes = _ranks(tokenizer)
        pattern = tokenizer.pattern
    elif whole is not None:
        meta, planes = file_merges(whole)
        pattern = whole.pretokenizer.pattern
    elif isinstance(tokenizer, ModularTokenizer | Subtokenizer) and _is_known(tokenizer):
        meta, planes = _of_modtok(tokenizer)
        pattern = tokenizer.pretokenizer.pattern
    else:
        raise UsageError(
            "the page does not run this kind of tokenizer; it runs those of modtok, BPE of bytes "
            "(GPT-2, Llama 3, Qwen) or with byte fallback (Gemma, Llama 2) in a tokenizer.json, "
            "and tiktoken rank files",
            where=name,
            remedy="leave it out",
        )
    meta |= {"name": name, "size": tokenizer.size, "pattern": js_pattern(pattern)}
    data = base64.b64encode(zlib.compress(b"".join(planes), 9)).decode()
    return {"meta": meta, "data": data}


def _is_known(tokenizer: ModularTokenizer | Subtokenizer) -> bool:
    """Whether the page has its segmentation."""
    segmenter = tokenizer.segmenter
    return not isinstance(segmenter, Library | ModularLibrary) or runs(segmenter.file)


def _of_modtok(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    if isinstance(tokenizer, Subtokenizer):
        modular, kind = None, type(tokenizer.segmenter)
    else:
        modular, kind = tokenizer, tokenizer.segmenter.kind
    if kind in (Unigram, FewestTokens):
        meta, planes = _search(tokenizer)
    elif isinstance(tokenizer.segmenter, Library):
        meta, planes = file_merges(tokenizer.segmenter)
    elif isinstance(tokenizer.segmenter, ModularLibrary):
        meta, planes = file_merges(Library(tokenizer.segmenter.file))
    else:
        assert kind is Merges
        meta, planes = _merges(tokenizer.vocabulary, tokenizer.merges)
    if modular is None:
        return meta, planes
    meta["languages"] = [{"code": code, "name": language_name(code)} for code in modular.languages]
    if kind is Merges:
        planes += packed_bits(modular.merge_membership)
    elif kind is Library:
        meta["between"] = True
    planes += packed_bits(modular.token_membership)
    if kind is FewestTokens:
        counts = np.concatenate(modular.token_counts)
        meta["counts"] = width_of(int(counts.max(initial=0)))
        meta["members"] = [len(each) for each in modular.token_counts]
        meta["steps"] = LIKELIHOOD_STEPS.tolist()
        planes += byte_planes(counts, meta["counts"])
    return meta, planes


def _ranks(tokenizer: RankTokenizer) -> Packed:
    tokens = sorted(tokenizer.ranks, key=tokenizer.ranks.__getitem__)
    lengths = np.array([len(token) for token in tokens])
    ids = np.array([tokenizer.ranks[token] for token in tokens])
    meta = {"kind": "ranks", "tokens": len(tokens), "first": tokenizer.first}
    return meta, [*byte_planes(lengths, 2), *byte_planes(ids, 3), b"".join(tokens)]


def _merges(vocabulary: Vocabulary, merges: npt.NDArray[np.int32]) -> Packed:
    width = width_of(len(vocabulary))
    meta = {
        "kind": "merges",
        "merges": len(merges),
        "width": width,
        "bytes": vocabulary.byte_ids.tolist(),
    }
    return meta, [plane for column in merges.T for plane in byte_planes(column, width)]


def _search(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    """Tokens, and the scores where they are the same in every subset."""
    vocabulary = tokenizer.vocabulary
    is_unigram = isinstance(vocabulary, PieceVocabulary)
    first = (
        vocabulary.first if isinstance(vocabulary, PieceVocabulary) else len(vocabulary.specials)
    )
    width = width_of(int(vocabulary.lengths.max(initial=0)))
    meta: dict[str, Any] = {
        "kind": "search",
        "first": first,
        "each": 0 if is_unigram else 1,
        "penalty": UNKNOWN_PENALTY,
        "bytes": vocabulary.byte_ids.tolist(),
        "width": width,
        "scores": 8 if is_unigram else 0,
    }
    planes = [*byte_planes(vocabulary.lengths, width), vocabulary.data.tobytes()]
    scores = tokenizer.scores
    if is_unigram:
        assert scores is not None
        planes += byte_planes(scores.astype("<f8").view(np.uint64), 8)
    elif isinstance(tokenizer, Subtokenizer):
        assert scores is not None
        likelihoods = np.maximum(scores + EACH, 0).astype(np.int64)
        meta["scores"] = 2
        planes += byte_planes(likelihoods, 2)
    return meta, planes
