"""Means and tests of a grid against scipy, `eval compare` and numbers by hand; tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from scipy import stats

from helpers.sample import SAMPLE
from modtok_cli.base.files import write_lines
from modtok_cli.base.progress import SILENT
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.run import run
from modtok_cli.evaluate.evaluate import compare
from modtok_cli.evaluate.grid import work
from modtok_cli.evaluate.grid.cells import Cell, Row
from modtok_cli.evaluate.grid.grid import GridResult, run_grid
from modtok_cli.evaluate.grid.means import Summary, summarize
from modtok_cli.evaluate.grid.spec import Bpb, Grid, Mcq, Mt, Runs, Sets
from modtok_cli.evaluate.results import example, interval, mean_interval
from modtok_cli.reports.collect import read_result
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.kinds.grid import SHOWN, differences
from modtok_cli.reports.report import report

TASKS = SAMPLE / "tasks"
Copies = Callable[..., list[Path]]


@pytest.fixture
def copies(few_steps: Path, tmp_path: Path) -> Copies:
    """Runs that say they were trained with other settings."""
    shutil.copytree(few_steps.parents[1] / "tokenizer", tmp_path / "tokenizer")

    def make(**settings: dict[str, Any]) -> list[Path]:
        paths = []
        for name, changes in settings.items():
            path = tmp_path / "runs" / name
            shutil.copytree(few_steps, path, symlinks=True)
            config = orjson.loads((path / "config.json").read_bytes())
            config["config"].update(changes)
            (path / "config.json").write_bytes(orjson.dumps(config))
            paths.append(path)
        return paths

    return make


class Made:
    """Rows and examples from a function of (run, task, language, mode), 10 examples each."""

    def __init__(self, share: Callable[[str, str, str, str], float]) -> None:
        self.share = share
        self.cells = 0

    def __call__(self, cell: Cell, models: Any) -> tuple[list[Row], list[Row]]:
        self.cells += 1
        where, mode = str(cell.language), str(cell.settings.infer)
        right = round(10 * self.share(models.source.path.name, cell.task, where, mode))
        scores = [float(number < right) for number in range(10)]
        low, high = mean_interval(scores)
        row = {
            "task": cell.task,
            "language": where,
            "metric": "acc",
            "value": 10.0 * right,
            "low": low,
            "high": high,
            "n": 10,
            "shots": 0,
            "infer": mode,
            "normalization": "none",
            "signature": "made|x:1",
            "checkpoint": "it@12/0",
        }
        names = enumerate(scores)
        return [row], [
            example(cell.task, where, str(number), {"acc": score}) for number, score in names
        ]


def summary_of(result: GridResult, place: Path) -> tuple[list[Row], list[Row]]:
    found: Summary = summarize(result, place)
    return found.means, found.tests


def one(rows: list[Row], **fields: Any) -> Row:
    (found,) = (
        row for row in rows if all(row[name] == value for name, value in fields.items())
    )  # fmt: skip
    return found


def grid_of(paths: list[Path], **fields: Any) -> Grid:
    task = Mcq(data=TASKS, languages=("fi", "fr"), infer=("lang", "full"), **fields)
    return Grid(runs=tuple(Runs(path=str(path)) for path in paths), mcq=(task,))


def test_seeds(copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = copies(
        a0={}, a1={"seed": 1}, a2={"seed": 2},
        b1={"sampling": "none", "seed": 1}, b0={"sampling": "none"},
        b2={"sampling": "none", "seed": 2}, c={"sampling": "joint", "seed": 7},
        d={"sampling": "joint", "seed": 8},
    )  # fmt: skip
    shares = {"a0": 0.5, "a1": 0.6, "a2": 0.9, "b0": 0.4, "b1": 0.4, "b2": 0.5, "c": 0.1, "d": 0.3}

    def share(name: str, task: str, language: str, mode: str) -> float:
        better = 0.1 * (task == "facts") if language == "fr" else 0.0
        return shares[name] - better + 0.1 * (mode == "full")

    monkeypatch.setattr(work, "evaluate_cell", Made(share))
    result = run_grid(grid_of(paths), tmp_path / "out")
    means, tests = summary_of(result, tmp_path / "out")
    # Of Finnish both tasks have the run's share; one of two French tasks has 0.1 less.
    of_runs = [47.5, 57.5, 87.5]
    mean = one(means, system="sub:1", infer="lang", language="mean")
    assert mean["value"] == pytest.approx(np.mean(of_runs))
    expected = stats.ttest_1samp(of_runs, 0).confidence_interval(0.95)
    assert (mean["low"], mean["high"]) == pytest.approx((expected.low, expected.high))
    assert (mean["by"], mean["runs"], mean["languages"], mean["tasks"]) == ("seeds", 3, 2, 2)
    french = one(means, system="sub:1", infer="lang", language="fr")
    assert french["value"] == pytest.approx(np.mean([45, 55, 85]))
    # The same seeds are paired, in whatever order runs are named.
    test = one(tests, system_a="sub:1", system_b="none", infer_a="lang")
    others = [37.5, 37.5, 47.5]
    paired = stats.ttest_rel(others, of_runs)
    assert (test["by"], test["paired"], test["runs"]) == ("seeds", True, 3)
    assert test["difference"] == pytest.approx(np.mean(others) - np.mean(of_runs))
    assert test["p"] == pytest.approx(paired.pvalue)
    assert test["low"] == pytest.approx(paired.confidence_interval().low)
    # Other seeds are not.
    test = one(tests, system_a="sub:1", system_b="joint", infer_a="full")
    welch = stats.ttest_ind([17.5, 37.5], [57.5, 67.5, 97.5], equal_var=False)
    assert (test["by"], test["paired"]) == ("seeds", False)
    assert test["p"] == pytest.approx(welch.pvalue)
    assert test["high"] == pytest.approx(welch.confidence_interval().high)
    # A difference without variance has no p.
    test = one(tests, system_a="none", system_b="none")
    assert (test["a"], test["b"], test["low"], test["p"]) == pytest.approx(
        (np.mean(others), np.mean(others) + 10, 10, None)
    )


def test_one_run_is_compared_on_examples(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        work,
        "evaluate_cell",
        Made(lambda run, task, language, mode: 0.3 + 0.4 * (mode == "full")),
    )
    result = run_grid(grid_of([few_steps], tasks=("facts",)), tmp_path / "out")
    means, tests = summary_of(result, tmp_path / "out")
    for mode in ("lang", "full"):
        rows = [
            row
            for planned in result.plan.cells
            if planned.cell.settings.infer == mode
            for row in result.store.examples(planned.cell.key)
        ]
        write_lines(tmp_path / f"{mode}.jsonl", rows)
    expected = one(compare(tmp_path / "lang.jsonl", tmp_path / "full.jsonl"), language="mean")
    (test,) = tests
    for name in ("a", "b", "difference", "low", "high", "p"):
        assert test[name] == pytest.approx(expected[name], rel=1e-9), name
    assert (test["by"], test["runs"]) == ("examples", 1)
    mean = one(means, infer="full", language="fr")
    values = np.array([[1.0]] * 7 + [[0.0]] * 3)
    from modtok_cli.evaluate.results import bootstrap_means

    assert (mean["low"], mean["high"]) == interval(100 * bootstrap_means(values)[:, 0])


def test_means_are_over_what_all_have(
    copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system without Finnish does not look better for it."""
    a, b = copies(a={}, b={"sampling": "none"})
    shares = {"fi": 0.2, "fr": 0.6}
    made = Made(lambda run, task, language, mode: shares[language])
    monkeypatch.setattr(work, "evaluate_cell", made)
    both = run_grid(grid_of([a], tasks=("facts",)), tmp_path / "out")
    rows = both.rows
    task = Mcq(data=TASKS, tasks=("facts",), languages=("fr",), infer=("lang",))
    grid = Grid(runs=(Runs(path=str(b)),), mcq=(task,))
    alone = run_grid(grid, tmp_path / "out")
    assert len(rows) == 4
    merged = GridResult(
        type(both.plan)([*both.plan.cells, *alone.plan.cells], []), both.store, [], [], 0
    )
    means, tests = summary_of(merged, tmp_path / "merged")
    assert [row["value"] for row in means if row["language"] == "mean"] == [60, 60, 60]
    assert {(row["system_a"], row["system_b"]) for row in tests} == {
        ("sub:1", "sub:1"),
        ("sub:1", "none"),
    }
    same = one(tests, system_a="sub:1", system_b="sub:1")
    assert (same["a"], same["languages"]) == (40, 2)


