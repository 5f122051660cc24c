"""Command-line options of training, generated from their declarations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from modtok_cli.base.option import Option, options_of
from modtok_cli.cli import completion
from modtok_cli.cli.options import READING, TEXT_PANEL
from modtok_cli.cli.session import Session
from modtok_cli.training.settings import RunSettings

# Titles of the sections of a recipe in help.
_PANELS = {
    "data": "Data and sampling",
    "init": "Initialization",
    "evaluation": "Evaluation and checkpoints",
}
# Larger bounds only keep numbers within 64 bits; help does not show them.
_SHOWN = 1 << 20
_COMPLETIONS = {
    "langs": completion.languages,
    "model": completion.presets,
    "tokenizer": completion.tokenizers,
}


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
        parameters = [session, *map(_parameter, chosen), *own]
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return function

    return decorate


def _parameter(option: Option) -> inspect.Parameter:
    """An option as a parameter that the framework understands."""
    kind, default = option.kind, _default(option)
    if kind is bool:
        kind = kind if default is not None else kind | None
        # There must be a way to turn it off where it is on, as it may be in a resumed run.
        may_be_on = option.changeable or option.default is True
        flags = [f"{option.flag}/--no-{option.flag[2:]}" if may_be_on else option.flag]
    else:
        flags = [option.short] if option.short else []
        flags.append(option.flag)
        kind = kind if option.parse is None else str
        kind = kind if default is not None else kind | None
    shown = option.high if option.high is not None and option.high < _SHOWN else None
    facts: dict[str, Any] = {"metavar": option.metavar or None, "help": option.help}
    if option.name in (name for name, _, _ in READING):
        facts["rich_help_panel"] = TEXT_PANEL
    elif option.section:
        facts["rich_help_panel"] = _PANELS.get(option.section, option.section.capitalize())
    if option.name in _COMPLETIONS:
        facts["autocompletion"] = _COMPLETIONS[option.name]
    if kind in (int, float, int | None, float | None):
        facts |= {"min": option.low, "max": shown}
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, typer.Option(*flags, **facts)],
    )


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
