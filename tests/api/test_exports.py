"""`import modtok_cli as modtok`: every name loads lazily, is typed and documented."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Annotated

import pytest

import modtok_cli as modtok
from helpers.processes import python
from modtok_cli.base.option import Option, signature_of
from modtok_cli.base.public import documented
from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes
from modtok_cli.text.reading import Reading

SOURCE = Path(modtok.__file__)
FUNCTIONS = [name for name in modtok.__all__ if name.islower()]


def typed_imports() -> dict[str, str]:
    """Name to module of the imports that type checkers see."""
    block = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    return {
        alias.asname or alias.name: str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_runtime_names_equal_typed_imports() -> None:
    lazy = {name: f"modtok_cli.{module}" for name, module in modtok._MODULES.items()}
    assert lazy == typed_imports()


def test_import_loads_no_other_module() -> None:
    code = "import sys; old = set(sys.modules); import modtok_cli; print(*set(sys.modules) - old)"
    done = python("-S", "-c", code, cwd=SOURCE.parents[1])
    loaded = done.stdout.split()
    ours = {name for name in loaded if name.startswith("modtok_cli.")}
    assert ours == {"modtok_cli.base", "modtok_cli.base.version"}
    assert {"numpy", "torch", "tokenizers", "orjson"}.isdisjoint(loaded)


@pytest.mark.parametrize("name", modtok.__all__)
def test_every_name_resolves(name: str) -> None:
    assert getattr(modtok, name) is getattr(modtok, name)
    assert name in dir(modtok)
    assert inspect.getdoc(getattr(modtok, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_typed_and_document_every_argument(name: str) -> None:
    function = getattr(modtok, name)
    document = inspect.getdoc(function) or ""
    parameters = signature_of(function).parameters
    assert all(p.annotation is not inspect.Parameter.empty for p in parameters.values())
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty
    inherited = "arguments are those of" in document
    missing = [p for p in parameters if p not in document]
    assert not missing or inherited


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = modtok.nothing


def test_no_name_is_a_package_too() -> None:
    packages = {path.name for path in SOURCE.parent.iterdir() if path.is_dir()}
    assert packages.isdisjoint(modtok.__all__)  # importing the package would replace the name


def _act(
    k: Annotated[int, Option("Not --table nor x-k, with --lang-field. Repeatable.", flags="-k")],
    references: Annotated[bool, Option(f"Do not learn -k.{' More' * 20}", flags="--no-references")],
    reading: Reading,
    unlisted: int = 0,
    progress: object = None,
) -> None:
    """Act `k` times.

    Returns:
        None.
    """


def test_arguments_are_described_in_parameters_and_not_in_flags() -> None:
    assert documented(_act).splitlines() == [
        "Act `k` times.",
        "",
        "Args:",
        "    k: Not --table nor x-k, with `reading.lang_field`.",
        f"    references: If false, do not learn `k`.{' More' * 11}",
        f"       {' More' * 9}",
        "    reading: See `Reading`.",
        "    progress: Receives progress; warnings become `ModtokWarning` by default.",
        "",
        "Returns:",
        "    None.",
    ]


def test_every_command_is_a_function_of_the_same_options() -> None:
    public = {inspect.unwrap(getattr(modtok, name)) for name in FUNCTIONS}
    for node in nodes(command_tree()):
        if node.is_group:
            continue
        declaration = REGISTERED[" ".join(node.path)].declaration
        assert declaration is not None, node.path
        assert declaration.function in public, node.path
        flags = {flag for line in node.lines for flag in line.flags}
        for _, _, option in declaration.options():
            assert option.argument or flags.issuperset(option.all_flags), (node.path, option.name)
