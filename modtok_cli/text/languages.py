"""Labels of text: languages by their codes, `code`, `math`, and private labels such as `x-law`.

A language is named by its ISO 639-1 code where it has one, else by its ISO 639-3 code:
`fra_Latn`, `fra`, `fre` and `fr-FR` are all French, `fr`.

Scripts, regions and variants of BCP 47 count where they tell labels apart. A workspace with
`zho_Hans.txt` and `zho_Hant.txt` has the labels `zh-Hans` and `zh-Hant`; one with only one of them
has `zh`. A name finds a label that it does not contradict: `fra_Latn` and `fr-CA` find `fr`,
`zho_Hant` finds `zh-Hant`, and `zh` finds `zh-Hans` and `zh-Hant`.

    what is given                      answer
    a code in any spelling             `Label.of`: its parts, name, short form; `canonical`: as text
    a code of a user and labels        `matching`, the labels that it means; `the_one`, if it is one
    labels of files                    `by_label`, `shortened`: the labels in use
    a list on the command line         `language_list`, `optional_languages`
    a pair such as en-fr               `split_pair`

Names of files are read by `file_labels`; `language_codes` has the tables.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from modtok_cli.base.errors import UsageError
from modtok_cli.base.suggestion import near
from modtok_cli.text.language_codes import (
    DOMAINS,
    LONGER,
    PRIVATE,
    VARIANT,
    codes,
    current,
    fits_years,
    names,
)

# en, fra, fra_Latn, fr-FR, zh-Hant-TW, zh-cmn-Hans, es-419, ca-valencia, fr-x-law
SHAPE = re.compile(
    rf"(?:{LONGER})?([a-z]{{2,3}})(?:[_-]([a-z]{{4}}))?(?:[_-]([a-z]{{2}}|[0-9]{{3}}))?"
    rf"{VARIANT}(?:[_-]({PRIVATE}))?",
    re.IGNORECASE,
)
OTHER = re.compile(rf"{'|'.join(DOMAINS)}|[Xx]{PRIVATE[1:]}")


@dataclass(frozen=True)
class Label:
    """A label of text, in parts; script, region, variants and private part are "" if it has none.

    `code`, `math` and `x-law` are languages here. Text that is no label is a language with
    `is_label` false, and stays as it is.

    >>> str(Label.of("zho_Hant")), str(Label.of("pt-br-x-law")), str(Label.of("flores"))
    ('zh-Hant', 'pt-BR-x-law', 'flores')
    """

    language: str
    script: str = ""
    region: str = ""
    variants: str = ""
    private: str = ""
    is_label: bool = True

    @staticmethod
    @lru_cache(1 << 16)
    def of(text: str) -> "Label":
        """Read a label in any spelling."""
        if match := SHAPE.fullmatch(text):
            language, script, region, variants, private = match.groups(default="")
            base = current(language.lower())
            if fits_years(variants, base):
                variants = variants[1:].replace("_", "-").lower()
                return Label(base, script.title(), region.upper(), variants, private.lower())
        is_label = OTHER.fullmatch(text) is not None
        return Label(text.lower() if is_label else text, is_label=is_label)

    @property
    def _kind(self) -> tuple[str, str, str]:
        return self.script, self.region, self.variants

    def __str__(self) -> str:
        """Return the label as modtok writes it."""
        return "-".join(filter(None, (self.language, *self._kind, self.private)))

    @property
    def short(self) -> str:
        """The language and the private part, without script, region and variants.

        ISO 639-3 codes without a two-letter one stay.

        >>> [Label.of(code).short for code in ("fra_Latn", "fre", "pt-BR", "ceb", "fr-x-law")]
        ['fr', 'fr', 'pt', 'ceb', 'fr-x-law']
        """
        return "-".join(filter(None, (self.language, self.private)))

    @property
    def name(self) -> str:
        """The English name; the label if its language is not in the table.

        Script, region and variants follow in parentheses.

        >>> [Label.of(code).name for code in ("fi", "sr-Latn", "math", "xyz")]
        ['Finnish', 'Serbian (Latn)', 'Mathematics', 'xyz']
        """
        name = names().get(self.language) if self.is_label else None
        more = ", ".join(filter(None, (*self._kind, self.private)))
        return str(self) if name is None else f"{name} ({more})" if more else name

    @property
    def is_known(self) -> bool:
        """Whether its language is in the table or has three letters, or it is another label.

        >>> [code for code in ("fi", "fra_Latn", "ceb", "x-law", "xx") if Label.of(code).is_known]
        ['fi', 'fra_Latn', 'ceb', 'x-law']
        """
        return self.is_label and (len(self.language) > 2 or self.language in codes())

    def fits(self, other: "Label") -> bool:
        """Return whether both are of one language, and not of two scripts, regions or variants.

        >>> chinese = Label.of("zh-Hant")
        >>> [chinese.fits(Label.of(code)) for code in ("zh-Hant-TW", "zh", "zh-Hans")]
        [True, True, False]
        """
        return self.short == other.short and all(
            not one or not two or one == two
            for one, two in zip(self._kind, other._kind, strict=True)
        )


def canonical(text: str) -> str:
    """Return a label as modtok writes it; what is no label stays.

    >>> [canonical(code) for code in ("fra_Latn", "pt-br", "zh-cmn-Hant-TW", "fre", "X-Law")]
    ['fr-Latn', 'pt-BR', 'zh-Hant-TW', 'fr', 'x-law']
    """
    return str(Label.of(text))


def language_list(languages: str | Iterable[str], flag: str = "--langs") -> list[str]:
    """Return codes as a list: a string has one code, or several between commas or spaces.

    >>> language_list("fi"), language_list("fr, en"), language_list(("fr", "en"))
    (['fi'], ['fr', 'en'], ['fr', 'en'])

    Raises:
        UsageError: no codes, an empty one, or a repeated one in a string; names the flag, or
            `DIR@`.
    """
    before = flag if flag.endswith("@") else f"{flag} "
    if isinstance(languages, str):
        parts = languages.split(",") if "," in languages else languages.split()
        codes = [part.strip() for part in parts]
    else:
        codes = list(languages) if isinstance(languages, Iterable) else [languages]
        if not all(isinstance(code, str) for code in codes):
            what = f"expected codes, a string or list, got {languages!r:.80}"
            raise UsageError(what, where=flag)
    if not codes or not all(codes):
        what = f"{before}{languages!r} has an empty entry" if codes else f"{flag} is empty"
        raise UsageError(what, remedy=f"as in: {before}en,fi,fr")
    if not isinstance(languages, str):
        return codes  # of a program, which may repeat them
    first_of: dict[str, str] = {}
    for code in codes:
        first = first_of.setdefault(canonical(code), code)
        if codes.count(code) > 1:
            raise UsageError(f"{flag} repeats {code!r}", remedy="give it once")
        if first != code:
            raise UsageError(
                f"{flag}: {first!r} and {code!r} are one language",
                remedy=f"both mean {canonical(code)!r}: give it once",
            )
    return codes


def refuse_name(language: str, flag: str = "--lang") -> None:
    """Refuse the English name of a language where a code is expected.

    Raises:
        UsageError: `language` is a name, as French; the remedy is its code.
    """
    if Label.of(language).is_label:
        return
    for code, name in names().items():
        if name.casefold() == language.casefold():
            what = f"{language!r} is the name of a language, not its code"
            raise UsageError(what, where=flag, remedy=f"use {flag} {code}")


def optional_languages(
    languages: str | Iterable[str] | None, flag: str = "--langs"
) -> list[str] | None:
    """Return `language_list` of languages; None stays."""
    return None if languages is None else language_list(languages, flag)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return `did you mean 'fr'? ` as the beginning of a remedy, or an empty string.

    Codes of two letters are not compared by spelling: `de` does not mean `ne`.

    >>> suggest("de", ["ne"]), suggest("fin_Ltn", ["fin_Latn"])
    ('', "did you mean 'fin_Latn'? ")
    """
    close = near(Label.of(name).short, known)
    return f"did you mean '{close[0]}'? " if close else ""


