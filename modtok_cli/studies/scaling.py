"""`modtok study scaling`: size of T as languages are added.

Families of languages come from a file of the user: a line per language, `tr<tab>Turkic`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Data, FilePath, Force, Langs, OutputFile, Threads
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.reading import read_file
from modtok_cli.construct.request import DEFAULT_SPECIALS
from modtok_cli.learn.sequential import SequentialLearner
from modtok_cli.studies.bench import Command, K, Orders, Seed, language_orders, load_counts
from modtok_cli.studies.rows import Row, StudyFile
from modtok_cli.text.languages import canonical, is_language, subtags
from modtok_cli.text.reading import Reading

LEAST = 2
"""Fewest languages of a family: with one, nothing can be added."""


@public
def study_scaling(
    languages: Langs = None,
    *,
    k: K = 24000,
    orders: Orders = 3,
    seed: Seed = 0,
    families: Annotated[
        FilePath | None,
        Option("Learn a T for each family of a file with lines tr<tab>Turkic.", metavar="FILE"),
    ] = None,
    data: Data = "data",
    output: OutputFile = "studies/scaling.jsonl",
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    command: Command = "modtok study scaling",
    progress: Progress = SILENT,
) -> list[Row]:
    """Measure the size of the whole tokenizer as languages are added.

    Languages are added by sequential BPE. Rows are written to studies/scaling.jsonl: for each
    order and language, the size of the tokenizer T so far, and the number of adopted and new
    tokens. With `families`, each family has a T of its own; the summary gives the share of the
    sum of its vocabularies that T has, and x where T of n languages has n^x times the tokens of
    one.

    Returns:
        One row per order and language: `n` languages so far, `total` tokens of T, and how many of
        the language's tokens were `adopted` or `new`; `family` if there are several T.

    Examples:
        >>> [row["n"] for row in modtok.study_scaling("en,fi", k=600, orders=1)]
        [1, 2]

    Raises:
        ModtokError, UsageError: texts, settings or output are invalid.
    """
    counts = load_counts(languages, data, reading, threads, progress)
    groups = {} if families is None else read_families(Path(families), list(counts), progress)
    chosen = {
        name: language_orders(group, orders, seed)
        for name, group in (groups or {"": list(counts)}).items()
    }
    settings = {
        "k": k,
        "orders": chosen if groups else chosen[""],
        "text": {language: table.fingerprint() for language, table in counts.items()},
    }
    file = StudyFile(output, "scaling", settings, command)

    def one(family: str, index: int) -> list[Row]:
        learner = SequentialLearner(k, DEFAULT_SPECIALS)
        rows = []
        for n, language in enumerate(chosen[family][index], 1):
            report = learner.add(language, counts[language], progress=progress)
            rows.append(
                ({"family": family} if family else {})
                | {"order": index, "n": n, "language": language, "total": report["total"]}
                | {"tokens": report["tokens"], "adopted": report["adopted"]}
                | {"new": report["new_tokens"]}
            )
        return rows

    units = {
        f"{family}: order {index}" if family else f"order {index}": partial(one, family, index)
        for family, those in chosen.items()
        for index in range(len(those))
    }
    return file.run(units, force, progress, "orders", "orders")


def read_families(
    path: Path, languages: Sequence[str], progress: Progress = SILENT
) -> dict[str, list[str]]:
    """Families by name, each with those of `languages` that the file puts into it, both ascending.

    A line has a code and the name of a family, with a tab between them; empty lines and those that
    begin with `#` count nothing. A code means the label that it spells (`sr_Cyrl`), or all labels
    of a language (`srp`). Languages of `languages` without a line, and families with fewer
    than `LEAST` of them, are left out, with a warning.

    Raises:
        ModtokError: the file cannot be read, a line has another form, a language has two families,
            or no family has `LEAST` languages.
    """
    table = _table(path)
    members: dict[str, list[str]] = {}
    for label in sorted(languages):
        parts = subtags(label)
        family = table.get(canonical(label)) or table.get(parts[0] if parts else label)
        if family:
            members.setdefault(family, []).append(label)
    families = {name: each for name, each in sorted(members.items()) if len(each) >= LEAST}
    if not families:
        raise ModtokError(
            f"no family has {LEAST} of the languages",
            where=path,
            remedy="add lines such as tr<tab>Turkic for the languages in --data",
        )
    without = len(languages) - sum(map(len, families.values()))
    if without:
        progress.warn(f"{path.name}: languages without a family of {LEAST} or more: {without}")
    return families


def _table(path: Path) -> dict[str, str]:
    table: dict[str, str] = {}
    content = read_file(path).removeprefix(b"\xef\xbb\xbf")  # a byte order mark
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise _invalid(path, number, "is not UTF-8") from error
        if not text or text.startswith("#"):
            continue
        code, *families = (part.strip() for part in text.split("\t"))
        if len(families) != 1 or not is_language(code):
            raise _invalid(path, number, "is not a language code, a tab and the name of a family")
        if table.setdefault(canonical(code), families[0]) != families[0]:
            raise _invalid(path, number, f"gives {code} a second family")
    return table


def _invalid(path: Path, number: int, what: str) -> ModtokError:
    return ModtokError(
        f"line {what}", where=f"{path}:{number}", remedy="write lines such as tr<tab>Turkic"
    )
