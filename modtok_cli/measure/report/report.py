"""`modtok report`: the tables and pictures of a workspace on one page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.measure.pictures import CHARTS
from modtok_cli.measure.plot.charts import Heat, is_empty
from modtok_cli.measure.report.collect import AMISS, Result, collect
from modtok_cli.measure.report.page import Section, page
from modtok_cli.measure.report.runs import TrainingRun, run_charts, run_table
from modtok_cli.measure.report.tables import TABLES, all_tokenizers_table, tokenizer_table
from modtok_cli.modular.tokenizer import ModularTokenizer

TITLES = {
    "nsl": "Tokens against monolingual tokenizers",
    "fairness": "Fairness across languages",
    "origin": "Whose tokens a text takes",
    "orders": "Order of the languages",
    "combos": "Unions of languages",
    "scaling": "Size of the vocabulary",
    "budget": "Tokens per language",
    "cost": "Cost by model size",
    "sampling": "Sampling regimes at inference",
    "evaluation": "Evaluation",
    "generation": "Generated text",
}
_WORDS = {
    "nsl": "NSL is the number of tokens divided by that of a tokenizer learned from the "
    "language alone: 1 is as good, less is better.",
    "fairness": "The texts are the same lines in every language. The premium is a language's "
    "number of tokens divided by that of the pivot; Gini is 0 where all languages pay alike. "
    "Junk are tokens that occur only as parts of others.",
    "origin": "Text of each language, tokenized by the union: tokens that the language's own "
    "subtokenizer does not have.",
    "orders": "Sequential BPE learned under several orders of the languages, and an ordinary "
    "joint BPE of the same size.",
    "combos": "For sets of languages: the union extracted from sequential BPE, against naive "
    "concatenation of monolingual BPE in every order.",
    "scaling": "The vocabulary of sequential BPE after each language.",
    "budget": "Sequential BPE with several budgets, against monolingual references of one size.",
    "cost": "Multiplications of a forward pass, output layer included: arithmetic, not a timing.",
    "sampling": "The same small model trained under each regime; bits per byte of held-out text, "
    "and how much of what it writes is in the language, over three vocabularies.",
    "evaluation": "Scores from 0 to 100; bars are 95% bootstrap intervals.",
    "generation": "Continuations by the model of this workspace.",
}
_TRY = {
    "nsl": "modtok nsl -t tokenizer -t tokenizer@each TEXT > results/nsl.jsonl",
    "fairness": "modtok fairness -t tokenizer -t tokenizer@each TEXT > results/fairness.jsonl",
    "origin": "modtok origin TEXT > results/origin.jsonl",
    "orders": "modtok study orders TEXT",
    "combos": "modtok study combos TEXT",
    "scaling": "modtok study scaling",
    "budget": "modtok study budget TEXT",
    "cost": "modtok study cost -t tokenizer -t tokenizer@each TEXT > results/cost.jsonl",
    "sampling": "modtok study sampling > studies/sampling.jsonl",
    "evaluation": "modtok eval mcq > results/mcq.jsonl",
    "generation": "modtok generate < prompts.jsonl > results/generated.jsonl",
}


def report(
    workspace: Path,
    output: Path,
    *,
    force: bool = False,
    progress: Progress = SILENT,
) -> list[dict[str, object]]:
    """Write the page; a row per section.

    It shows every modular tokenizer and run of the workspace, and every file of rows in it,
    in `results/` and in `studies/`: each with pictures, tables, command and signatures.

    Raises:
        UsageError: `output` is there already and `force` was not given.
        ModtokError: there is nothing to show, or a file is damaged.
    """
    if output.exists() and not force:
        raise UsageError(
            "is there already", where=str(output), remedy="choose another -o, or --force"
        )
    found = collect(workspace, progress)
    sections = []
    if found.tokenizers:
        table = all_tokenizers_table(found.tokenizers)
        sections.append(Section("tokenizers", "Tokenizers", [], [], [table]))
    for name, tokenizer in found.tokenizers.items():
        # Of an ordinary joint vocabulary every language has every token: nothing to see.
        if len(tokenizer.languages) > 1 and not tokenizer.token_membership.all():
            sections.append(tokenizer_section(name, tokenizer))
    for run in found.runs:
        sections += _if_sound(partial(run_section, run), workspace / "runs" / run.name, progress)
    kinds = [result.kind for result in found.results]
    for index, result in enumerate(found.results):
        make = partial(result_section, index, result, workspace, kinds.count(result.kind) > 1)
        sections += _if_sound(make, result.path, progress)
    missing = [kind for kind in TITLES if kind not in kinds]
    if missing:
        sections.append(
            Section(
                "missing",
                "Not here yet",
                ["These commands, run in the workspace, would add:"],
                command="\n".join(_TRY[kind] for kind in missing),
            )
        )
    name = workspace.resolve().name
    counts = (len(found.tokenizers), len(found.runs), len(found.results))
    intro = ["Tokenizers: {}. Training runs: {}. Measurements: {}.".format(*counts)]
    write_bytes(output, page(f"Report on {name}", intro, sections).encode())
    return [
        {
            "section": part.title,
            "pictures": len(part.charts),
            "tables": len(part.tables),
            "output": str(output),
        }
        for part in sections
    ]


def _if_sound(make: Callable[[], Section], where: Path, progress: Progress) -> list[Section]:
    """A section, or none and a warning where its rows are not such as we write.

    Saved rows come from files that anyone may have edited; one wrong value in one of them
    shall not cost the page. What is wrong shows when they are laid out, and drawn.
    """
    try:
        section = make()
        page("", [], [section])
    except AMISS as error:
        kind = type(error).__name__
        progress.warn(f"{where}: not as modtok writes it ({kind}: {error}); it is left out")
        return []
    return [section]


def tokenizer_section(name: str, tokenizer: ModularTokenizer) -> Section:
    """A modular tokenizer: its languages and what they share."""
    languages = tokenizer.languages
    text = (
        f"{tokenizer.algorithm}, {len(languages)} languages, {tokenizer.k:,} tokens asked for "
        f"each, {tokenizer.size:,} in all."
    )
    return Section(
        f"tokenizer-{name}",
        f"Shared tokens of {name}",
        [text],
        [shared_tokens(tokenizer)],
        [tokenizer_table(tokenizer)],
        f"modtok inspect -t {name}",
        [f"tokenizer|{tokenizer.signature}"],
    )


def run_section(run: TrainingRun) -> Section:
    """A training run: how it learned each language."""
    told = run.config["config"]
    text = (
        f"Sampling {told['sampling']}, model {told['model']}, {run.evaluations[-1]['step']:,} of "
        f"{told['steps']:,} steps; {told['batch_size']} sequences of {told['seq_length']:,} tokens "
        "a step."
    )
    return Section(
        f"run-{run.name}",
        f"Run {run.name}",
        [text, "Bits per byte do not depend on the vocabulary, so languages and runs compare."],
        run_charts(run),
        [run_table(run)],
        run.command,
        [run.signature],
    )


def shared_tokens(tokenizer: ModularTokenizer) -> Heat:
    """How much of each language's vocabulary every other language has too."""
    names = tokenizer.languages
    members = tokenizer.token_membership.astype("float32")
    common = members.T @ members
    values = {
        (row, column): float(100 * common[i, j] / common[i, i])
        for i, row in enumerate(names)
        for j, column in enumerate(names)
        if i != j
    }
    return Heat(
        "Tokens in common",
        "% of the row's tokens that the column's language has too",
        "language",
        "has too",
        names,
        names,
        values,
    )


def result_section(index: int, result: Result, workspace: Path, named: bool = False) -> Section:
    """Saved rows as pictures and tables; `named`: the title says of which file."""
    charts = [chart for chart in CHARTS[result.kind](result.rows) if not is_empty(chart)]
    signatures = list(dict.fromkeys(str(row.get("signature", "")) for row in result.rows))
    return Section(
        f"{result.kind}-{index}",
        TITLES[result.kind] + (f" ({result.path.stem})" if named else ""),
        [_WORDS[result.kind], f"Rows: {_inside(result.path, workspace)}"],
        charts,
        TABLES[result.kind](result.rows),
        result.command,
        _without_empty(signatures),
    )


def _inside(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace))


def _without_empty(names: Sequence[str]) -> list[str]:
    return [name for name in names if name]
