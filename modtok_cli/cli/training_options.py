"""Command-line options of training, generated from their declarations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modtok_cli.base.option import Option, options_of
from modtok_cli.cli.declaration import as_parameter
from modtok_cli.cli.session import Session
from modtok_cli.training.settings import RunSettings


def with_training_options(
    names: Sequence[str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace `**options` of a command by the options of `RunSettings`, all or those of `names`.

    They follow the session and precede the command's own options.
    """
    options = options_of(RunSettings)
    chosen = [options[name] for name in (names or options)]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        session, *own = (
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        )
        parameters = [session, *map(as_parameter, chosen), *own]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return function

    return decorate


def _default(option: Option) -> Any:
    """The default as help shows it; None where preset or machine decide."""
    return None if callable(option.default) else option.default


def training_settings(
    values: Mapping[str, Any],
    session: Session,
    *,
    resume: bool = False,
    recipe: Mapping[str, Any] | None = None,
) -> RunSettings:
    """Settings from the parsed options: the command line overrides a recipe, which overrides
    modtok.toml and the environment.

    With `resume`, only the command line counts, and what says where runs are: modtok.toml and
    the environment hold defaults of new runs.

    Raises:
        UsageError: a value that its declaration refuses.
    """
    options = options_of(RunSettings)
    given = {}
    for name, value in values.items():
        on_command_line = name in session.explicit
        if value is None or (not on_command_line and value == _default(options[name])):
            continue
        if on_command_line or not resume or not options[name].section:
            given[name] = value
    for name, value in (recipe or {}).items():
        if name not in session.explicit:
            given[name] = value
    return RunSettings(**given)
