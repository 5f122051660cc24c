"""`modtok report`: tables and plots of a workspace on one HTML page."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from modtok_cli.base.extras import require
from modtok_cli.base.files import check_page, check_suffix, write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import FilePath, Force, OutputFile
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.reports.charts import Heat, is_empty
from modtok_cli.reports.collect import ResultFile, collect
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.report_page import Section, page
from modtok_cli.reports.runs import TrainingRun, comparison, runs_tables
from modtok_cli.reports.tables import Table, parse_columns, short_names, table_of
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


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
    results/: plots, tables, signatures, and the commands of runs. nsl, fairness, check, origin
    and eval keep their rows in results/. The page is one HTML file without external resources.

    Returns:
        One row per section.

    Examples:
        >>> rows = modtok.report(".", "report.html", force=True)

    Raises:
        UsageError: `output` is another file and `force` is not set, or matplotlib is not installed.
        ModtokError: there is nothing to show, or a file is damaged.
    """
    require("a report", plot=("matplotlib",))
    workspace, output = Path(workspace), Path(output)
    check_suffix(output, [".html"])
    check_page(output, "report", force=force)
    contents = collect(workspace, progress)
    results, styles = contents.results, dict[str, int]()
    for result in results:  # a tokenizer has one color on the page
        listed = [str(row["tokenizer"]) for row in result.rows if "tokenizer" in row]
        for name in short_names(listed).values():
            styles.setdefault(name, len(styles))
    present = [result.kind for result in results]
    sections = [
        *([runs_section(contents.runs)] if contents.runs else []),
        *(
            result_section(index, result, workspace, styles, present.count(result.kind) > 1)
            for index, result in enumerate(results)
        ),
        *(tokenizer_section(*named) for named in contents.tokenizers.items()),
    ]
    findings = filter(None, (kinds()[result.kind].finding(result.rows) for result in results))
    name = workspace.resolve().name
    write_bytes(output, page(f"Report on {name}", sections, [*findings]).encode())
    return [
        {
            "section": part.title,
            "pictures": len(part.charts),
            "tables": len(part.tables),
            "output": str(output),
        }
        for part in sections
    ]


def runs_section(runs: Sequence[TrainingRun]) -> Section:
    """Training curves and the last figures of all runs."""
    return Section(
        "runs",
        f"Run {runs[0].name}" if len(runs) == 1 else f"{len(runs)} training runs",
        ["Bits per byte do not depend on the vocabulary and compare across languages and runs."],
        comparison(runs),
        runs_tables(runs),
        "\n".join(run.command for run in runs),
        list(dict.fromkeys(run.signature for run in runs)),
    )


def result_section(
    index: int,
    result: ResultFile,
    workspace: Path,
    styles: Mapping[str, int],
    several: bool,
) -> Section:
    """Plots and tables of saved rows; `several`: the file's name is part of the title."""
    kind = kinds()[result.kind]
    signatures = dict.fromkeys(str(row.get("signature", "")) for row in result.rows)
    return Section(
        f"{result.kind}-{index}",
        kind.title + (f" ({result.paths[0].stem})" if several else ""),
        [
            kind.about,
            f"Rows: {', '.join(str(path.relative_to(workspace)) for path in result.paths)}",
        ],
        [chart for chart in kind.charts(result.rows) if not is_empty(chart)],
        kind.tables(result.rows),
        signatures=[signature for signature in signatures if signature],
        styles=styles,
    )


def tokenizer_section(name: str, tokenizer: ModularTokenizer) -> Section:
    """Languages of a modular tokenizer and the tokens they share."""
    languages = tokenizer.languages
    text = (
        f"{tokenizer.algorithm}, {len(languages)} languages, {tokenizer.k_text} tokens per "
        f"language, {tokenizer.size:,} in total."
    )
    # In a joint vocabulary every language has every token: there is nothing to compare.
    joint = len(languages) < 2 or tokenizer.token_membership.sizes().min() == tokenizer.size
    return Section(
        f"tokenizer-{name}",
        f"Tokenizer {name}",
        [text],
        [] if joint else [shared_tokens(tokenizer)],
        [tokenizer_table(tokenizer)],
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


_COLUMNS = parse_columns(
    "language, tokens:int, exclusive:int, shared=shared %:percent, text=trained on:bytes"
)


def tokenizer_table(tokenizer: ModularTokenizer) -> Table:
    """Per language: tokens, exclusive tokens, share of shared tokens, and bytes of text."""
    members = tokenizer.token_membership
    owners = members.owners()
    rows = []
    for column, language in enumerate(tokenizer.languages):
        mine, corpus = members[:, column], tokenizer.corpora.get(language)
        exclusive = int((mine & (owners == 1)).sum())
        rows.append(
            {"language": language, "tokens": int(mine.sum()), "exclusive": exclusive,
             "shared": 1 - exclusive / float(mine.sum()), "text": corpus and corpus.bytes}
        )  # fmt: skip
    return table_of("Languages in training order", rows, _COLUMNS)
