"""Words of the command line become values as their options say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import pytest

from modtok_cli.base.option import Option
from modtok_cli.base.spelling import near

NUMBER = Option("", kind=int, low=1, high=9)
LARGE = Option("", kind=int, high=2**31 - 1)
CHOICE = Option("", kind=Literal["a", "b", "c"])


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (NUMBER, "5", 5),
        (Option("", kind=float), "1e3", 1000.0),
        (Option("", kind=bool), "No", False),
        (Option("", kind=bool), "1", True),
        (Option("", kind=Path), "a/b", Path("a/b")),
        (Option("", kind=str), "5", "5"),
        (CHOICE, "b", "b"),
        (Option("", kind=int, parse=lambda text: text.split(",")), "1,2", ["1", "2"]),
    ],
)
def test_text_becomes_a_value(option: Option, text: str, value: Any) -> None:
    read = option.from_text(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (NUMBER, "x", "expected a whole number of at least 1 and at most 9, got 'x'"),
        (NUMBER, "10", "expected a whole number of at least 1 and at most 9, got '10'"),
        (NUMBER, "5.5", "expected a whole number of at least 1 and at most 9, got '5.5'"),
        (LARGE, "x", "expected a whole number, got 'x'"),
        (LARGE, "9" * 11, f"expected a whole number of at most 2147483647, got '{'9' * 11}'"),
        (Option("", kind=int), "9" * 20, "the number is out of range"),
        (Option("", kind=float), "nan", "expected a number, got 'nan'"),
        (Option("", kind=float, above=0), "0", "expected a number greater than 0, got '0'"),
        (Option("", kind=bool), "maybe", "expected true or false, got 'maybe'"),
        (CHOICE, "d", "expected a, b or c, got 'd'"),
    ],
)
def test_other_text_is_refused(option: Option, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        option.from_text(text)


@pytest.mark.parametrize(
    ("word", "names", "meant"),
    [
        ("buget", "budget quiet", "budget"),
        ("cuont", "count", "count"),
        ("lrs", "lr", "lr"),
        ("tokneizer", "tokenizer", "tokenizer"),
        ("refrencess", "references", "references"),
        ("rfrencs", "references", ""),
        ("zttle", "settle", "settle"),
        ("lan", "langs", "langs"),
        ("untie", "quiet", ""),
        ("batchsize", "batch-size", "batch-size"),
        ("lang", "lang-field k langs", "langs lang-field"),
        ("language", "lang", "lang"),
        ("la", "langs", ""),
        ("de", "ne", ""),
        ("ab", "ab", "ab"),
        ("path", "patha pathb pathc pathd", "patha pathb pathc"),
        ("threads" * 20, "threads", ""),
    ],
)
def test_names_of_a_near_spelling(word: str, names: str, meant: str) -> None:
    assert near(word, names.split()) == meant.split()
