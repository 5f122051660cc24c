"""`modtok inspect`: contents, validity and differences of tokenizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json, Langs, Tokenizer, split_languages, subset_spec
from modtok_cli.cli.output import Column, emit_each, emit_lines, emit_object, emit_rows, wants_json
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    from modtok_cli.modular.inspect import Difference
    from modtok_cli.modular.protocol import Tokenizer as AnyTokenizer
    from modtok_cli.modular.subtokenizer import Subtokenizer
    from modtok_cli.modular.tokenizer import ModularTokenizer

LANGUAGES = (
    Column("language", "language"),
    Column("tokens", "tokens", "int"),
    Column("own", "own", "int"),
    Column("shared", "shared", "int"),
    Column("superwords", "superwords", "int"),
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
EXTERNAL = (
    Column("tokenizer", "tokenizer"),
    Column("format", "format"),
    Column("tokens", "tokens", "int"),
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
RANDOM_SUBSETS = 10  # in addition to T, every single language, and --langs

Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Tokenizer as in -t; with a second one, prints how that differs from the first.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Check that merges are proper and all tokens reachable: in the full vocabulary, "
        "each single language, --langs, and random subsets.",
    ),
]
Find = Annotated[
    str | None,
    typer.Option(
        "--find",
        metavar="PATTERN",
        help="List tokens that match a regular expression, with their languages.",
    ),
]


@command(
    "inspect",
    examples="""
    # languages and sizes of tokenizer/
    modtok inspect
    # any tokenizer: its format and size
    modtok inspect llama3.tiktoken
    # check subsets
    modtok inspect --check
    # tokens that start with " über"; superwords
    modtok inspect --find '^ über'
    modtok inspect --find '[^ ] [^ ]'
    # differences of two tokenizers, and whether runs of one can use the other
    modtok inspect tokenizer other-tokenizer
    """,
)
def inspect(
    session: Session,
    named: Named = None,
    tokenizer: Tokenizer = "tokenizer",
    langs: Langs = None,
    check: Check = False,
    find: Find = None,
    json: Json = False,
) -> None:
    """Show the contents of a tokenizer, check it, or compare two.

    Prints one row per language: number of tokens, tokens of this language only, and tokens
    shared with others; a tokenizer of another program has its format and size, and modtok
    check measures it. With --langs, only these languages and their union. The exit status of
    --check is 1 if a check fails.

    Two tokenizers are compared: one line (in JSON one row for each token, merge and language)
    per difference, and whether one contains the other, with the same ids.
    """
    tokenizer, other = _chosen(session.if_explicit("tokenizer", tokenizer), named, tokenizer)
    if sum([check, find is not None, other is not None]) > 1:
        raise UsageError(
            "--check, --find and a second tokenizer are mutually exclusive",
            remedy="give one of them",
        )
    languages = split_languages(langs)
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.open import open_tokenizer
    from modtok_cli.modular.subtokenizer import Subtokenizer

    if other is not None:
        show_difference(tokenizer, other, langs, json=json)
        return
    if not check and find is None and langs is None and not is_modular(Path(tokenizer)):
        opened = open_tokenizer(tokenizer)
        if not isinstance(opened, Subtokenizer):
            emit_rows([_external_row(opened)], EXTERNAL, title="Tokenizer", json=json)
            return
    found = open_inspectable(tokenizer)
    if languages is not None and isinstance(found, Subtokenizer):
        raise UsageError("--langs requires a modular directory", where=tokenizer)
    if check:
        show_check(found, languages, json=json)
    elif find is not None:
        show_tokens(found, find, languages, json=json)
    else:
        show_contents(found, languages, json=json)


def _chosen(
    explicit: str | None, named: Sequence[str] | None, default: str
) -> tuple[str, str | None]:
    """The tokenizer to show, and the one to compare it with."""
    given = [*([explicit] if explicit is not None else []), *(named or [])]
    if len(given) > 2:
        raise UsageError(
            f"{len(given)} tokenizers are given", remedy="give one, or two to compare them"
        )
    if len(given) == 2:
        return given[0], given[1]
    return (given or [default])[0], None


def open_inspectable(spec: str, langs: str | None = None) -> ModularTokenizer | Subtokenizer:
    """A modular directory, or a single tokenizer with known merges or scores.

    Raises:
        ModtokError: a tokenizer of another kind.
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
            "cannot check, search or compare this kind of tokenizer",
            where=spec,
            remedy="expected a modular directory, DIR@fr,en or a byte-level BPE tokenizer.json",
        )
    return found


