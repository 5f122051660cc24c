"""The tables of the paper by name, from the means and tests of a grid (`modtok eval grid`).

averages       systems × modes, a table for each measure: the means over tasks and languages
languages      systems and modes × languages: MCQ and MT side by side
p              probability of the larger subtokenizer × measures and modes
combinations   systems × number of languages at inference
tests          differences of modes and of systems
"""

from collections.abc import Callable, Sequence

from modtok_cli.reports.charts import Chart, Dots, Mark
from modtok_cli.reports.kinds import Kind
from modtok_cli.reports.tables import (
    Form,
    Row,
    Table,
    cell,
    grouped,
    marks_of,
    unique,
    with_interval,
)

MEAN = "mean"
# What the paper's tables show of each task; the page of a grid has the others too.
MAIN = ("mcq", "mt BLEU", "sum rougeL", "bpb")
_TITLES = {
    "mcq": "Multiple choice, accuracy",
    "mt BLEU": "Translation, BLEU",
    "mt chrF++": "Translation, chrF++",
    "mt in language": "Translation, % of outputs in the target language",
    "sum in language": "Summaries, % of outputs in the language",
    "bpb": "Bits per byte",
}
_SHORT = {"mcq": "MCQ", "mt BLEU": "MT", "sum rougeL": "ROUGE-L", "bpb": "bits/byte"}


def title_of(measure: str) -> str:
    """Name of a measure in captions.

    >>> title_of("mcq"), title_of("sum rouge2")
    ('Multiple choice, accuracy', 'Summaries, rouge2')
    """
    return _TITLES.get(measure, measure.replace("sum ", "Summaries, "))


def _short(measure: str) -> str:
    return _SHORT.get(measure, measure)


def form_of(measure: str) -> Form:
    """Bits per byte have three decimals, scores one."""
    return "ratio" if measure == "bpb" else "score"


def averages(means: Sequence[Row]) -> list[Table]:
    """Means over tasks and languages: systems × modes, a table for each measure."""
    tables = []
    for (measure,), rows in grouped(_overall(means), "measure").items():
        modes = list(dict.fromkeys(row["infer"] for row in rows))
        cells = {(row["system"], row["infer"]): row for row in rows}
        systems = dict.fromkeys(row["system"] for row in rows)
        body = [
            [
                system,
                *(with_interval(cells.get((system, mode)), form_of(measure)) for mode in modes),
            ]
            for system in systems
        ]
        caption = f"{title_of(measure)}: mean over {_languages(rows)} (95% interval)"
        tables.append(Table(caption, ["system", *modes], body, note=_note(rows)))
    return tables


def languages(means: Sequence[Row]) -> list[Table]:
    """Systems and modes × languages, the main table of the paper.

    A pair with English is named by the other language, as in the paper.
    """
    rows = [row for row in means if row["measure"] in MAIN and not row["drawn"]]
    columns = sorted(
        {(row["language"], row["measure"]) for row in rows},
        key=lambda column: (_column(column[0]) != MEAN, _column(column[0]), column[1]),
    )
    cells = {
        (row["system"], row["infer"], row["language"], row["measure"]): row["value"] for row in rows
    }
    body = []
    for system, mode in dict.fromkeys((row["system"], row["infer"]) for row in rows):
        values = [cell(cells.get((system, mode, *one)), form_of(one[1])) for one in columns]
        body.append([system, mode, *values])
    headings = [f"{_column(language)} {_short(measure)}" for language, measure in columns]
    table = Table("Scores by language", ["system", "infer", *headings], body, left=2)
    return [table] if body else []


def _column(language: str) -> str:
    """Name of a language or pair in a heading.

    >>> _column("en-fr"), _column("fr-en"), _column("fr")
    ('fr', 'fr-en', 'fr')
    """
    return language.removeprefix("en-")


def over_p(means: Sequence[Row]) -> list[Table]:
    """MCQ, MT and others over p, the probability of the larger subtokenizer, for each regime.

    Regimes without p stand above, as they are.
    """
    rows = [row for row in _overall(means) if row["measure"] in MAIN and row["sampling"]]
    several = {
        name for (name,), group in grouped(rows, "sampling").items()
        if len({row["p"] for row in group}) > 1
    }  # fmt: skip
    columns = list(dict.fromkeys((row["measure"], row["infer"]) for row in rows))
    cells = {(row["system"], row["measure"], row["infer"]): row for row in rows}
    systems: dict[str, Row] = {}
    for row in rows:
        systems.setdefault(row["system"], row)
    ordered = sorted(
        systems.items(),
        key=lambda item: (
            item[1]["sampling"] in several,
            item[1]["sampling"] if item[1]["sampling"] in several else "",
            item[1]["p"] if item[1]["sampling"] in several else 0,
        ),
    )
    body = [
        [
            system,
            f"{row['p']:g}" if row["sampling"] in several else "–",
            *(with_interval(cells.get((system, *one)), form_of(one[0])) for one in columns),
        ]
        for system, row in ordered
    ]
    headings = [f"{_short(measure)} {mode}" for measure, mode in columns]
    table = Table("Scores over p (95% interval)", ["system", "p", *headings], body)
    return [table] if several else []


