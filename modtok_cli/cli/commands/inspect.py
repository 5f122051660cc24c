"""`modtok inspect`: what is in a tokenizer, is it sound, how do two differ?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json, Langs, Tokenizer, split_languages, subset_spec
from modtok_cli.cli.output import Column, emit_rows, emit_story
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    from modtok_cli.modular.inspect import Difference
    from modtok_cli.modular.subtokenizer import Subtokenizer
    from modtok_cli.modular.tokenizer import ModularTokenizer

LANGUAGES = (
    Column("language", "language"),
    Column("tokens", "tokens", "int"),
    Column("own", "own", "int"),
    Column("shared", "shared", "int"),
    Column("merges", "merges", "int"),
    Column("documents", "documents", "int"),
    Column("bytes", "text", "bytes"),
)
PLAIN = (
    Column("tokenizer", "tokenizer"),
    Column("tokens", "tokens", "int"),
    Column("merges", "merges", "int"),
    Column("languages", "languages"),
    Column("signature", "signature"),
)
CHECKS = (
    Column("languages", "languages"),
    Column("tokens", "tokens", "int"),
    Column("merges", "merges", "int"),
    Column("improper", "improper", "count"),
    Column("unreachable", "unreachable", "count"),
    Column("unused", "unused", "count"),
)
TOKENS = (Column("id", "id", "int"), Column("token", "token"), Column("languages", "languages"))
RANDOM_SUBSETS = 10  # beside the whole, every language alone, and what --langs names

Other = Annotated[
    str | None,
    typer.Argument(metavar="OTHER", help="A second tokenizer: show how it differs."),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Prove that merges are proper and tokens reachable: in the whole, in every language "
        "alone, in --langs, in random subsets.",
    ),
]
Find = Annotated[
    str | None,
    typer.Option(
        "--find", metavar="PATTERN", help="The tokens that match a regular expression, and whose."
    ),
]


@command(
    "inspect",
    examples="""
    # languages and sizes of the workspace's tokenizer
    modtok inspect
    # is every subset sound?
    modtok inspect --check
    # whose are the tokens that begin with " über"?
    modtok inspect --find '^ über'
    # how do two tokenizers differ?
    modtok inspect -t tokenizer other-tokenizer
    """,
)
def inspect(
    session: Session,
    other: Other = None,
    tokenizer: Tokenizer = "tokenizer",
    langs: Langs = None,
    check: Check = False,
    find: Find = None,
    json: Json = False,
) -> None:
    """Show what is in a tokenizer and whose tokens are whose.

    For each language: its tokens, those that it alone has, those that it shares. With
    --langs, of these languages and of their union. --check ends with status 1 if anything
    is wrong.
    """
    if sum([check, find is not None, other is not None]) > 1:
        raise UsageError("--check, --find and OTHER exclude each other", remedy="give one of them")
    languages = split_languages(langs)
    from modtok_cli.modular.subtokenizer import Subtokenizer

    if other is not None:
        show_difference(open_ours(tokenizer, langs), open_ours(other, langs), json=json)
        return
    found = open_ours(tokenizer)
    if languages is not None and isinstance(found, Subtokenizer):
        raise UsageError("--langs is for modular directories", where=tokenizer)
    if check:
        show_check(found, languages, json=json)
    elif find is not None:
        show_tokens(found, find, languages, json=json)
    else:
        show_contents(found, languages, json=json)


def open_ours(spec: str, langs: str | None = None) -> ModularTokenizer | Subtokenizer:
    """A modular directory whole, or a single tokenizer of our shape.

    Raises:
        ModtokError: a tokenizer of another kind, which says nothing of merges and languages.
    """
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.open import open_tokenizer
    from modtok_cli.modular.subtokenizer import Subtokenizer
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if langs is None and is_modular(Path(spec)):
        return ModularTokenizer.load(Path(spec))
    found = open_tokenizer(subset_spec(spec, langs))
    if not isinstance(found, Subtokenizer):
        raise ModtokError(
            "not a tokenizer of ours, nothing to look into",
            where=spec,
            remedy="give a modular directory, DIR@fr,en or a byte-level BPE tokenizer.json",
        )
    return found


def _plain_row(tokenizer: Subtokenizer) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.name,
        "tokens": tokenizer.size,
        "merges": len(tokenizer.merges),
        "languages": tokenizer.languages,
        "scheme": tokenizer.scheme,
        "parent": tokenizer.parent_signature,
        "signature": tokenizer.signature,
    }


def show_contents(
    found: ModularTokenizer | Subtokenizer, languages: Sequence[str] | None, *, json: bool
) -> None:
    """A row per language, or one for a single tokenizer."""
    from modtok_cli.modular.inspect import describe
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if not isinstance(found, ModularTokenizer):
        emit_rows([_plain_row(found)], PLAIN, title="Tokenizer", json=json)
        return
    wanted = found.resolve(languages) if languages else set(found.languages)
    rows = [asdict(row) for row in describe(found) if row.language in wanted]
    union = found.subset(wanted)
    rows.append({"language": "together", "tokens": union.size, "merges": len(union.merge_ranks)})
    caption = (
        f"{found.algorithm}, segmentation {found.segmentation}, k = {found.k:,}, "
        f"pre-tokenizer {found.scheme}, "
        f"signature {found.signature}"
    )
    emit_rows(rows, LANGUAGES, title="Languages", json=json, caption=caption)


def show_check(
    found: ModularTokenizer | Subtokenizer, languages: Sequence[str] | None, *, json: bool
) -> None:
    """A row per subset looked at.

    Raises:
        ModtokError: something is wrong; said after the rows.
    """
    from modtok_cli.modular.inspect import check, check_single
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if isinstance(found, ModularTokenizer):
        report = check(found, [languages] if languages else (), samples=RANDOM_SUBSETS)
        if report.broken is not None:
            raise ModtokError(report.broken, remedy="learn it again, or fetch it again")
        rows = [asdict(subset) for subset in report.subsets]
    else:
        rows = [_plain_row(found) | asdict(check_single(found))]
    for row in rows:
        row["sound"] = not len(row["improper"]) and not len(row["unreachable"])
    sound = all(row["sound"] for row in rows)
    caption = f"{len(rows)} subsets, all sound" if sound else None
    emit_rows(rows, CHECKS, title="Proper and reachable", json=json, caption=caption)
    if not sound:
        bad = [",".join(row["languages"]) for row in rows if not row["sound"]]
        if any(len(row["improper"]) for row in rows):
            what, remedy = "are not proper", "learn it again, or fetch it again"
        else:
            what = "hold tokens that no text is cut into"
            remedy = "they cost a row each and no more; sequential BPE in one pass has none"
        raise ModtokError(
            f"{len(bad)} of {len(rows)} subsets {what}, the first is {bad[0]}", remedy=remedy
        )


def show_tokens(
    found: ModularTokenizer | Subtokenizer,
    pattern: str,
    languages: Sequence[str] | None,
    *,
    json: bool,
) -> None:
    """The tokens that match, those of `languages` only if given."""
    from modtok_cli.modular.inspect import token_owners
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if not isinstance(found, ModularTokenizer):
        raise UsageError("--find is for modular directories", where=found.name)
    wanted = found.resolve(languages) if languages else set(found.languages)
    rows = [
        {"id": owner.id, "token": _text(owner.token), "languages": owner.languages}
        for owner in token_owners(found, pattern)
        if wanted.intersection(owner.languages)
    ]
    emit_rows(rows, TOKENS, title=f"Tokens that match {pattern}", json=json)


def show_difference(
    a: ModularTokenizer | Subtokenizer, b: ModularTokenizer | Subtokenizer, *, json: bool
) -> None:
    """Findings, one a line; as JSON one object that holds every token and merge."""
    from modtok_cli.modular.inspect import diff

    difference = diff(a, b)
    emit_story(difference.lines(), _difference_row(difference), json=json)


def _difference_row(difference: Difference) -> dict[str, Any]:
    def pairs(merges: Iterable[tuple[bytes, bytes]]) -> list[list[str]]:
        return [[_text(left), _text(right)] for left, right in merges]

    def moved(change: dict[str, tuple[bytes, ...]]) -> dict[str, list[str]]:
        return {language: list(map(_text, tokens)) for language, tokens in change.items()}

    return {
        "equal": difference.empty,
        "only_a": list(map(_text, difference.only_a)),
        "only_b": list(map(_text, difference.only_b)),
        "merges_only_a": pairs(difference.merges_only_a),
        "merges_only_b": pairs(difference.merges_only_b),
        "parts_at": difference.parts_at,
        "rescored": difference.rescored,
        "languages_only_a": difference.languages_only_a,
        "languages_only_b": difference.languages_only_b,
        "segmentations": difference.segmentations,
        "joined": moved(difference.joined),
        "left": moved(difference.left),
    }


def _text(token: bytes) -> str:
    return token.decode("utf-8", "backslashreplace")
