"""Contents of a tokenizer: the sizes of its languages, and what they share."""

from collections.abc import Iterable
from typing import Any

from modtok_cli.base.parameters import Langs
from modtok_cli.base.public import public
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer, places
from modtok_cli.tokenizer.open import open_whole
from modtok_cli.tokenizer.parameters import AnyTokenizer
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def describe(
    tokenizer: ModularTokenizer, languages: str | Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """One row per language, in training order; of `languages` only, as if there were no others.

    Tokens are `own` or `shared`, with special tokens and bytes if there are several languages, and
    `superwords` of several words. `k` is there if languages have a k of their own. Sizes and
    fingerprint are of the training text; None if unknown.
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
                **({"k": tokenizer.k_of(language)} if tokenizer.budgets else {}),
                **{name: getattr(corpus, name, None) for name in text},
            }
        )
    return rows


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
    return contents(*open_whole(tokenizer, languages))


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
