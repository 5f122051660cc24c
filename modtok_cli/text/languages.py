"""Labels of text: languages by their codes, `code`, `math`, and private labels such as `x-law`.

A language is named by its ISO 639-1 code where it has one, else by its ISO 639-3 code:
`fra_Latn`, `fra`, `fre` and `fr-FR` are all French, `fr`.

Scripts, regions and variants of BCP 47 count where they tell labels apart. A workspace with
`zho_Hans.txt` and `zho_Hant.txt` has the labels `zh-Hans` and `zh-Hant`; one with only one of them
has `zh`. A name finds a label that it does not contradict: `fra_Latn` and `fr-CA` find `fr`,
`zho_Hant` finds `zh-Hant`, and `zh` finds `zh-Hans` and `zh-Hant`.

    what is given                      function
    a code in any spelling             `canonical`: its label; `normalize`: the language only
    a code of a user and labels        `matching`, the labels that it means; `the_one`, if it is one
    labels of files                    `by_label`, `shortened`: the labels in use
    the name of a file                 `label_of_path`; `split_name` as it is spelled
    a list on the command line         `language_list`, `optional_languages`
    a pair such as en-fr               `split_pair`
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path, PurePath
from typing import TypeVar

from modtok_cli.base.errors import UsageError
from modtok_cli.base.suggestion import near

_FILE = Path(__file__).with_suffix(".tsv")
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
# Codes of countries that are no codes of languages, and what is spoken there.
_COUNTRIES = {
    "cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "il": "he", "ir": "fa", "jp": "ja", "rs": "sr",
    "tw": "zh", "ua": "uk", "vn": "vi",
}  # fmt: skip


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
_PRIVATE = r"x(?:-[A-Za-z0-9]+)+"
_LONGER = "|".join(
    f"{macro}[_-](?=(?:{members.replace(' ', '|')})(?:[_-]|$))"
    for macro, members in _subtags("extended").items()
)
_ANY = "|".join(_VARIANTS.values()).replace(" ", "|")
_VARIANT = rf"((?:[_-](?:{_ANY})(?=[_-]|$))*)"
# en, fra, fra_Latn, fr-FR, zh-Hant-TW, zh-cmn-Hans, es-419, ca-valencia, fr-x-law
_SHAPE = re.compile(
    rf"(?:{_LONGER})?([a-z]{{2,3}})(?:[_-]([a-z]{{4}}))?(?:[_-]([a-z]{{2}}|[0-9]{{3}}))?"
    rf"{_VARIANT}(?:[_-]({_PRIVATE}))?",
    re.IGNORECASE,
)
_OTHER = re.compile(rf"{'|'.join(DOMAINS)}|[Xx]{_PRIVATE[1:]}")
# The beginning of a file name. "fr_test" and "en-de" look like a script and a region there, and
# "fr-000" is a part, so scripts and regions are written with capitals: fra_Latn, pt-BR.
_IN_NAME = re.compile(
    rf"(?:{_LONGER})?([A-Za-z]{{2,3}})([_-][A-Z][a-z]{{3}})?([_-][A-Z]{{2}})?"
    rf"{_VARIANT}(?:-({_PRIVATE}))?(?=[_-]|$)"
)
# What stands before a label: c4-fr.tfrecord-00000-of-01024.json.gz of mC4, the partition lang=fr/,
# 20231101.fr of Wikipedia.
_BEFORE = re.compile(r"c4-|[A-Za-z_]+=|[0-9]{8}\.")
_SCRIPT = re.compile(r"[a-z]{2,3}_[A-Z][a-z]{3}")
# Two or three letters that are words of file names before they are languages.
_NOT_IN_NAMES = frozenset(
    {"dev", "in", "src", "ref", "trg", "tgt", "out", "raw", "all", "new", "old", "ext"}
)


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
def _table() -> dict[str, str]:
    codes = {each.lstrip(":"): code for code, others, _ in _rows() for each in (code, *others)}
    return codes | _WITHDRAWN


def subtags(label: str) -> tuple[str, str, str, str, str] | None:
    """Split a label into language, script, region, variants and private part.

    `code`, `math` and `x-law` are languages here. None if `label` has not the shape of one.

    >>> subtags("zho_Hant"), subtags("pt-br-x-law"), subtags("flores")
    (('zh', 'Hant', '', '', ''), ('pt', '', 'BR', '', 'x-law'), None)
    """
    if match := _SHAPE.fullmatch(label):
        language, script, region, variants, private = match.groups(default="")
        base = _language(language.lower())
        if _fits_years(variants, base):
            variants = variants[1:].replace("_", "-")
            return base, script.title(), region.upper(), variants.lower(), private.lower()
    return (label.lower(), "", "", "", "") if _OTHER.fullmatch(label) else None


def _language(code: str) -> str:
    """Return the code in use of a language."""
    code = _RETIRED.get(code, code)
    return _table().get(code, code)


def _fits_years(variants: str, language: str) -> bool:
    return all(_YEARS.get(each, language) == language for each in re.split("[_-]", variants))


def canonical(label: str) -> str:
    """Return the label with script, region and private part; what is not a label stays.

    >>> [canonical(code) for code in ("fra_Latn", "pt-br", "zh-cmn-Hant-TW", "fre", "X-Law")]
    ['fr-Latn', 'pt-BR', 'zh-Hant-TW', 'fr', 'x-law']
    """
    tags = subtags(label)
    return label if tags is None else "-".join(filter(None, tags))


def normalize(code: str) -> str:
    """Return the short code of a language; script, region and variants are dropped.

    ISO 639-3 codes without a two-letter one stay; so does anything that is not a code.

    >>> [normalize(code) for code in ("fra_Latn", "fre", "pt-BR", "zho_Hant", "ceb", "fr-x-law")]
    ['fr', 'fr', 'pt', 'zh', 'ceb', 'fr-x-law']
    """
    tags = subtags(code)
    return code if tags is None else "-".join(filter(None, (tags[0], tags[4])))


@cache
def _names() -> dict[str, str]:
    return {code: name for code, _, name in _rows() if name} | _OTHER_NAMES


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if the name is not in the table.

    Script, region and variants follow in parentheses.

    >>> language_name("fi"), language_name("sr-Latn"), language_name("math"), language_name("xyz")
    ('Finnish', 'Serbian (Latn)', 'Mathematics', 'xyz')
    """
    tags = subtags(code)
    if tags is None or tags[0] not in _names():
        return code
    more = ", ".join(filter(None, tags[1:]))
    return f"{_names()[tags[0]]} ({more})" if more else _names()[tags[0]]


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


