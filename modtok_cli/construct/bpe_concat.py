"""`modtok bpe-concat`: naive concatenation of independently trained BPE tokenizers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.public import public
from modtok_cli.learn.concatenation import concatenate
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.vocabulary import Vocabulary


@dataclass(frozen=True)
class Concatenation:
    """A plain `tokenizer.json`, its size, and the number of its unreachable tokens."""

    data: bytes
    size: int
    unreached: int


@public
def bpe_concat(
    tokenizers: Annotated[
        Sequence[str],
        Option(
            "BPE tokenizers, in order of concatenation.",
            argument=True,
            kind=list[str],
            metavar="TOKENIZER",
            hub="tokenizer",
        ),
    ],
) -> Concatenation:
    """Concatenate BPE tokenizers naively, as a baseline.

    The first tokenizer stays, and the missing tokens and merges of each further one are
    appended. Early merges of one language then block tokens of another, which sequential
    training (bpe-seq) avoids.

    Returns:
        The `tokenizer.json` in `data`, its `size`, and the number of tokens that became
        unreachable, `unreached`.

    Examples:
        >>> report = modtok.bpe("fi,fr", k=600, output="parts")
        >>> modtok.bpe_concat(["parts/fi.json", "parts/fr.json"]).size > 600
        True

    Raises:
        UsageError: fewer than two tokenizers, or tokenizers that cannot be concatenated.
        ModtokError: one is missing or damaged.
    """
    if len(tokenizers) < 2:
        raise UsageError("expected two or more tokenizers, got 1")
    opened = [plain(spec) for spec in tokenizers]
    for spec, tokenizer in zip(tokenizers, opened, strict=True):
        own, first = tokenizer.pretokenizer, opened[0].pretokenizer
        if own is not first:
            raise UsageError(
                f"has pre-tokenizer '{own.name}', {tokenizers[0]} has '{first.name}'", where=spec
            )
    whole = concatenate([merges_of(tokenizer) for tokenizer in opened])
    vocabulary = Vocabulary(whole.specials, whole.token_data, whole.token_offsets)
    made = Merges(vocabulary, opened[0].pretokenizer, whole.merges)
    languages = dict.fromkeys(language for tokenizer in opened for language in tokenizer.languages)
    facts = {"concatenated": [tokenizer.signature for tokenizer in opened]}
    data = Subtokenizer(made, languages=[*languages]).to_json(facts)
    return Concatenation(data, made.size, len(made.unreachable_tokens()))


def plain(spec: str) -> Subtokenizer:
    """The byte-level BPE tokenizer that `spec` names.

    Raises:
        UsageError: it is of another kind.
    """
    tokenizer = open_tokenizer(spec)
    if not isinstance(tokenizer, Subtokenizer) or tokenizer.segmentation != Merges.name:
        raise UsageError(
            "is not a byte-level BPE tokenizer of modtok",
            where=spec,
            remedy="give files that 'modtok bpe' wrote",
        )
    return tokenizer


def merges_of(tokenizer: Subtokenizer) -> GlobalMerges:
    """A tokenizer's tokens and merges."""
    vocabulary = tokenizer.vocabulary
    return GlobalMerges(vocabulary.specials, vocabulary.data, vocabulary.offsets, tokenizer.merges)
