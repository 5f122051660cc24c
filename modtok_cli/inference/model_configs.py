"""Configuration files of a Hugging Face model: where they hold token ids, which tensors are tables.

One place for all that gives a model another vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

TABLE = re.compile(r"embed|wte\b|lm_head|output|vocab")
"""In the names of tensors with a row per token, if they have as many rows."""

CONFIGS = ("config.json", "generation_config.json")
TOKENIZER_CONFIG = "tokenizer_config.json"
CHAT_TEMPLATE = "chat_template.jinja"

_ID_FIELD = re.compile(r"(^|_)token_(ids?|index)$|^(begin_)?suppress_tokens$|^bad_words_ids$")


def with_ids(part: Any, change: Callable[[int], int | None], of_ids: bool = False) -> Any:
    """A copy of a configuration with every token id changed; in lists, None removes an id.

    >>> with_ids({"eos_token_id": [2, 5], "layers": 2}, {2: 0}.get)
    {'eos_token_id': [0], 'layers': 2}
    """
    if isinstance(part, Mapping):
        return {
            key: with_ids(value, change, bool(_ID_FIELD.search(key))) for key, value in part.items()
        }
    if isinstance(part, list):
        found = [with_ids(one, change, of_ids) for one in part]
        return [one for one in found if one is not None] if of_ids else found
    if of_ids and type(part) is int and part >= 0:
        return change(part)
    return part


def write_object(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object for people to read."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    file.write_bytes(orjson.dumps(content, option=option))