def optional_languages(
    languages: str | Iterable[str] | None, flag: str = "--langs"
) -> list[str] | None:
    """Return `language_list` of languages; None stays."""
    return None if languages is None else language_list(languages, flag)


def is_language(code: str) -> bool:
    """Return whether `code` is a label: known, of three letters, `code`, `math` or `x-…`.

    >>> [is_language(code) for code in ("fi", "fra_Latn", "ceb", "code", "x-law", "xx", "part")]
    [True, True, True, True, True, False, False]
    """
    tags = subtags(code)
    return tags is not None and (len(tags[0]) > 2 or tags[0] in _table())


def label_of_path(path: str | Path) -> str | None:
    """Return the label that a file, its directory or the one above is named after.

    >>> [label_of_path(p) for p in ("fra_Latn.devtest", "data/fi/part-0.jsonl.zst", "x-law.txt")]
    ['fr-Latn', 'fi', 'x-law']
    >>> label_of_path("newstest2019-ref.swa.txt"), label_of_path("flores.txt")
    ('sw', None)
    """
    parts = PurePath(path).parts
    if not parts:
        return None
    if found := split_name(parts[-1]):
        return canonical(found[0])
    for directory in reversed(parts[-3:-1]):
        # A directory counts only if all of its name is a code of a language, maybe after a date
        # (20231101.fr): "data" and "tmp" are not one, and a directory "code" may hold anything.
        # Two are enough (fra_Latn/train/000.parquet): /home/dan says nothing of files far below.
        code = bare(directory)
        if _known(code):
            return canonical(code)
    return None


def bare(name: str) -> str:
    """Return a name without what data sets put before a label.

    >>> [bare(name) for name in ("lang=fr", "c4-fr.json.gz", "20231101.fr", "fr.txt")]
    ['fr', 'fr.json.gz', 'fr', 'fr.txt']
    """
    before = _BEFORE.match(name)
    return name[before.end() :] if before else name


