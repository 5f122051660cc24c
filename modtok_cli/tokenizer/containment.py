"""Whether a tokenizer contains another: models of the child can use the parent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from modtok_cli.tokenizer.adopted.file_ids import odd_ids, said
from modtok_cli.tokenizer.adopted.segmenter import ModularLibrary
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


@dataclass(frozen=True)
class Containment:
    """Result of a comparison of a parent tokenizer with its child.

    Attributes:
        tokens: number of leading token ids that are the same byte string in both.
        merges: number of leading merge ranks that are the same merge in both.
        scores: whether tokens have scores in place of merges.
        reason: why the child is not contained; None if it is.

    >>> str(Containment(24000, 23742))
    'all 24,000 token ids and 23,742 merges unchanged'
    """

    tokens: int
    merges: int
    reason: str | None = None
    scores: bool = False

    @property
    def holds(self) -> bool:
        """Whether the parent contains the child."""
        return self.reason is None

    def __str__(self) -> str:
        if self.reason is not None:
            return self.reason
        rules = "their scores" if self.scores else f"{self.merges:,} merges"
        return f"all {self.tokens:,} token ids and {rules} unchanged"


def containment(parent: ModularTokenizer, child: ModularTokenizer) -> Containment:
    """Compare `parent`, for example after an append, with `child`, the tokenizer before it.

    The parent contains the child if pre-tokenizer, segmentation and special tokens are equal;
    every token id, merge rank and score of the child is the same in the parent; and each
    language of the child has exactly the same tokens, merges and token counts in the parent.
    The parent may have further languages, tokens and merges after the child's. The `tokenizers`
    library must give the ids of an adopted parent.
    """
    tokens = _equal_tokens(parent, child)
    merges = _equal_rows(parent.merges, child.merges)
    reason = _difference(parent, child, tokens, merges) or _in_library(parent, child)
    return Containment(tokens, merges, reason, parent.segmenter.scores is not None)


def _difference(
    parent: ModularTokenizer, child: ModularTokenizer, tokens: int, merges: int
) -> str | None:
    """The first condition that does not hold; None if all hold."""
    if parent.signature == child.signature:
        return None
    for name, new, old in (
        ("pre-tokenizer", parent.pretokenizer.name, child.pretokenizer.name),
        ("segmentation", parent.segmentation, child.segmentation),
        ("special tokens", parent.vocabulary.specials, child.vocabulary.specials),
    ):
        if new != old:
            return f"{name} changed from {_shown(old)} to {_shown(new)}"
    removed = [language for language in child.languages if language not in parent.languages]
    if removed:
        return f"languages removed: {', '.join(removed)}"
    columns = [parent.languages.index(language) for language in child.languages]
    if columns != sorted(columns):
        return "the order of the languages changed"
    held = int(child.vocabulary.lengths.nonzero()[0].max(initial=-1)) + 1  # without filler rows
    if tokens < held:
        return f"token {tokens:,} of {held:,} is another one or missing"
    if merges < len(child.merges):
        return f"merge {merges:,} of {len(child.merges):,} is another one or missing"
    for what, wide, narrow in (
        ("tokens", parent.token_membership, child.token_membership),
        ("merges", parent.merge_membership, child.merge_membership),
    ):
        for place, column in enumerate(columns):
            if not np.array_equal(wide.ids(column), narrow.ids(place)):
                return f"'{child.languages[place]}' has other {what}"
    return parent.segmenter.difference(child.segmenter, columns, child.languages) or None


def _in_library(parent: ModularTokenizer, child: ModularTokenizer) -> str | None:
    """Tokens of a file of another program that the library has under other ids."""
    segmenter, old = parent.segmenter, child.segmenter
    if not (isinstance(segmenter, ModularLibrary) and isinstance(old, ModularLibrary)):
        return None
    file = segmenter.file
    odd = odd_ids(file.restricted(np.arange(file.size, dtype=np.int32)), file.where, old.file.ids)
    return said(found) if (found := [*odd]) else None


def _equal_tokens(parent: ModularTokenizer, child: ModularTokenizer) -> int:
    """Number of leading ids with the same byte string."""
    new, old = parent.vocabulary, child.vocabulary
    equal = _equal_rows(new.lengths, old.lengths)
    size = int(old.offsets[equal])
    same = _equal_rows(new.data[:size], old.data[:size])
    if same == size:
        return equal
    # The token of the first byte that differs.
    return int(np.searchsorted(old.offsets, same, side="right")) - 1


def _equal_rows(new: npt.NDArray[np.generic], old: npt.NDArray[np.generic]) -> int:
    """Number of leading rows that are equal; both (N,) or (N, C)."""
    size = min(len(new), len(old))
    differ = new[:size] != old[:size]
    if differ.ndim > 1:
        differ = differ.any(axis=1)
    return int(np.argmax(differ)) if differ.any() else size


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return f"'{value}'"
