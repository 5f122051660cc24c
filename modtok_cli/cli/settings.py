"""`modtok.toml`: default options of a workspace, one table per command.

The table of a command overrides `[default]`; environment variables (`MODTOK_BPE_SEQ_K`)
override the file, options override both:

    [default]
    data = "text"

    [bpe-seq]
    k = 16000
    langs = ["en", "fi", "fr"]

The whole file is checked when a command starts, before any work.

A directory may come from someone else, so its file is not trusted: it cannot overwrite outputs,
choose outputs outside of the workspace, or set an option that can run code. Those are options of
the command line (see `COMMAND_LINE_ONLY`).
"""

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.reading import read_toml
from modtok_cli.cli.tree import Node, nodes, options_of_command

FILE = "modtok.toml"
SHARED_TABLE = "default"
LISTED = 100  # most names that an error lists; [default] has the options of all commands
# Parameters that a settings file cannot set. `force` overwrites files. The others can run code:
# lm-eval tasks, and job scripts of executors.
COMMAND_LINE_ONLY = frozenset(
    {"force", "include", "allow_code", "executor_option", "vllm_arguments"}
)
# Parameters that name what a command writes: a settings file can only name places in the workspace.
OUTPUTS = frozenset({"output", "plot", "examples", "runs", "offload_file", "hf"})
PREFIX = "MODTOK_"
# Variables that are not defaults of options.
OTHER_VARIABLES = frozenset(
    {"MODTOK_CORE", "MODTOK_DEBUG", "MODTOK_DEVICE", "MODTOK_RANK_MESSAGES"}
)
_NAMES = {dict: "a table", list: "a list", str: "a string", bool: "true or false"}


def load_settings(root: Any, directory: Path = Path()) -> dict[str, Any]:
    """Defaults of every command below `root` from `modtok.toml`, nested by command words.

    Returns {} without a file; e.g. {"bpe-seq": {"k": 16000}}.

    Raises:
        UsageError: invalid TOML, an unknown table or key, a value of the wrong type.
    """
    path = directory / FILE
    tables = _read(path)
    if not tables:
        return {}
    commands = [node for node in nodes(root) if not node.is_group]
    shared = tables.pop(SHARED_TABLE, {})
    if not isinstance(shared, dict):
        raise _wrong(f"[{SHARED_TABLE}]", "a table", shared)
    result: dict[str, Any] = {}
    known: set[str] = set()
    for node in commands:
        keys = _keys(node)
        known |= set(keys)
        mine = _defaults(node, keys, {k: v for k, v in shared.items() if k in keys}, SHARED_TABLE)
        mine |= _defaults(node, keys, _take(tables, node.path), ".".join(node.path))
        for name in OUTPUTS.intersection(mine):
            _check_inside(directory, ".".join(node.path), name, mine[name])
        if mine:
            _put(result, node.path, mine)
    _refuse_unknown_tables(tables, commands)
    for key in shared:
        if key not in known:
            raise _unknown(f"[{SHARED_TABLE}]", "key", key, known)
    return result


def named(commands: Iterable[str]) -> list[str]:
    """Those of the commands (`bpe-seq`, `corpus count`) that `modtok.toml` or a variable names."""
    try:
        tables = _read(Path(FILE))
    except UsageError:  # `load_settings` says what is wrong
        tables = {}
    names = {*tables}
    for group, table in tables.items():
        names |= {f"{group} {name}" for name in table} if isinstance(table, dict) else set()
    variables = tuple(name for name in os.environ if name.startswith(PREFIX))
    return [
        name
        for name in commands
        if name in names or any(each.startswith(variable_of(name.split())) for each in variables)
    ]


def unknown_variables(root: Any) -> list[str]:
    """Variables `MODTOK_…` of the environment that are not those of an option below `root`."""
    known = set(OTHER_VARIABLES)
    for node in nodes(root):
        names = (line.name for line in node.lines if line.has_environment)
        known |= {f"{variable_of(node.path)}{name.upper()}" for name in names}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


def check_variables(root: Any) -> None:
    """Refuse variables `MODTOK_<COMMAND>_<OPTION>` of the environment without such an option.

    `root` is the whole tree if there are any. Variables of other shapes are not ours to judge.

    Raises:
        UsageError: names the variable and the one that may be meant.
    """
    spelled: dict[str, str] = {}  # also MODTOK_BPE_SEQ_BUDGET, by the long flag
    every = list(nodes(root))
    for node in every:
        start, own = variable_of(node.path), {line.name for line in node.lines}
        for key, param in _keys(node).items():
            if param.name in own and param.allow_from_autoenv:
                spelled[f"{start}{key.upper().replace('-', '_')}"] = f"{start}{param.name.upper()}"
    commands = tuple(variable_of(node.path) for node in every if not node.is_group)
    for name in unknown_variables(root):
        of_command = name.startswith(commands)
        close = get_close_matches(name, list(spelled), n=1, cutoff=0.5 if of_command else 0.9)
        if of_command or close:
            remedy = f"did you mean {spelled[close[0]]}?" if close else "see modtok COMMAND --help"
            raise UsageError("unknown variable", where=name, remedy=remedy)


