"""Codes of languages: the tables beside this file, and what codes and subtags look like."""

import re
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("languages.tsv")
_SUBTAGS = _FILE.with_name("subtags.tsv")
# Withdrawn codes that still occur.
_WITHDRAWN = {
    "iw": "he", "in": "id", "ji": "yi", "jw": "jv", "mo": "ro", "mol": "ro", "scr": "hr",
    "scc": "sr", "bh": "bho", "bih": "bho",
}  # fmt: skip

DOMAINS = ("code", "math")
"""Labels of text that is in no language; all others are private: `x-law`."""
UNKNOWN = "und"
"""Code of text in an unknown language (ISO 639-2)."""
_OTHER_NAMES = {UNKNOWN: "unknown language", "code": "Program code", "math": "Mathematics"}


def _subtags(kind: str) -> dict[str, str]:
    """Subtags of a kind, between spaces, by the language that they follow; see `_SUBTAGS`."""
    lines = (line.split("\t") for line in _SUBTAGS.read_text(encoding="utf-8").splitlines())
    return {of: subtags for each, of, subtags in lines if each == kind}


# ISO 639-3 codes and their successors; also words of file names ("tmp", "pat"), where they are not
# looked for.
_RETIRED = dict(pair.split(":") for pair in _subtags("retired")[""].split())
_VARIANTS = _subtags("variant")
# Variants that are years after other languages.
_YEARS = {year: of for of, years in _VARIANTS.items() if of for year in years.split()}
PRIVATE = r"x(?:-[A-Za-z0-9]+)+"
LONGER = "|".join(
    f"{macro}[_-](?=(?:{members.replace(' ', '|')})(?:[_-]|$))"
    for macro, members in _subtags("extended").items()
)
_ANY = "|".join(_VARIANTS.values()).replace(" ", "|")
VARIANT = rf"((?:[_-](?:{_ANY})(?=[_-]|$))*)"


@cache
def _rows() -> list[tuple[str, list[str], str]]:
    """Return code, other codes and English name of each language in the file beside this one.

    A language has its ISO 639-1 code or, if parallel corpora often hold it, its ISO 639-3 code;
    other three-letter codes are taken from a user's list, but not out of file names.
    """
    lines = _FILE.read_text(encoding="utf-8").splitlines()[1:]
    columns = (line.split("\t") for line in lines)
    return [(code, others.split(), name) for code, others, name in columns]


@cache
def codes() -> dict[str, str]:
    """Return the code in use of each code of the table."""
    known = {each.lstrip(":"): code for code, others, _ in _rows() for each in (code, *others)}
    return known | _WITHDRAWN


@cache
def names() -> dict[str, str]:
    """Return English names by code."""
    return {code: name for code, _, name in _rows() if name} | _OTHER_NAMES


def current(code: str) -> str:
    """Return the code in use of a language, of retired and withdrawn codes too."""
    code = _RETIRED.get(code, code)
    return codes().get(code, code)


def fits_years(variants: str, language: str) -> bool:
    """Return whether the years among variants are of this language."""
    return all(_YEARS.get(each, language) == language for each in re.split("[_-]", variants))