def combinations(means: Sequence[Row]) -> list[Table]:
    """Random sets of languages at inference: systems × sizes, a table for each measure.

    The first columns are the modes that are no random sets, for comparison.
    """
    tables = []
    rows = [row for row in means if row["language"] == MEAN and row["measure"] in MAIN]
    for (measure,), group in grouped(rows, "measure").items():
        sizes = sorted({row["drawn"] for row in group if row["drawn"]})
        if not sizes:
            continue
        named = list(dict.fromkeys(row["infer"] for row in group if not row["drawn"]))
        cells = {(row["system"], row["infer"]): row for row in group}
        columns = [*named, *(f"{size} languages" for size in sizes)]
        body = [
            [system, *(_spread(cells.get((system, column))) for column in columns)]
            for system in dict.fromkeys(row["system"] for row in group)
        ]
        caption = f"{title_of(measure)}, over random sets of languages"
        note = "± is the standard deviation over sets of a size, averaged over languages."
        tables.append(Table(caption, ["system", *columns], body, note=note))
    return tables


def _spread(row: Row | None) -> str:
    if row is None:
        return "–"
    value, spread = (cell(row[name], form_of(row["measure"])) for name in ("value", "spread"))
    return value if row["spread"] is None else f"{value} ± {spread}"


def differences(tests: Sequence[Row]) -> list[Table]:
    """Differences between modes of a system, and between systems under a mode."""
    tables = []
    for (measure,), rows in grouped(tests, "measure").items():
        body = []
        for row in rows:
            same = row["system_a"] == row["system_b"]
            what = row["system_a"] if same else f"--infer {row['infer_a']}"
            sides = ("infer_a", "infer_b") if same else ("system_a", "system_b")
            body.append(
                [
                    what,
                    *(str(row[side]) for side in sides),
                    *(cell(row[key], form_of(measure)) for key in ("a", "b", "difference")),
                    " to ".join(cell(row[key], form_of(measure)) for key in ("low", "high")),
                    "–" if row["p"] is None else f"{row['p']:.3f}",
                    f"{row['runs']} seeds" if row["by"] == "seeds" else "examples",
                ]
            )
        headings = ["within", "A", "B", "A", "B", "B - A", "95% interval", "p", "over"]
        tables.append(Table(f"{title_of(measure)}: differences", headings, body, left=3))
    return tables


SHOWN: dict[str, Callable[[Sequence[Row]], list[Table]]] = {
    "averages": averages,
    "languages": languages,
    "p": over_p,
    "combinations": combinations,
}
"""Tables of means by name; `differences` is that of tests."""


def _overall(means: Sequence[Row]) -> list[Row]:
    return [row for row in means if row["language"] == MEAN and not row["drawn"]]


def _languages(rows: Sequence[Row]) -> str:
    count = max(row["languages"] for row in rows)
    what = "pair" if rows[0]["measure"].startswith("mt ") else "language"
    return f"{count} {what}{'' if count == 1 else 's'}"


def _note(rows: Sequence[Row]) -> str:
    runs = {row["runs"] for row in rows if row["by"] == "seeds"}
    seeds = f"Student's interval over {'–'.join(map(str, sorted(runs)))} seeds" if runs else ""
    one = any(row["by"] != "seeds" for row in rows)
    bootstrap = "bootstrap interval over examples" if one else ""
    text = ", else ".join(filter(None, (seeds, bootstrap)))
    return f"{text[0].upper()}{text[1:]}."


def _means_charts(rows: Sequence[Row]) -> list[Chart]:
    """Means with intervals by system, a series for each mode, a chart for each measure."""
    charts: list[Chart] = []
    for (measure,), group in grouped(_overall(rows), "measure").items():
        series = marks_of(
            (f"--infer {row['infer']}", row["system"], Mark(row["value"], row["low"], row["high"]))
            for row in group
        )
        systems = unique(group, "system")
        charts.append(Dots(title_of(measure), "mean over languages", systems, series))
    return charts


MEANS = Kind(
    name="grid-means",
    title="Means of a grid",
    about="Means over tasks and languages of runs under inference modes. Runs that differ in their "
    "seed only are one system.",
    example="modtok eval grid grid.toml && modtok report grids/grid",
    charts=_means_charts,
    page_tables=lambda rows: [table for make in SHOWN.values() for table in make(rows)],
    order=85,
    fields=("measure", "system", "infer", "language", "value", "low", "high", "spread"),
    by_fields=True,
    command=lambda rows: "modtok eval grid GRID",
)

TESTS = Kind(
    name="grid-tests",
    title="Differences in a grid",
    about="Differences between inference modes of a system, and between systems under a mode, with "
    "95% intervals. p is of no difference, not corrected for the number of tests: by a t-test over "
    "seeds, or by paired bootstrap over examples, which says nothing of other seeds.",
    example="modtok eval grid grid.toml && modtok report grids/grid",
    charts=lambda rows: [],
    page_tables=differences,
    order=86,
    fields=("measure", "system_a", "infer_a", "system_b", "infer_b", "difference", "p", "by"),
    by_fields=True,
    command=lambda rows: "modtok eval grid GRID",
)

KINDS = (MEANS, TESTS)