def _plain_row(tokenizer: Subtokenizer) -> dict[str, Any]:
    return {
        "tokenizer": tokenizer.name,
        "tokens": tokenizer.size,
        "merges": len(tokenizer.merges),
        "languages": tokenizer.languages,
        "pretokenizer": tokenizer.pretokenizer.name,
        "parent": tokenizer.parent_signature,
        "signature": tokenizer.signature,
    }


def _external_row(tokenizer: AnyTokenizer) -> dict[str, Any]:
    """What is known of a tokenizer of another program."""
    return {
        "tokenizer": tokenizer.name,
        "format": type(tokenizer).__module__.rpartition(".")[2],
        "tokens": tokenizer.size,
        "signature": tokenizer.signature,
    }


def show_contents(
    found: ModularTokenizer | Subtokenizer, languages: Sequence[str] | None, *, json: bool
) -> None:
    """One row per language, or one row for a single tokenizer."""
    from modtok_cli.modular.inspect import describe
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if not isinstance(found, ModularTokenizer):
        emit_rows([_plain_row(found)], PLAIN, title="Tokenizer", json=json)
        return
    wanted = found.resolve(languages) if languages else set(found.languages)
    rows = [asdict(row) for row in describe(found) if row.language in wanted]
    union = found.subset(wanted)
    rows.append({"language": "union", "tokens": union.size, "merges": len(union.merge_ranks)})
    caption = (
        f"{found.algorithm}, segmentation {found.segmentation}, k = {found.k:,}, "
        f"pre-tokenizer {found.pretokenizer.name}, "
        f"signature {found.signature}"
    )
    several = bool(found.superwords.any())
    columns = [column for column in LANGUAGES if several or column.key != "superwords"]
    emit_rows(rows, columns, title="Languages", json=json, caption=caption)


def show_check(
    found: ModularTokenizer | Subtokenizer, languages: Sequence[str] | None, *, json: bool
) -> None:
    """One row per checked subset.

    Raises:
        ModtokError: a check failed; raised after the rows are printed.
    """
    from modtok_cli.modular.inspect import check, check_single
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if isinstance(found, ModularTokenizer):
        report = check(found, [languages] if languages else (), samples=RANDOM_SUBSETS)
        rows = [asdict(subset) for subset in report.subsets]
    else:
        rows = [_plain_row(found) | asdict(check_single(found))]
    for row in rows:
        row["sound"] = not len(row["improper"]) and not len(row["unreachable"])
    sound = all(row["sound"] for row in rows)
    caption = f"{len(rows)} subsets, all valid" if sound else None
    emit_rows(rows, CHECKS, title="Proper and reachable", json=json, caption=caption)
    if not sound:
        bad = [",".join(row["languages"]) for row in rows if not row["sound"]]
        if any(len(row["improper"]) for row in rows):
            what, remedy = "are not proper", "learn or copy the tokenizer again"
        else:
            what = "have unreachable tokens"
            remedy = "each wastes an embedding row; bpe-seq with --passes 1 has none"
        raise ModtokError(
            f"{len(bad)} of {len(rows)} subsets {what}, first: {bad[0]}", remedy=remedy
        )


