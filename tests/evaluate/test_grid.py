"""A grid: every cell once, whatever stops it, with the rows of the commands it stands for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.python_processes import run_python
from helpers.questions import lay_out
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.base.progress import Silent
from modtok_cli.evaluate.evaluate import (
    compare,
    evaluate_bpb,
    evaluate_mcq,
    evaluate_mt,
    evaluate_sum,
)
from modtok_cli.evaluate.grid import work
from modtok_cli.evaluate.grid.cells import Cell, Row, Store
from modtok_cli.evaluate.grid.grid import GridResult, list_cells, run_grid
from modtok_cli.evaluate.grid.plan import drawn_sets, plan_grid
from modtok_cli.evaluate.grid.spec import Bpb, Grid, Mcq, Mt, Runs, Sets, Sum, parse_grid, read_grid

TASKS = SAMPLE / "tasks"
TEXT = SAMPLE / "parallel" / "fr.txt"
LABELS = ("run", "step", "sampling", "p", "seed", "system", "drawn")


def grid_of(run: Path, **fields: Any) -> Grid:
    return Grid(runs=(Runs(path=str(run)),), **fields)


@pytest.fixture
def small(few_steps: Path) -> Grid:
    """Eight cells."""
    return grid_of(
        few_steps,
        infer=("lang", "full"),
        mcq=(Mcq(data=TASKS, tasks=("facts",), languages=("fi", "fr"), limit=2),),
        mt=(Mt(data=TASKS, pairs=("en-fr",), limit=2, shots=1, max_tokens=3),),
        bpb=(Bpb(texts=(TEXT,), limit=2),),
    )


def bare(row: Row) -> Row:
    """A row without the fields of its run, as JSON has it."""
    kept = {name: value for name, value in row.items() if name not in LABELS}
    found: Row = orjson.loads(orjson.dumps(kept))
    return found


def test_rows_are_those_of_the_commands(few_steps: Path, tmp_path: Path) -> None:
    grid = grid_of(
        few_steps,
        mcq=(
            Mcq(data=TASKS, languages=("fr",), infer=("full-lang",), limit=3, shots=1),
            Mcq(data=TASKS, languages=("el",), tasks=("endings",), limit=2),
        ),
        mt=(Mt(data=TASKS, pairs=("en-fr", "fr-fi"), infer=("src|tgt",), limit=2, max_tokens=3),),
        sum=(Sum(data=TASKS, languages=("fi",), limit=1, max_tokens=2, shots=0),),
        bpb=(Bpb(texts=(TEXT,), limit=2, infer=("full",)),),
    )
    found = run_grid(grid, tmp_path)
    expected: list[Any] = []
    for language, settings in (
        ("fr", {"infer": "full-lang", "limit": 3, "shots": 1}),
        ("el", {"tasks": ("endings",), "limit": 2}),
    ):
        results = evaluate_mcq(few_steps, [language], data=TASKS, **settings).results
        expected += [result.as_row() for result in results if result.task != "mean"]
    written = {"infer": "src|tgt", "limit": 2, "max_tokens": 3}
    for result in evaluate_mt(few_steps, "en-fr,fr-fi", data=TASKS, **written).results:
        expected.append(result.as_row())
    short = {"limit": 1, "max_tokens": 2, "shots": 0}
    for result in evaluate_sum(few_steps, ["fi"], data=TASKS, **short).results:
        expected.append(result.as_row())
    expected += evaluate_bpb(few_steps, [TEXT], limit=2, infer="full").rows
    assert [bare(row) for row in found.rows] == orjson.loads(orjson.dumps(expected))
    assert {row["system"] for row in found.rows} == {"sub:1"}
    assert {(row["run"], row["step"], row["seed"]) for row in found.rows} == {("it", 12, 0)}
    saved = [
        row
        for name in ("scores.jsonl", "bpb.jsonl")
        for row in map(orjson.loads, (tmp_path / name).read_bytes().splitlines())
    ]
    assert saved == found.rows


def test_examples_of_cells_compare(few_steps: Path, small: Grid, tmp_path: Path) -> None:
    found = run_grid(small, tmp_path / "grid")
    for mode in ("lang", "full"):
        examples = [
            example
            for planned in found.plan.cells
            if planned.cell.settings.infer == mode
            for example in found.store.examples(planned.cell.key)
        ]
        write_lines(tmp_path / f"{mode}.jsonl", examples)
    rows = compare(tmp_path / "lang.jsonl", tmp_path / "full.jsonl")
    (bits,) = (row for row in rows if row["task"] == "bpb")
    values = [row["bits_per_byte"] for row in found.rows if "bits_per_byte" in row]
    assert [bits["a"], bits["b"]] == pytest.approx(values, rel=1e-12)
    assert bits["low"] <= bits["difference"] <= bits["high"]
    assert {row["task"] for row in rows} == {"facts", "mt", "bpb"}


class Counted:
    """Evaluation of cells that counts, and stops after some of them."""

    def __init__(self, stop: int | None = None) -> None:
        self.cells: list[str] = []
        self._stop = stop

    def __call__(self, cell: Cell, models: Any) -> tuple[list[Row], list[Row]]:
        if len(self.cells) == self._stop:
            raise KeyboardInterrupt
        self.cells.append(cell.key)
        row = {"task": cell.task, "language": cell.language, "infer": cell.settings.infer}
        return [{**row, "context": models.source.context}], [{"id": "é"}]


def test_each_cell_is_computed_once(
    small: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Counted()
    monkeypatch.setattr(work, "evaluate_cell", whole)
    expected = run_grid(small, tmp_path / "whole")
    assert len(whole.cells) == len(set(whole.cells)) == expected.computed == 8
    computed: list[str] = []
    for stop in (3, 0, 2):
        part = Counted(stop)
        monkeypatch.setattr(work, "evaluate_cell", part)
        with pytest.raises(KeyboardInterrupt):
            run_grid(small, tmp_path / "part")
        computed += part.cells
    last = Counted()
    monkeypatch.setattr(work, "evaluate_cell", last)
    found = run_grid(small, tmp_path / "part")
    assert found.computed == 3
    assert sorted(computed + last.cells) == sorted(whole.cells)
    assert found.rows == expected.rows
    assert run_grid(small, tmp_path / "part").computed == 0
    states = [row["state"] for row in list_cells(small, tmp_path / "part")]
    assert states == ["done"] * 8


def test_a_cell_is_what_it_depends_on(small: Grid, few_steps: Path, tmp_path: Path) -> None:
    def keys(grid: Grid) -> set[str]:
        return {planned.cell.key for planned in plan_grid(grid).cells}

    before = keys(small)
    assert keys(replace(small, mcq=(replace(small.mcq[0], batch_size=1),))) == before
    assert len(keys(replace(small, mcq=(replace(small.mcq[0], limit=3),))) - before) == 4
    assert len(keys(replace(small, mt=(replace(small.mt[0], lowercase=True),))) - before) == 2
    assert not keys(replace(small, dtype="bfloat16")) & before
    shutil.copytree(TASKS, tmp_path / "tasks")
    moved = replace(small, mcq=(replace(small.mcq[0], data=tmp_path / "tasks"),))
    assert keys(moved) == before
    with open(tmp_path / "tasks" / "mcq" / "facts" / "fr.jsonl", "ab") as file:
        file.write(orjson.dumps({"question": "?", "choices": ["a", "b"], "answer": 0}) + b"\n")
    changed = keys(moved) - before
    assert len(changed) == 2  # French, in two modes
    shutil.copytree(few_steps, tmp_path / "runs" / "it", symlinks=True)
    shutil.copytree(few_steps.parents[1] / "tokenizer", tmp_path / "tokenizer")
    copied = replace(small, runs=(Runs(path=str(tmp_path / "runs" / "*")),))
    assert keys(copied) == before


def test_what_does_not_apply_is_skipped(few_steps: Path, tmp_path: Path) -> None:
    grid = grid_of(
        few_steps,
        infer=("lang", "src|tgt", "sv,en"),
        mcq=(Mcq(data=TASKS, tasks=("facts",), languages=("fr", "sw", "sv"), limit=1),),
    )
    found = run_grid(grid, tmp_path)
    assert [(row["language"], row["infer"]) for row in found.rows] == [("fr", "lang")]
    reasons = {(each.language, each.infer): each.why for each in found.skipped}
    assert "needs a source and a target" in reasons["fr", "src|tgt"]
    assert "unknown language 'sv'" in reasons["fr", "sv,en"]
    assert "'sw': the model has el,en,fi,fr" in reasons["sw", "lang"].replace("unknown ", "")
    assert "no questions" in reasons["sv", None]
    found.require_complete()


def test_a_cell_that_fails_leaves_the_others(few_steps: Path, tmp_path: Path) -> None:
    rows = [{"question": "?", "choices": ["oui", "non"], "answer": 0}]
    long = [{"question": "?", "choices": ["oui " * 400, "non"], "answer": 0}]
    for language, asked in (("fr", rows), ("fi", long)):
        lay_out(tmp_path, "arc_easy", language, test=asked)
    grid = grid_of(few_steps, mcq=(Mcq(data=tmp_path, shots=0, languages=("fi", "fr")),))
    said = Silent()
    found = run_grid(grid, tmp_path / "out", progress=said)
    assert [row["language"] for row in found.rows] == ["fr"]
    (_, why), *others = found.failed
    assert not others
    assert "the context has 192" in why
    assert any("the context has 192" in line for line in said.warnings)
    with pytest.raises(ModtokError, match=r"^incomplete: it@12 arc_easy fi default: "):
        found.require_complete()
    assert run_grid(grid, tmp_path / "out").computed == 0  # fails again, is not stored


def test_damaged_cells_are_computed_again(small: Grid, tmp_path: Path) -> None:
    grid = replace(small, mt=(), bpb=())
    expected = run_grid(grid, tmp_path).rows
    files = sorted((tmp_path / "cells").iterdir())
    files[0].write_bytes(files[0].read_bytes()[:-5])
    files[1].write_bytes(b"[1]\n")
    files[2].write_bytes(b"")
    files[3].write_bytes(files[3].read_bytes().replace(b'"value":', b'"value":1', 1))
    found = run_grid(grid, tmp_path)
    assert (found.computed, found.rows) == (4, expected)
    where = Store(tmp_path).path(found.plan.cells[0].cell.key)
    text = where.read_bytes()
    where.write_bytes(text[:-3] + b" }\n")
    with pytest.raises(ModtokError, match="wrong checksum"):
        found.store.examples(found.plan.cells[0].cell.key)


KILLED = """
import os, signal
from pathlib import Path
from modtok_cli.evaluate.grid import work
from modtok_cli.evaluate.grid.grid import run_grid
from modtok_cli.evaluate.grid.spec import read_grid
real, done = work.evaluate_cell, []
def counted(*arguments):
    if len(done) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(None)
    return real(*arguments)