Item = TypeVar("Item")


def shortened(labels: Iterable[str]) -> dict[str, str]:
    """Return the label in use for each of `labels`, which have script and region.

    It is the short code, unless there are several of a language and each has a script or region.

    >>> shortened(["fr-Latn", "zh-Hans", "zh-Hant"])
    {'fr-Latn': 'fr', 'zh-Hans': 'zh-Hans', 'zh-Hant': 'zh-Hant'}
    >>> shortened(["pt", "pt-BR"])  # text of "pt" may be Brazilian
    {'pt': 'pt', 'pt-BR': 'pt'}
    """
    of: dict[str, set[str]] = {}
    for label in labels:
        of.setdefault(Label.of(label).short, set()).add(label)
    return {
        label: short if len(those) == 1 or short in those else label
        for short, those in of.items()
        for label in sorted(those)
    }


def matching(name: str, known: Sequence[str]) -> list[str]:
    """Return the labels of `known` that `name` means, in their order: itself, or those it fits.

    >>> known = ["fr", "sr-Cyrl", "sr-Latn", "code"]
    >>> [matching(name, known) for name in ("fra_Latn", "srp_Cyrl", "sr", "fi")]
    [['fr'], ['sr-Cyrl'], ['sr-Cyrl', 'sr-Latn'], []]
    """
    if name in known:
        return [name]
    named, label = Label.of(name), canonical(name)
    return [label] if label in known else [each for each in known if named.fits(Label.of(each))]


def by_label(items: Iterable[tuple[str, Item]]) -> dict[str, list[Item]]:
    """Return items by the label in use, from items by labels in any spelling.

    >>> by_label([("fra_Latn", 1), ("zho_Hans", 2), ("zho_Hant", 3)])
    {'fr': [1], 'zh-Hans': [2], 'zh-Hant': [3]}
    """
    of = [(canonical(name), item) for name, item in items]
    short = shortened(name for name, _ in of)
    groups: dict[str, list[Item]] = {}
    for name, item in of:
        groups.setdefault(short[name], []).append(item)
    return groups


def the_one(name: str, known: Sequence[str]) -> str | None:
    """Return the label of `known` that `name` means; None if there are none or several.

    >>> the_one("fra_Latn", ["en", "fr"]), the_one("zh", ["zh-Hans", "zh-Hant"])
    ('fr', None)
    """
    labels = matching(name, known)
    return labels[0] if len(labels) == 1 else None


def split_pair(pair: str) -> tuple[str, str] | None:
    """Return the two labels of a pair of languages; None if it is not one.

    >>> split_pair("en-fr"), split_pair("zh-Hant-en"), split_pair("en-pt-BR"), split_pair("en")
    (('en', 'fr'), ('zh-Hant', 'en'), ('en', 'pt-BR'), None)
    """
    parts = pair.split("-")
    # The second language begins at the last part that can be one: scripts are longer, regions
    # have capitals.
    for at in range(len(parts) - 1, 0, -1):
        first, second = "-".join(parts[:at]).strip(), "-".join(parts[at:]).strip()
        start = parts[at].strip()
        capitals = start[:2].isupper() and len(parts) > 2
        # "en-fr-el" is three languages, not a region.
        plain = any(re.search("-[a-z]{2}(-|$)", name) for name in (first, second))
        if not (capitals or plain) and Label.of(first).is_label and Label.of(second).is_label:
            return first, second
    return None
