"""A SentencePiece `.model` as a `tokenizer.json`, and back.

The `tokenizers` library reads such a file with other results: Unigram finds control and byte
pieces in text, composed characters are normalized otherwise. So the document keeps the settings of
the `.model` in `model.sentencepiece`, and modtok runs what it was made from, or a part of it, by
SentencePiece itself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.tokenizer.adopted.converted import REMEDY, merges_of
from modtok_cli.tokenizer.adopted.restrict import BYTE_TOKENS, names_of
from modtok_cli.tokenizer.adopted.text_form import FRAME, PREPEND, REPLACE, SPACE
from modtok_cli.tokenizer.segmenters.json_frame import added_tokens
from modtok_cli.tokenizer.segmenters.sentencepiece_file import (
    BPE,
    UNIGRAM,
    Kind,
    SentencePieceFile,
    framed_model,
)

_CHARSMAP = "precompiled_charsmap"


def of_sentencepiece(model: SentencePieceFile, where: str) -> dict[str, Any]:
    """A `.model` of BPE or Unigram.

    Raises:
        UsageError: a type or a setting that a `tokenizer.json` does not have.
    """
    kinds = np.array(model.kinds)
    for odd, what in (
        (model.model_type not in (UNIGRAM, BPE), "is neither BPE nor Unigram"),
        (not model.escape_spaces, f"does not write spaces as '{SPACE}'"),
        (Kind.UNUSED in model.kinds, "has unused pieces"),
    ):  # fmt: skip
        if odd:
            raise UsageError(f"the .model {what}, and cannot be adopted", where=where,
                             remedy=REMEDY)  # fmt: skip
    ids = {name: index for index, name in enumerate(model.pieces)}
    unknown = model.pieces[model.kinds.index(Kind.UNKNOWN)] if Kind.UNKNOWN in model.kinds else None
    rules: dict[str, Any]
    if model.model_type == UNIGRAM:
        rules = {"type": "Unigram", "unk_id": None if unknown is None else ids[unknown]}
        rules["vocab"] = [list(row) for row in zip(model.pieces, model.scores, strict=True)]
    else:
        order = np.lexsort((np.arange(len(kinds)), -np.array(model.scores)))
        pieces = [model.pieces[i] for i in order.tolist() if kinds[i] == Kind.NORMAL]
        own = {name: ids[name] for name in pieces}
        bytes_ = {name: i for name, i in ids.items() if kinds[i] == Kind.BYTE}
        rules = {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "vocab": ids}
        rules["merges"] = merges_of(pieces, {**own, **bytes_}, fallback=model.byte_fallback)
    rules |= {"byte_fallback": model.byte_fallback, FRAME: base64.b64encode(model.frame).decode()}
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
            {**token, "id": index, "special": bool(kinds[index] != Kind.USER_DEFINED)}
            for index in np.flatnonzero((kinds != Kind.NORMAL) & (kinds != Kind.BYTE)).tolist()
            for token in added_tokens([model.pieces[index]])
        ],
        "normalizer": _normalizer(model),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": rules,
    }


def _normalizer(model: SentencePieceFile) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    if model.charsmap:
        charsmap = base64.b64encode(model.charsmap).decode()
        steps.append({"type": "Precompiled", _CHARSMAP: charsmap})
    if model.remove_spaces:
        # "Strip" would remove tabs and line ends too.
        for spaces, content in ((r"\A +| +\z", ""), (" {2,}", " ")):
            steps.append({"type": "Replace", "pattern": {"Regex": spaces}, "content": content})
    steps += [PREPEND, REPLACE] if model.dummy_prefix else [REPLACE]
    return steps[0] if len(steps) == 1 else {"type": "Sequence", "normalizers": steps}


def model_of(document: Mapping[str, Any], where: str) -> bytes:
    """The `.model` of what `of_sentencepiece` gave, of a part of it, or of more merges.

    Ids that the document leaves out are pieces that no text has. Scores of BPE are the ranks of
    the merges: SentencePiece joins the two pieces whose whole has the highest score.
    """
    model, names = document["model"], names_of(document)
    scores = {row[0]: float(row[1]) for row in model["vocab"]} if "merges" not in model else {}
    for rank, merge in enumerate(model.get("merges") or ()):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        scores.setdefault(left + right, -float(rank))
    lowest = min(scores.values(), default=0.0)
    pieces = [names.get(index, f"<no piece {index}>") for index in range(max(names) + 1)]
    kinds = dict.fromkeys(names.values(), Kind.NORMAL)
    if model.get("byte_fallback"):
        kinds |= {name: Kind.BYTE for name in kinds if name in BYTE_TOKENS}
    for token in document.get("added_tokens") or ():
        kinds[token["content"]] = Kind.CONTROL if token.get("special") else Kind.USER_DEFINED
    unknown = model.get("unk_id")
    unknown = model.get("unk_token") if unknown is None else names[unknown]
    if unknown is not None:
        kinds[unknown] = Kind.UNKNOWN
    steps = _steps(document.get("normalizer"))
    try:
        frame = base64.b64decode(model[FRAME], validate=True)
        charsmap = b"".join(base64.b64decode(step.get(_CHARSMAP, "")) for step in steps)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ModtokError(f"field 'model.{FRAME}' is damaged", where=where) from error
    return framed_model(
        SentencePieceFile(
            pieces=tuple(pieces),
            scores=tuple(scores.get(name, lowest) for name in pieces),
            kinds=tuple(kinds.get(name, Kind.UNUSED) for name in pieces),
            charsmap=charsmap,
            frame=frame,
        ),
        where,
    )


def _steps(normalizer: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(normalizer, Mapping):
        yield normalizer
        for each in normalizer.get("normalizers") or ():
            yield from _steps(each)
