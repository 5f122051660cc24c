"""Filters of pages in a known language: repetition, stop words; addresses that are left out."""

import re
from collections import Counter
from functools import cache, cached_property
from pathlib import Path
from urllib.parse import urlsplit

from datatrove.data import Document
from datatrove.pipeline.filters import GopherRepetitionFilter
from datatrove.pipeline.formatters import PIIFormatter

from modtok_cli.base.errors import UsageError
from modtok_cli.base.reading import read_bounded
from modtok_cli.corpus.blocks import Filter
from modtok_cli.corpus.elements import BREAK
from modtok_cli.corpus.near import Words

PHRASE, TIMES = 8, 6
"""A phrase of that many words may not occur that often in a page."""
MOST_REPEATED = 0.2
"""Maximum share of a page in repeated phrases of ten words, by Gopher's measure."""
LEAST_WORDS = 50
"""Pages with fewer words are not looked at for stop words."""
STOP_WORDS = 2
"""Minimum number of distinct stop words of a page."""
_EDGES = "'\"«»“”„‚‘’()[]{}.,;:!?…–—-।॥*"
_SCHEME = re.compile("^[a-z][a-z0-9+.-]*://")
_NO_ADDRESS = re.compile(r"^[^/]*\s|\^$|^[*.@!|]")  # of lists for browsers and resolvers
_EMAIL, _ADDRESS = "email@example.com", "192.0.2.1"  # reserved for examples


def prose_of(text: str) -> str:
    """The text without code and tables, whose words repeat."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(BREAK))


class Repetition:
    """Why a page repeats itself: "phrase", or the name of Gopher's measure.

    Gopher's measure is datatrove's, with the words of any language (`Words`); a character of a
    script without spaces is half a word. `python -m benchmarks page_filters` measured the limits.
    """

    def __init__(self) -> None:
        self._words = Words()
        self._gopher = {
            scale: GopherRepetitionFilter(
                dup_line_frac=0,
                dup_para_frac=0,
                dup_line_char_frac=0,
                dup_para_char_frac=0,
                top_n_grams=(),
                dup_n_grams=((10 * scale, MOST_REPEATED),),
                language=self._words,
            )
            for scale in (1, 2)
        }

    def reason(self, text: str) -> str | None:
        """The reason; None for a page that may stay.

        >>> Repetition().reason("Buy it now at our shop in the old town today. " * 6)
        'phrase'
        """
        prose = prose_of(text)
        if not prose:
            return None
        words = self._words.word_tokenize(prose)
        scale = 2 if len(words) > 2 * len(prose.split()) else 1
        size = PHRASE * scale
        phrases = Counter(zip(*(words[start:] for start in range(size)), strict=False))
        if max(phrases.values(), default=0) >= TIMES:
            return "phrase"
        # Deduplication leaves one of equal lines.
        distinct = "\n".join(dict.fromkeys(prose.split("\n")))
        found = self._gopher[scale].filter(Document(distinct, ""))
        return None if found is True else str(found[1])


class FilterRepetition(Filter):
    """Drop pages that repeat a phrase many times, or many phrases."""

    name = "repetition"

    _repetition = Repetition()

    def _keeps(self, document: Document) -> bool:
        reason = self._repetition.reason(document.text)
        if reason:
            self.drop_page(f"repetition: {reason}", document.metadata["lang"], document.text)
        return reason is None


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


def has_stop_words(text: str, language: str) -> bool:
    """Whether a page has stop words of its language, is short, or the language has no list."""
    frequent = stop_words().get(language)
    words = prose_of(text).lower().split()
    if frequent is None or len(words) < LEAST_WORDS:
        return True
    # An article may be joined to its word: "l'anno".
    found = {part for word in {*words} for part in word.replace("’", "'").split("'")}
    return len({word.strip(_EDGES) for word in found} & frequent) >= STOP_WORDS


class FilterStopWords(Filter):
    """Drop pages without the frequent words of their language: lists of names or keywords."""

    name = "stop words"

    def _keeps(self, document: Document) -> bool:
        if has_stop_words(document.text, document.metadata["lang"]):
            return True
        self.drop_page("few stop words", document.metadata["lang"], document.text)
        return False


class ReplaceAddresses(Filter):
    """Replace addresses of e-mail and public IP addresses by datatrove's rules."""

    name = "pii"

    _formatter = PIIFormatter(email_replacement=_EMAIL, ip_replacement=_ADDRESS)

    def _keeps(self, document: Document) -> bool:
        before = document.text.split("\n")
        after = [self._formatter.format(line) for line in before]
        changed = [new for new, old in zip(after, before, strict=True) if new != old]
        if changed:
            document.text = "\n".join(after)
            language = document.metadata["lang"]
            self.change("addresses replaced", language, len(changed), sum(map(len, changed)))
        return True


def blocked_names(path: Path) -> frozenset[str]:
    """Lines of a list of hosts and addresses, in lower case, without scheme and empty lines.

    Raises:
        UsageError: a line is neither, as "0.0.0.0 HOST" or "*.HOST".
    """
    names = set()
    text = read_bounded(path).decode("utf-8-sig", "replace").lower()
    for number, line in enumerate(text.splitlines(), 1):
        name = _without_scheme(line.strip()).rstrip("/")
        if not name or name.startswith("#"):
            continue
        if _NO_ADDRESS.search(name):
            raise UsageError(
                f"'{line.strip()}' is neither a host nor an address",
                where=f"{path}:{number}",
                remedy="write one host (example.org, with all below it) or address per line",
            )
        names.add(name)
    return frozenset(names)


def _without_scheme(address: str) -> str:
    return _SCHEME.sub("", address)


def is_blocked(url: str, names: frozenset[str]) -> bool:
    """Whether a list has the address, its host, or a domain that the host is in.

    >>> is_blocked("https://www.spam.example/a", frozenset(["spam.example"]))
    True
    """
    address = _without_scheme(url.lower())
    try:
        host = (urlsplit("//" + address).hostname or "").rstrip(".")
    except ValueError:
        return False
    labels = host.split(".")
    domains = {".".join(labels[start:]) for start in range(len(labels))}
    return not names.isdisjoint(domains | {address.rstrip("/")})


class BlockAddresses(Filter):
    """Drop pages whose address or host is in a list."""

    name = "urls"

    @cached_property
    def _names(self) -> frozenset[str]:
        assert self.plan.settings.blocked_urls is not None  # else this step is left out
        return blocked_names(Path(self.plan.settings.blocked_urls))

    def _keeps(self, document: Document) -> bool:
        url = document.metadata["page"].url
        if url and is_blocked(url, self._names):
            self.drop("blocked address")
            return False
        return True
