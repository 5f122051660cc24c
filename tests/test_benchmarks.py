"""Benchmarks: pages cite what they measured, and a world is written."""

from __future__ import annotations

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
