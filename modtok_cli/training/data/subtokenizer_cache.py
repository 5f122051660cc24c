"""Subtokenizers by set of languages, cached."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.tokenizer.adopted.adopt import ADOPTED_END, END_OF_TEXT, end_among
from modtok_cli.tokenizer.adopted.segmenter import ModularLibrary
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training.data.conversation import MARK, MaskedText, pieces

# A subtokenizer takes a few MB, and up to 20 for its cache of words; sampled sets rarely repeat
# soon.
_RECENT = 16


class SubtokenizerCache:
    """The subtokenizers of one modular tokenizer.

    Attributes:
        tokenizer: T with its membership.
        size: |T|.
        end_of_text: id in T of the token between documents; every subset has it.
        specials: special token → id in T.
    """

    def __init__(self, tokenizer: ModularTokenizer, where: str = "tokenizer") -> None:
        self.tokenizer = tokenizer
        self.size = tokenizer.size
        self.end_of_text = _end_of_text(tokenizer, where)
        self.specials = _specials(tokenizer)
        self.of = lru_cache(_RECENT)(self._of)

    @staticmethod
    def load(directory: Path) -> SubtokenizerCache:
        """Read a modular directory."""
        if not is_modular(directory):
            remedy = "build one with modtok bpe-seq, or choose another with -t"
            raise missing(directory, remedy, "is not a modular tokenizer directory")
        return SubtokenizerCache(ModularTokenizer.load(directory), str(directory))

    def end_in(self, subtokenizer: Subtokenizer) -> int:
        """Id of the end of text in a subset."""
        return int(subtokenizer.segmenter.selection.local_of_global[self.end_of_text])

    def check_dropout(self) -> None:
        """Refuse dropout of a tokenizer that the `tokenizers` library runs."""
        if not self.tokenizer.full().encoder.can_drop:
            raise UsageError(
                "the tokenizer is run by the tokenizers library, without dropout",
                where="--set data.dropout",
                remedy="leave it out",
            )

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The pattern that matches a special token, the longest first, as its only group."""
        names = sorted(self.specials, key=len, reverse=True)
        return re.compile(b"(%b)" % b"|".join(re.escape(name.encode()) for name in names))

    def pieces_of(self, text: bytes) -> list[MaskedText]:
        """A document in parts: one, unless it is a conversation."""
        if text.startswith(MARK):
            return pieces(text, self.pattern)
        return [MaskedText(0, text, True, False)]

    def encode(
        self,
        subtokenizer: Subtokenizer,
        parts: Sequence[MaskedText],
        keys: Sequence[int] = (),
        dropout: float = 0.0,
    ) -> list[Int32Array]:
        """Local ids of each part; with `dropout`, what is left out follows from the key of each.

        Raises:
            ModtokError: the subtokenizer lacks a special token.
        """
        plain = [part.text for part in parts if not part.special]
        if dropout and plain:
            own = [key for key, part in zip(keys, parts, strict=True) if not part.special]
            texts = iter(subtokenizer.encoder.dropped(plain, own, dropout))
        else:
            texts = iter(subtokenizer.encode_utf8(plain, 1))
        local = subtokenizer.segmenter.selection.local_of_global
        found = []
        for part in parts:
            if not part.special:
                found.append(next(texts))
                continue
            index = int(local[self.specials[part.text.decode()]])
            if index < 0:
                raise ModtokError(
                    f"has no special token {part.text.decode()!r}, which the chat template writes",
                    where=subtokenizer.name,
                    remedy="adopt the tokenizer again, or learn it with --special",
                )
            found.append(np.array([index], dtype=np.int32))
        return found

    def _of(self, languages: tuple[str, ...] | None) -> Subtokenizer:
        """The subtokenizer of `languages`; of all if None. `of` keeps those used last."""
        return self.tokenizer.full() if languages is None else self.tokenizer.subset(languages)


def _specials(tokenizer: ModularTokenizer) -> dict[str, int]:
    segmenter = tokenizer.segmenter
    if isinstance(segmenter, ModularLibrary):
        special = segmenter.file.special
        return {name: index for name, index in segmenter.file.ids.items() if special[index]}
    return {name: index for index, name in enumerate(tokenizer.vocabulary.specials)}


def _end_of_text(tokenizer: ModularTokenizer, where: str) -> int:
    segmenter = tokenizer.segmenter
    if isinstance(segmenter, ModularLibrary):
        index = segmenter.file.ids.get(str(tokenizer.settings.get(ADOPTED_END)))
        if index is None or not tokenizer.token_membership[index].all():
            raise ModtokError(
                "has no end-of-text token in every language",
                where=where,
                remedy="adopt it again with --end-of-text TOKEN",
            )
        return index
    end = end_among(tokenizer.vocabulary.specials)
    if end is None:
        raise ModtokError(
            "has no end-of-text token",
            where=where,
            remedy=f"train the tokenizer again with --special '{END_OF_TEXT[0]}'",
        )
    return end
