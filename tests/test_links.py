"""What pages point to exists: files, headings, modules, benchmarks and their results."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from helpers.python_processes import run_python

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """The text of a page without its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^ {4}.*$", "", text, flags=re.M))


def anchor(heading: str) -> str:
    """What GitHub and mkdocs make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {anchor(heading) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_to_files_and_headings(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, heading = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        assert found.is_relative_to(ROOT), target
        if heading:
            assert heading in anchors(found), target


MODULE = re.compile(r"`((?:modtok_cli/)?[a-z_]+(?:/[a-z_]+)*/[a-z_]+\.(?:py|js|c|h|yaml))`")
DOTTED = re.compile(r"`([a-z]+(?:\.[a-z_]+)+)`")


@pytest.mark.parametrize(
    "page", [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda p: p.name
)
def test_modules_that_pages_name_exist(page: Path) -> None:
    """`construct/bpe_seq.py`, relative to the package or the repository, and `measure.nsl`."""
    text, package = page.read_text(encoding="utf-8"), ROOT / "modtok_cli"
    for name in MODULE.findall(text):
        assert any((place / name).exists() for place in (ROOT, package, package / "core")), name
    for name in DOTTED.findall(text):
        first, *rest = name.split(".")
        if (
            rest[-1] not in ("py", "c", "json", "md", "model")
            and (package / first / "__init__.py").is_file()
            # `model.encode_out` is a method of an object.
            and (first not in ("model", "tokenizer") or (package / first / rest[0]).is_dir())
        ):
            place = package / first
            while rest and (place / rest[0]).is_dir():
                place /= rest.pop(0)
            assert not rest or (place / f"{rest[0]}.py").is_file() or _defines(place, rest[0]), name


def _defines(package: Path, name: str) -> bool:
    """Whether the `__init__` of a package, or a folder of it, has this name."""
    return re.search(rf"\b{name}\b", (package / "__init__.py").read_text()) is not None


def test_readme_index_and_results_link_every_page() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in (ROOT / "README.md", ROOT / "docs" / "index.md", ROOT / "docs" / "results.md")
        for target in LINK.findall(prose(page))
    }
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages <= linked


def test_a_world_is_written_and_kept(tmp_path: Path) -> None:
    line = ["-m", "benchmarks", "world", "text", str(tmp_path / "w"), "--documents", "9"]
    for _ in range(2):
        run_python([*line, "--langs", "qaa,qab"], cwd=ROOT, check=True)
    assert len((tmp_path / "w" / "data" / "qab.jsonl").read_bytes().splitlines()) == 9
    assert (
        (tmp_path / "w" / "tasks" / "mt" / "test.tsv").read_text("utf-8").startswith("qaa\tqab\n")
    )


def test_every_result_is_cited_by_a_page() -> None:
    text = "\n".join(page.read_text("utf-8") for page in PAGES if page.parent.name != "results")
    results = [path.name for path in (ROOT / "benchmarks" / "results").iterdir()]
    assert [name for name in sorted(results) if name not in text] == []


def test_pages_name_benchmarks_that_exist() -> None:
    known = {path.stem for path in (ROOT / "benchmarks").glob("*/*.py")}
    for page in (ROOT / "Makefile", *PAGES):
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
