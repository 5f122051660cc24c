"""What other tests reach only through whole commands: signatures, locks, packages, options."""

from __future__ import annotations

import ast
import errno
import fcntl
import importlib.util
import re
import sys
import tomllib
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, deserialize

from helpers.examples import examples
from modtok_cli.base import extras, remote
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import EXTRAS
from modtok_cli.base.locks import alone
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.signature import digest
from modtok_cli.base.tensors import INVALID, header_length, parse_header
from modtok_cli.model.architecture.stored_tensors import read_header


def test_a_digest_knows_where_a_part_ends() -> None:
    assert len({digest(b"ab", b"c"), digest(b"a", b"bc"), digest(b"abc"), digest(b"", b"abc")}) == 4


def test_a_file_system_without_locks_is_used_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with alone(tmp_path) as is_alone:
        assert is_alone


def test_a_package_that_is_partly_there_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ValueError(f"{name}.__spec__ is None")

    monkeypatch.setattr(extras, "find_spec", fail)
    assert importlib.util.find_spec("json") is not None
    assert not extras.is_installed("json")


@pytest.mark.parametrize("cause", [None, NotADirectoryError("a"), FileNotFoundError("a")])
def test_nothing_at_an_address_is_no_failure(cause: Exception | None) -> None:
    for kind in (FileNotFoundError, NotADirectoryError):
        error = kind("a")
        error.__cause__ = cause
        assert remote._reason(error) is None


KINDS = {"F32": "<f4", "U8": "u1", "I16": "<i2", "F64": "<f8"}


@st.composite
def tensor_files(draw: st.DrawFn) -> bytes:
    """Arrays in safetensors in any order of names; a value of the header may be wrong."""
    header: dict[str, Any] = {}
    data = b""
    for number in range(draw(st.integers(0, 4))):
        kind, size = draw(
            st.sampled_from([(name, np.dtype(kind).itemsize) for name, kind in KINDS.items()])
        )
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        length = prod(shape) * size
        header[str(number)] = {
            "dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + length],
        }  # fmt: skip
        data += bytes((number + place) % 256 for place in range(length))
    header = dict(draw(st.permutations([*header.items()])))
    wrong = st.sampled_from([-1, True, 1.0, "1", None, 0, 1, 4, 2**60])
    if header and draw(st.booleans()):
        field = draw(st.sampled_from(["shape", "data_offsets"]))
        values = header[draw(st.sampled_from([*header]))][field]
        if values:
            values[draw(st.integers(0, len(values) - 1))] = draw(wrong)
    text = orjson.dumps(header)
    more = draw(st.sampled_from([b"", b"", b"x"]))
    return len(text).to_bytes(8, "little") + text + data + more


@settings(max_examples=examples(300))
@given(tensor_files())
def test_files_of_arrays_are_read_as_the_library_reads_them(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    """By both readers of headers; that of models allows bytes between arrays, as some have."""
    path = tmp_path_factory.getbasetemp() / "a.safetensors"
    path.write_bytes(data)
    try:
        theirs = {
            name: (each["dtype"], tuple(each["shape"]), bytes(each["data"]))
            for name, each in deserialize(data)
        }
    except SafetensorError:
        theirs = None
    try:
        end = 8 + header_length(data[:8], len(data))
        _, places = parse_header(data[8:end], len(data))
    except INVALID:
        assert theirs is None
    else:
        assert theirs is not None
        assert places.keys() == theirs.keys()
        for name, place in places.items():
            kind, shape, content = theirs[name]
            assert (np.dtype(KINDS[kind]), shape) == (place.kind, place.shape)
            assert data[place.start :].startswith(content)
    try:
        found, _ = read_header(path)
    except ModtokError:
        assert theirs is None
    else:
        mine = {each.name: (each.dtype, each.shape, bytes(each.data())) for each in found}
        starts = [each.start for each in found]
        assert starts == sorted(starts)
        if theirs is not None:
            assert mine == theirs
        else:  # the sizes are right all the same
            assert all(all(type(n) is int and n >= 0 for n in each.shape) for each in found)


def test_an_option_may_be_none_by_its_default_or_by_its_type() -> None:
    def function(
        plain: Annotated[int, Option("A.")] = 1,
        typed: Annotated[int | None, Option("B.", default=2)] = 2,
        absent: Annotated[int, Option("C.")] = None,  # type: ignore[assignment]  # noqa: RUF013
    ) -> None: ...

    found = {name: each.optional for name, each in options_of(function).items()}
    assert found == {"plain": False, "typed": True, "absent": True}


def test_extras_are_those_of_the_project() -> None:
    """An extra names the package of each module in its row, and a module imported is in a row."""
    root = Path(__file__).parents[2]
    with (root / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    modules = {
        "fasttext_predict": "fasttext",
        "megatron_core": "megatron",
        "protobuf": "google",
        "pyahocorasick": "ahocorasick",
        "pyyaml": "yaml",
    }

    def named(requirements: list[str]) -> set[str]:
        packages = {re.split(r"[\[>=;<]", each)[0].replace("-", "_") for each in requirements}
        return {modules.get(each, each) for each in packages}

    for extra, names in EXTRAS.items():
        assert named(project["optional-dependencies"][extra]) == {*names}, extra
    imported: set[str] = set()
    for path in (root / "modtok_cli").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).partition(".")[0])
    own = {*sys.stdlib_module_names, "modtok_cli", "setuptools"}  # the last while it is built
    told = {"ray"}  # the extra of no package; the executor of that name says what to install
    rows = {name for names in EXTRAS.values() for name in names}
    assert imported - own - told == imported & (named(project["dependencies"]) | rows)
