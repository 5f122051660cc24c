"""The frame of a `tokenizer.json` around a model: written, and read with every check.

What the segmenters share; each writes and reads its own `model`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import add, itemgetter
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Float64Array, Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import no_collection
from modtok_cli.text.pretokenizer import PreTokenizer, pretokenizer_of_json
from modtok_cli.tokenizer.vocabulary import Vocabulary, broken

REBUILD = "restore the file from a copy, or learn the tokenizer again"

# The library refuses unknown keys at the top of the file but skips them inside "model"
# (and drops them when it saves the file).
PROVENANCE = "modtok"

_AT_A_TIME = 1 << 14  # entries as Python objects

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}
"""The decoder of byte-level tokenizers: visible characters back to bytes."""


def library_json(
    specials: Sequence[str],
    before: Mapping[str, Any],
    decoder: Mapping[str, Any],
    model: Mapping[str, Any],
) -> bytes:
    """A `tokenizer.json` around a model: `before` is its pre-tokenizer."""
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(specials),
        "normalizer": None,
        "pre_tokenizer": before,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def in_parts(size: int, part: Callable[[slice], object]) -> orjson.Fragment:
    """JSON of a long list or object, from a part of its entries at a time: as Python objects, those
    of a large T take more memory than all else that is written."""
    slices = (slice(begin, begin + _AT_A_TIME) for begin in range(0, max(size, 1), _AT_A_TIME))
    parts = [memoryview(orjson.dumps(part(some))) for some in slices]
    pieces = [parts[0][:1]]
    for one in parts:
        pieces += (one[1:-1], memoryview(b","))
    pieces[-1] = parts[0][-1:]
    return orjson.Fragment(b"".join(pieces))


def added_tokens(specials: Sequence[str]) -> list[dict[str, Any]]:
    """The entries of special tokens, which have the first ids."""
    return [
        {
            "id": index,
            "content": special,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for index, special in enumerate(specials)
    ]


def parse_document(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object of a `tokenizer.json`."""
    try:
        with no_collection():
            document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ModtokError(f"not JSON: {error.msg}", where=f"{where}:{error.lineno}") from error
    if not isinstance(document, dict):
        raise ModtokError("not a tokenizer: expected a JSON object", where=where)
    if not isinstance(document.get("model"), dict):
        raise ModtokError("not a tokenizer: field 'model' is not an object", where=where)
    return document


