"""Checks of a `tokenizer.json` of any origin whose fields are then used without a library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.reading import check_depth


def check_document(document: Mapping[str, Any], where: str) -> None:
    """Check the types of all that ids, merges and restrictions are read from.

    The type of the model and the ids in its vocabulary are left to `restrict.vocabulary_of`.

    Raises:
        ModtokError: a field is of another type; names it.
    """
    model = document.get("model")
    if not isinstance(model, Mapping):
        raise ModtokError("field 'model' is missing", where=where)
    large = ("vocab", "merges")
    check_depth({**document, "model": {k: v for k, v in model.items() if k not in large}}, where)
    for path in _damaged(document, model):
        raise ModtokError(f"field '{path}' is damaged", where=where)


def _damaged(document: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[str]:
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if not isinstance(model.get(name), str | None):
            yield f"model.{name}"
    vocab, merges = model.get("vocab"), model.get("merges")
    if isinstance(vocab, list):
        for index, row in enumerate(vocab):
            if not (isinstance(row, list) and len(row) == 2 and isinstance(row[0], str)):
                yield f"model.vocab[{index}]"
            elif type(row[1]) not in (int, float):
                yield f"model.vocab[{index}][1]"
        unknown = model.get("unk_id")
        if unknown is not None and (type(unknown) is not int or not 0 <= unknown < len(vocab)):
            yield "model.unk_id"
    if not isinstance(merges, list | None):
        yield "model.merges"
    for rank, row in enumerate(merges or ()):
        parts = row.split(" ") if isinstance(row, str) else row
        if not (isinstance(parts, list) and len(parts) == 2 and _are_texts(parts)):
            yield f"model.merges[{rank}]"
    yield from _damaged_tokens(document.get("added_tokens"))
    yield from _damaged_processor(document.get("post_processor"), "post_processor")


def _are_texts(parts: list[Any]) -> bool:
    return isinstance(parts[0], str) and isinstance(parts[1], str)


def _damaged_tokens(tokens: Any) -> Iterator[str]:
    if not isinstance(tokens, list | None):
        yield "added_tokens"
        return
    for index, token in enumerate(tokens or ()):
        fields = token if isinstance(token, Mapping) else {}
        if not isinstance(fields.get("content"), str) or type(fields.get("id")) is not int:
            yield f"added_tokens[{index}]"


def _damaged_processor(part: Any, path: str) -> Iterator[str]:
    """Lists of ids that are none, wherever a processor has them."""
    if isinstance(part, list):
        for index, one in enumerate(part):
            yield from _damaged_processor(one, f"{path}[{index}]")
    elif isinstance(part, Mapping):
        for name, value in part.items():
            yield from _damaged_processor(value, f"{path}.{name}")
        tokens = part.get("special_tokens")
        for name, token in tokens.items() if isinstance(tokens, Mapping) else ():
            ids = token.get("ids") if isinstance(token, Mapping) else None
            if not (isinstance(ids, list) and all(type(index) is int for index in ids)):
                yield f"{path}.special_tokens.{name}.ids"
