"""docs/scale.md has the tables that the formulas give."""

from helpers.python_processes import run_python
from helpers.sample import ROOT


def test_the_page_is_what_the_script_writes() -> None:
    run_python(["-m", "benchmarks", "scale", "--check"], cwd=ROOT, check=True)
