"""Subtokenizers by set of languages, cached."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer

END_OF_TEXT = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>")
# A subtokenizer takes a few MB; sampled sets rarely repeat soon.
_KEPT = 32


class SubtokenizerCache:
    """The subtokenizers of one modular tokenizer.

    Attributes:
        tokenizer: T with its membership.
        size: |T|.
        end_of_text: id of the token between documents, the same in T and in every subset.
    """

    def __init__(self, tokenizer: ModularTokenizer, where: str = "tokenizer") -> None:
        self.tokenizer = tokenizer
        self.size = tokenizer.size
        specials = tokenizer.full().vocabulary.specials
        found = [specials.index(text) for text in END_OF_TEXT if text in specials]
        if not found:
            raise ModtokError(
                "has no end-of-text token",
                where=where,
                remedy=f"train the tokenizer again with --special '{END_OF_TEXT[0]}'",
            )
        self.end_of_text = found[0]
        self._kept: OrderedDict[tuple[str, ...] | None, Subtokenizer] = OrderedDict()

    @staticmethod
    def load(directory: Path) -> SubtokenizerCache:
        """Read a modular directory.

        Raises:
            UsageError: it is not one.
            ModtokError: it is damaged.
        """
        if not is_modular(directory):
            raise UsageError(
                "is not a modular tokenizer directory",
                where=str(directory),
                remedy="build one with modtok bpe-seq, or choose another with -t",
            )
        return SubtokenizerCache(ModularTokenizer.load(directory), str(directory))

    def of(self, languages: tuple[str, ...] | None) -> Subtokenizer:
        """The subtokenizer of `languages`; of all if None. Keeps those used last."""
        found = self._kept.get(languages)
        if found is None:
            tokenizer = self.tokenizer
            found = tokenizer.full() if languages is None else tokenizer.subset(languages)
            self._kept[languages] = found
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(languages)
        return found
