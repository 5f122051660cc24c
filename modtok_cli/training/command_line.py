"""The command line that gives a configuration."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
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
    source = Origin(config.model, config.shape) if config.init_from is not None else None
    settings = RunSettings(name=name, init_from=config.init_from)
    chosen = {"init_from": config.init_from} if source else {"model": config.model}
    if source is None:
        settings = replace(settings, model=config.model)
    usual = resolve(settings, gpu=gpu, source=source)
    for option, value in config.given().items():
        known = option in ("name", "model", "init_from", "profile")
        if known or (value == getattr(usual, option) and option != "sampling"):
            continue
        chosen[option] = value
        settings = replace(settings, **{option: value})
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
