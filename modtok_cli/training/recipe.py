"""Recipes: the options of a run as a TOML file, in sections.

    [architecture]
    model = "2.5b"

    [schedule]
    steps = 300000
    lr = 3e-4

    [[stage]]
    steps = 50000
    data = "better"

Every key is an option of `settings.RunSettings`, in the section that its declaration names.
`--set schedule.lr=3e-4` sets one of them. A stage (`stages.StageTable`) has keys of any section.
The recipes in the package are presets: `--model 0.5b` is `recipes/0.5b.toml`.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.read_file import read_toml
from modtok_cli.base.suggestion import near
from modtok_cli.model.architecture.sizes import RECIPES, SIZES
from modtok_cli.training.settings import OPTIONS, SECTIONS, RunSettings, plain
from modtok_cli.training.stages import StageTable, read_stages

_STAGE = "stage"
# A line that begins a table, and one that sets a key.
_HEADER = re.compile(r"\s*\[\[?\s*([\w.'\" -]+?)\s*\]")
_KEY = re.compile(r"\s*([\w-]+)[\s.\w]*=")


def read_recipe(path: Path) -> dict[str, Any]:
    """The options of a recipe file, by name, checked and converted; `stages` if it has some.

    Raises:
        UsageError: not readable, not TOML, an unknown section or key, or an invalid value; names
            file and line.
    """
    options: dict[str, Any] = {}
    tables, places = read_toml(path), _places(path)
    stages = tables.pop(_STAGE, None)
    for section, table in tables.items():
        if section not in SECTIONS or not isinstance(table, Mapping):
            place = places[section, 1].get("") or places["", 1].get(section, str(path))
            raise _unknown_section(section, place)
        for key, value in table.items():
            where = f"{places[section, 1].get(key, path)}: [{section}] {key}"
            _check_key(section, key, where)
            try:
                options[key] = OPTIONS[key].read(value)
            except ValueError as error:
                raise UsageError(str(error), where=where) from error
    if stages is not None:
        lines = {"": str(path)}
        if not isinstance(stages, list):
            what = "expected tables [[stage]], not one [stage]"
            raise UsageError(what, where=places[_STAGE, 1].get("", str(path)))
        options["stages"] = tuple(
            StageTable.read(table, OPTIONS, lines | places[_STAGE, number])
            for number, table in enumerate(stages, 1)
        )
    return options


def _places(path: Path) -> Mapping[tuple[str, int], dict[str, str]]:
    """Where keys are, `recipe.toml:3`, by name of a table and which one of this name it is.

    The key "" is the header's. What is not written as usual has no line.
    """
    places: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    seen: Counter[str] = Counter()
    name, inner = "", ""
    seen[name] = 1
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if header := _HEADER.match(line):
            name, inner, *_ = [part.strip(" '\"") for part in header[1].split(".")] + [""]
            seen[name] += not (inner and seen[name])
            places[name, seen[name]].setdefault(inner, f"{path}:{number}")
        elif (key := _KEY.match(line)) and not inner:
            places[name, seen[name]].setdefault(key[1], f"{path}:{number}")
    return places


def read_assignments(words: Sequence[str]) -> dict[str, Any]:
    """The options that words such as `schedule.final_lr=1e-5` set, by name.

    Raises:
        UsageError: another form, an unknown section or key, one that is set twice, or an invalid
            value.
    """
    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        section, dot, key = name.strip().partition(".")
        where = f"--set {section}.{key}"
        if not (equals and dot):
            remedy = "as in --set schedule.final_lr=1e-5"
            what = f"expected SECTION.KEY=VALUE, got {word!r}"
            raise UsageError(what, where="--set", remedy=remedy)
        if section not in SECTIONS:
            raise _unknown_section(section, where)
        _check_key(section, key, where)
        if key in options:
            raise UsageError("is given twice", where=where, remedy="give it once")
        try:
            options[key] = OPTIONS[key].from_text(text.strip())
        except ValueError as error:
            raise UsageError(str(error), where=where) from error
    return options


def _unknown_section(section: str, where: Path | str) -> UsageError:
    return UsageError(
        f"unknown section [{section}]", where=where, remedy=f"use {', '.join(SECTIONS)}"
    )


def _check_key(section: str, key: str, where: str) -> None:
    """Refuse a key that a section does not have; the remedy names what may be meant."""
    keys = SECTIONS[section]
    if key in keys:
        return
    word = key.replace("-", "_")
    elsewhere = [f"{name} in [{OPTIONS[name].section}]" for name in OPTIONS if name == word]
    close = [word] if word in keys else elsewhere or near(word, keys)
    remedy = f"did you mean {close[0]}?" if close else f"use {', '.join(keys)}"
    raise UsageError(f"unknown key of [{section}]", where=where, remedy=remedy)


def as_sections(config: RunSettings) -> dict[str, dict[str, Any]]:
    """A resolved configuration in sections, without options that are None or have no meaning."""
    return {
        section: {name: plain(config[name]) for name in names if _applies(config, name)}
        for section, names in SECTIONS.items()
    }


def _applies(config: RunSettings, name: str) -> bool:
    needed = OPTIONS[name].needs
    return config[name] is not None and (not needed or bool(config[needed]))


def write_recipe(config: RunSettings, sources: Mapping[str, str] | None = None) -> str:
    """A resolved configuration as TOML; `read_recipe` reads it back.

    `sources`: where the values of options come from, by name, for comments.
    """
    blocks = []
    for section, values in as_sections(config).items():
        lines = [f"{name} = {_toml(value)}" for name, value in values.items()]
        if sources is not None:
            width = min(40, max(map(len, lines), default=0))
            lines = [
                f"{line:{width}}  # {sources.get(name, 'default')}"
                for name, line in zip(values, lines, strict=True)
            ]
        blocks.append("\n".join([f"[{section}]", *lines]) + "\n")
    for stage in read_stages(config.stages or (), OPTIONS):
        lines = [f"{name} = {_toml(value)}" for name, value in stage.as_json().items()]
        blocks.append("\n".join(["[[stage]]", *lines]) + "\n")
    return "\n".join(blocks)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        words = [f"{_toml_key(key)} = {_toml(each)}" for key, each in value.items()]
        return "{ " + ", ".join(words) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)


PRESETS: dict[str, Mapping[str, Any]] = {
    name: read_recipe(RECIPES / f"{name}.toml") for name in SIZES
}
"""Options of a run by name, which hold where nothing else is given; shapes are `sizes.SIZES`."""

CONTINUED: Mapping[str, Any] = {
    "seq_length": 512,
    "batch_size": 8,
    "micro_batch": 2,
    "steps": 1000,
    "warmup": 100,
    "lr": 1e-4,
}
"""Options to continue the training of a model that is no preset.

The learning rate is a tenth of a first training's, so that little is forgotten.
"""


def preset(name: str) -> Mapping[str, Any]:
    """The options of a preset.

    >>> preset("2.5b")["batch_size"]
    64
    """
    if name not in PRESETS:
        remedy = f"choose from {', '.join(PRESETS)}"
        raise UsageError(f"preset '{name}' does not exist", where="--model", remedy=remedy)
    return PRESETS[name]
