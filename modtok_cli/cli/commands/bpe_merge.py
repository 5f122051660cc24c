"""`modtok bpe-merge`: vocabularies learned apart, united, cut into fewest tokens."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Errors,
    Force,
    Json,
    Langs,
    NoReferences,
    Output,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session, Value

Overtrain = Annotated[
    float,
    typer.Option(
        "--overtrain",
        metavar="FACTOR",
        min=1,
        max=16,
        help="Learn this many times k tokens by BPE, and keep the k that are missed most.",
    ),
]
WholeCharacters = Annotated[
    bool,
    typer.Option(
        "--whole-characters",
        help="No token cuts a character, so that SentencePiece can carry the vocabulary.",
    ),
]
Append = Annotated[
    str | None,
    typer.Option(
        "--append",
        metavar="LANG,...",
        help="Add languages to the tokenizer that is there; nothing else of it changes. Its "
        "settings hold, whatever modtok.toml says; others on the command line are refused.",
    ),
]
Remove = Annotated[
    str | None,
    typer.Option(
        "--remove",
        metavar="LANG,...",
        help="Take languages out of the tokenizer that is there, with what only they use.",
    ),
]


@command(
    "bpe-merge",
    examples="""
    # three languages from data/, into tokenizer/
    modtok bpe-merge --langs en,fi,fr -k 24000
    # one that SentencePiece can carry too
    modtok bpe-merge --whole-characters -o whole
    modtok extract -t whole --langs fi -o fi.model
    # Swedish comes, French goes; the others stay as they are
    modtok bpe-merge --append sv
    modtok bpe-merge --remove fr
    """,
)
def bpe_merge(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    overtrain: Overtrain = 1.25,
    whole_characters: WholeCharacters = False,
    append: Append = None,
    remove: Remove = None,
    no_references: NoReferences = False,
    special: Special = None,
    data: Data = Path("data"),
    output: Output = Path("tokenizer"),
    errors: Errors = "strict",
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a modular tokenizer of fewest tokens.

    Languages are learned apart and united; words are cut into the fewest tokens.

    Each language's k tokens are chosen by what it would cost to do without them. Since no
    merges are replayed, no language gets in another's way: any set of languages can be
    taken out, languages can come and go, and each stays as it was. Without --langs, every
    language in data/.
    """
    languages = split_languages(langs)
    added = split_languages(append, "--append")
    removed = split_languages(remove, "--remove")
    from modtok_cli.construct.bpe_merge import bpe_merge

    def setting(name: str, value: Value) -> Value | None:
        is_new = added is None and removed is None
        return value if is_new else session.if_told(name, value)

    report = bpe_merge(
        setting("langs", languages),
        data=data,
        output=output or Path("tokenizer"),
        k=setting("k", k),
        overtrain=setting("overtrain", overtrain),
        whole_characters=setting("whole_characters", whole_characters),
        append=added,
        remove=removed,
        references=not no_references,
        specials=tuple(setting("special", special or []) or ()),
        errors=errors,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="United BPE, least tokens", json=json)
