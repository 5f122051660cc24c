"""docs/scale.md has the tables that the formulas give."""

from benchmarks.speed import scale


def test_the_page_is_what_the_script_writes() -> None:
    page = scale.PAGE.read_text(encoding="utf-8")
    assert scale.updated(page) == page, "python -m benchmarks scale --write"