def test_summary_is_made_once(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(lambda run, task, language, mode: 0.5)
    monkeypatch.setattr(work, "evaluate_cell", made)
    result = run_grid(grid_of([few_steps]), tmp_path)
    first = summarize(result, tmp_path)
    file = tmp_path / "means.jsonl"
    changed = file.stat().st_mtime_ns
    assert summarize(result, tmp_path) == first
    assert file.stat().st_mtime_ns == changed
    file.write_text("{}\n")
    assert summarize(result, tmp_path) == first
    smaller = run_grid(grid_of([few_steps], tasks=("facts",)), tmp_path)
    assert {row["tasks"] for row in summarize(smaller, tmp_path).means} == {1}


def test_tables(copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = copies(
        a={}, b={"seed": 1}, c={"p": 0.25}, d={"p": 0.25, "seed": 1}, e={"sampling": "none"}
    )  # fmt: skip
    monkeypatch.setattr(
        work,
        "evaluate_cell",
        Made(lambda run, task, language, mode: 0.2 + 0.1 * len(mode.split(","))),
    )
    grid = grid_of(paths, tasks=("facts",), sets=Sets(sizes=(2, 3), draws=2))
    result = run_grid(grid, tmp_path / "out")
    means, tests = summary_of(result, tmp_path / "out")
    (table,) = SHOWN["averages"](means)
    assert table.headings == ["system", "lang", "full"]
    assert [row[0] for row in table.rows] == ["sub:1 p=0.5", "sub:1 p=0.25", "none"]
    assert table.rows[0][1] == "30.0 (30.0–30.0)"
    assert "2 languages" in table.caption
    assert table.note == "Student's interval over 2 seeds, else bootstrap interval over examples."
    (table,) = SHOWN["languages"](means)
    assert list(table.headings) == ["system", "infer", "mean MCQ", "fi MCQ", "fr MCQ"]
    assert len(table.rows) == 6
    (table,) = SHOWN["p"](means)
    assert [row[1] for row in table.rows] == ["–", "0.25", "0.5"]
    (table,) = SHOWN["combinations"](means)
    assert table.headings == ["system", "lang", "full", "2 languages", "3 languages"]
    assert table.rows[0] == ["sub:1 p=0.5", "30.0", "30.0", "40.0 ± 0.0", "50.0 ± 0.0"]
    (table,) = differences(tests)
    assert len(table.rows) == 9  # two modes in three systems, three pairs under two modes
    assert table.rows[0][0] == "sub:1 p=0.5"
    for name in ("means", "tests"):
        found = read_result(tmp_path / "out" / f"{name}.jsonl", SILENT)
        assert found is not None
        assert found.kind == f"grid-{name}"
        kind = kinds()[found.kind]
        assert kind.tables(found.rows)
        assert bool(kind.charts(found.rows)) == (name == "means")
    assert SHOWN["p"](means[:0]) == SHOWN["languages"]([]) == SHOWN["combinations"]([]) == []


def test_command_and_page(
    few_steps: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    fields = f'data = "{TASKS}"\nlimit = 3\n'
    Path("small.toml").write_text(
        f'infer = ["lang", "full", "src|tgt"]\n[[runs]]\npath = "{few_steps}"\n'
        f'[mcq]\n{fields}tasks = ["facts"]\nlanguages = ["fr", "sw"]\n'
        f'[mt]\n{fields}pairs = ["en-fr"]\nshots = 0\nmax_tokens = 2\n'
        f'[bpb]\ntexts = ["{SAMPLE / "parallel" / "fr.txt"}"]\nlimit = 3\n'
    )

    def modtok(*words: str) -> tuple[int, str, str]:
        status = run(command_tree(), ["eval", "grid", *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    status, out, _ = modtok("small.toml", "--dry-run", "--json")
    states = [json.loads(line)["state"] for line in out.splitlines()]
    assert (status, states.count("missing"), len(states)) == (0, 8, 12)
    assert not Path("grids").exists()
    status, out, said = modtok("small.toml", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (status, len(rows)) == (0, 14)
    assert "skipped it facts,bpb fr,sw src|tgt: 'src|tgt' needs" in said
    assert "skipped it facts sw lang: unknown language 'sw'" in said
    status, out, said = modtok("small.toml", "--table", "--show", "averages,tests")
    assert status == 0
    assert "8 cells, 8 are done" in said
    assert "Multiple choice, accuracy: mean over" in out
    assert "Bits per byte: differences" in out
    status, out, _ = modtok("small.toml", "--json", "--show", "tests")
    tests = [json.loads(line) for line in out.splitlines()]
    assert {row["measure"] for row in tests} == {
        *("mcq", "bpb", "mt BLEU", "mt chrF++", "mt in language"),
    }
    assert modtok("small.toml", "--show", "all")[0] == 2
    Path("small.toml").write_text("runs = 1")
    status, _, said = modtok("small.toml", "-o", "x", "--workers", "2")
    assert (status, said) == (2, "modtok: error: small.toml: field 'runs' is not a list; try "
        '"modtok eval grid --help"\n')  # fmt: skip
    sections = {row["section"]: row for row in report(Path("grids/small"), Path("page.html"))}
    assert sections["Means of a grid"]["tables"] == 6
    assert sections["Differences in a grid"]["tables"] == 5
    assert "95% interval" in Path("page.html").read_text(encoding="utf-8")


def test_real_scores_and_their_resamples(few_steps: Path, tmp_path: Path) -> None:
    """Values of cells lie in the intervals of resampled examples, for every measure."""
    grid = Grid(
        runs=(Runs(path=str(few_steps)),),
        mcq=(Mcq(data=TASKS, tasks=("facts",), languages=("fr",), limit=6),),
        mt=(Mt(data=TASKS, pairs=("en-fr",), limit=4, shots=0, max_tokens=4),),
        bpb=(Bpb(texts=(SAMPLE / "parallel" / "fr.txt",), limit=4),),
    )
    result = run_grid(grid, tmp_path)
    means, tests = summary_of(result, tmp_path)
    assert tests == []
    assert {row["measure"] for row in means} == {
        *("mcq", "mt BLEU", "mt chrF++", "mt in language", "bpb"),
    }
    rows = {row.get("metric", "bpb"): row for row in result.rows}
    for mean in means:
        assert mean["low"] <= mean["value"] <= mean["high"]
        if mean["measure"] == "bpb":
            assert mean["value"] == rows["bpb"]["bits_per_byte"]
            assert (mean["low"], mean["high"]) == (rows["bpb"]["low"], rows["bpb"]["high"])
        if mean["measure"] == "mt BLEU":
            assert (mean["low"], mean["high"]) == (rows["BLEU"]["low"], rows["BLEU"]["high"])
