"""Read a `tokenizer.json` of our shape: byte-level BPE, one of our patterns, all 256 bytes;
or Unigram as `unigram_file` writes it, or least tokens as `least_file` does.

`misfit` says in which field a file is of another shape; such a file is the `tokenizers`
library's business. In a file of our shape, what is wrong is an error that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from operator import add, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import no_collection
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.modular.serialize import PROVENANCE
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import UNIGRAM, pretokenizer_of_json


@dataclass(frozen=True, eq=False)
class Plain:
    """What a `tokenizer.json` of our shape holds; merges (M, 3) int32 in rank order.

    Unigram and least tokens have no merges but scores (V,) float64.
    """

    vocabulary: Vocabulary
    merges: npt.NDArray[np.int32]
    scheme: str
    provenance: Mapping[str, Any]
    segmentation: str = "merges"
    scores: npt.NDArray[np.float64] | None = None


def parse_document(data: bytes, where: str) -> dict[str, Any]:
    """The JSON object of a `tokenizer.json`.

    Raises:
        ModtokError: no JSON, or not an object with a "model".
    """
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


def misfit(document: Mapping[str, Any]) -> str | None:
    """The first field in which a tokenizer is of another shape than ours; None if it fits."""
    model = document["model"]
    if model.get("type") == "Unigram" and _scheme(document.get("pre_tokenizer")) is None:
        from modtok_cli.modular.unigram_file import misfit_unigram

        return misfit_unigram(document) or _added_misfit(document)
    least = model.get("type") == "Unigram"
    if not least and model.get("type", "BPE") != "BPE":
        return "model.type"
    for name in ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            return f"model.{name}"
    for name in ("byte_fallback", "ignore_merges"):
        if model.get(name):
            return f"model.{name}"
    if document.get("normalizer") is not None:
        return "normalizer"
    if _scheme(document.get("pre_tokenizer")) is None:
        return "pre_tokenizer"
    if document.get("post_processor") is not None:
        return "post_processor"
    decoder = document.get("decoder")
    if not isinstance(decoder, dict) or decoder.get("type") != "ByteLevel":
        return "decoder"
    odd = _added_misfit(document)
    if odd is None and least:
        from modtok_cli.modular.least_file import misfit_least

        odd = misfit_least(document)
    return odd


def _added_misfit(document: Mapping[str, Any]) -> str | None:
    """What is odd about the special tokens."""
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


def _scheme(node: Any) -> str | None:
    """Name of the byte-level pre-tokenizer of a file; None if it is none of ours."""
    found = pretokenizer_of_json(node, byte_level=True)
    return found.name if found else None


def parse_plain(document: Mapping[str, Any], where: str) -> Plain:
    """Vocabulary and merges of a document without `misfit`.

    Raises:
        ModtokError: ids that are not 0 … V-1, a token that spells no bytes, a byte missing, a
            merge of unknown tokens; names `where` and the field.
    """
    model = document["model"]
    if model.get("type") == "Unigram":
        return _parse_unigram(document, where)
    ids = model.get("vocab")
    if not isinstance(ids, dict) or not ids:
        raise _broken(where, "model.vocab", "not an object of tokens and ids")
    if set(map(type, ids.values())) != {int}:
        odd = next(name for name, index in ids.items() if type(index) is not int)
        raise _broken(where, "model.vocab", f"the id of '{odd}' is no integer")
    names = list(ids)
    try:
        numbers = np.fromiter(ids.values(), dtype=np.int64, count=len(names))
    except OverflowError as error:
        raise _broken(where, "model.vocab", "an id is out of range") from error
    expected = np.arange(len(names))
    if (numbers != expected).any():
        order = np.argsort(numbers, kind="stable")
        gap = numbers[order] != expected
        if gap.any():
            raise _broken(
                where,
                "model.vocab",
                f"ids are not 0 to {len(names) - 1}: {np.argmax(gap)} is amiss",
            )
        names = [names[i] for i in order]
    added = document.get("added_tokens") or []
    specials = tuple(token["content"] for token in added)
    if tuple(names[: len(specials)]) != specials:
        raise _broken(where, "added_tokens", "special tokens are not the first of 'model.vocab'")
    vocabulary = Vocabulary.from_spellings(specials, names, where)
    if (vocabulary.byte_ids < 0).any():
        byte = int(np.argmax(vocabulary.byte_ids < 0))
        raise _broken(where, "model.vocab", f"byte 0x{byte:02x} is no token")
    merges = _parse_merges(model.get("merges"), ids, where)
    provenance = model.get(PROVENANCE)
    scheme = _scheme(document["pre_tokenizer"])
    assert scheme is not None
    return Plain(vocabulary, merges, scheme, provenance if isinstance(provenance, dict) else {})


def _parse_unigram(document: Mapping[str, Any], where: str) -> Plain:
    from modtok_cli.modular.least_file import parse_least
    from modtok_cli.modular.unigram_file import parse_unigram

    scheme = _scheme(document["pre_tokenizer"])
    parse = parse_unigram if scheme is None else parse_least
    vocabulary, scores = parse(document, where)
    provenance = document["model"].get(PROVENANCE)
    return Plain(
        vocabulary,
        np.zeros((0, 3), dtype=np.int32),
        scheme or UNIGRAM,
        provenance if isinstance(provenance, dict) else {},
        UNIGRAM if scheme is None else FEWEST_TOKENS,
        scores,
    )


def _parse_merges(rows: Any, ids: Mapping[str, int], where: str) -> npt.NDArray[np.int32]:
    if not isinstance(rows, list):
        raise _broken(where, "model.merges", "not a list")
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
    return np.column_stack([parts.reshape(-1, 2), results]).astype(np.int32)


def _odd_merge(rows: list[Any], ids: Mapping[str, int], where: str) -> ModtokError:
    """Why the merges could not be read, found the slow way."""
    for rank, row in enumerate(rows):
        field = f"model.merges[{rank}]"
        if (
            not isinstance(row, list)
            or len(row) != 2
            or not all(isinstance(part, str) for part in row)
        ):
            return _broken(where, field, "not a pair of strings")
        for name in (*row, row[0] + row[1]):
            if name not in ids:
                return _broken(where, field, f"'{name}' is not in 'model.vocab'")
    return _broken(where, "model.merges", "cannot be read")


def _broken(where: str, field: str, what: str) -> ModtokError:
    return ModtokError(f"field '{field}': {what}", where=where)
