"""The house stands as docs/architecture.md says: a room imports only from rooms above it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "modtok_cli"
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"


def rooms() -> list[str]:
    """The rooms in the order of the table in docs/architecture.md."""
    return [
        line.split("`")[1].rstrip("/")
        for line in ARCHITECTURE.read_text().splitlines()
        if line.startswith("| `") and line.split("`")[1].endswith("/")
    ]


def imported(path: Path) -> set[str]:
    """Rooms that a module imports from, within functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "modtok_cli" and len(parts) > 1:
                found.add(parts[1])
    return found


def test_the_table_names_every_room() -> None:
    there = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert there <= set(rooms())


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.stem)
def test_rooms_import_only_from_above(path: Path) -> None:
    order = rooms()
    parts = path.relative_to(PACKAGE).parts
    if len(parts) == 1:
        return  # the package itself and its __main__
    own = order.index(parts[0])
    below = [room for room in imported(path) if room in order and order.index(room) > own]
    assert not below, f"{path.relative_to(PACKAGE)} reaches down into {', '.join(below)}"
