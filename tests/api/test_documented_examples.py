"""The examples of docs/python.md and of the public functions run as shown, on the sample text."""

from __future__ import annotations

import doctest
import importlib
import inspect
import shutil
from pathlib import Path

import pytest

import modtok_cli as modtok
from helpers.sample import ROOT, SAMPLE, needs

PAGE = ROOT / "docs" / "python.md"
NEEDS_MODELS = needs("megatron", "transformers", "lm_eval", "sacrebleu", "datatrove")


def session(text: str) -> str:
    """The Python blocks of a page as one interactive session; other lines are blank."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            line = ""
        lines.append(line if inside else "")
    return "\n".join(lines)


def prepare(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data", "parallel", "tasks"):
        shutil.copytree(SAMPLE / name, workspace / name)
    monkeypatch.chdir(workspace)


def run(name: str, text: str, names: dict[str, object]) -> int:
    """Run the examples of a text; how many there are."""
    return run_test(doctest.DocTestParser().get_doctest(text, names, name, name, 0))


def run_test(test: doctest.DocTest) -> int:
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    return len(test.examples)


@NEEDS_MODELS
def test_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, monkeypatch)
    assert run("python.md", session(PAGE.read_text()), {}) > 20


@NEEDS_MODELS
def test_examples_of_the_functions_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path, monkeypatch)
    order = ["bpe_seq", "bpe", "unigram", "pretrain", "slice"]  # others use what these write
    functions = [name for name in modtok.__all__ if name.islower() and name not in order]
    without = []
    for name in [*order, *functions]:
        document = inspect.getdoc(getattr(modtok, name)) or ""
        if not run(name, document, {"modtok": modtok}):
            without.append(name)
    # It needs a network.
    needy = ["fetch_tasks"]
    assert without == [*needy, "write_examples"]


def test_other_examples_in_docstrings_run() -> None:
    """Of the public functions above they need a workspace, and of some modules an extra."""
    number = 0
    for path in sorted((ROOT / "modtok_cli").rglob("*.py")):
        if ">>>" in path.read_text("utf-8"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            for test in doctest.DocTestFinder().find(module, name):
                if not any("modtok." in each.source for each in test.examples):
                    number += run_test(test)
    assert number > 100
