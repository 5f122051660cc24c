"""Options for tokenizers, each a type for parameters of public functions."""

from collections.abc import Sequence
from typing import Annotated, Any

from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, is_path
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.protocol import Tokenizer

_TOKENIZER = (
    "Modular directory, DIR@fr,en, tokenizer.json, .model, tiktoken file, name of the hub, or - "
    "(stdin)."
)


def is_tokenizer(value: object) -> bool:
    """Whether a value is a path or has a tokenizer's methods.

    `isinstance` would compute properties of a Protocol.
    """
    kind = type(value)
    return is_path(value) or hasattr(kind, "encode_batch") or hasattr(kind, "subset")


def _are_tokenizers(value: object) -> bool:
    items = value if isinstance(value, list | tuple) else [value]
    return bool(items) and all(map(is_tokenizer, items))


_NAMES_TOKENIZER: dict[str, Any] = {
    "flags": "-t --tokenizer", "metavar": "TOKENIZER", "hub": "tokenizer",
    "complete": "tokenizers",
}  # fmt: skip

ModularOutput = Annotated[
    FilePath | None,
    Option(
        "Output directory.",
        flags="-o --output",
        metavar="PATH",
        default="tokenizer",
        writes=True,
    ),
]
AnyTokenizer = Annotated[
    FilePath | Tokenizer | ModularTokenizer,
    Option(
        _TOKENIZER,
        **_NAMES_TOKENIZER,
        kind=str,
        accepts=(is_tokenizer, "a path or a tokenizer"),
    ),
]
AnyTokenizers = Annotated[
    FilePath | Tokenizer | ModularTokenizer | Sequence[FilePath | Tokenizer | ModularTokenizer],
    Option(
        f"{_TOKENIZER} Repeatable.",
        **_NAMES_TOKENIZER,
        kind=list[str],
        accepts=(_are_tokenizers, "a path or a tokenizer or a list of these"),
    ),
]
ReferenceDirectory = Annotated[
    FilePath | None,
    Option(
        "Directory of monolingual reference tokenizers; by default the tokenizer's own.",
        metavar="DIR",
    ),
]
ModularSource = Annotated[
    FilePath | ModularTokenizer,
    Option(
        _TOKENIZER,
        **_NAMES_TOKENIZER,
        kind=str,
        accepts=(
            lambda value: is_path(value) or hasattr(type(value), "subset"),
            "a path or a modular tokenizer",
        ),
    ),
]
MostUsed = Annotated[
    int | None,
    Option(
        "Keep the N tokens that the text of each language uses most; all used tokens by default.",
        metavar="N",
        low=257,
    ),
]
KeptText = Annotated[
    FilePath | Sequence[FilePath],
    Option(
        "Keep the tokens that this text uses. Repeatable.",
        flags="--text",
        kind=list[str],
        metavar="TEXT",
        accepts=PATHS,
    ),
]
Coverage = Annotated[
    float | None,
    Option(
        "Drop rare tokens while texts grow by at most 1 − SHARE.", metavar="SHARE", low=0, high=1
    ),
]
