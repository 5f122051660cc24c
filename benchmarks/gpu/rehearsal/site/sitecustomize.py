"""Python runs this first: torch, as soon as it is imported, is that of the rehearsal."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Torch:
    """Finds torch as Python does; after its import `device.install` follows."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == "torch" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def then_install(module: ModuleType) -> None:
            execute(module)
            from benchmarks.gpu.rehearsal.device import install

            install()

        spec.loader.exec_module = then_install  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Torch())  # type: ignore[arg-type]
