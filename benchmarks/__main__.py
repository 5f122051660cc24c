"""Run a benchmark by its name, or list all: `python -m benchmarks [NAME [OPTIONS]]`."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
GROUPS = ("speed", "quality", "robustness", "gpu", "world")


def benchmarks() -> dict[str, dict[str, str]]:
    """Group → name → first line of the docstring, of every module with a `main`."""
    found: dict[str, dict[str, str]] = {}
    for group in GROUPS:
        for path in sorted((HERE / group).glob("*.py")):
            module = ast.parse(path.read_text(encoding="utf-8"))
            names = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
            if "main" in names:
                text = ast.get_docstring(module) or ""
                found.setdefault(group, {})[path.stem] = text.partition("\n")[0]
    return found


def main() -> int:
    """Run the benchmark of that name with the rest of the command line."""
    known = benchmarks()
    name = sys.argv[1].rpartition("/")[2] if len(sys.argv) > 1 else ""
    group = next((group for group, names in known.items() if name in names), "")
    if group:
        module = importlib.import_module(f"benchmarks.{group}.{name}")
        sys.argv = [f"python -m benchmarks {name}", *sys.argv[2:]]
        return int(module.main() or 0)
    if name and not name.startswith("-"):
        print(f"benchmarks: no benchmark {name!r}; run without a name for a list", file=sys.stderr)
        return 2
    print("usage: python -m benchmarks NAME [OPTIONS]   (NAME --help lists the options)")
    for group, names in known.items():
        print(f"\n{group}:")
        for each, text in names.items():
            print(f"  {each:16} {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
