"""Extension of griffe: public functions as they are at run time.

Their docstrings get a section "Args" from declared options when they are imported, and types are
shown without the declarations (`int | None` for `Annotated[int | None, Option(...)]`).
"""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any, get_args, get_origin

import griffe

import modtok_cli


class PublicFunctions(griffe.Extension):
    """Docstring and types of every function that `modtok_cli` exports."""

    def on_function(self, *, func: Any, **_: Any) -> None:
        """Replace what the source says by what the imported function says."""
        module = func.module.path.removeprefix("modtok_cli.")
        if modtok_cli._MODULES.get(func.name) != module or not func.parent.is_module:
            return
        public = getattr(modtok_cli, func.name)
        if func.docstring is not None:
            func.docstring.value = inspect.getdoc(public)
        function = inspect.unwrap(public)
        for name, parameter in inspect.signature(function).parameters.items():
            hint = parameter.annotation
            try:
                if isinstance(hint, str):
                    hint = eval(hint, function.__globals__)
            except (NameError, TypeError):  # a type that only type checkers know
                continue
            if get_origin(hint) is Annotated:
                plain = get_args(hint)[0]
                plain = getattr(plain, "__forward_arg__", None) or inspect.formatannotation(plain)
                func.parameters[name].annotation = re.sub(r"\b(\w+\.)+(?=[A-Za-z])", "", plain)
