"""Options that several commands share, each a type for parameters of public functions.

Parameters of other kinds are in `tokenizer.parameters`, `construct.parameters` and
`model.parameters`; options of one function are beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from modtok_cli.base.option import Option
from modtok_cli.base.remote import path_of

FilePath = str | os.PathLike[str]
MAX_BUDGET = 2**31 - 1  # token ids are int32


def is_path(value: object) -> bool:
    """Whether a value is text or a path; no text is no path, and not the current directory."""
    return isinstance(value, str | os.PathLike) and value != ""


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _are_codes(value: object) -> bool:
    return isinstance(value, Iterable)


def _are_paths(value: object) -> bool:
    items = [value] if is_path(value) else value
    return isinstance(items, Iterable) and all(map(is_path, items))


def _are_texts(value: object) -> bool:
    items = [value] if isinstance(value, str) else value
    return isinstance(items, list | tuple) and all(isinstance(item, str) for item in items)


PATHS = (_are_paths, "a path or a list of paths")
TEXTS = (_are_texts, "a text or a list of texts")
WORD = (_is_word, "text")
CODES = (_are_codes, "codes, a string or list")
_TEXT = (
    "Text file (.txt, .jsonl, .parquet, .csv, .arrow; may be compressed), directory, or - (stdin)."
)


def languages_option(help: str, flags: str, complete: str = "languages", **facts: Any) -> Option:
    """An option that takes languages: text with commas, or a list in Python."""
    return Option(
        help, flags=flags, kind=str, metavar="LANG,...", complete=complete, accepts=CODES, **facts
    )


Languages = str | Iterable[str]
Langs = Annotated[Languages | None, languages_option("Languages, separated by commas.", "--langs")]
Lang = Annotated[
    str | None,
    Option(
        "Language of the text; by default from its file name.",
        flags="--lang",
        metavar="LANG",
        complete="language",
        accepts=WORD,
    ),
]
Data = Annotated[
    FilePath,
    Option(
        "Directory with the text of each language, or one file with --lang-field.",
        metavar="PATH",
    ),
]
_output = partial(Option, flags="-o --output", metavar="PATH", writes=True)
Output = Annotated[FilePath | None, _output("Output directory.")]
OutputDirectory = Annotated[FilePath, _output("Output directory.")]
OutputFile = Annotated[FilePath, _output("Output file.", file=True)]
EncodedOutput = Annotated[FilePath | None, _output("Output directory of --format npy and bin.")]
ExportedOutput = Annotated[FilePath | None, _output("Output file, with --each a directory.")]
Texts = Annotated[
    FilePath | Sequence[FilePath],
    Option(
        _TEXT,
        argument=True,
        kind=list[str],
        metavar="TEXT",
        accepts=PATHS,
    ),
]
Threads = Annotated[
    int | None, Option("Number of threads; all cores by default.", metavar="N", low=1)
]
Force = Annotated[bool, Option("Overwrite an existing output.")]


def text_paths(texts: FilePath | Sequence[FilePath]) -> list[Path | str]:
    """One text or several as paths; `-` is standard input.

    Raises:
        ModtokError: an empty list.
        UsageError: a repeated `-`.
    """
    from modtok_cli.base.errors import ModtokError, UsageError

    paths = [texts] if isinstance(texts, str | os.PathLike) else list(texts)
    if not paths:
        raise ModtokError("expected at least one text, got none")
    if paths.count("-") > 1:
        raise UsageError("standard input (-) is given twice", remedy="give it once")
    return ["-" if path == "-" else path_of(path) for path in paths]


def optional_path(path: FilePath | None) -> Path | None:
    """`path` as a `Path`; None stays."""
    return None if path is None else path_of(path)
