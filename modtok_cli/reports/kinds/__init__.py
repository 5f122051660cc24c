"""Kinds of result rows: how the rows of one command are recognized, drawn and tabulated.

The modules of this folder define `KINDS`. To show the rows of a new command in plots and in the
report, add one; nothing else names it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from statistics import fmean

from modtok_cli.base.plugins import modules_of
from modtok_cli.reports.charts import Chart
from modtok_cli.reports.tables import (
    Row,
    Table,
    common_languages,
    display_name,
    grouped,
    short_names,
)


@dataclass(frozen=True)
class RowKind:
    """Rows of one command.

    Attributes:
        name: the command's name.
        title: heading of its section in the report.
        about: one paragraph below the heading.
        charts: plots of rows.
        tables: tables of the report.
        order: position in the report.
        fields: fields that every row has.
        by_fields: recognize rows by `fields` instead of by the first field of their signature.
        measure: field whose mean over languages ranks tokenizers, the lowest best, and its name;
            `ranked` selects the rows of tokenizers that take part.
        compares_languages: whether values of different languages compare.
        key: fields that say what a row is about; the rows of several files are shown together.
        sentence: what to say of rows that `measure` does not fit.
    """

    name: str
    title: str
    about: str
    charts: Callable[[Sequence[Row]], list[Chart]]
    tables: Callable[[Sequence[Row]], list[Table]]
    order: int
    fields: tuple[str, ...] = ()
    by_fields: bool = False
    measure: tuple[str, str] | None = None
    compares_languages: bool = True
    ranked: Callable[[Sequence[Row]], Sequence[Row]] = lambda rows: rows
    key: tuple[str, ...] = ()
    sentence: Callable[[Sequence[Row]], str | None] | None = None

    def is_complete(self, row: Row) -> bool:
        """Whether a row has the fields of this kind."""
        return all(name in row for name in self.fields)

    def finding(self, rows: Sequence[Row]) -> str | None:
        """Sentences with the best tokenizer and its worst language; None without a measure.

        Only languages count that were measured with every tokenizer. If a language has several
        texts, there is a sentence for each folder of texts, or for each text.
        """
        if self.sentence is not None:
            return self.sentence(rows)
        if self.measure is None:
            return None
        those = [row for row in self.ranked(rows) if row.get(self.measure[0]) is not None]
        found = [self._best(part, on, *self.measure) for on, part in _one_text_each(those)]
        return " ".join(filter(None, found)) or None

    def _best(self, those: Sequence[Row], on: str, key: str, name: str) -> str | None:
        common = common_languages(those, key)
        if not common:
            return None
        groups = grouped([row for row in those if row["language"] in common], "tokenizer")
        means = {place: fmean(row[key] for row in group) for (place,), group in groups.items()}
        best, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        names = short_names(list(means))
        least = f"{means[best]:.3f}"
        what = f"the lowest mean {name}, {least}" if len(means) > 1 else f"a mean {name} of {least}"
        sentence = (
            f"{self.title}{on}: {names[best]} has {what} over "
            f"{len(common)} language{'s' if len(common) > 1 else ''}"
        )
        if self.compares_languages:
            worst = max(groups[best,], key=lambda row: row[key])
            sentence += f"; its worst is {display_name(worst['language'])} with {worst[key]:.3f}"
        others = f" {names[highest]} has the highest, {means[highest]:.3f}."
        return f"{sentence}.{others if len(means) > 1 else ''}"


def _one_text_each(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """(suffix of a title, rows): all rows, or groups in which each language has one text.

    >>> texts = [("en", "new/en.txt"), ("fi", "new/fi.txt"), ("fi", "old/fi.txt")]
    >>> rows = [{"language": language, "text": text} for language, text in texts]
    >>> [(on, len(group)) for on, group in _one_text_each(rows)]
    [(', on new', 2), (', on old', 1)]
    """
    placed = [(row["language"], PurePath(str(row.get("text"))), row) for row in rows]
    texts = {(language, text) for language, text, _ in placed}
    if len({language for language, _ in texts}) == len(texts):
        return [("", list(rows))]
    folders = len({(language, text.parent) for language, text in texts}) == len(texts)
    groups: dict[str, list[Row]] = {}
    for _, text, row in placed:
        groups.setdefault(f", on {text.parent if folders else text}", []).append(row)
    return list(groups.items())


@cache
def kinds() -> dict[str, RowKind]:
    """All kinds by name, in the order of the report."""
    of_modules: Iterable[list[RowKind]] = modules_of(__name__, "KINDS").values()
    every = [kind for kinds in of_modules for kind in kinds]
    return {kind.name: kind for kind in sorted(every, key=lambda kind: kind.order)}


def kind_of(row: Row) -> str | None:
    """Name of the kind of a file or call, by its first row."""
    for name, kind in kinds().items():
        if kind.by_fields and kind.is_complete(row):
            return name
    name = str(row.get("signature", "")).partition("|")[0]
    return name if name in kinds() and kinds()[name].fields else None
