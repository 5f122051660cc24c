"""Token counts of a text, from its word counts if that is exact, else from its lines.

A tokenizer with the pre-tokenizer of the word counts never merges across words, so the counts are
enough. A tokenizer that splits differently or joins words (superwords) needs the text.
`Usage.basis` says which of the two was used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.candidates import Candidate
from modtok_cli.measure.references import References
from modtok_cli.measure.texts import Text
from modtok_cli.text.scripts import word_mask, word_total
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


@dataclass(frozen=True)
class Usage:
    """Tokens of a text; `occurrences` (V,) int64 counts each token, on request."""

    tokens: int
    basis: Literal["words", "text"]
    occurrences: Int64Array | None = None


def usage(tokenizer: Tokenizer, text: Text, *, occurrences: bool = False) -> Usage:
    """Encode a text and count its tokens.

    Raises:
        ModtokError: there are only word counts and the tokenizer needs the text.
    """
    counts = text.counts_for(tokenizer.pretokenizer)
    if counts is not None:
        if not occurrences:
            return Usage(int(tokenizer.token_lengths(counts) @ counts.counts), "words")
        count_tokens = getattr(tokenizer, "token_occurrences", None)
        if count_tokens is not None:
            total: Int64Array = count_tokens(counts)
            return Usage(int(total.sum()), "words", total)
    if text.documents is None:
        raise ModtokError(
            f"tokenizer {tokenizer.name} uses a pre-tokenizer without word counts",
            where=text.name,
            remedy="pass the text itself instead of its word counts",
        )
    batch = tokenizer.encode_batch([document.decode() for document in text.documents])
    if not occurrences:
        return Usage(sum(len(ids) for ids in batch), "text")
    ids = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in batch])
    return Usage(len(ids), "text", np.bincount(ids, minlength=tokenizer.size))


def one_token_words(tokenizer: Tokenizer, text: Text) -> dict[str, float | None]:
    """Return the shares of words that are one token: of all words, and of the different ones.

    Chiu 2026 (TokLens) name the share the single-token retention rate. A word is a
    pre-token of the BPE pre-tokenizer with a letter, mark or digit (`word_mask`), with its space:
    "l'eau, 3 fois" has the words "l", "eau", " 3" and " fois". It is encoded by itself, without
    its space if the tokenizer puts one before every text. One unknown token is not a word. None if
    the script has no spaces between words.
    """
    counts = text.counts
    if not word_total(counts):
        return {"one_token_words": None, "one_token_types": None}
    words = counts.where(word_mask(counts))
    if tokenizer.pretokenizer is counts.pretokenizer:
        single = tokenizer.token_lengths(words) == 1
    else:
        prefixed = list(tokenizer.encode("b a")[-1:]) == list(tokenizer.encode("a"))
        strings = (word.decode() for word, _ in words.pairs())
        batch = tokenizer.encode_batch([s.removeprefix(" " * prefixed) for s in strings])
        unknown = getattr(tokenizer, "unknown", None)
        single = np.array([len(ids) == 1 and ids[0] != unknown for ids in batch])
    of_text = float(words.counts[single].sum() / words.counts.sum())
    return {"one_token_words": of_text, "one_token_types": float(single.mean())}


def note_unspaced(texts: Sequence[Text], progress: Progress) -> None:
    """Say in one line in which languages texts have no numbers about words."""
    names = dict.fromkeys(text.language for text in texts if word_total(text.counts) is None)
    if names:
        progress.note(f"{', '.join(names)}: no spaces between words, so no numbers about words")


def fitting(
    texts: Sequence[Text], candidates: Sequence[Candidate], progress: Progress
) -> Iterator[tuple[Text, Candidate]]:
    """Yield every text with every tokenizer that fits its language."""
    pairs = [(text, each) for text in texts for each in candidates if each.fits(text.language)]
    with progress.task("measuring", total=len(pairs), unit="texts") as task:
        for pair in pairs:
            yield pair
            task.advance(1)


def ratio(a: float, b: float | None) -> float | None:
    """Return the quotient; None without a divisor."""
    return a / b if b else None


@dataclass(frozen=True)
class Basis:
    """The sizes to which the tokens of a text are related."""

    text: Text
    reference_tokens: int | None
    reference_size: int | None
    reference_signature: str
    words: int | None

    @classmethod
    def of(cls, text: Text, references: References | None) -> Basis:
        """Measure a text: its sizes, and its tokens under the reference of its language if any."""
        tokens, size, name = None, None, "none"
        if references is not None and text.language in references.languages:
            reference = references[text.language].tokenizer
            tokens, size = usage(reference, text).tokens, reference.size
            name = reference.signature
        return cls(text, tokens, size, name, word_total(text.counts))

    def relative(self, tokens: int) -> dict[str, Any]:
        """Return fields of a row: sizes of the text, and a number of tokens relative to them."""
        size = self.text.counts.size
        return {
            "documents": size.documents,
            "characters": size.characters,
            "bytes": size.bytes,
            "words": self.words,
            "tokens_per_character": ratio(tokens, size.characters),
            "tokens_per_byte": ratio(tokens, size.bytes),
            "tokens_per_word": ratio(tokens, self.words),
        }


def merge_only(tokenizer: Tokenizer, occurrences: Int64Array) -> int | None:
    """Return the number of tokens that occur only as parts of the tokens of a text.

    With merges t+h → th, th+e → the and a text of "the" only, "th" is such a token: it has a row in
    the model's matrices that is never trained. Bytes and special tokens do not count. None if the
    tokenizer has no merges, or they are unknown.
    """
    if not isinstance(tokenizer, Subtokenizer) or tokenizer.segmentation != "merges":
        return None
    merges = tokenizer.merges
    used = occurrences > 0
    needed = np.zeros(len(used), dtype=np.bool_)
    while True:
        # Several merges may build one token: repeat until nothing changes.
        parts = merges[(used | needed)[merges[:, 2]], :2].reshape(-1)
        if needed[parts].all():
            break
        needed[parts] = True
    needed[: len(tokenizer.vocabulary.specials) + 256] = False
    return int((needed & ~used).sum())


def _is_lossless(tokenizer: Tokenizer) -> bool:
    return isinstance(tokenizer, Subtokenizer) and not tokenizer.segmenter.of_file


@dataclass(frozen=True)
class RoundTrip:
    """Number of lines tested, number that changed, and the first of these."""

    lines: int
    failed: int
    first: int | None


def round_trip(tokenizer: Tokenizer, text: Text, most: int = 200) -> RoundTrip:
    """Encode and decode up to `most` lines of a text, evenly spaced.

    Tokenizers that modtok learned are lossless. Others may normalize, drop spaces, or lack the
    bytes of a rare character. `first` is a line number from 1.
    """
    if text.documents is None or _is_lossless(tokenizer):
        return RoundTrip(0, 0, None)
    chosen = range(0, len(text.documents), max(1, -(-len(text.documents) // most)))
    lines = [text.documents[i].decode() for i in chosen]
    failed = [
        number
        for number, line, ids in zip(chosen, lines, tokenizer.encode_batch(lines), strict=True)
        if tokenizer.decode(ids) != line
    ]
    return RoundTrip(len(lines), len(failed), failed[0] + 1 if failed else None)


def unknown_tokens(tokenizer: Tokenizer, used: Usage) -> int:
    """Return how many tokens of a text stand for text without a token."""
    unknown: int | None = getattr(tokenizer, "unknown", None)  # ours have none: they have bytes
    return 0 if unknown is None or used.occurrences is None else int(used.occurrences[unknown])


def tried(candidate: Candidate, text: Text, used: Usage, progress: Progress) -> RoundTrip:
    """Test a round trip, and warn of text that the tokens of a text do not stand for."""
    if count := unknown_tokens(candidate.tokenizer, used):
        progress.warn(
            f"{candidate.label} loses text of {text.name}: {count:,} of {used.tokens:,} tokens are "
            "unknown ones"
        )
    found = round_trip(candidate.tokenizer, text)
    if found.failed:
        progress.warn(
            f"{candidate.label} is not lossless on {text.name}: {found.failed} of "
            f"{found.lines} tested lines changed, the first is line {found.first}"
        )
    return found
