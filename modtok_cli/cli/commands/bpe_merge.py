"""`modtok bpe-merge`: union of monolingual vocabularies, fewest-tokens segmentation."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Extended,
    Force,
    Json,
    Langs,
    NoDefaultSpecials,
    NoReferences,
    Output,
    Pretokenizer,
    Special,
    Threads,
    extension,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session, Value
from modtok_cli.text.reading import Reading

Overtrain = Annotated[
    float,
    typer.Option(
        "--overtrain",
        metavar="FACTOR",
        min=1,
        max=16,
        help="Learn FACTOR times N tokens by BPE, then prune to the N most useful.",
    ),
]
WholeCharacters = Annotated[
    bool,
    typer.Option(
        "--whole-characters",
        help="Learn only tokens of whole characters, as SentencePiece models require.",
    ),
]
Superwords = Annotated[
    int,
    typer.Option(
        "--superwords",
        metavar="N",
        min=0,
        help="Use up to N of the tokens of each language for sequences of words, as ' of the'.",
    ),
]
Append = Annotated[
    str | None,
    typer.Option(
        "--append",
        metavar="LANG,...",
        autocompletion=completion.appended,
        help="Add languages to an existing tokenizer; all its ids stay unchanged. Conflicting "
        "options are an error.",
    ),
]
Remove = Annotated[
    str | None,
    typer.Option(
        "--remove",
        metavar="LANG,...",
        help="Remove languages from an existing tokenizer, with tokens only they use.",
    ),
]


@command(
    "bpe-merge",
    resumes=True,
    examples="""
    # three languages from data/, into tokenizer/
    modtok bpe-merge --langs en,fi,fr -k 24000
    # also exportable to SentencePiece
    modtok bpe-merge --whole-characters -o whole
    modtok extract -t whole --langs fi -o fi.model
    # tokens such as " of the"
    modtok bpe-merge --superwords 200 -o superwords
    # new versions: Swedish added, French removed; other languages are unchanged
    modtok bpe-merge --append sv -t tokenizer -o tokenizer-2
    modtok bpe-merge --remove fr -t tokenizer-2 -o tokenizer-3
    """,
)
def bpe_merge(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    overtrain: Overtrain = 1.25,
    whole_characters: WholeCharacters = False,
    superwords: Superwords = 0,
    pretokenizer: Pretokenizer = "bpe",
    append: Append = None,
    remove: Remove = None,
    tokenizer: Extended = None,
    no_references: NoReferences = False,
    special: Special = None,
    no_default_specials: NoDefaultSpecials = False,
    data: Data = Path("data"),
    output: Output = Path("tokenizer"),
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a modular tokenizer with fewest-tokens segmentation.

    A vocabulary is learned for each language on its own; the tokenizer is their union. Words
    are segmented into the fewest tokens instead of by merges.

    BPE learns more than N tokens per language, which are pruned to the N whose removal would
    increase the token count most. Without merges, languages do not interfere: any subset can
    be extracted, and adding or removing a language does not change the others. Without
    --langs, all languages in data/ are used.

    With --superwords, tokens may span words, but no line end, number or double space. Text is
    then split into phrases instead of words.
    """
    languages = split_languages(langs)
    added = split_languages(append, "--append")
    removed = split_languages(remove, "--remove")
    from modtok_cli.construct.bpe_merge import bpe_merge

    def setting(name: str, value: Value) -> Value | None:
        is_new = added is None and removed is None
        return value if is_new else session.if_explicit(name, value)

    extended, place = extension(session, tokenizer, output or Path("tokenizer"))
    report = bpe_merge(
        setting("langs", languages),
        data=data,
        output=place,
        k=setting("k", k),
        overtrain=setting("overtrain", overtrain),
        whole_characters=setting("whole_characters", whole_characters),
        superwords=setting("superwords", superwords),
        pretokenizer=setting("pretokenizer", pretokenizer),
        append=added,
        remove=removed,
        tokenizer=extended,
        references=not no_references,
        specials=tuple(setting("special", special or []) or ()),
        default_specials=not setting("no_default_specials", no_default_specials),
        reading=reading,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Merged BPE, fewest tokens", json=json)
