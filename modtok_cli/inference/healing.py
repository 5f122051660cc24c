"""Prompts that end inside a superword.

In training " of the" is one token, so " of" and then " the" was hardly ever seen. A prompt that
ends in " of" would therefore rarely be continued by " the". So the last tokens of a prompt are left
out where their text is words that a superword begins with, and generation has to spell that text
first: by the tokens it had, or by a superword that goes on. Words of the prompt stay whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from modtok_cli.modular.segmenters.chunks import may_span_words
from modtok_cli.text.counter import split_words


class Healing:
    """What generation may put in place of the last tokens of a prompt.

    Args:
        tokens: all tokens of a vocabulary by id.
        first: id of the first one that is no special token.

    >>> healing = Healing([b" ", b"o", b"f", b" of", b" of the", b" often"], 0)
    >>> healing.left_out([b"one", b" of"]), healing.allowed(b" of")
    (1, [0, 3, 4])
    """

    def __init__(self, tokens: Sequence[bytes], first: int) -> None:
        self._ids = {token: index for index, token in enumerate(tokens[first:], first)}
        self._longer: dict[bytes, list[int]] = defaultdict(list)
        for token, index in self._ids.items():
            if may_span_words(token):
                for begin in list(accumulate(split_words(token)))[:-1]:
                    self._longer[begin].append(index)
        self._longest = max(map(len, self._longer), default=0)

    def left_out(self, prompt: Sequence[bytes]) -> int:
        """Number of last tokens to leave out: the most that superwords begin with."""
        found, text = 0, b""
        for number, token in enumerate(reversed(prompt), 1):
            text = token + text
            if len(text) > self._longest:
                break
            if text in self._longer:
                found = number
        return found

    def allowed(self, text: bytes) -> list[int]:
        """Ids of tokens with which a text may begin that begins with `text`, ascending."""
        parts = (self._ids.get(text[:size]) for size in range(1, len(text) + 1))
        shorter = [index for index in parts if index is not None]
        return sorted({*shorter, *self._longer.get(text, ())})
