"""Checks of subsets of a modular tokenizer: proper merges, reachable tokens, ids of the library."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.extras import is_installed
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Languages
from modtok_cli.base.public import public
from modtok_cli.text.languages import language_list
from modtok_cli.tokenizer.adopted.file_ids import odd_ids
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import load
from modtok_cli.tokenizer.parameters import ModularSource
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


@dataclass(frozen=True)
class SubsetCheck:
    """Result of the check of one subset.

    `improper`: ranks (of T) of merges with a part that no earlier merge of the subset makes, or
    with a token that is not in it. `unreachable`: ids (of T) of tokens that encoding their own
    bytes by the subset's merges does not give back.

    `unused`: ids (of T) of tokens that the training text of the languages never uses, known for
    fewest tokens only. They are idle rows, not errors.
    """

    languages: tuple[str, ...]
    tokens: int
    merges: int
    improper: tuple[int, ...]
    unreachable: tuple[int, ...]
    unused: tuple[int, ...] = ()

    @property
    def sound(self) -> bool:
        """Proper, and every token reached."""
        return not self.improper and not self.unreachable


@dataclass(frozen=True)
class Report:
    """Result of `check`: one entry per subset, and a line for each token of `tokenizer.json` that
    the `tokenizers` library, if it is installed, reads otherwise."""

    subsets: tuple[SubsetCheck, ...]
    odd_ids: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether every subset is sound, and the library has all ids."""
        return not self.odd_ids and all(subset.sound for subset in self.subsets)


@public
def check_subsets(
    tokenizer: ModularSource,
    subsets: Annotated[
        Iterable[Languages], Option("Sets of languages, besides all and each single one.")
    ] = (),
    *,
    samples: Annotated[int, Option("Number of random sets to check too.", low=0)] = 0,
) -> Report:
    """Check that subsets are proper, that every token is reachable, and the ids of its file.

    Returns:
        `sound`, and one entry per set in `subsets`, with the ranks of improper merges and the ids
        of unreachable tokens; `odd_ids`, a line for each token to which the `tokenizers` library
        gives another id.

    Examples:
        >>> modtok.check_subsets("tokenizer", ["en,fi"]).sound
        True

    Raises:
        UsageError: an unknown language.
        ModtokError: the directory is damaged.
    """
    modular = tokenizer if isinstance(tokenizer, ModularTokenizer) else load(tokenizer)
    known = modular.languages
    wanted = [known, *((language,) for language in known), *map(language_list, subsets)]
    random = np.random.default_rng(0)
    for _ in range(samples):
        size = int(random.integers(1, len(known) + 1))
        chosen = random.choice(len(known), size=size, replace=False)
        wanted.append(tuple(known[i] for i in sorted(chosen)))
    checks: dict[tuple[str, ...], SubsetCheck] = {}
    for languages in wanted:
        subset = modular.subset(languages)
        if subset.languages not in checks:
            checks[subset.languages] = check_single(subset, subset.global_ids, subset.merge_ranks)
    return Report(tuple(checks.values()), ids_in_library(modular.full()))


def ids_in_library(tokenizer: Subtokenizer) -> tuple[str, ...]:
    """The findings of `odd_ids` in the tokenizer's file; () without the library."""
    if not is_installed("tokenizers"):
        return ()
    return tuple(odd_ids(tokenizer.segmenter.to_json({}), tokenizer.name))


def check_single(
    tokenizer: Subtokenizer, ids: Int32Array | None = None, ranks: Int64Array | None = None
) -> SubsetCheck:
    """Check a single tokenizer, such as an extracted file; ids and ranks are its own, or those.

    A token is reached if its bytes, taken as one word, encode to that token alone; special tokens
    are not checked.
    """
    segmenter = tokenizer.segmenter
    tokens = (segmenter.unreachable_tokens(), segmenter.unused_tokens())
    merges = segmenter.improper_merges()
    unreachable, unused = tokens if ids is None else (ids[each] for each in tokens)
    return SubsetCheck(
        tokenizer.languages,
        tokenizer.size,
        len(segmenter.merges),
        tuple((merges if ranks is None else ranks[merges]).tolist()),
        tuple(unreachable.tolist()),
        tuple(unused.tolist()),
    )
