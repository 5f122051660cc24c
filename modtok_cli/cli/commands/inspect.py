"""`modtok inspect`: contents, validity and differences of tokenizers."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Languages
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_each, emit_lines, emit_rows, emit_tables, parse_columns
from modtok_cli.tokenizer.adopted.file_ids import said
from modtok_cli.tokenizer.comparison import compare, open_comparable
from modtok_cli.tokenizer.encoding.external import External
from modtok_cli.tokenizer.faults import faults, is_foreign
from modtok_cli.tokenizer.inspect import contents, inspect
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_spec, open_whole, subset_spec
from modtok_cli.tokenizer.subset_check import check_single, check_subsets, ids_in_library
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.trace import token_owners, trace

LANGUAGES = parse_columns(
    "language, k:int, tokens:int, own:int, shared:int, superwords:int, merges:int, documents:int, "
    "bytes=text:bytes"
)
PLAIN = parse_columns("tokenizer, tokens:int, merges:int, languages, signature")
EXTERNAL = parse_columns("tokenizer, format, tokens:int, signature")
CHECKS = parse_columns(
    "languages, tokens:int, merges:int, improper:count, unreachable:count, unused:count"
)
FAULTS = parse_columns("fault, count:int, examples")
TOKENS = parse_columns("id:int, token, languages")
MERGES = [
    *parse_columns(
        "word:int, rank:int, merge, learned_by=learned by, adopted_by=adopted by, pieces"
    )
]
PLAIN_MERGES = [column for column in MERGES if not column.key.endswith("_by")]
MOST_NAMED = 5  # languages that adopted a merge, in a table
MOST_IDS = 3  # of a kind of fault
RANDOM_SUBSETS = 10  # in addition to T, every single language, and --langs

Named = Annotated[
    list[str] | None,
    Option(
        "Tokenizer as in -t; a second one is compared with the first.",
        argument=True,
        metavar="TOKENIZER",
        hub="tokenizer",
        complete="tokenizers",
    ),
]
Check = Annotated[
    bool,
    Option(
        "Check all files, merges, and the reachability of tokens in the full vocabulary, each "
        "single language, --langs, and random subsets, and the ids that the tokenizers library "
        "gives. In a tokenizer of another program: unreachable tokens, missing bytes, ids without "
        "a token, ...",
    ),
]
Find = Annotated[
    str | None,
    Option(
        "List tokens that match a regular expression (. for all), with their languages.",
        metavar="PATTERN",
    ),
]
Merges = Annotated[
    str | None,
    Option(
        "Show how the words of a text are built: each merge, and the language that learned it.",
        metavar="WORDS",
    ),
]


@command(
    "inspect",
    inspect,
    examples="""
    # languages and sizes of tokenizer/
    modtok inspect
    # two of its languages, and what they share
    modtok inspect tokenizer@fr,en
    # any tokenizer: its format and size
    modtok inspect llama3.tiktoken
    # check subsets; find faults of a published tokenizer
    modtok inspect --check
    modtok inspect --check llama3.tiktoken
    # tokens that start with " über"; superwords
    modtok inspect --find '^ über'
    modtok inspect --find '[^ ] [^ ]'
    # all tokens of any tokenizer, with their ids
    modtok inspect llama3.tiktoken --find .
    # the merges that build a word in T and in the subset of Finnish
    modtok inspect --merges ' aikaisemmin'
    modtok inspect tokenizer@fi --merges ' aikaisemmin'
    # differences of two tokenizers, and whether runs of one can use the other
    modtok inspect tokenizer other-tokenizer
    """,
)
def show(
    call: Call,
    named: Named = None,
    check: Check = False,
    find: Find = None,
    merges: Merges = None,
    json: Json = False,
) -> None:
    """The exit status of --check is 1 if a check fails.

    Two tokenizers are compared: whether one contains the other, with the same ids, then one
    line per difference. A pipe gets the first line only, or with --json a row for each token,
    merge and language that differs.
    """
    langs = call.values.get("languages")
    default = str(call.value("tokenizer"))
    names = [default, *(named or [])] if "tokenizer" in call.explicit else named or [default]
    if len(names) > 2:
        raise UsageError(
            f"{len(names)} tokenizers are given", remedy="give one, or two to compare them"
        )
    tokenizer, other = names[0], names[1] if len(names) == 2 else None
    if sum([check, find is not None, merges is not None, other is not None]) > 1:
        raise UsageError(
            "--check, --find, --merges and a second tokenizer are mutually exclusive",
            remedy="give one of them",
        )
    if other is not None:
        first, second = (open_comparable(subset_spec(name, langs)) for name in names)
        comparison = compare(first, second, (tokenizer, other))
        if json:
            emit_each(comparison.rows())
        else:
            emit_lines(comparison.lines(), comparison.verdict, json=False)
        return
    if check:
        show_check(tokenizer, langs, json=json)
    elif find is not None:
        if not show_tokens(tokenizer, langs, find, json=json):
            call.say(f"no token matches {find}")
    elif merges is not None:
        show_merges(tokenizer, langs, merges, json=json)
    else:
        show_contents(tokenizer, langs, json=json)


def show_contents(spec: str, languages: Languages | None, *, json: bool) -> None:
    """One row per language, or one row for a single tokenizer."""
    whole, named = open_whole(spec, languages)
    rows = contents(whole, named)
    if not isinstance(whole, ModularTokenizer):
        kind = PLAIN if isinstance(whole, Subtokenizer) else EXTERNAL
        emit_rows(rows, kind, title="Tokenizer", json=json)
        return
    signature = f"signature {whole.signature}"
    if named is not None:
        signature = f"signature of the subset {rows[-1]['signature']}, of the whole "
        signature += whole.signature
    caption = (
        f"{whole.algorithm}, segmentation {whole.segmentation}, k = {whole.k_text}, "
        f"pre-tokenizer {whole.pretokenizer.name}, {signature}"
    )
    several = bool(whole.superwords.any())
    shown = {"superwords": several, "k": bool(whole.budgets)}
    columns = [column for column in LANGUAGES if shown.get(column.key, True)]
    emit_rows(rows, columns, title="Languages", json=json, caption=caption)


def show_check(spec: str, languages: Languages | None, *, json: bool) -> None:
    """One row per checked subset; of another program's tokenizer one per kind of fault.

    Rows of faults have the first ids, with `json` all.

    Raises:
        ModtokError: a check failed; raised after the rows are printed.
    """
    opened = open_whole(spec, languages)[0] if languages else open_spec(spec)
    if isinstance(opened, External | Subtokenizer) and is_foreign(opened):
        found = [{"tokenizer": opened.name, **row} for row in faults(opened)]
        if not json:
            found = [{**row, "ids": row["ids"][:MOST_IDS]} for row in found]
        emit_rows(found, FAULTS, title=f"Faults of {opened.name}", json=json)
        return
    whole = open_comparable(opened)
    if isinstance(whole, ModularTokenizer):
        read_references(Path(spec))  # raises if one was changed
        report = check_subsets(whole, [languages] if languages else (), samples=RANDOM_SUBSETS)
        more, subsets, odd = {}, report.subsets, report.odd_ids
    else:
        more, subsets, odd = contents(whole)[0], (check_single(whole),), ids_in_library(whole)
    rows = [more | asdict(subset) | {"sound": subset.sound} for subset in subsets]
    bad = [subset for subset in subsets if not subset.sound]
    caption = None if bad else f"{len(rows)} subsets, all valid"
    emit_rows(rows, CHECKS, title="Proper and reachable", json=json, caption=caption)
    if bad:
        if any(subset.improper for subset in bad):
            what, remedy = "are not proper", "learn or copy the tokenizer again"
        else:
            what = "have unreachable tokens"
            remedy = "each wastes an embedding row; bpe-seq with --passes 1 has none"
        first = ",".join(bad[0].languages)
        raise ModtokError(
            f"{len(bad)} of {len(rows)} subsets {what}, first: {first}", remedy=remedy
        )
    if odd:
        raise ModtokError(said(odd), where=spec, remedy="make it again from the original file")


def show_tokens(spec: str, languages: Languages | None, pattern: str, *, json: bool) -> int:
    """Show matching tokens, only of these languages or those of `DIR@fr,en`; returns how many."""
    whole, named = open_whole(spec, languages)
    rows, columns = [*token_owners(whole, pattern)], TOKENS[:-1]
    if isinstance(whole, ModularTokenizer):
        wanted, columns = whole.resolve(named or whole.languages), TOKENS
        rows = [row for row in rows if wanted.intersection(row["languages"])]
    emit_rows(rows, columns, title=f"Tokens matching {pattern}", json=json)
    return len(rows)


def show_merges(spec: str, languages: Languages | None, text: str, *, json: bool) -> None:
    """One row per step of each word; of a modular tokenizer with the languages of each merge.

    A language that adopts a merge has it from one that was learned before.
    """
    whole, named = open_whole(spec, languages)
    modular = whole if isinstance(whole, ModularTokenizer) else None
    name = subset_spec(spec, languages)
    tokenizer = modular.subset(named or modular.languages, name) if modular else whole
    if not isinstance(tokenizer, Subtokenizer):
        raise UsageError("--merges requires a tokenizer of modtok", where=spec)
    rows, shown = [], []
    for row in trace(tokenizer, text):
        if modular and "rank" in row:
            owners = np.flatnonzero(modular.merge_membership[row["rank"]])
            first, *others = (modular.languages[owner] for owner in owners)
            row |= {"learned_by": first, "adopted_by": others}
        rows.append(row)
        pieces = [piece.replace(" ", "▁") for piece in row["pieces"]]
        merge = f"{row['left']}+{row['right']}".replace(" ", "▁") if "rank" in row else None
        adopted = row.get("adopted_by", [])
        if len(adopted) > MOST_NAMED:
            adopted = f"{len(adopted)} languages"
        shown.append(row | {"merge": merge, "pieces": " ".join(pieces), "adopted_by": adopted})
    emit_tables(rows, [("Merges", shown, MERGES if modular else PLAIN_MERGES)], json=json)