def ignored_settings(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings of a `tokenizer.json` that change what an encoding is, and are not applied.

    transformers stores them with `save_pretrained` after `tokenizer(text, truncation=True)`.
    """
    model = document.get("model")
    settings = []
    truncation = document.get("truncation")
    if truncation is not None:
        length = truncation.get("max_length") if isinstance(truncation, dict) else None
        settings.append(f"truncation to {length} tokens" if length is not None else "truncation")
    if document.get("padding") is not None:
        settings.append("padding")
    if isinstance(model, dict) and model.get("dropout"):
        settings.append(f"dropout {model['dropout']}")
    return tuple(settings)


def only_adds_special_tokens(processor: Any) -> bool:
    """Whether a post-processor leaves the ids of the text itself unchanged.

    Texts are encoded without the special tokens that a template adds, so such a file has the
    same ids as one without a post-processor. Slices have one: the end of text before every text.
    """
    if processor is None:
        return True
    if not isinstance(processor, dict):
        return False
    kind = processor.get("type")
    if kind == "Sequence":
        parts = processor.get("processors")
        return isinstance(parts, list) and all(map(only_adds_special_tokens, parts))
    if kind == "TemplateProcessing":
        single = processor.get("single")
        parts = single if isinstance(single, list) else []
        texts = [part.get("Sequence") for part in parts if isinstance(part, dict)]
        return [text.get("id") for text in texts if isinstance(text, dict)] == ["A"]
    return kind == "ByteLevel"  # changes offsets only


def byte_level_misfit(document: Mapping[str, Any]) -> str | None:
    """The first field of the frame that is not as for a byte-level model of ours."""
    if document.get("normalizer") is not None:
        return "normalizer"
    if pretokenizer_of_json(document.get("pre_tokenizer"), byte_level=True) is None:
        return "pre_tokenizer"
    if not only_adds_special_tokens(document.get("post_processor")):
        return "post_processor"
    decoder = document.get("decoder")
    if not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
        return "decoder"
    return added_misfit(document)


def added_misfit(document: Mapping[str, Any]) -> str | None:
    """The first field of the special tokens that is not as we write it."""
    added = document.get("added_tokens")
    if not isinstance(added, list):
        return "added_tokens"
    for index, token in enumerate(added):
        if not isinstance(token, dict) or token.get("id") != index:
            return f"added_tokens[{index}].id"
        if not isinstance(token.get("content"), str) or not token["content"]:
            return f"added_tokens[{index}].content"
        if token.get("special") is not True:
            return f"added_tokens[{index}].special"
        for name in ("single_word", "lstrip", "rstrip", "normalized"):
            if token.get(name):
                return f"added_tokens[{index}].{name}"
    return None


def byte_level_pretokenizer(document: Mapping[str, Any]) -> PreTokenizer:
    """The pre-tokenizer of a document without `byte_level_misfit`."""
    pretokenizer = pretokenizer_of_json(document["pre_tokenizer"], byte_level=True)
    assert pretokenizer is not None
    return pretokenizer


def read_vocabulary(
    document: Mapping[str, Any], where: str
) -> tuple[Vocabulary, Mapping[str, int]]:
    """The vocabulary of a byte-level BPE, and its object of spellings and ids."""
    ids = document["model"].get("vocab")
    if not isinstance(ids, dict) or not ids:
        raise broken(where, "model.vocab", "not an object of tokens and ids")
    if set(map(type, ids.values())) != {int}:
        odd = next(name for name, index in ids.items() if type(index) is not int)
        raise broken(where, "model.vocab", f"the id of '{odd}' is not an integer")
    names = list(ids)
    try:
        numbers = np.fromiter(ids.values(), dtype=np.int64, count=len(names))
    except OverflowError as error:
        raise broken(where, "model.vocab", "an id is out of range") from error
    expected = np.arange(len(names))
    if (numbers != expected).any():
        order = np.argsort(numbers, kind="stable")
        gap = numbers[order] != expected
        if gap.any():
            what = f"ids are not 0 to {len(names) - 1}: {np.argmax(gap)} is missing"
            raise broken(where, "model.vocab", what)
        names = [names[i] for i in order]
    # Keys of an object differ.
    return all_bytes(_specials(document, names, where), names, where), ids


def _specials(document: Mapping[str, Any], names: Sequence[str], where: str) -> tuple[str, ...]:
    """The special tokens of a document, which come first among its tokens."""
    specials = tuple(token["content"] for token in document.get("added_tokens") or ())
    if tuple(names[: len(specials)]) != specials:
        what = "special tokens are not the first of 'model.vocab'"
        raise broken(where, "added_tokens", what)
    return specials


def all_bytes(specials: Sequence[str], names: Sequence[str], where: str) -> Vocabulary:
    """The vocabulary of spellings that differ, each byte among them."""
    vocabulary = replace(Vocabulary.from_spellings(specials, names, where), distinct=True)
    if (vocabulary.byte_ids < 0).any():
        byte = int(np.argmax(vocabulary.byte_ids < 0))
        raise broken(where, "model.vocab", f"byte 0x{byte:02x} is not a token")
    return vocabulary


def read_merges(rows: Any, ids: Mapping[str, int], where: str) -> Int32Array:
    """Merges (M, 3) int32 in rank order: left, right, result."""
    if not isinstance(rows, list):
        raise broken(where, "model.merges", "not a list")
    # Library versions before 0.20 join the two parts by a space, which no spelling holds.
    if rows and isinstance(rows[0], str):
        rows = [row.split(" ") if isinstance(row, str) else row for row in rows]
    try:
        with no_collection():
            if any(map((2).__ne__, map(len, rows))):
                raise ValueError
            left, right = map(itemgetter(0), rows), map(itemgetter(1), rows)
            parts = np.fromiter(
                map(ids.__getitem__, chain.from_iterable(rows)), np.int32, 2 * len(rows)
            )
            results = np.fromiter(map(ids.__getitem__, map(add, left, right)), np.int32, len(rows))
    except (KeyError, TypeError, ValueError) as error:
        raise _odd_merge(rows, ids, where) from error
    merges = np.column_stack([parts.reshape(-1, 2), results]).astype(np.int32)
    check_distinct(merges, rows, where)
    return merges


def check_distinct(merges: Int32Array, rows: Sequence[Any], where: str) -> None:
    """Refuse (M, 3) merges, `rows` of the file, of which one joins the same tokens as another."""
    # A token that only one merge makes needs no comparison; nearly all are such.
    several = np.bincount(merges[:, 2], minlength=1)[merges[:, 2]] > 1
    first: dict[tuple[int, int], int] = {}
    for rank in np.flatnonzero(several).tolist():
        left, right, _ = merges[rank].tolist()
        before = first.setdefault((left, right), rank)
        if before != rank:
            raise ModtokError(
                f"field 'model.merges[{rank}]': {rows[rank]!r} is the same as "
                f"'model.merges[{before}]'",
                where=where,
                remedy="delete the first of the two: the tokenizers library applies the last",
            )


def scored_rows(
    document: Mapping[str, Any], where: str
) -> tuple[tuple[str, ...], list[str], Float64Array]:
    """Special tokens, names and scores (V,) of a file of type Unigram."""
    rows = document["model"].get("vocab")
    if not isinstance(rows, list) or not rows:
        raise broken(where, "model.vocab", "not a list")
    for index, row in enumerate(rows):
        if (
            not isinstance(row, list)
            or len(row) != 2
            or not isinstance(row[0], str)
            or type(row[1]) not in (int, float)
        ):
            raise broken(where, f"model.vocab[{index}]", "not a token and its score")
    names = [row[0] for row in rows]
    scores = np.array([row[1] for row in rows], dtype=np.float64)
    return _specials(document, names, where), names, scores


def _odd_merge(rows: list[Any], ids: Mapping[str, int], where: str) -> ModtokError:
    """Why the merges could not be read, found the slow way."""
    for rank, row in enumerate(rows):
        field = f"model.merges[{rank}]"
        if (
            not isinstance(row, list)
            or len(row) != 2
            or not all(isinstance(part, str) for part in row)
        ):
            return broken(where, field, "not a pair of strings")
        for name in (*row, row[0] + row[1]):
            if name not in ids:
                return broken(where, field, f"'{name}' is not in 'model.vocab'")
    return broken(where, "model.merges", "cannot be read")