def has_script(code: str) -> bool:
    """Return whether `code` is a label with a script, which no word is: fra_Latn."""
    return bool(_SCRIPT.fullmatch(code)) and split_name(code) is not None


def split_name(name: str) -> tuple[str, str] | None:
    """Split a file name into its label, as it is spelled there, and what follows in that field.

    None if it has no label.

    >>> [split_name(name) for name in ("fra_Latn.devtest", "fr_test.txt", "dev.fr.txt", "notes")]
    [('fra_Latn', '.devtest'), ('fr', '_test.txt'), ('fr', '.txt'), None]
    >>> [split_name(name) for name in ("zh-Hant-000.jsonl", "zh-classical.txt", "c4-fr-val.gz")]
    [('zh-Hant', '-000.jsonl'), ('zh', '-classical.txt'), ('fr', '-val.gz')]
    """
    fields = bare(name).split(".")
    # The first field, then the others, the last (a suffix) only as in dev.fra_Latn.
    last = len(fields) > 1 and not _SCRIPT.fullmatch(fields[-1])
    for number, part in enumerate(fields[:-1] if last else fields):
        after = "".join(f".{each}" for each in fields[number + 1 :])
        if _OTHER.fullmatch(part):
            return part.lower(), after
        match = _IN_NAME.match(part)
        # Part numbers and the like only in the first field: fr_train.txt, fr-000.jsonl
        if match is None or (number > 0 and match.end() < len(part)):
            continue
        language, script, region, variants, private = match.groups(default="")
        base = language.lower()
        variants = variants if _fits_years(variants, _language(base)) else ""
        if (base in _NOT_IN_NAMES and (not number or script)) or not (
            base in _table() or ((script or private) and len(base) == 3)
        ):
            continue
        code = base + script + region + variants + (private and "-" + private)
        return code, ("" if variants else match[4] or "") + part[match.end() :] + after
    first = re.split(r"[_-]", fields[0])[0].lower()
    return (first, ".".join(fields)[len(first) :]) if first in DOMAINS else None


def _known(code: str) -> bool:
    """A code of the table, or a three-letter one with its script (`ceb_Latn`, or bare `ceb`)."""
    match = _SHAPE.fullmatch(code)
    if not match or match[1].lower() in _NOT_IN_NAMES:
        return False
    return match[1].lower() in _table() or "_" in code


def suggest(name: str, known: Sequence[str]) -> str:
    """Return `did you mean 'fr'? ` as the beginning of a remedy, or an empty string.

    Codes of two letters are not compared by spelling: `de` does not mean `ne`.

    >>> suggest("de", ["ne"]), suggest("fin_Ltn", ["fin_Latn"])
    ('', "did you mean 'fin_Latn'? ")
    """
    close = near(normalize(name), known)
    return f"did you mean '{close[0]}'? " if close else ""


@cache
def _codes_of_names() -> dict[str, str]:
    return _COUNTRIES | {name.lower(): code for code, name in _names().items() if code != UNKNOWN}


def guess_language(name: str) -> str | None:
    """Guess the language that the name of a file means without being a label; None if unknown.

    >>> [guess_language(f"{name}.txt") for name in ("french", "jp", "fr copy", "notes")]
    ['fr', 'ja', 'fr', None]
    """
    words = re.findall(r"[^\W\d_]+", name.split(".")[0].lower())
    for word in (" ".join(words), *words[:1]):
        code = _codes_of_names().get(word)
        if code is None and (found := split_name(word)):
            code = normalize(found[0])
        if code:
            return code
    return None


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
        of.setdefault(normalize(label), set()).add(label)
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
    label = canonical(name)
    return [label] if label in known else [each for each in known if fits(label, each)]


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


@lru_cache(1 << 16)
def fits(one: str, other: str) -> bool:
    """Return whether two labels are of one language, and not of two scripts, regions or variants.

    >>> fits("zh-Hant-TW", "zh-Hant"), fits("zh", "zh-Hans"), fits("zh-Hant", "zh-Hans")
    (True, True, False)
    """
    a, b = subtags(one), subtags(other)
    if a is None or b is None:
        return one == other
    (language, *kind, private), (other_language, *other_kind, other_private) = a, b
    return (language, private) == (other_language, other_private) and all(
        not x or not y or x == y for x, y in zip(kind, other_kind, strict=True)
    )


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
        if not (capitals or plain) and subtags(first) and subtags(second):
            return first, second
    return None
