"""Published `tokenizer.json` files for the page: BPE of bytes or characters, and Unigram.

Adopted tokenizers keep such a file; others that the `tokenizers` library runs are read as one.
Arrays become planes of bytes, which compress better.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError
from modtok_cli.learn.pieces import UNKNOWN_PENALTY
from modtok_cli.text.pretokenizer import GEMMA, REWRITES
from modtok_cli.tokenizer.adopted.adopt import converted_file
from modtok_cli.tokenizer.adopted.restrict import BYTE_TOKENS
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.text_form import SPACE
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.encoding.external import External

_ODD = ("single_word", "lstrip", "rstrip")


Packed = tuple[dict[str, Any], list[bytes]]


def runs(file: TokenizerFile) -> bool:
    """Whether the page gives the ids of the library."""
    form, before = file.form, file.pretokenizer
    if not file.is_bpe:
        # Others change texts, or split them otherwise; or there are characters without a token.
        complete = not file.has_fallback or file.ids.keys() >= BYTE_TOKENS
        known = form.pretokenizer is GEMMA and file.document["model"].get("unk_id") is not None
        return complete and known
    ordinary = [token for token in _added(file) if not token.get("special")]
    odd = any(token.get(name) for token in ordinary for name in _ODD)
    # Where a prefix goes depends on the added tokens of the text.
    shifted = before.is_whole is not None and form.of_characters
    return form.is_native and not odd and not shifted


def whole_file(tokenizer: object) -> Library | None:
    """A tokenizer that a library runs, if the page can run it as well."""
    if not isinstance(tokenizer, External):
        return None
    try:
        file, line = converted_file(tokenizer, tokenizer.name)
        return Library(file) if runs(file) and not line else None
    except ModtokError:  # of a kind that cannot be adopted
        return None


def file_tables(segmenter: Library) -> Packed:
    """`meta` and planes of a tokenizer that the page runs."""
    return (_merges if segmenter.file.is_bpe else _pieces)(segmenter)


def _pieces(segmenter: Library) -> Packed:
    """Pieces with their scores; ids without a piece have the length 0."""
    file, local = segmenter.file, segmenter.selection.local_of_global
    model, splits = file.document["model"], file.document["pre_tokenizer"]
    special = {token["content"] for token in _added(file) if token.get("special")}
    names = [""] * len(segmenter.vocabulary)
    scores = np.full(len(names), np.inf)
    for (name, score), index in zip(model["vocab"], local.tolist(), strict=False):
        if index >= 0:
            # Spaces of a text are "▁", so no piece with a space is found, nor a special token.
            is_text = " " not in name and name not in special
            names[index] = name.replace(SPACE, " ") if is_text else ""
            scores[index] = score
    spelled = [name.encode("utf-8", "surrogatepass") for name in names]
    lengths = np.array([len(name) for name in spelled])
    meta, planes = pieces(lengths, b"".join(spelled), scores)
    meta |= {
        "splitter": None,
        "unknown": int(local[model["unk_id"]]),
        "spaced": True,
        "rewrite": "" if splits.get("prepend_scheme") == "never" else "space",
    }
    if file.has_fallback:
        bytes_ = [file.ids[f"<0x{byte:02X}>"] for byte in range(256)]
        meta["bytes"] = local[bytes_].tolist()
    return meta, planes


def pieces(
    lengths: npt.NDArray[np.int64],
    data: bytes,
    scores: npt.NDArray[np.float64] | None,
    first: int = 0,
) -> Packed:
    """`meta` and planes of a search; without scores for the fewest tokens.

    Shapes: lengths (V,), of no piece 0; data: pieces from `first` on; scores (V,).
    """
    width = width_of(int(lengths.max(initial=0)))
    meta = {
        "kind": "search",
        "first": first,
        "each": int(scores is None),
        "penalty": UNKNOWN_PENALTY,
        "width": width,
    }
    planes = [*byte_planes(lengths, width), data]
    if scores is not None:
        meta["scores"] = 8
        planes += byte_planes(scores.astype("<f8").view(np.uint64), 8)
    return meta, planes


def _merges(segmenter: Library) -> Packed:
    """Merges, the symbols they begin with, added tokens, the change of texts."""
    file, local = segmenter.file, segmenter.selection.local_of_global
    symbols, merges = file.symbols(local), segmenter.merges
    width = width_of(len(segmenter.vocabulary))
    characters = symbols.characters
    if characters is None:
        characters = np.zeros(0, dtype=np.int32)
    points = np.flatnonzero(characters >= 0)
    before = segmenter.pretokenizer.rewrite
    rewrite = next((name for name, change in REWRITES.items() if change is before), "")
    meta = {
        "kind": "merges",
        "merges": len(merges),
        "width": width,
        "ids": len(segmenter.vocabulary),
        "bytes": symbols.byte_ids.tolist(),
        "characters": len(points),
        "rewrite": rewrite,
        "spaced": len(points) > 0,
        "lacking": bool((symbols.byte_ids < 0).any()),
        "whole": [
            [word.decode("latin-1"), index] for word, index in file.whole_words(local).items()
        ],
        "added": [
            [token["content"], -1 if token.get("special") else int(local[token["id"]])]
            for token in _added(file)
            if local[token["id"]] >= 0
        ],
    }
    planes = [plane for column in merges.T for plane in byte_planes(column, width)]
    planes += byte_planes(points, 3) + byte_planes(characters[points], width)
    return meta, planes


def _added(file: TokenizerFile) -> list[dict[str, Any]]:
    return list(file.document.get("added_tokens") or ())


def width_of(largest: int) -> int:
    """Bytes of a number."""
    return max(1, (largest.bit_length() + 7) // 8)


def byte_planes(values: npt.NDArray[Any], width: int) -> list[bytes]:
    """All lowest bytes, then all second bytes, and so on."""
    return [
        (values >> values.dtype.type(8 * plane) & values.dtype.type(0xFF))
        .astype(np.uint8)
        .tobytes()
        for plane in range(width)
    ]