work.evaluate_cell = counted
run_grid(read_grid(Path("grid.toml")), Path("out"), device="cpu")
"""


def test_killed_and_resumed_by_several_workers(
    small: Grid, few_steps: Path, tmp_path: Path, forked_executable: str
) -> None:
    """SIGKILL after three of eight cells; two workers do the others. All in one is the same."""
    expected = run_grid(small, tmp_path / "whole", device="cpu")
    text = (
        f'infer = ["lang", "full"]\n[[runs]]\npath = "{few_steps}"\n'
        f'[[mcq]]\ndata = "{TASKS}"\ntasks = ["facts"]\nlanguages = ["fi", "fr"]\nlimit = 2\n'
        f'[mt]\ndata = "{TASKS}"\npairs = ["en-fr"]\nlimit = 2\nshots = 1\nmax_tokens = 3\n'
        f'[[bpb]]\ntexts = ["{TEXT}"]\nlimit = 2\n'
    )
    (tmp_path / "grid.toml").write_text(text)
    assert read_grid(tmp_path / "grid.toml") == small
    killed = run_python(["-c", KILLED], cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert killed.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "out" / "cells").glob("[!.]*"))) == 3
    found = run_grid(small, tmp_path / "out", workers=2, device="cpu")
    assert (found.computed, found.failed) == (5, [])
    assert found.rows == expected.rows
    assert not list((tmp_path / "out" / "cells").glob(".*"))


def test_a_killed_worker_is_one_line(
    small: Grid, tmp_path: Path, forked_executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    cells = [planned.cell for planned in plan_grid(small).cells]

    def done(cell: Cell, failure: str | None) -> None:
        for process in started:
            process.kill()
            process.wait()

    with pytest.raises(ModtokError, match="a worker was killed"):
        work.work(cells, tmp_path, workers=2, device="cpu", progress=Silent(), done=done)
    assert all(process.returncode is not None for process in started)


def test_workers_share_models_and_cells(small: Grid) -> None:
    """No process waits while there are cells, and each rather keeps its model."""
    cells = [planned.cell for planned in plan_grid(small).cells]
    other = [replace(cell, place=replace(cell.place, dtype="bfloat16")) for cell in cells]
    queue = work.Queue(work.in_order_of_models([*cells, *other]))
    loaded: list[Any] = [None, None]
    taken: list[list[Cell]] = [[], []]
    for turn in range(16):
        worker = turn % 2
        cell = queue.take(loaded[worker], [loaded[1 - worker]])
        assert cell is not None
        loaded[worker] = cell.place
        taken[worker].append(cell)
    assert queue.take(loaded[0], []) is None
    assert [len({cell.place for cell in part}) for part in taken] == [1, 1]
    for part in taken:  # cells of one vocabulary are neighbours
        vocabularies = [cell.vocabulary for cell in part]
        changes = sum(a != b for a, b in pairwise(vocabularies))
        assert changes == len(set(vocabularies)) - 1


def test_drawn_sets() -> None:
    languages = ["el", "en", "fi", "fr", "sv"]
    found = list(drawn_sets(Sets(sizes=(1, 2, 3, 5, 6), draws=4), languages, ["fr", "en"]))
    assert {size for _, size in found} == {2, 3, 5}
    assert len(set(found)) == len(found)
    for mode, size in found:
        chosen = mode.split(",")
        assert len(chosen) == size
        assert {"en", "fr"} <= set(chosen)
        assert chosen == [name for name in languages if name in chosen]
    assert list(drawn_sets(Sets(sizes=(2,)), languages, ["sw"])) == []


BASE = {"runs": [{"path": "runs/a"}], "mcq": [{}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**BASE, "model": 1}, "field 'model' is not known"),
        ({**BASE, "mcq": [{"shot": 1}]}, "field 'mcq[0].shot' is not known"),
        ({**BASE, "mcq": {"shots": "5"}}, "field 'mcq[0].shots' is not a whole number"),
        ({**BASE, "mcq": [{}, {"shots": -1}]}, "field 'mcq[1].shots' is -1, expected at least 0"),
        ({**BASE, "infer": "lang"}, "field 'infer' is not a list"),
        ({**BASE, "infer": ["lang", 1]}, "field 'infer[1]' is not text"),
        ({**BASE, "infer": []}, "field 'infer' is empty"),
        ({**BASE, "infer": ["lang", "lang"]}, "field 'infer' has 'lang' twice"),
        ({**BASE, "languages": ["fr", "fra"]}, "field 'languages' has 'fr' twice"),
        ({**BASE, "languages": ["klingon"]}, "'klingon', which is not a language"),
        ({**BASE, "dtype": "int8"}, "field 'dtype' is 'int8', expected one of float32"),
        ({**BASE, "mcq": [{"limit": 0}]}, "field 'mcq[0].limit' is 0, expected at least 1"),
        ({**BASE, "mcq": [{"sets": {"sizes": [0]}}]}, "field 'mcq[0].sets.sizes' has 0"),
        ({**BASE, "mcq": [{"sets": {}}]}, "field 'mcq[0].sets.sizes' is missing"),
        ({**BASE, "mt": [{"pairs": ["en-xx"]}]}, "field 'mt[0].pairs' has 'en-xx', expected pairs"),
        ({**BASE, "mt": [{"pairs": ["en-fr", "eng-fr"]}]}, "field 'mt[0].pairs' has 'eng-fr' tw"),
        ({**BASE, "bpb": [{}]}, "field 'bpb[0].texts' is missing"),
        ({**BASE, "bpb": [{"texts": ["a"], "errors": "no"}]}, "field 'bpb[0].errors' is 'no'"),
        ({"runs": [], "mcq": [{}]}, "field 'runs' is empty; add [[runs]]"),
        ({"runs": [{"path": ""}], "mcq": [{}]}, "field 'runs[0].path' is empty"),
        ({"runs": [{"path": "a", "steps": []}], "mcq": [{}]}, "field 'runs[0].steps' is empty"),
        ({"runs": [{"path": "a"}]}, "no task: add [[mcq]], [[mt]], [[sum]], [[bpb]]"),
        ({"runs": [{}], "mcq": [{}]}, "field 'runs[0].path' is missing"),
    ],
)  # fmt: skip
def test_bad_files(content: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_grid(content, "grid.toml")
    assert str(caught.value).startswith(f"grid.toml: {message}" if message[0] in "fn" else "grid.")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_example_is_valid() -> None:
    grid = read_grid(SAMPLE.parent / "grid.toml")
    assert grid.mt[0].sets == Sets(sizes=(2, 4, 8))


def test_bad_toml_and_missing_runs(tmp_path: Path, few_steps: Path) -> None:
    path = tmp_path / "grid.toml"
    with pytest.raises(UsageError, match="cannot read: No such file"):
        read_grid(path)
    deep = b"x = " + b"[" * 5000
    for text, what in (
        (b"[[runs", r"grid\.toml: invalid TOML"),
        (b"a = 1\nb\n", r"grid\.toml:2: invalid TOML"),
        (b"\xff", "not UTF-8"),
        (deep, "nested too deeply"),
    ):
        path.write_bytes(text)
        with pytest.raises(UsageError, match=what):
            read_grid(path)
    task = (Mcq(data=TASKS, limit=1),)
    for name, message in (("nowhere", "does not exist"), ("*.json", "matches no run")):
        with pytest.raises(UsageError, match=message):
            plan_grid(Grid(runs=(Runs(path=str(tmp_path / name)),), mcq=task))
    (tmp_path / "other").mkdir()
    runs = (Runs(path=str(tmp_path / "other")), Runs(path=str(few_steps), steps=(7,)))
    plan = plan_grid(Grid(runs=runs, mcq=task))
    assert [each.why.split(": ", 1)[1].split(";")[0] for each in plan.skipped] == [
        "is neither a run nor a model",
        "has no checkpoint of step 7",
    ]


def test_names_of_systems(few_steps: Path, tmp_path: Path) -> None:
    """Runs that differ in the seed only are one system."""
    shutil.copytree(few_steps.parents[1] / "tokenizer", tmp_path / "tokenizer")

    def copy(name: str, change: Callable[[dict[str, Any]], None]) -> None:
        shutil.copytree(few_steps, tmp_path / "runs" / name, symlinks=True)
        file = tmp_path / "runs" / name / "config.json"
        config = orjson.loads(file.read_bytes())
        change(config["config"])
        file.write_bytes(orjson.dumps(config))

    copy("a", lambda config: None)
    copy("b", lambda config: config.update(seed=1, name="b"))
    copy("c", lambda config: config.update(p=0.25))
    copy("d", lambda config: config.update(sampling="none"))

    def systems(*runs: Runs) -> list[str]:
        grid = Grid(runs=runs, mcq=(Mcq(data=TASKS, tasks=("facts",), languages=("fr",), limit=1),))
        return [planned.run.name for planned in plan_grid(grid).cells]

    every = Runs(path=str(tmp_path / "runs" / "*"))
    assert systems(every) == ["sub:1 p=0.5", "sub:1 p=0.5", "sub:1 p=0.25", "none"]
    a, c, d = (Runs(path=str(tmp_path / "runs" / name), name="ours") for name in "acd")
    assert systems(a, c, replace(d, name=None)) == ["ours", "ours", "none"]


def test_a_directory_is_written_by_one(
    small: Grid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inside(cell: Cell, models: Any) -> Any:
        with pytest.raises(ModtokError, match="is being written by another process"):
            run_grid(small, tmp_path)
        return [{"task": cell.task}], []

    monkeypatch.setattr(work, "evaluate_cell", inside)
    result: GridResult = run_grid(replace(small, mt=(), bpb=()), tmp_path)
    assert result.computed == 4
