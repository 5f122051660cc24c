"""Mistral's tekken: ranks in JSON, after control tokens that no text encodes to."""

import base64
from typing import Any

import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.tokenizer.encoding.external import one_line
from modtok_cli.tokenizer.formats import Format
from modtok_cli.tokenizer.formats.tiktoken import RankTokenizer


class Tekken(Format):
    """A JSON object with a pattern in its config and tokens in base64."""

    priority = -1  # before other JSON

    def recognizes(self, data: bytes) -> bool:
        """An object whose "config" is among its first fields."""
        return (
            data.lstrip()[:1] == b"{" and b'"config"' in data[:4096] and _parsed(data) is not None
        )

    def read(self, data: bytes, name: str, where: str, variant: str | None) -> RankTokenizer:
        """By the tiktoken package: ids are ranks after `default_num_special_tokens`."""
        document = _parsed(data) or {}
        config = document["config"]
        try:
            first = int(config.get("default_num_special_tokens", 0))
            size = int(config.get("default_vocab_size", first + len(document["vocab"])))
            if not 0 <= first <= size:
                raise ValueError(f"{first} control tokens in a vocabulary of {size}")
            ranks = {
                base64.b64decode(entry["token_bytes"], validate=True): int(entry["rank"])
                for entry in document["vocab"][: size - first]
            }
            pattern = str(config["pattern"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModtokError(f"tekken file: {one_line(error)}", where=where) from error
        return RankTokenizer(name, data, where, ranks=ranks, pattern=pattern, first=first)


FORMAT = Tekken()


def _parsed(data: bytes) -> dict[str, Any] | None:
    """The object; None if it is no tokenizer of this format."""
    try:
        document = orjson.loads(data)
        is_tekken = "pattern" in document["config"] and isinstance(document["vocab"], list)
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return None
    return document if is_tekken and isinstance(document["config"], dict) else None
