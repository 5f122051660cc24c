"""Tokenizers in the compact form that segment.js reads: JSON, and byte planes of arrays."""

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError
from modtok_cli.core.text import native_pretokenizers
from modtok_cli.learn.fewest_tokens import EACH
from modtok_cli.modular.adopted.segmenter import Library, ModularLibrary
from modtok_cli.modular.formats.tiktoken import RANK_PATTERNS, RankTokenizer
from modtok_cli.modular.open import Tokenizer
from modtok_cli.modular.segmenters.fewest_tokens import FewestTokens
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.segmenters.unigram import Unigram
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.vocabulary import PieceVocabulary, Vocabulary
from modtok_cli.reports.explore.files import (
    Packed,
    byte_planes,
    file_tables,
    packed_bits,
    pieces,
    runs,
    whole_file,
    width_of,
)
from modtok_cli.text.languages import language_name
from modtok_cli.text.pretokenizer import pretokenizers

_CL100K = RANK_PATTERNS["cl100k"]
_RANK_SPLITTERS = {
    _CL100K: "llama3",  # but for white space at the end of a text
    RANK_PATTERNS["r50k"]: "gpt2",
}


def packed_tokenizer(tokenizer: Tokenizer | ModularTokenizer, name: str) -> dict[str, Any]:
    """`meta` and `data` (base64 of deflated planes) of a tokenizer.

    Raises:
        UsageError: a segmentation that the page does not have.
    """
    packed = _packed(tokenizer)
    if packed is None:
        raise UsageError(
            "the page does not run this kind of tokenizer; it runs those of modtok, BPE of bytes "
            "(GPT-2, Llama 3, Qwen) or with byte fallback (Gemma, Llama 2) and Unigram without a "
            "normalizer in a tokenizer.json, and tiktoken rank files",
            where=name,
            remedy="leave it out",
        )
    meta, planes = packed
    meta |= {"name": name, "size": tokenizer.size}
    data = base64.b64encode(zlib.compress(b"".join(planes), 9)).decode()
    return {"meta": meta, "data": data}


def _packed(tokenizer: Tokenizer | ModularTokenizer) -> Packed | None:
    """None where the core does not give its ids."""
    if isinstance(tokenizer, RankTokenizer):
        known = {each.pattern: each.name for each in pretokenizers().values()}
        splitter = (known | _RANK_SPLITTERS).get(tokenizer.pattern)
        meta, planes = _ranks(tokenizer)
    elif isinstance(tokenizer, ModularTokenizer | Subtokenizer):
        segmenter = tokenizer.segmenter
        if isinstance(segmenter, Library | ModularLibrary) and not runs(segmenter.file):
            return None
        splitter = tokenizer.pretokenizer.name.partition("+")[0]
        meta, planes = _of_modtok(tokenizer)
    else:
        whole = whole_file(tokenizer)
        if whole is None:
            return None
        splitter = whole.pretokenizer.name.partition("+")[0]
        meta, planes = file_tables(whole)
    names = [each.name.decode() for each in native_pretokenizers()]
    if splitter not in names:  # of another package
        return None
    return {"splitter": names.index(splitter), **meta}, planes


def _of_modtok(tokenizer: ModularTokenizer | Subtokenizer) -> Packed:
    if isinstance(tokenizer, Subtokenizer):
        modular, kind = None, type(tokenizer.segmenter)
    else:
        modular, kind = tokenizer, tokenizer.segmenter.kind
    if kind in (Unigram, FewestTokens):
        meta, planes = _search(tokenizer)
    elif isinstance(tokenizer.segmenter, Library):
        meta, planes = file_tables(tokenizer.segmenter)
    elif isinstance(tokenizer.segmenter, ModularLibrary):
        meta, planes = file_tables(Library(tokenizer.segmenter.file))
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
    elif kind is FewestTokens:
        meta["counts"] = []
        for counts in modular.token_counts:
            width = width_of(int(counts.max(initial=0)))
            meta["counts"].append((len(counts), width))
            planes += byte_planes(counts, width)
    planes += packed_bits(modular.token_membership)
    return meta, planes


def _ranks(tokenizer: RankTokenizer) -> Packed:
    tokens = sorted(tokenizer.ranks, key=tokenizer.ranks.__getitem__)
    lengths = np.array([len(token) for token in tokens])
    ids = np.array([tokenizer.ranks[token] for token in tokens])
    meta = {
        "kind": "ranks",
        "tokens": len(tokens),
        "first": tokenizer.first,
        "tail": tokenizer.pattern == _CL100K,
    }
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
    vocabulary, scores = tokenizer.vocabulary, tokenizer.scores
    is_unigram, first = False, len(vocabulary.specials)
    if isinstance(vocabulary, PieceVocabulary):
        is_unigram, first = True, vocabulary.first
    data = vocabulary.data[vocabulary.offsets[first] :].tobytes()
    meta, planes = pieces(vocabulary.lengths, data, scores if is_unigram else None, first)
    meta["bytes"] = vocabulary.byte_ids.tolist()
    if not is_unigram and isinstance(tokenizer, Subtokenizer):
        assert scores is not None
        meta["scores"] = 2
        planes += byte_planes(np.maximum(scores + EACH, 0).astype(np.int64), 2)
    return meta, planes
