"""Kinds of result rows: how the rows of one command are recognized, drawn and tabulated."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtok_cli.measure.plot.charts import Chart
from modtok_cli.measure.tables import Table, common_languages, grouped, short_names
from modtok_cli.text.language_names import language_name

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """Rows of one command.

    Attributes:
        name: the command's name, or that of the study.
        title: heading of its section in the report.
        about: one paragraph below the heading.
        example: command that produces such rows in a workspace.
        charts, tables: presentation of rows.
        order: position in the report.
        fields: fields that every row has. Empty for a study, which is recognized by its header.
        by_fields: recognize rows by `fields` instead of by the first field of their signature.
        command: command line that produces given rows; None where the header of a study has it.
        measure: field whose mean over languages ranks tokenizers, the lowest best, and its name.
        sentence: what to say of rows that `measure` does not fit.
    """

    name: str
    title: str
    about: str
    example: str
    charts: Callable[[Sequence[Row]], list[Chart]]
    tables: Callable[[Sequence[Row]], list[Table]]
    order: int
    fields: tuple[str, ...] = ()
    by_fields: bool = False
    command: Callable[[Sequence[Row]], str] | None = None
    measure: tuple[str, str] | None = None
    sentence: Callable[[Sequence[Row]], str | None] | None = None

    def finding(self, rows: Sequence[Row]) -> str | None:
        """A sentence with the best tokenizer and its worst language; None without a measure.

        Only languages count that were measured with every tokenizer.
        """
        if self.sentence is not None:
            return self.sentence(rows)
        if self.measure is None:
            return None
        key, name = self.measure
        those = [row for row in rows if row.get(key) is not None]
        common = common_languages(those, key)
        if not common:
            return None
        means = {
            tokenizer: sum(row[key] for row in group if row["language"] in common)
            / sum(row["language"] in common for row in group)
            for (tokenizer,), group in grouped(those, "tokenizer").items()
        }
        best = min(means, key=means.__getitem__)
        its = (row for row in those if row["tokenizer"] == best and row["language"] in common)
        worst = max(its, key=lambda row: row[key])
        of = "the lowest " if len(means) > 1 else ""
        return (
            f"{self.title}: {short_names(list(means))[best]} has {of}mean {name}, "
            f"{means[best]:.3f} over {len(common)} "
            f"language{'s' if len(common) > 1 else ''}; its worst is "
            f"{language_name(worst['language'])} with {worst[key]:.3f}."
        )


def measuring_command(*words: str) -> Callable[[Sequence[Row]], str]:
    """Function from rows to `modtok WORDS -t TOKENIZER… TEXT…`, quoted for a shell."""

    def command(rows: Sequence[Row]) -> str:
        line = ["modtok", *words]
        for name in dict.fromkeys(str(row["tokenizer"]) for row in rows):
            line += ["-t", name]
        line += dict.fromkeys(str(row["text"]) for row in rows if "text" in row)
        pivots = {str(row["pivot"]) for row in rows if "pivot" in row}
        if len(pivots) == 1:
            line += ["--pivot", pivots.pop()]
        return shlex.join(line)

    return command
