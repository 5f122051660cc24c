"""What the public functions accept: paths as strings, languages as strings, no progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.base.public import PythonWarnings
from modtok_cli.text.languages import language_list

FilePath = str | os.PathLike[str]
Languages = str | Iterable[str]
Errors = Literal["strict", "replace", "skip"]


P = ParamSpec("P")
T = TypeVar("T")


def _is_tokenizer(value: object) -> bool:
    """Whether a value has a tokenizer's methods; `isinstance` would compute its properties."""
    return hasattr(type(value), "encode_batch")


def _is_modular(value: object) -> bool:
    return hasattr(type(value), "subset")


def _is_any_tokenizer(value: object) -> bool:
    return isinstance(value, str | os.PathLike) or _is_tokenizer(value) or _is_modular(value)


def _are_tokenizers(value: object) -> bool:
    return isinstance(value, Sequence) and all(map(_is_any_tokenizer, value))


# What arguments of these annotations must be, and how an error calls it.
_TYPES: Mapping[str, tuple[tuple[type, ...] | Callable[[object], bool], str]] = {
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "bool": ((bool,), "True or False"),
    "str": ((str,), "a string"),
    "FilePath": ((str, os.PathLike), "a path"),
    "Languages": ((str, Iterable), "codes, a string or list"),
    "Sequence[FilePath]": ((Iterable,), "a list of paths"),
    "Sequence[str]": ((Iterable,), "a list"),
    "Tokenizer": (_is_tokenizer, "a tokenizer"),
    "ModularTokenizer": (_is_modular, "a modular tokenizer"),
    "AnyTokenizer": (_is_any_tokenizer, "a path or a tokenizer"),
    "Sequence[AnyTokenizer]": (_are_tokenizers, "a list of these"),
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Check numbers, strings, flags, paths, languages and tokenizers by the annotations.

    Raises (when called):
        UsageError: an argument is of another type; names it.

    >>> @checked
    ... def learn(k: "int") -> None: ...
    >>> learn("3000")
    Traceback (most recent call last):
        ...
    modtok_cli.base.errors.UsageError: k: expected a whole number, got '3000'
    """
    expected: dict[str, list[str]] = {
        name: kinds
        for name, annotation in function.__annotations__.items()
        if name != "return"
        and set(kinds := [kind.strip() for kind in annotation.split("|")]) <= {*_TYPES, "None"}
    }
    names = list(function.__annotations__)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, value in given.items():
            if name in expected and not _fits(value, expected[name]):
                what = " or ".join(_TYPES[kind][1] for kind in expected[name] if kind != "None")
                raise UsageError(f"expected {what}, got {value!r}", where=name)
        return function(*args, **kwargs)

    return call


def _fits(value: object, kinds: Sequence[str]) -> bool:
    if value is None:
        return "None" in kinds
    return any(_is_of(value, _TYPES[kind][0]) for kind in kinds if kind != "None")


def _is_of(value: object, kind: tuple[type, ...] | Callable[[object], bool]) -> bool:
    if not isinstance(kind, tuple):
        return kind(value)
    return isinstance(value, kind) and (bool in kind or not isinstance(value, bool))


def progress_or_default(progress: Progress | None) -> Progress:
    """`progress`, or one that issues Python warnings."""
    return PythonWarnings() if progress is None else progress


def optional_path(value: FilePath | None) -> Path | None:
    """`value` as a `Path`; None stays."""
    return None if value is None else Path(value)


def optional_languages(value: Languages | None) -> list[str] | None:
    """`value` as a list of language codes; None stays."""
    return None if value is None else language_list(value)


def text_paths(texts: FilePath | Sequence[FilePath]) -> list[Path | str]:
    """One text or several as paths.

    Raises:
        ModtokError: an empty list.
    """
    found = [texts] if isinstance(texts, str | os.PathLike) else list(texts)
    if not found:
        raise ModtokError("expected at least one text, got none")
    return [Path(text) for text in found]
