"""The command line that gives a configuration."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.training.config import Config
from modtok_cli.training.resolve import Origin, resolve
from modtok_cli.training.settings import OPTIONS, RunSettings, plain


def command_line(config: Config, name: str, *, gpu: bool) -> str:
    """`modtok pretrain` with the fewest options that give `config`, and the sampling regime.

    Quoted for a shell; stages after the first are a comment. Options may have come from a recipe
    or modtok.toml.
    `name`: the name of the run's directory. `gpu`: as in `resolve`.
    """
    model, start = config.architecture.model, config.init.init_from
    source = None if start is None else Origin(model, config.shape)
    chosen: dict[str, Any] = {"model": model} if source is None else {"init_from": start}
    settings = RunSettings(name=name, **chosen)
    usual = resolve(settings, gpu=gpu, source=source)
    for option, value in config.given().items():
        known = option in ("name", "model", "init_from", "profile")
        if known or (value == usual[option] and option != "sampling"):
            continue
        chosen[option] = value
        settings = settings.changed(**{option: value})
        # Other defaults may follow from it; it may conflict with an option that is not set yet.
        with suppress(UsageError):
            usual = resolve(settings, gpu=gpu, source=source)
    words = ["modtok", "pretrain"]
    for option, value in chosen.items():
        words += _words(OPTIONS[option], value)
    stages = f"  # and {len(config.stages)} stages, see config.json" if config.stages else ""
    return shlex.join([*words, "--name", name]) + stages


def _words(option: Option, value: Any) -> list[str]:
    flag = option.flag
    if isinstance(value, bool):
        if option.recipe_only:
            return ["--set", f"{option.section}.{option.name}={str(value).lower()}"]
        return [flag if value else f"--no-{flag[2:]}"]
    value = plain(value)
    if isinstance(value, Mapping):
        value = ",".join(f"{key}={each}" for key, each in value.items()) or "none"
    elif isinstance(value, tuple):
        value = ",".join(value) or "none"
    if option.recipe_only:
        return ["--set", f"{option.section}.{option.name}={value}"]
    return [flag, str(value)]
