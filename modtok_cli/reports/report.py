"""`modtok report`: tables and plots of a workspace on one HTML page."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

from modtok_cli.base.extras import require
from modtok_cli.base.files import check_new, check_suffix, write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Force, OutputFile
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.modular.manifest import NAME as MANIFEST
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.reports.charts import Heat, is_empty
from modtok_cli.reports.collect import Contents, ResultFile, collect, together
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.page import Section, page
from modtok_cli.reports.plot.terminal import to_text
from modtok_cli.reports.present import named, presented
from modtok_cli.reports.runs import INVALID, TrainingRun, comparison, runs_finding, runs_tables
from modtok_cli.reports.tables import (
    Table,
    cell,
    format_bytes,
    parse_columns,
    short_names,
    table_of,
)


@public
def report(
    workspace: Annotated[
        FilePath,
        Option("Directory with tokenizers, runs and results/.", argument=True, metavar="WORKSPACE"),
    ] = ".",
    output: OutputFile = "report.html",
    *,
    force: Force = False,
    progress: Progress = SILENT,
) -> list[dict[str, object]]:
    """Write an HTML report of the measurements of a workspace.

    Shows every modular tokenizer, every run and every JSONL result file in the workspace and
    results/: plots, tables, commands and signatures. nsl, fairness, check, origin and eval keep
    their rows in results/. The page is one HTML file without external resources.

    Returns:
        One row per section.

    Examples:
        >>> rows = modtok.report(".", "report.html", force=True)

    Raises:
        UsageError: `output` exists and `force` is not set, or matplotlib is not installed.
        ModtokError: there is nothing to show, or a file is damaged.
    """
    require("a report", plot=("matplotlib",))
    workspace, output = Path(workspace), Path(output)
    check_suffix(output, [".html"])
    check_new(output, force=force)
    contents = collect(workspace, progress)
    styles = _styles(contents.results)
    sections = []
    if contents.runs:
        sections.append(runs_section(contents.runs))
    # Each file by itself first: one with an invalid value is left out of what it would be part of.
    results = together(
        [
            each
            for each in contents.results
            if _if_valid(
                partial(result_section, 0, each, workspace, styles), each.paths[0], progress
            )
        ]
    )
    present = [result.kind for result in results]
    for index, result in enumerate(results):
        several = present.count(result.kind) > 1
        make = partial(result_section, index, result, workspace, styles, several)
        sections += _if_valid(make, result.paths[0], progress)
    if contents.tokenizers:
        table = all_tokenizers_table(contents.tokenizers)
        sections.append(Section("tokenizers", "Tokenizers", [], [], [table]))
    for name, tokenizer in contents.tokenizers.items():
        # In a joint vocabulary every language has every token: there is nothing to compare.
        sizes = tokenizer.token_membership.sizes()
        if len(sizes) > 1 and sizes.min() < tokenizer.size:
            sections.append(tokenizer_section(name, tokenizer))
    missing = [kind for name, kind in kinds().items() if name not in present]
    if missing:
        offers = [[kind.title, kind.example] for kind in missing]
        table = Table("Commands, to be run in the workspace", ["section", "command"], offers, 2)
        sections.append(
            Section("missing", "Not measured yet", [], [], [replace(table, prose=True)])
        )
    name = workspace.resolve().name
    intro = [_contents(contents, workspace)]
    findings = [runs_finding(contents.runs)] if contents.runs else []
    findings += map(_finding, results)
    said = list(filter(None, findings))
    write_bytes(output, page(f"Report on {name}", intro, sections, said).encode())
    return [
        {
            "section": part.title,
            "pictures": len(part.charts),
            "tables": len(part.tables),
            "output": str(output),
        }
        for part in sections
    ]


def _contents(contents: Contents, workspace: Path) -> str:
    """What the page shows, and when the newest of it was made."""
    counts = {
        "tokenizer": len(contents.tokenizers),
        "training run": len(contents.runs),
        "measurement": sum(len(result.paths) for result in contents.results),
    }
    parts = [f"{count} {what}{'s' * (count != 1)}" for what, count in counts.items() if count]
    files = [
        *(workspace / name / MANIFEST for name in contents.tokenizers),
        *(workspace / "runs" / run.name / "metrics.jsonl" for run in contents.runs),
        *(path for result in contents.results for path in result.paths),
    ]
    newest = datetime.fromtimestamp(max(path.stat().st_mtime for path in files), tz=UTC)
    listed = ", ".join(parts[:-1]) + (" and " if parts[:-1] else "") + parts[-1]
    return f"{listed}; the newest is of {newest.day} {newest:%B %Y}."


def _styles(results: Sequence[ResultFile]) -> dict[str, int]:
    names: dict[str, int] = {}
    for result in results:
        listed = [str(row["tokenizer"]) for row in result.rows if "tokenizer" in row]
        for name in short_names(listed).values():
            names.setdefault(name, len(names))
    return names


def _finding(result: ResultFile) -> str | None:
    """The sentence of a result for the summary; None if its rows are invalid."""
    try:
        return kinds()[result.kind].finding(result.rows)
    except INVALID:
        return None  # `_if_valid` has warned


def _if_valid(make: Callable[[], Section], where: Path, progress: Progress) -> list[Section]:
    """The section, or an empty list and a warning if its rows are invalid.

    Result files can be edited by hand. One invalid value must not fail the whole page; it is found
    when the rows are laid out: here charts as text, which is fast.
    """
    try:
        section = make()
        for chart in section.charts:
            to_text(chart)
        _ = replace(section, charts=[]).html
    except INVALID as error:
        kind = type(error).__name__
        progress.warn(f"{where}: not in the format that modtok writes ({kind}: {error}); skipped")
        return []
    return [section]


def runs_section(runs: Sequence[TrainingRun]) -> Section:
    """Training curves and the last figures of all runs."""
    return Section(
        "runs",
        f"Run {runs[0].name}" if len(runs) == 1 else f"{len(runs)} training runs",
        ["Bits per byte do not depend on the vocabulary and compare across languages and runs."],
        [presented(chart) for chart in comparison(runs)],
        [named(table) for table in runs_tables(runs)],
        "\n".join(run.command for run in runs),
        list(dict.fromkeys(run.signature for run in runs)),
        open_tables=1,
    )


def result_section(
    index: int,
    result: ResultFile,
    workspace: Path,
    styles: Mapping[str, int],
    several: bool = False,
) -> Section:
    """Plots and tables of saved rows; `several`: the file's name is part of the title.

    `styles`: color of each tokenizer.
    """
    kind = kinds()[result.kind]
    charts = [presented(chart, styles) for chart in kind.charts(result.rows) if not is_empty(chart)]
    signatures = dict.fromkeys(str(row.get("signature", "")) for row in result.rows)
    return Section(
        f"{result.kind}-{index}",
        kind.title + (f" ({result.paths[0].stem})" if several else ""),
        [
            kind.about,
            f"Rows: {', '.join(str(path.relative_to(workspace)) for path in result.paths)}",
        ],
        charts,
        [named(table) for table in kind.tables(result.rows)],
        result.command,
        [signature for signature in signatures if signature],
    )


def tokenizer_section(name: str, tokenizer: ModularTokenizer) -> Section:
    """Languages of a modular tokenizer and the tokens they share."""
    languages = tokenizer.languages
    text = (
        f"{tokenizer.algorithm}, {len(languages)} languages, {tokenizer.k:,} tokens per "
        f"language, {tokenizer.size:,} in total."
    )
    return Section(
        f"tokenizer-{name}",
        f"Shared tokens of {name}",
        [text],
        [presented(shared_tokens(tokenizer))],
        [named(tokenizer_table(tokenizer))],
        shlex.join(["modtok", "inspect", name]),
        [f"tokenizer|{tokenizer.signature}"],
    )


def shared_tokens(tokenizer: ModularTokenizer) -> Heat:
    """Share of each language's vocabulary that every other language has too."""
    names = tokenizer.languages
    members = tokenizer.token_membership[:].astype("float32")
    common = members.T @ members
    values = {
        (row, column): float(100 * common[i, j] / common[i, i])
        for i, row in enumerate(names)
        for j, column in enumerate(names)
        if i != j
    }
    return Heat(
        "Shared tokens",
        "% of the row's tokens that are also in the column's language",
        "language",
        "shared with",
        names,
        names,
        values,
    )


