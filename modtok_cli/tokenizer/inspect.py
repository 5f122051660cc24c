"""Contents of a tokenizer: sizes of its languages, whose a token is, and checks of subsets."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import is_installed
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Langs, Languages
from modtok_cli.base.public import public
from modtok_cli.text.languages import language_list
from modtok_cli.tokenizer.adopted.file_ids import odd_ids
from modtok_cli.tokenizer.comparison import text_of
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer, places
from modtok_cli.tokenizer.open import codes_of, load, open_tokenizer, split_spec
from modtok_cli.tokenizer.parameters import AnyTokenizer, ModularSource
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def describe(
    tokenizer: ModularTokenizer, languages: str | Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """One row per language, in training order; of `languages` only, as if there were no others.

    Tokens are `own` or `shared`, with special tokens and bytes if there are several languages, and
    `superwords` of several words. Sizes and fingerprint are of the training text; None
    if unknown.
    """
    columns = places(tokenizer.languages, tokenizer.languages if languages is None else languages)
    alone = tokenizer.token_membership.select(columns).owners() == 1
    rows = []
    for column, language in ((column, tokenizer.languages[column]) for column in columns):
        mask = tokenizer.token_membership[:, column]
        tokens, own = int(mask.sum()), int((mask & alone).sum())
        corpus = tokenizer.corpora.get(language)
        text = ("documents", "characters", "bytes", "fingerprint")
        rows.append(
            {
                "language": language,
                "tokens": tokens,
                "own": own,
                "shared": tokens - own,
                "superwords": int((mask & tokenizer.superwords).sum()),
                "merges": int(tokenizer.merge_membership[:, column].sum()),
                **{name: getattr(corpus, name, None) for name in text},
            }
        )
    return rows


def open_whole(spec: str) -> tuple[ModularTokenizer | Tokenizer, list[str] | None]:
    """The modular tokenizer of `DIR` or `DIR@fr,en`, with its languages; else of a file."""
    directory, tail = split_spec(spec)
    if is_modular(Path(directory)):
        languages = None if tail is None else codes_of(spec, tail)
        return ModularTokenizer.load(Path(directory)), languages
    return open_tokenizer(spec), None


@public
def inspect(tokenizer: AnyTokenizer = "tokenizer", languages: Langs = None) -> list[dict[str, Any]]:
    """Show the contents of a tokenizer, check it, or compare two.

    Prints one row per language: number of tokens, tokens of this language only, and tokens
    shared with others; of a tokenizer of another program, format and size (modtok check
    measures it). With `languages` or DIR@fr,en, prints these languages, their union, and the
    tokens that they share.

    Returns:
        One row per language: `tokens`, `own` and `shared` among the shown languages,
        `superwords`, `merges`, and the size of the training text. The last row is the
        "union" of the languages. A tokenizer without languages has one row.

    Examples:
        >>> rows = modtok.inspect("tokenizer@en,fi")
        >>> [row["language"] for row in rows]
        ['en', 'fi', 'union']
        >>> rows[0]["own"] + rows[0]["shared"] == rows[0]["tokens"]
        True

    Raises:
        UsageError: an unknown language, or languages of a tokenizer that has none.
        ModtokError: the file or directory is damaged.
    """
    named: list[str] | None = None
    whole: ModularTokenizer | Tokenizer
    if isinstance(tokenizer, str | os.PathLike):
        whole, named = open_whole(str(tokenizer))
    else:
        whole = tokenizer
    if languages is not None and (named or not isinstance(whole, ModularTokenizer)):
        where = getattr(whole, "name", str(tokenizer))
        what = f"already selects {','.join(named)}" if named else "is no modular tokenizer"
        raise UsageError(what, where=where, remedy="omit languages")
    return contents(whole, named if languages is None else languages)


def contents(
    tokenizer: ModularTokenizer | Tokenizer, languages: str | Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Rows of a modular tokenizer by language, the union of them last; else one row.

    `languages` restricts the rows, and what counts as own or shared.
    """
    if isinstance(tokenizer, ModularTokenizer):
        rows = describe(tokenizer, languages)
        union = tokenizer.subset([row["language"] for row in rows])
        return [
            *rows,
            {
                "language": "union",
                "tokens": union.size,
                "signature": union.signature,
                "merges": len(union.merge_ranks),
                "languages": union.languages,
            },
        ]
    row: dict[str, Any] = {"tokenizer": tokenizer.name, "tokens": tokenizer.size}
    if isinstance(tokenizer, Subtokenizer):
        row |= {
            "merges": len(tokenizer.merges),
            "languages": tokenizer.languages,
            "pretokenizer": tokenizer.pretokenizer.name,
            "parent": tokenizer.parent_signature,
        }
    else:
        row["format"] = type(tokenizer).__module__.rpartition(".")[2]
    return [{**row, "signature": tokenizer.signature}]


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


def token_owners(tokenizer: ModularTokenizer, pattern: str) -> Iterator[dict[str, Any]]:
    """Tokens that match a regular expression, by id: rows with `id`, `token` and `languages`.

    `token_owners(t, "^ the")` gives " the", " they", … with their languages. Invalid UTF-8 is
    matched as U+FFFD.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"'{pattern}' is not a regular expression: {error}") from error
    for index, token in enumerate(tokenizer.vocabulary.tokens()):
        if expression.search(token.decode("utf-8", "replace")):
            members = np.flatnonzero(tokenizer.token_membership[index])
            languages = tuple(tokenizer.languages[i] for i in members)
            yield {"id": index, "token": text_of(token), "languages": languages}
