"""Labels in names of files and directories."""

import re
from functools import cache
from pathlib import Path, PurePath

from modtok_cli.text.language_codes import (
    DOMAINS,
    LONGER,
    PRIVATE,
    UNKNOWN,
    VARIANT,
    codes,
    current,
    fits_years,
    names,
)
from modtok_cli.text.languages import OTHER, SHAPE, Label, canonical

# Codes of countries that are no codes of languages, and what is spoken there.
_COUNTRIES = {
    "cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "il": "he", "ir": "fa", "jp": "ja", "rs": "sr",
    "tw": "zh", "ua": "uk", "vn": "vi",
}  # fmt: skip


# The beginning of a file name. "fr_test" and "en-de" look like a script and a region there, and
# "fr-000" is a part, so scripts and regions are written with capitals: fra_Latn, pt-BR.
_IN_NAME = re.compile(
    rf"(?:{LONGER})?([A-Za-z]{{2,3}})([_-][A-Z][a-z]{{3}})?([_-][A-Z]{{2}})?"
    rf"{VARIANT}(?:-({PRIVATE}))?(?=[_-]|$)"
)
# What stands before a label: c4-fr.tfrecord-00000-of-01024.json.gz of mC4, the partition lang=fr/,
# 20231101.fr of Wikipedia.
_BEFORE = re.compile(r"c4-|[A-Za-z_]+=|[0-9]{8}\.")
_SCRIPT = re.compile(r"[a-z]{2,3}_[A-Z][a-z]{3}")
# Two or three letters that are words of file names before they are languages.
_NOT_IN_NAMES = frozenset(
    {"dev", "in", "src", "ref", "trg", "tgt", "out", "raw", "all", "new", "old", "ext"}
)


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
        if OTHER.fullmatch(part):
            return part.lower(), after
        match = _IN_NAME.match(part)
        # Part numbers and the like only in the first field: fr_train.txt, fr-000.jsonl
        if match is None or (number > 0 and match.end() < len(part)):
            continue
        language, script, region, variants, private = match.groups(default="")
        base = language.lower()
        variants = variants if fits_years(variants, current(base)) else ""
        if (base in _NOT_IN_NAMES and (not number or script)) or not (
            base in codes() or ((script or private) and len(base) == 3)
        ):
            continue
        code = base + script + region + variants + (private and "-" + private)
        return code, ("" if variants else match[4] or "") + part[match.end() :] + after
    first = re.split(r"[_-]", fields[0])[0].lower()
    return (first, ".".join(fields)[len(first) :]) if first in DOMAINS else None


def _known(code: str) -> bool:
    """A code of the table, or a three-letter one with its script (`ceb_Latn`, or bare `ceb`)."""
    match = SHAPE.fullmatch(code)
    if not match or match[1].lower() in _NOT_IN_NAMES:
        return False
    return match[1].lower() in codes() or "_" in code


@cache
def _codes_of_names() -> dict[str, str]:
    return _COUNTRIES | {name.lower(): code for code, name in names().items() if code != UNKNOWN}


def guess_language(name: str) -> str | None:
    """Guess the language that the name of a file means without being a label; None if unknown.

    >>> [guess_language(f"{name}.txt") for name in ("french", "jp", "fr copy", "notes")]
    ['fr', 'ja', 'fr', None]
    """
    words = re.findall(r"[^\W\d_]+", name.split(".")[0].lower())
    for word in (" ".join(words), *words[:1]):
        code = _codes_of_names().get(word)
        if code is None and (found := split_name(word)):
            code = Label.of(found[0]).short
        if code:
            return code
    return None