def tokenizer_table(tokenizer: ModularTokenizer) -> Table:
    """Per language: tokens, exclusive tokens, and share of shared tokens."""
    members = tokenizer.token_membership
    owners = members.owners()
    body = []
    for column, language in enumerate(tokenizer.languages):
        mine = members[:, column]
        corpus = tokenizer.corpora.get(language)
        body.append(
            [
                language,
                cell(mine.sum(), "int"),
                cell((mine & (owners == 1)).sum(), "int"),
                cell(float((mine & (owners > 1)).sum() / mine.sum()), "percent"),
                "–" if corpus is None else format_bytes(corpus.bytes),
            ]
        )
    headings = ["language", "tokens", "exclusive", "shared %", "trained on"]
    return Table("Languages in training order", headings, body)


_COLUMNS = parse_columns(
    "name, algorithm, languages:count, k=tokens per language:int, size=total tokens:int, signature"
)


def all_tokenizers_table(tokenizers: Mapping[str, ModularTokenizer]) -> Table:
    """One row for each tokenizer of the workspace."""
    keys = [column.key for column in _COLUMNS[1:]]
    rows = [
        {"name": name, **{key: getattr(tokenizer, key) for key in keys}}
        for name, tokenizer in tokenizers.items()
    ]
    return table_of("Tokenizers in the workspace", rows, _COLUMNS)
