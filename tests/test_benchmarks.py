"""Benchmarks: pages cite what they measured, and a world is written."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from helpers.python_processes import run_python

ROOT = Path(__file__).parent.parent


def test_a_world_is_written_and_kept(tmp_path: Path) -> None:
    line = ["-m", "benchmarks", "world", "text", str(tmp_path / "w"), "--documents", "9"]
    for _ in range(2):
        run_python([*line, "--langs", "qaa,qab"], cwd=ROOT, check=True)
    assert len((tmp_path / "w" / "data" / "qab.jsonl").read_bytes().splitlines()) == 9
    assert (
        (tmp_path / "w" / "tasks" / "mt" / "test.tsv").read_text("utf-8").startswith("qaa\tqab\n")
    )


def test_every_result_is_cited_by_a_page() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    pages += [*ROOT.glob("examples/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
    text = "\n".join(page.read_text("utf-8") for page in pages if page.parent.name != "results")
    results = [path.name for path in (ROOT / "benchmarks" / "results").iterdir()]
    assert [name for name in sorted(results) if name not in text] == []


def test_pages_name_benchmarks_that_exist() -> None:
    known = {path.stem for path in (ROOT / "benchmarks").glob("*/*.py")}
    pages = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    pages += [*ROOT.glob("examples/**/*.md"), *ROOT.glob("benchmarks/*/*.md")]
    for page in pages:
        if page.parent.name != "results":
            text = page.read_text("utf-8")
            named = re.findall(r"-m benchmarks (\w+)", text)
            named += re.findall(r"`benchmarks/\w+/(\w+)\.py", text)
            assert set(named) - {"NAME"} <= known, page


def test_what_benchmarks_import_of_each_other_exists() -> None:
    """Nothing else imports most of them."""
    for path in (ROOT / "benchmarks").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = (getattr(node, "module", None) or "").split(".")
            if isinstance(node, ast.ImportFrom) and module[0] in ("benchmarks", "helpers"):
                place = (ROOT if module[0] == "benchmarks" else ROOT / "tests").joinpath(*module)
                file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
                text = file.read_text("utf-8")
                for name in (alias.name for alias in node.names):
                    own = (place / f"{name}.py").is_file()
                    assert own or re.search(rf"\b{name}\b", text), (path, name)
