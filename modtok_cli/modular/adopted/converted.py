"""Files of other programs as a `tokenizer.json` with the same ids: rank files and `.model`."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.memory import no_collection
from modtok_cli.core.segment import Pairs
from modtok_cli.modular.adopted.text_form import PREPEND, REPLACE, SPACE
from modtok_cli.modular.adopted.tokenizer_file import TokenizerFile, symbols_of
from modtok_cli.modular.segmenters.json_frame import BYTE_LEVEL, added_tokens
from modtok_cli.modular.segmenters.sentencepiece_file import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    UNIGRAM,
    UNKNOWN,
    USER_DEFINED,
    SentencePieceFile,
)
from modtok_cli.modular.vocabulary import spell
from modtok_cli.text.pretokenizer import pretokenizers, split_json

_REMEDY = "adopt the tokenizer.json of the same model"
_PROBES = 1000


class Encodes(Protocol):
    """What gives ids of texts."""

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]: ...


def of_ranks(ranks: Mapping[bytes, int], pattern: str, first: int) -> dict[str, Any]:
    """Byte strings with ranks: BPE of bytes in which a word that is a token comes first.

    `first` ids before rank 0 are special tokens.
    """
    tokens = sorted(ranks, key=ranks.__getitem__)
    ids = {spell(token): first + ranks[token] for token in tokens}
    specials = [f"<SPECIAL_{index}>" for index in range(first)]
    for index, name in enumerate(("<unk>", "<s>", "</s>")[:first]):
        specials[index] = specials[index] if name in ids else name
    vocab = {name: index for index, name in enumerate(specials)}
    known = next((each for each in pretokenizers().values() if each.pattern == pattern), None)
    level = {**BYTE_LEVEL, "trim_offsets": True}
    before = {"type": "Sequence", "pretokenizers": [split_json(pattern), level]}
    return {
        "version": "1.0",
        "added_tokens": added_tokens(specials),
        "pre_tokenizer": known.to_json(byte_level=True) if known else before,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "ignore_merges": True,
            "vocab": vocab | ids,
            "merges": merges_of([*ids], ids, fallback=False),
        },
    }


def merges_of(names: Sequence[str], ids: Mapping[str, int], *, fallback: bool) -> list[list[str]]:
    """The merges of a BPE that joins two tokens if they make a third, the earliest of `names`.

    A token is built by the same merges inside a word as alone, so that of all pairs that make it
    one alone is ever next to each other: the last that its own string comes to.
    """
    rows: list[int] = []
    find = ids.get
    with no_collection():
        for name in names:
            for cut in range(1, len(name)):
                left, right = find(name[:cut]), find(name[cut:])
                if left is not None and right is not None:
                    rows += (left, right, ids[name])
    merges: Int32Array = np.array(rows, dtype=np.int32).reshape(-1, 3)
    results, last = Pairs(merges).last_merges(*symbols_of(names, ids, fallback))
    wanted = np.fromiter((ids[name] for name in names), np.int32, len(names))
    by_id = {index: name for name, index in ids.items()}
    built = merges[last[(last >= 0) & (results == wanted)], :2].tolist()
    return [[by_id[left], by_id[right]] for left, right in built]


def of_sentencepiece(model: SentencePieceFile, where: str) -> dict[str, Any]:
    """A `.model` of BPE or Unigram.

    Raises:
        UsageError: a type or a setting that a `tokenizer.json` does not have.
    """
    kinds = np.array(model.kinds)
    for odd, what in (
        (model.model_type not in (UNIGRAM, BPE), "is neither BPE nor Unigram"),
        (not model.escape_spaces, f"does not write spaces as '{SPACE}'"),
        (not np.isin(kinds, (NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE)).all(),
         "has unused pieces"),
        (model.dummy_prefix and (kinds == USER_DEFINED).any(),
         "has symbols of the user, and a space before each text"),
    ):  # fmt: skip
        if odd:
            raise UsageError(f"the .model {what}, and cannot be adopted", where=where,
                             remedy=_REMEDY)  # fmt: skip
    ids = {name: index for index, name in enumerate(model.pieces)}
    unknown = model.pieces[model.kinds.index(UNKNOWN)] if UNKNOWN in model.kinds else None
    rules: dict[str, Any]
    if model.model_type == UNIGRAM:
        rules = {"type": "Unigram", "unk_id": None if unknown is None else ids[unknown]}
        rules["vocab"] = [list(row) for row in zip(model.pieces, model.scores, strict=True)]
    else:
        order = np.lexsort((np.arange(len(kinds)), -np.array(model.scores)))
        pieces = [model.pieces[i] for i in order.tolist() if kinds[i] == NORMAL]
        own = {name: ids[name] for name in pieces}
        bytes_ = {name: i for name, i in ids.items() if kinds[i] == BYTE}
        rules = {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "vocab": ids}
        rules["merges"] = merges_of(pieces, {**own, **bytes_}, fallback=model.byte_fallback)
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        *([strip] if model.dummy_prefix or model.remove_spaces else []),
    ]
    return {
        "version": "1.0",
        "added_tokens": [
            {**token, "id": index, "special": bool(kinds[index] != USER_DEFINED)}
            for index in np.flatnonzero(np.isin(kinds, (UNKNOWN, CONTROL, USER_DEFINED))).tolist()
            for token in added_tokens([model.pieces[index]])
        ],
        "normalizer": _normalizer(model),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {**rules, "byte_fallback": model.byte_fallback},
    }


def _normalizer(model: SentencePieceFile) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    if model.charsmap:
        charsmap = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if model.remove_spaces:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    steps += [PREPEND, REPLACE] if model.dummy_prefix else [REPLACE]
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "normalizers": steps}


def check_same(ours: Encodes, owner: Encodes, file: TokenizerFile, where: str) -> str:
    """A line on texts that have other ids than in the library that owns the file; "" for none.

    The texts: one and several tokens of the file, drawn with a fixed seed.

    Raises:
        UsageError: more than one of a hundred have.
    """
    tokens = zip(file.vocabulary.tokens(), file.added.tolist(), strict=True)
    # Unigram of a `tokenizer.json` finds special tokens in a text.
    names = [token for token, is_added in tokens if token and not (is_added and not file.is_bpe)]
    texts = [text for name in names if (text := name.decode(errors="ignore")).encode() == name]
    drawn = np.random.default_rng(0).integers(0, max(len(texts), 1), 8 * _PROBES).tolist()
    probes = ["  ", "a  b\n \n c", "x\t12345 \u4e2d\u6587don't E\u0301 \U0001f600 "]
    if texts:
        probes += [times * texts[i] for i in drawn[:_PROBES] for times in (1, 3)]
        probes += ["".join(texts[i] for i in drawn[at : at + 8]) for at in range(0, len(drawn), 8)]
    pairs = zip(probes, ours.encode_batch(probes), owner.encode_batch(probes), strict=True)
    odd = [text for text, mine, theirs in pairs if mine.tolist() != theirs.tolist()]
    if not odd:
        return ""
    line = (
        f"{len(odd):,} of {len(probes):,} texts made of its tokens get other ids as a "
        f"tokenizer.json than in the library that owns the file, such as {min(odd, key=len)!r}"
    )
    if len(odd) > len(probes) / 100:
        raise UsageError(line, where=where, remedy=_REMEDY)
    return line
