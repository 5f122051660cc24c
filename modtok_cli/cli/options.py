"""Options shared by several commands, each declared once.

A command declares `langs: Langs = None`; flags, help and type are defined here. A default of
`None` leaves the choice to the function behind the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from modtok_cli.base.errors import UsageError
from modtok_cli.cli import completion
from modtok_cli.text.languages import canonical

STDOUT = "stdout"  # mark of an output option that accepts - for standard output
TEXT_PANEL = "Reading text"  # title of the options of `Reading` in help
MAX_BUDGET = 2**31 - 1  # token ids are int32

if TYPE_CHECKING:
    from modtok_cli.cli.session import Session

ErrorHandling = Literal["strict", "replace", "skip"]

Langs = Annotated[
    str | None,
    Option(
        "--langs",
        metavar="LANG,...",
        autocompletion=completion.languages,
        help="Comma-separated languages.",
    ),
]
Lang = Annotated[
    str | None,
    Option(
        "--lang",
        metavar="LANG",
        autocompletion=completion.language,
        help="Language of the text; by default from its file name.",
    ),
]
Budget = Annotated[
    int,
    Option(
        "-k",
        "--budget",
        metavar="N",
        max=MAX_BUDGET,
        help="Vocabulary size per language, including the 256 bytes and the special tokens.",
    ),
]
Pretokenizer = Annotated[
    str,
    Option(
        "--pretokenizer",
        metavar="NAME",
        autocompletion=completion.pretokenizers,
        help="How text is split into words: bpe, gpt2, llama3, qwen2, o200k, smollm or tekken.",
    ),
]
Data = Annotated[
    Path,
    Option(
        "--data",
        metavar="PATH",
        help="Directory with the text of each language, or one file (of several: --lang-field).",
    ),
]
Output = Annotated[
    Path | None,
    Option("-o", "--output", metavar="PATH", help="Output file or directory."),
]
OutputOrStdout = Annotated[
    Path | None,
    Option("-o", "--output", metavar="PATH", help="Output file; standard output by default."),
    STDOUT,
]
Tokenizer = Annotated[
    str,
    Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Modular directory, DIR@fr,en, tokenizer.json, .model, tiktoken file, or - (stdin).",
    ),
]
Tokenizers = Annotated[
    list[str] | None,
    Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Modular directory, DIR@fr,en, tokenizer.json, .model, tiktoken file, or - (stdin). "
        "Repeatable.",
    ),
]
Errors = Annotated[
    ErrorHandling,
    Option(
        "--errors",
        rich_help_panel=TEXT_PANEL,
        help="Invalid UTF-8: fail, replace with U+FFFD, or skip the document.",
    ),
]
Field = Annotated[
    str,
    Option(
        "--field",
        metavar="NAME",
        rich_help_panel=TEXT_PANEL,
        help="Field or column of the text in JSON, Parquet, CSV and Arrow files; a.b if nested.",
    ),
]
LangField = Annotated[
    str | None,
    Option(
        "--lang-field",
        metavar="NAME",
        rich_help_panel=TEXT_PANEL,
        help="Field of each document's language, for files of several languages.",
    ),
]
READING = (("errors", Errors, "strict"), ("field", Field, "text"), ("lang_field", LangField, None))
"""The options that a command gets for a parameter of type `Reading`: name, type, default."""
Threads = Annotated[
    int | None,
    Option("--threads", metavar="N", min=1, help="Number of threads; all cores by default."),
]
Special = Annotated[
    list[str] | None,
    Option(
        "--special",
        metavar="TEXT",
        help="Special token to add to <|endoftext|> and <|pad|>. Repeatable.",
    ),
]
NoDefaultSpecials = Annotated[
    bool,
    Option(
        "--no-default-specials",
        help="Omit the special tokens <|endoftext|> and <|pad|>; pretrain needs an end of text.",
    ),
]
Extended = Annotated[
    str | None,
    Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Directory of the tokenizer to extend; the result goes to -o. Without it, that of "
        "-o is extended in place, and its old version kept beside it.",
    ),
]
NoReferences = Annotated[
    bool,
    Option(
        "--no-references",
        help="Do not learn the monolingual reference tokenizers that NSL is relative to.",
    ),
]
GlobalIds = Annotated[
    bool,
    Option(
        "--global-ids", help="Use ids of the full vocabulary instead of the subset's local ids."
    ),
]
Force = Annotated[bool, Option("--force", help="Overwrite an existing output.")]
Json = Annotated[bool, Option("--json", help="Write JSON lines to stdout, even on a terminal.")]
NoKeep = Annotated[
    bool, Option("--no-keep", help="Do not keep the rows in results/ of the workspace.")
]
Table = Annotated[bool, Option("--table", help="Write tables to stdout, even to a pipe or file.")]
Plot = Annotated[
    str | None,
    Option(
        "--plot",
        metavar="FILE",
        help="Plot the result to FILE.svg or FILE.png; - plots in the terminal.",
    ),
]
References = Annotated[
    Path | None,
    Option(
        "--references",
        metavar="DIR",
        help="Directory of monolingual reference tokenizers; by default the tokenizer's own.",
    ),
]
Texts = Annotated[
    list[str],
    Argument(
        metavar="TEXT",
        help="Text file (.txt, .jsonl, .parquet, .csv, .arrow; may be compressed), directory, or - "
        "(stdin).",
    ),
]
OptionalTexts = Annotated[
    list[str] | None,
    Argument(
        metavar="TEXT",
        help="Text file (.txt, .jsonl, .parquet, .csv, .arrow; may be compressed), directory, or - "
        "(stdin).",
    ),
]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Print only warnings and errors.")]
Verbose = Annotated[
    bool, Option("-v", "--verbose", help="Print the effective settings, run time and peak memory.")
]
Debug = Annotated[bool, Option("--debug", help="Print the traceback of an error.")]


def extension(session: Session, tokenizer: str | None, output: Path) -> tuple[Path | None, Path]:
    """Tokenizer to extend (None: the output) and output, from `-t` and `-o`.

    With `-t` and without `-o`, that tokenizer is extended in place. modtok.toml and the
    environment do not choose a tokenizer to extend.
    """
    chosen = session.if_explicit("tokenizer", tokenizer)
    if chosen is None:
        return None, output
    return Path(chosen), output if "output" in session.explicit else Path(chosen)


def split_languages(text: str | None, flag: str = "--langs") -> list[str] | None:
    """Languages of a `--langs` value (or of another `flag`) in the given order; None for None.

    >>> split_languages("en, fi")
    ['en', 'fi']

    Raises:
        UsageError: an empty entry, or a repeated language.
    """
    if text is None:
        return None
    languages = [part.strip() for part in text.split(",")]
    if not all(languages):
        raise UsageError(f"{flag} {text!r} has an empty entry", remedy=f"as in: {flag} en,fi,fr")
    seen: dict[str, str] = {}
    for language in languages:
        first = seen.setdefault(canonical(language), language)
        if languages.count(language) > 1:
            raise UsageError(f"{flag} repeats {language!r}", remedy="give each language once")
        if first != language:
            raise UsageError(
                f"{flag}: {first!r} and {language!r} are one language",
                remedy=f"both mean {canonical(language)!r}: give it once",
            )
    return languages


def subset_spec(tokenizer: str, langs: str | None) -> str:
    """The tokenizer specification equivalent to `-t TOKENIZER --langs LANGS`.

    >>> subset_spec("tokenizer", "fr,en")
    'tokenizer@fr,en'

    Raises:
        UsageError: an empty or repeated language, or languages given twice.
    """
    languages = split_languages(langs)
    if languages is None:
        return tokenizer
    if "@" in tokenizer and not Path(tokenizer).exists():
        raise UsageError(
            f"-t {tokenizer} already selects languages", remedy="omit --langs or the @ suffix"
        )
    return f"{tokenizer}@{','.join(languages)}"
