"""Values that are taken as they are equal those that typer's validator makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer._adapters import try_build_adapter

from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes
from modtok_cli.cli.values import OTHER, as_given

GIVEN = [
    "a",
    "",
    "-",
    "5",
    "-5",
    "05",
    " 5",
    "1e3",
    "0.5",
    "true",
    "strict",
    "csv",
    "9" * 30,
    "a\0",
]
VALUES: list[Any] = [*GIVEN, 5, 300, 0.5, True, False, Path("x"), ("a", "b"), ["5"], ()]


def test_every_option_of_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    taken = 0
    seen = set()
    for node in nodes(command_tree()):
        for param in node.command.params:
            described = param.type_descriptor
            info, several = described.parameter_info, param.multiple or param.nargs == -1
            key = (str(described.annotation), several, info.min, info.max, info.parser)
            if key in seen:
                continue
            seen.add(key)
            adapter = try_build_adapter(described.annotation, info)
            assert adapter is not None
            for value in VALUES:
                found = as_given(value, described.annotation, info, several=several)
                if found is not OTHER:
                    expected = adapter.validate_python(value, context={"ctx": None, "param": param})
                    assert (found, type(found)) == (expected, type(expected)), (param.name, value)
                    taken += 1
    assert len(seen) > 10
    assert taken > 50
