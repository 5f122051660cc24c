"""The folders of `pretrain/` import only from folders before them."""

import ast
from pathlib import Path

import pytest

import modtok_cli.pretrain as package

ROOT = Path(package.__file__).parent
ORDER = ("distributed", "data", "rows", "model")
PREFIX = "modtok_cli.pretrain."


def position(name: str) -> int:
    """Place in the order; modules beside the folders come last."""
    if name == "presets":  # plain data, without imports of its own
        return 0
    return ORDER.index(name) if name in ORDER else len(ORDER)


@pytest.mark.parametrize("folder", ORDER)
def test_no_upward_imports(folder: str) -> None:
    for path in (ROOT / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                if name.startswith(PREFIX):
                    other = name.removeprefix(PREFIX).split(".")[0]
                    assert position(other) <= position(folder), f"{path.name} imports {name}"


def test_the_order_names_every_folder() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders == set(ORDER)
