r"""The pre-tokenizer `smollm`: as `gpt2`, with each digit apart. SmolLM, StarCoder, Granite code.

The pattern and the two steps in files differ in the 13 numbers of `_NEW_NUMBERS` only; the kernel
follows the files.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import NUMBER, class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

patterns = lazy_module("modtok_cli.text.pattern_kernel")
masks = lazy_module("modtok_cli.text.mask_kernel")

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]


# Numbers of the library's `Digits`, which has a newer Unicode than its regular expressions.
_NEW_NUMBERS = ((0x11DE0, 0x11DE9), (0x16FF4, 0x16FF6))


@cache
def number_table() -> Bytes:
    """`code_points.class_table` with the numbers of `Digits`; (0x110000,) uint8, read-only."""
    table = class_table().copy()
    for first, last in _NEW_NUMBERS:
        table[first : last + 1] = NUMBER
    table.setflags(write=False)
    return table


class SmolLM(PreTokenizer):
    """In files two steps: the digits, then `ByteLevel` with its own pattern."""

    def to_json(self, *, byte_level: bool) -> dict[str, Any]:
        """The two steps."""
        if not byte_level:
            return super().to_json(byte_level=False)
        level = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        }
        digits = {"type": "Digits", "individual_digits": True}
        return {"type": "Sequence", "pretokenizers": [digits, level]}

    def is_json(self, node: Any, *, byte_level: bool) -> bool:
        """Whether a file has the two steps."""
        expected = self.to_json(byte_level=byte_level)
        if not byte_level:
            return bool(node == expected)
        try:
            digits, level = node["pretokenizers"]
            return bool(
                digits == expected["pretokenizers"][0]
                and level["type"] == "ByteLevel"
                and level["add_prefix_space"] is False
                and level.get("use_regex", True) is True
            )
        except (KeyError, TypeError, ValueError):
            return False


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word that begins at `start` (start < stop).

    For the bytes of "in 2024" the ends are 2, 3, 4, 5, 6 and 7.
    """
    return patterns.gpt2_end(data, start, stop, table, True)  # type: ignore[no-any-return]


def split_block(data: Bytes, start: int, stop: int, table: Bytes, ends: Positions) -> int:
    """Ends of the words of data[start:stop], relative to `start`; gives their number."""
    return masks.gpt2_words(data, start, stop, table, ends, True)  # type: ignore[no-any-return]


PRETOKENIZER = SmolLM(
    "smollm",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+",
    word_end=word_end,
    split_block=split_block,
    table=number_table,
    llama_cpp="smollm",
)
