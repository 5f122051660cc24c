"""datatrove's filters of pages under short names, for pages of several languages."""

import re
from collections.abc import Sequence
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import regex
from datatrove.data import Document
from datatrove.pipeline import filters
from datatrove.pipeline.formatters import PIIFormatter
from datatrove.utils.word_tokenizers import WordTokenizer

from modtok_cli.base.errors import UsageError
from modtok_cli.base.read_file import read_bounded
from modtok_cli.corpus.blocks import Filter
from modtok_cli.corpus.build_plan import FILTERS

# As Gopher's words, without the punctuation around them: alone it would count as words without
# letters, of which a page may have a fifth.
WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+|[^\s\p{P}\p{L}\p{M}\p{N}]+")
_SENTENCE = re.compile(r"[.!?…।॥]+[\"'”»)]*\s+")
# C4 keeps lines that end like a sentence of these scripts.
_OTHER_ENDS = {"hi", "ne"}


class PlainWords(WordTokenizer):
    """Words and sentences of languages with spaces; datatrove's need a package for each."""

    def word_tokenize(self, text: str) -> list[str]:
        """Words and symbols.

        >>> PlainWords().word_tokenize("L'eau, 12 °C.")
        ['L', 'eau', '12', '°', 'C']
        """
        found: list[str] = WORD.findall(text)
        return found

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Spans of sentences.

        >>> PlainWords().sent_tokenize("One. Two! 3.14")
        ['One.', 'Two!', '3.14']
        """
        ends = [match.end() for match in _SENTENCE.finditer(text)]
        if not ends or ends[-1] < len(text):
            ends.append(len(text))
        return list(zip([0, *ends], ends, strict=False))

    def sent_tokenize(self, text: str) -> list[str]:
        """Sentences."""
        return [text[start:end].strip() for start, end in self.span_tokenize(text)]


@cache
def stop_words() -> dict[str, frozenset[str]]:
    """Frequent words by language.

    FineWeb-2's (`configs` of its repository), but for English Gopher's, and for Nepali and Telugu
    the most frequent words of NTREX-128 and of the test corpus: FineWeb-2's are of words split in
    another way, and a tenth or more of the pages of these languages have none.
    """
    lines = read_bounded(Path(__file__).with_name("stop_words.tsv")).decode().splitlines()
    rows = [line.split("\t") for line in lines]
    return {language: frozenset(words.split()) for language, words in rows}


def known_languages(name: str) -> set[str] | None:
    """Languages that a filter knows; None for all."""
    if name in ("url", "pii"):
        return None
    return {*stop_words()} - (_OTHER_ENDS if name == "c4" else set())


def check_languages(names: Sequence[str], languages: Sequence[str] | None) -> None:
    """Check that filters know the languages.

    Raises:
        UsageError: one does not.
    """
    for name in names:
        known = known_languages(name)
        unknown = sorted({*(languages or ())} - (known or set()))
        if known is not None and (languages is None or unknown):
            raise UsageError(
                f"{name} does not know {', '.join(unknown) or 'every language'}",
                where="--filters",
                remedy=f"leave it out, or build with --langs of {','.join(sorted(known))}",
            )


@cache
def filter_of(name: str, language: str) -> Any:
    """datatrove's filter with its defaults."""
    kind = getattr(filters, FILTERS[name])
    takes = signature(kind).parameters
    values: dict[str, Any] = {"language": _words()} if "language" in takes else {}
    if "stop_words" in takes:
        values["stop_words"] = sorted(stop_words()[language])
    made = kind(**values)
    if name == "url":
        made.tldextractor = type(made.tldextractor)(suffix_list_urls=())  # the list it contains
    return made


@cache
def _words() -> PlainWords:
    return PlainWords()


class FilterPages(Filter):
    """Drop pages by one of datatrove's filters, see `filter_of`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()

    def reason(self, document: Document) -> str | None:
        """The filter's reason; "c4" also drops lines."""
        if self.name == "url" and not document.metadata.get("url"):
            return None
        before = document.text
        found = filter_of(self.name, document.metadata.get("lang", "")).filter(document)
        if found is not True:
            return f"{self.name}: {found[1]}" if isinstance(found, tuple) else self.name
        if document.text != before:
            lines = before.count("\n") - document.text.count("\n")
            language, lost = document.metadata["lang"], len(before) - len(document.text)
            self.count("dropped", "lines", language, paragraphs=lines, characters=lost)
        return None


class ReplaceAddresses(Filter):
    """Replace addresses of e-mail and public IP addresses by datatrove's rules."""

    name = "pii"

    # Replacements that are reserved for examples.
    _formatter = PIIFormatter(email_replacement="email@example.com", ip_replacement="192.0.2.1")

    def reason(self, document: Document) -> str | None:
        """Replace them; no page is dropped."""
        text = self._formatter.format(document.text)
        if text != document.text:
            document.text = text
            self.count_page("changed", document, "addresses replaced")
        return None
