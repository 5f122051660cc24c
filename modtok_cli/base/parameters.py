"""Options that several commands share, each a type for parameters of public functions.

Options of one package are beside its functions. Types of other packages are named as text: this
module imports none of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from modtok_cli.base.option import Option
from modtok_cli.base.remote import path_of

if TYPE_CHECKING:
    from modtok_cli.modular.open import Tokenizer
    from modtok_cli.modular.tokenizer import ModularTokenizer

FilePath = str | os.PathLike[str]
MAX_BUDGET = 2**31 - 1  # token ids are int32


def is_path(value: object) -> bool:
    """Whether a value is text or a path."""
    return isinstance(value, str | os.PathLike)


def is_tokenizer(value: object) -> bool:
    """Whether a value is a path or has a tokenizer's methods.

    `isinstance` would compute properties of a Protocol.
    """
    kind = type(value)
    return is_path(value) or hasattr(kind, "encode_batch") or hasattr(kind, "subset")


def _are_tokenizers(value: object) -> bool:
    items = value if isinstance(value, list | tuple) else [value]
    return bool(items) and all(map(is_tokenizer, items))


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
CODES = (_are_codes, "codes, a string or list")
_TEXT = (
    "Text file (.txt, .jsonl, .parquet, .csv, .arrow; may be compressed), directory, or - (stdin)."
)
_TOKENIZER = "Modular directory, DIR@fr,en, tokenizer.json, .model, tiktoken file, or - (stdin)."


def languages_option(help: str, flags: str, complete: str = "languages", **facts: Any) -> Option:
    """An option that takes languages: text with commas, or a list in Python."""
    return Option(
        help, flags=flags, kind=str, metavar="LANG,...", complete=complete, accepts=CODES, **facts
    )


Languages = str | Iterable[str]
Langs = Annotated[Languages | None, languages_option("Comma-separated languages.", "--langs")]
Lang = Annotated[
    str | None,
    Option(
        "Language of the text; by default from its file name.",
        flags="--lang",
        metavar="LANG",
        complete="language",
    ),
]
Budget = Annotated[
    int | None,
    Option(
        "Vocabulary size per language, including the 256 bytes and the special tokens.",
        flags="-k --budget",
        key="k",
        metavar="N",
        default=24000,
        high=MAX_BUDGET,
    ),
]
Data = Annotated[
    FilePath,
    Option(
        "Directory with the text of each language, or one file with --lang-field.",
        metavar="PATH",
    ),
]
Output = Annotated[
    FilePath | None,
    Option("Output file or directory.", flags="-o --output", metavar="PATH", writes=True),
]
OutputFile = Annotated[FilePath, get_args(Output)[1]]
ModularOutput = Annotated[
    FilePath | None,
    Option(
        "Output file or directory.",
        flags="-o --output",
        metavar="PATH",
        default="tokenizer",
        writes=True,
    ),
]
AnyTokenizer = Annotated[
    "FilePath | Tokenizer | ModularTokenizer",
    Option(
        _TOKENIZER,
        flags="-t --tokenizer",
        kind=str,
        metavar="TOKENIZER",
        complete="tokenizers",
        accepts=(is_tokenizer, "a path or a tokenizer"),
    ),
]
AnyTokenizers = Annotated[
    "FilePath | Tokenizer | ModularTokenizer | Sequence[FilePath | Tokenizer | ModularTokenizer]",
    Option(
        f"{_TOKENIZER} Repeatable.",
        flags="-t --tokenizer",
        kind=list[str],
        metavar="TOKENIZER",
        complete="tokenizers",
        accepts=(_are_tokenizers, "a path or a tokenizer or a list of these"),
    ),
]
ExtendedTokenizer = Annotated[
    FilePath | None,
    Option(
        "Directory of the tokenizer to extend; the result goes to -o. By default, the tokenizer "
        "at -o is extended in place, and its old version is kept next to it.",
        flags="-t --tokenizer",
        metavar="TOKENIZER",
        complete="tokenizers",
        extended=True,
    ),
]
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
References = Annotated[
    FilePath | None,
    Option(
        "Directory of monolingual reference tokenizers; by default the tokenizer's own.",
        metavar="DIR",
    ),
]
Threads = Annotated[
    int | None, Option("Number of threads; all cores by default.", metavar="N", low=1)
]
Memory = Annotated[
    str | int | None,
    Option(
        "Memory limit of counting and learning, such as 8GB; at least 500MB. Words are counted on "
        "disk; where not all fit, a sample of the rarest is learned from.",
        kind=str,
        metavar="SIZE",
        accepts=(lambda value: isinstance(value, str | int), "a size such as 8GB"),
    ),
]
MinCount = Annotated[
    int | None,
    Option("Leave out words that occur less than N times in a language.", metavar="N", low=2),
]
MaxUnspaced = Annotated[
    int | None,
    Option(
        "Learn no token with more than N characters of scripts without spaces between words "
        "(Chinese, Japanese, Thai, ...); 0 for any number.",
        metavar="N",
        default=16,
        low=0,
    ),
]
Specials = Annotated[
    Sequence[str],
    Option(
        "Special token to add to <|endoftext|> and <|pad|>. Repeatable.",
        flags="--special",
        kind=list[str],
        metavar="TEXT",
        accepts=(lambda value: isinstance(value, Iterable), "a list"),
    ),
]
DefaultSpecials = Annotated[
    bool,
    Option(
        "Omit the special tokens <|endoftext|> and <|pad|>; pretrain needs an end of text.",
        flags="--no-default-specials",
    ),
]
LearnReferences = Annotated[
    bool,
    Option(
        "Do not learn the monolingual reference tokenizers that NSL is relative to.",
        flags="--no-references",
    ),
]
TokensPerLanguage = Annotated[
    int | None,
    Option(
        "Keep the N most used tokens of each language; all used tokens by default.",
        flags="-k --budget",
        key="k",
        metavar="N",
        low=257,
    ),
]
Coverage = Annotated[
    float | None,
    Option(
        "Drop rare tokens while texts grow by at most 1 − SHARE.", metavar="SHARE", low=0, high=1
    ),
]
Joint = Annotated[bool, Option("Learn one tokenizer of N tokens for all languages.")]
JournalSeconds = Annotated[
    float | None,
    Option(
        "Minimum number of seconds between writes of the state that a killed run resumes from.",
        python_only=True,
        low=0,
    ),
]
Force = Annotated[bool, Option("Overwrite an existing output.")]


LATEST = "runs/latest"
HfModel = Annotated[
    FilePath,
    Option(
        "Hugging Face directory with safetensors and tokenizer.", argument=True, metavar="MODEL"
    ),
]
Model = Annotated[
    FilePath,
    Option(
        "Run, checkpoint, slice, or directory of a Hugging Face model.",
        key="model",
        argument=True,
        metavar="MODEL",
    ),
]
Step = Annotated[
    int | None, Option("Step of the checkpoint; the last one by default.", metavar="N", low=0)
]
Inputs = Annotated[
    Languages | None,
    languages_option("Languages of the input vocabulary, or full.", "--in", key="reading"),
]
Outputs = Annotated[
    Languages | None,
    languages_option("Languages of the output vocabulary, or full.", "--out", key="writing"),
]
Gpus = Annotated[
    int,
    Option("Number of processes, one per GPU; without GPUs, on the CPU.", metavar="N", low=1),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    Option("Dtype of the weights; the dtype of training by default."),
]
RunTokenizer = Annotated[
    FilePath | None,
    Option(
        "Modular directory of the run; found by the run's settings by default.",
        flags="-t --tokenizer",
        metavar="TOKENIZER",
        complete="tokenizers",
    ),
]


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
