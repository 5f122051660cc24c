"""The options that commands share: one object each, so that they look alike everywhere.

A command takes `langs: Langs = None`; names, letters, help and the type come from here.
`None` as default of an option means that the room behind the command decides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from modtok_cli.base.errors import UsageError

ErrorHandling = Literal["strict", "replace", "skip"]

Langs = Annotated[
    str | None,
    Option("--langs", metavar="LANG,...", help="Languages, separated by commas."),
]
Lang = Annotated[
    str | None,
    Option("--lang", metavar="LANG", help="Language of the text, where its name does not tell."),
]
Budget = Annotated[
    int,
    Option("-k", "--budget", metavar="N", min=257, help="Tokens per language, bytes included."),
]
Data = Annotated[
    Path,
    Option("--data", metavar="DIR", help="Directory with the text of each language."),
]
Output = Annotated[
    Path | None,
    Option("-o", "--output", metavar="PATH", help="Where the result goes."),
]
Tokenizer = Annotated[
    str,
    Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        help="Modular directory, DIR@fr,en, tokenizer.json, .model, tiktoken ranks, or -.",
    ),
]
Tokenizers = Annotated[
    list[str] | None,
    Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        help="Modular directory, DIR@fr,en, tokenizer.json, .model, tiktoken ranks, or -. "
        "May be given several times.",
    ),
]
Errors = Annotated[
    ErrorHandling,
    Option("--errors", help="Text that is not UTF-8: stop, put U+FFFD, or leave the line out."),
]
Threads = Annotated[
    int | None,
    Option("--threads", metavar="N", min=1, help="Threads to use; all cores by default."),
]
Special = Annotated[
    list[str] | None,
    Option(
        "--special",
        metavar="TEXT",
        help="A special token, such as <|endoftext|>. May be given several times.",
    ),
]
NoReferences = Annotated[
    bool,
    Option(
        "--no-references",
        help="Leave out the monolingual tokenizers that nsl measures against.",
    ),
]
GlobalIds = Annotated[
    bool, Option("--global-ids", help="Ids of the whole vocabulary in place of the subset's own.")
]
Force = Annotated[bool, Option("--force", help="Overwrite an output that is there already.")]
Json = Annotated[bool, Option("--json", help="JSON lines on standard output, also on a terminal.")]
Plot = Annotated[
    str | None,
    Option("--plot", metavar="FILE", help="Draw the result: FILE.svg or FILE.png; - as text."),
]
References = Annotated[
    Path | None,
    Option(
        "--references",
        metavar="DIR",
        help="Monolingual tokenizers to measure against; those of the tokenizer by default.",
    ),
]
Texts = Annotated[
    list[str],
    Argument(
        metavar="TEXT",
        help="Text: .txt, .jsonl, either with .zst or .gz, a directory, or - (standard input).",
    ),
]
OptionalTexts = Annotated[
    list[str] | None,
    Argument(
        metavar="TEXT",
        help="Text: .txt, .jsonl, either with .zst or .gz, a directory, or - (standard input).",
    ),
]
Quiet = Annotated[bool, Option("-q", "--quiet", help="No notes and no progress, only warnings.")]
Verbose = Annotated[
    bool, Option("-v", "--verbose", help="Say the settings in force, the time and the memory.")
]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]


def split_languages(text: str | None, flag: str = "--langs") -> list[str] | None:
    """Languages of a `--langs` value (or another `flag`'s) in the order given; None stays.

    >>> split_languages("en, fi")
    ['en', 'fi']

    Raises:
        UsageError: an empty entry, or a language named twice.
    """
    if text is None:
        return None
    languages = [part.strip() for part in text.split(",")]
    if not all(languages):
        raise UsageError(
            f"{flag} {text!r} has an empty entry", remedy=f"write it as {flag} en,fi,fr"
        )
    for language in languages:
        if languages.count(language) > 1:
            raise UsageError(f"{flag} names {language!r} twice", remedy="name it once")
    return languages


def subset_spec(tokenizer: str, langs: str | None) -> str:
    """The tokenizer argument that `-t TOKENIZER --langs LANGS` stands for.

    >>> subset_spec("tokenizer", "fr,en")
    'tokenizer@fr,en'

    Raises:
        UsageError: an empty or repeated language, or languages named in both places.
    """
    languages = split_languages(langs)
    if languages is None:
        return tokenizer
    if "@" in tokenizer and not Path(tokenizer).exists():
        raise UsageError(
            f"-t {tokenizer} names its languages already", remedy="leave --langs out, or @…"
        )
    return f"{tokenizer}@{','.join(languages)}"