def show_tokens(
    found: ModularTokenizer | Subtokenizer,
    pattern: str,
    languages: Sequence[str] | None,
    *,
    json: bool,
) -> None:
    """Matching tokens, optionally only those of `languages`."""
    from modtok_cli.modular.inspect import token_owners
    from modtok_cli.modular.tokenizer import ModularTokenizer

    if not isinstance(found, ModularTokenizer):
        raise UsageError("--find requires a modular directory", where=found.name)
    wanted = found.resolve(languages) if languages else set(found.languages)
    rows = [
        {"id": owner.id, "token": _text(owner.token), "languages": owner.languages}
        for owner in token_owners(found, pattern)
        if wanted.intersection(owner.languages)
    ]
    emit_rows(rows, TOKENS, title=f"Tokens matching {pattern}", json=json)


def show_difference(name_a: str, name_b: str, langs: str | None, *, json: bool) -> None:
    """One line per finding and a verdict; as JSON one row per difference, the verdict last."""
    from modtok_cli.modular.inspect import diff

    a, b = open_inspectable(name_a, langs), open_inspectable(name_b, langs)
    difference = diff(a, b)
    relation, reason = verdict(a, b, difference, (name_a, name_b))
    if wants_json(json):
        emit_each(difference_rows(difference))
        emit_object({"difference": "verdict", "relation": relation, "reason": reason})
    else:
        emit_lines([*difference.lines(), f"verdict: {reason}"], {}, json=False)


def verdict(
    a: ModularTokenizer | Subtokenizer,
    b: ModularTokenizer | Subtokenizer,
    difference: Difference,
    names: tuple[str, str],
) -> tuple[str, str]:
    """Relation of `b`, the second tokenizer, to `a`, and one sentence for people.

    The relation is "equal", "contains" (`b` contains `a`), "contained", or "different".
    """
    from modtok_cli.modular.containment import containment
    from modtok_cli.modular.tokenizer import ModularTokenizer

    first, second = names if names[0] != names[1] else ("the first", "the second")
    if difference.empty:
        return "equal", f"{first} and {second} are equal"
    if not (isinstance(a, ModularTokenizer) and isinstance(b, ModularTokenizer)):
        counts = f"{len(difference.only_a):,} tokens are only in the first"
        counts += f", {len(difference.only_b):,} only in the second"
        return "different", f"{first} and {second} differ: {counts}"
    forward = containment(b, a)
    if forward.holds:
        return "contains", f"{second} contains {first}: {forward}; runs of {first} can use it"
    backward = containment(a, b)
    if backward.holds:
        return "contained", f"{first} contains {second}: {backward}; runs of {second} can use it"
    return "different", f"{second} does not contain {first}: {forward}"


def difference_rows(difference: Difference) -> Iterator[dict[str, Any]]:
    """One row for each language, token, merge and membership that only one of both has.

    `only` is "first" or "second". Scores and the order of merges have a row each.
    """
    sides = ("first", "second")
    if difference.segmentations is not None:
        yield {
            "difference": "segmentation",
            **dict(zip(sides, difference.segmentations, strict=True)),
        }
    only_languages = (difference.languages_only_a, difference.languages_only_b)
    for side, languages in zip(sides, only_languages, strict=True):
        for language in languages:
            yield {"difference": "language", "only": side, "language": language}
    for side, tokens in zip(sides, (difference.only_a, difference.only_b), strict=True):
        for token in tokens:
            yield {"difference": "token", "only": side, "token": _text(token)}
    only_merges = (difference.merges_only_a, difference.merges_only_b)
    for side, merges in zip(sides, only_merges, strict=True):
        for parts in merges:
            yield {"difference": "merge", "only": side, "merge": list(map(_text, parts))}
    if difference.parts_at is not None:
        yield {"difference": "merges from rank", "rank": difference.parts_at}
    if difference.rescored:
        yield {"difference": "scores", "tokens": difference.rescored}
    for side, change in zip(sides, (difference.left, difference.joined), strict=True):
        for language, tokens in change.items():
            for token in tokens:
                text = _text(token)
                yield {
                    "difference": "membership",
                    "only": side,
                    "language": language,
                    "token": text,
                }


def _text(token: bytes) -> str:
    return token.decode("utf-8", "backslashreplace")
