"""Every code block of docs/python.md runs as shown, in order, on the sample text."""

from __future__ import annotations

import doctest
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
SAMPLE = ROOT / "examples" / "sample"


def session(text: str) -> str:
    """The Python blocks of a page as one interactive session; other lines are blank."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            line = ""
        lines.append(line if inside else "")
    return "\n".join(lines)


@pytest.mark.skipif(
    find_spec("megatron") is None or find_spec("transformers") is None,
    reason="needs the extra [lm]",
)
def test_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data", "parallel"):
        shutil.copytree(SAMPLE / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    parser = doctest.DocTestParser()
    test = parser.get_doctest(session(PAGE.read_text()), {}, "python.md", str(PAGE), 0)
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    runner.run(test, out=report.append)
    assert len(test.examples) > 20
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
