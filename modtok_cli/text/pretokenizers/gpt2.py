r"""The pre-tokenizer `gpt2`: GPT-2, RoBERTa, GPT-NeoX, Phi 1 and 2, and many others."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

patterns = lazy_module("modtok_cli.text.pattern_kernel")
masks = lazy_module("modtok_cli.text.mask_kernel")

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]


class Gpt2(PreTokenizer):
    """The pattern that is built into the library's `ByteLevel`."""

    def to_json(self, *, byte_level: bool) -> dict[str, Any]:
        """`ByteLevel` with its own pattern, as published files have it."""
        if not byte_level:
            return super().to_json(byte_level=False)
        return {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        }

    def is_json(self, node: Any, *, byte_level: bool) -> bool:
        """With the pattern spelled out too."""
        if byte_level and isinstance(node, dict) and node.get("type") == "ByteLevel":
            return node.get("add_prefix_space") is False and node.get("use_regex", True) is True
        plain = PreTokenizer(self.name, self.pattern, word_end=word_end, table=class_table)
        return plain.is_json(node, byte_level=byte_level)


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word that begins at `start` (start < stop).

    For the bytes of "it's  so" the ends are 2, 4, 5 and 8.
    """
    return patterns.gpt2_end(data, start, stop, table, False)  # type: ignore[no-any-return]


def split_block(data: Bytes, start: int, stop: int, table: Bytes, ends: Positions) -> int:
    """Ends of the words of data[start:stop], relative to `start`; gives their number."""
    return masks.gpt2_words(data, start, stop, table, ends, False)  # type: ignore[no-any-return]


PRETOKENIZER = Gpt2(
    "gpt2",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    word_end=word_end,
    split_block=split_block,
    table=class_table,
    llama_cpp="gpt-2",
)