def variable_of(words: Sequence[str]) -> str:
    """What the environment variables of a command begin with: `MODTOK_BPE_SEQ_`."""
    return "_".join(("MODTOK", *words, "")).upper().replace("-", "_")


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return {}
        raise


def _keys(node: Node) -> dict[str, Any]:
    """Keys that set an option: its long flags and the name of its parameter."""
    keys = {}
    for param in node.command.params:
        if param.param_type_name == "option" and not param.hidden:
            for flag in [*param.opts, f"--{param.name}"]:
                keys[flag.lstrip("-").replace("_", "-")] = param
    # A single letter is a key only if it is the parameter's name, such as k.
    return {key: param for key, param in keys.items() if len(key) > 1 or key == param.name}


def _take(tables: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Remove and return the table of a command, and its group if that is empty then."""
    table: Any = tables
    for word in path[:-1]:
        table = table.get(word, {})
        if not isinstance(table, dict):
            raise _wrong(f"[{word}]", "a table", table)
    values = table.pop(path[-1], {})
    if not isinstance(values, dict):
        raise _wrong(f"[{'.'.join(path)}]", "a table", values)
    if len(path) > 1 and not table:
        tables.pop(path[0], None)
    return values


def _put(result: dict[str, Any], path: tuple[str, ...], values: dict[str, Any]) -> None:
    for word in path[:-1]:
        result = result.setdefault(word, {})
    result[path[-1]] = values


def _defaults(
    node: Node, keys: dict[str, Any], values: dict[str, Any], table: str
) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in values.items():
        if key not in keys:
            raise _unknown(f"[{table}]", "key", key, set(keys))
        param = keys[key]
        if param.name in COMMAND_LINE_ONLY:
            raise UsageError(
                f"[{table}] {key}: not allowed in a settings file",
                where=FILE,
                remedy=f"give {param.opts[-1]} on the command line",
            )
        if param.name in result:
            raise UsageError(f"[{table}] sets {key!r} twice under two names", where=FILE)
        where = f"[{table}] {key}"
        option = options_of_command(node.command)[param.name]
        value = _joined(where, option.metavar, value)
        result[param.name] = _checked(where, option, value)
    return result


def _check_inside(directory: Path, table: str, name: str, value: str) -> None:
    """Refuse an output outside of `directory`, links resolved, or in a hidden directory."""
    if name == "plot" and value == "-":
        return
    workspace = directory.resolve()
    try:
        path = (workspace / value).resolve()
        parts = path.relative_to(workspace).parts
    except (ValueError, OSError, RuntimeError):  # elsewhere, a null character, a loop of links
        parts = None
    if parts is None or any(part.startswith(".") for part in parts):
        raise UsageError(
            f"[{table}] {name}: {value!r} is not inside the workspace",
            where=FILE,
            remedy=f"give --{name.replace('_', '-')} on the command line",
        )


def _joined(where: str, metavar: str, value: Any) -> Any:
    """Join lists and tables as options expect: --langs en,fi, --budgets 4000,8000, --mix en=0.7."""
    if metavar.endswith(",...") and isinstance(value, list):
        item = Option("", kind=int if metavar == "N,..." else str)
        return ",".join(str(_checked(where, item, each)) for each in value)
    if metavar.endswith(",...") and "=" in metavar and isinstance(value, dict):
        share = Option("", kind=float)
        return ",".join(f"{key}={_checked(where, share, each)}" for key, each in value.items())
    return value


def _checked(where: str, option: Option, value: Any) -> Any:
    is_list = get_origin(option.kind) is list
    try:
        if isinstance(value, dict) or isinstance(value, list) != is_list:
            words = "a list" if is_list else option.words
            raise ValueError(f"expected {words}, got {_NAMES.get(type(value), value)}")
        option.read(value)
    except ValueError as error:
        raise UsageError(f"{where}: {error}", where=FILE) from error
    return value


def _wrong(where: str, expected: str, value: Any) -> UsageError:
    words = _NAMES.get(type(value), f"{value}")
    return UsageError(f"{where}: expected {expected}, got {words}", where=FILE)


def _unknown(where: str | None, what: str, name: str, known: set[str]) -> UsageError:
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    if close:
        remedy = f"did you mean {close[0]!r}?"
    elif len(known) > LISTED:
        remedy = "expected the name of an option, see modtok COMMAND --help"
    else:
        remedy = f"expected one of {', '.join(sorted(known))}"
    place = f"{where}: " if where else ""
    return UsageError(f"{place}unknown {what} {name!r}", where=FILE, remedy=remedy)


def _refuse_unknown_tables(tables: dict[str, Any], commands: list[Node]) -> None:
    known = {".".join(node.path) for node in commands} | {SHARED_TABLE}
    groups = {node.path[0] for node in commands if len(node.path) > 1}
    for name, value in tables.items():
        if not isinstance(value, dict):
            raise UsageError(
                f"{name!r} is outside of any table",
                where=FILE,
                remedy=f"move it to [{SHARED_TABLE}] or to the table of a command",
            )
        if name in groups:
            name = f"{name}.{next(iter(value))}" if value else name
            if name in groups:
                continue
        raise _unknown(None, "table", name, known)
