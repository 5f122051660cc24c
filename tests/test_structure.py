"""The structure that docs/architecture.md describes, checked on the source."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "modtok_cli"
# Folders of training/, each importing only from those before it; "" are the files beside them.
# Names in two folders: `learn/` learns what `segmenters/` splits by, `construct/` has the command.
SAME_NAMES = ("fewest_tokens.py", "merges.py", "unigram.py")
PRETRAIN = ("distributed", "data", "rows", "model", "")


def packages() -> list[str]:
    """The packages in the order of the table in docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    cells = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    return [cell.rstrip("/") for cell in cells if cell.endswith("/")]


def name_of(path: Path) -> str:
    """Dotted name of a module; a package's is that of its `__init__.py`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def modules() -> dict[str, ast.Module]:
    """Dotted name → parsed source of every module."""
    return {name_of(path): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


@cache
def imports(name: str) -> frozenset[str]:
    """Modules of this package that a module imports anywhere, also for types only."""
    known = modules()
    found: set[str] = set()
    for node in ast.walk(known[name]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{name}: a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {each if each in known else node.module for each in inner}
    return frozenset(found & known.keys() - {name})


def cycle() -> list[str]:
    """Modules that import one another in a circle; [] if none do."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(imports(name) - {"modtok_cli"}):  # it loads what it exports on use
            if found := visit(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next(filter(None, (visit(name, []) for name in sorted(modules()))), [])


def test_architecture_lists_every_package() -> None:
    existing = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(name for name in packages() if "/" not in name) == sorted(existing)


def test_files_to_read_first_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("## Packages")[0]
    files = re.findall(r"^\d\. `([\w/.]+)`", section, flags=re.M)
    assert len(files) == 6
    assert [file for file in files if not (PACKAGE / file).is_file()] == []


def test_no_import_cycle() -> None:
    assert cycle() == []


def test_no_module_of_ours_is_imported_by_a_name_in_text() -> None:
    """Such an import would hide a cycle; folders of plug-ins name their own package."""
    hidden = [
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
        and isinstance(node.args[0], ast.Constant)
        and str(node.args[0].value).startswith("modtok_cli")
    ]  # fmt: skip
    assert hidden == []


def test_packages_import_only_from_packages_above() -> None:
    order = {package.replace("/", "."): place for place, package in enumerate(packages())}

    def rank(name: str) -> int:
        """Of the innermost folder that the table has; of the package itself, 0."""
        parts = name.split(".")[1:]
        folders = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        return next((order[folder] for folder in folders if folder in order), 0)

    upward = [
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)
        if rank(name) and rank(other) > rank(name)
    ]
    assert sorted(upward) == []


def test_folders_of_training_import_only_from_folders_before() -> None:
    def rank(name: str) -> int:
        folder = name.split(".")[2] if name.count(".") > 1 else ""
        return PRETRAIN.index(folder if folder in PRETRAIN else "")

    inside = [name for name in modules() if name.startswith("modtok_cli.training.")]
    upward = [
        f"{name} imports {other}"
        for name in inside
        for other in imports(name)
        if other.startswith("modtok_cli.training.") and rank(other) > rank(name)
    ]
    assert sorted(upward) == []


def test_names_of_files_and_classes_occur_once() -> None:
    """A command has its function's name, and `reference/` the names of what it defines."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules().items():
        folder, _, file = name.removeprefix("modtok_cli.").rpartition(".")
        if folder in ("cli.commands", "reference") or file in ("parameters", "__main__"):
            continue
        if (PACKAGE / folder.replace(".", "/") / f"{file}.py").is_file():
            places[f"{file}.py"].append(folder)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert sorted(twice) == sorted(SAME_NAMES), twice


def test_only_tests_of_gpu_scripts_import_benchmarks() -> None:
    """What tests share with benchmarks is in tests/helpers."""
    found = {
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
        if name.split(".")[0] == "benchmarks"
    }
    assert found == {"test_gpu_check.py"}


def test_every_test_file_is_collected(request: pytest.FixtureRequest) -> None:
    """By pytest's own hook: `build` and other names are in its default `norecursedirs`."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "*test_*.py"], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    config = request.config
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert paths
    roots = [ROOT / name for name in config.getini("testpaths")]
    ignored = []
    for path in filter(Path.exists, paths):
        root = next((root for root in roots if path.is_relative_to(root)), None)
        steps = [] if root is None else [p for p in (path, *path.parents) if p.is_relative_to(root)]
        hook = config.hook.pytest_ignore_collect
        if (
            not steps
            or any(hook(collection_path=step, config=config) for step in steps)
            or not any(fnmatch(path.name, pattern) for pattern in config.getini("python_files"))
        ):
            ignored.append(str(path.relative_to(ROOT)))
    assert ignored == []


def test_functions_are_short() -> None:
    """At most 80 lines below signature and docstring, and 8 positional parameters."""
    long = []
    for name, module in modules().items():
        if name.startswith(("modtok_cli.core.", "modtok_cli.reference.")):
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                parameters = len(node.args.args) + len(node.args.posonlyargs)
                if lines > 80 or parameters > 8:
                    long.append(f"{name}.{node.name}")
    assert long == []
