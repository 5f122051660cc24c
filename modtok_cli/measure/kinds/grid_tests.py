"""Tests of differences of `modtok eval grid`."""

from __future__ import annotations

from modtok_cli.measure.grid_tables import differences
from modtok_cli.measure.kind import Kind

KIND = Kind(
    name="grid-tests",
    title="Differences in a grid",
    about="Differences between inference modes of a system, and between systems under a mode, with "
    "95% intervals. p is of no difference, not corrected for the number of tests: by a t-test over "
    "seeds, or by paired bootstrap over examples, which says nothing of other seeds.",
    example="modtok eval grid grid.toml && modtok report grids/grid",
    charts=lambda rows: [],
    tables=differences,
    order=86,
    fields=("measure", "system_a", "infer_a", "system_b", "infer_b", "difference", "p", "by"),
    by_fields=True,
    command=lambda rows: "modtok eval grid GRID",
)
