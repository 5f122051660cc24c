"""`modtok.toml`: default options of a workspace, one table per command.

The table of a command overrides `[default]`, options of the command line override both. A key is
the name of an option with underscores (`lang_field`):

    [default]
    data = "text"

    [bpe-seq]
    k = 16000
    langs = ["en", "fi", "fr"]

The whole file is checked when a command starts, before any work.

A directory may come from someone else, so its file is not trusted: it cannot overwrite outputs,
choose outputs outside of the workspace or the address of a server, or run code. Those are options
of the command line (see `COMMAND_LINE_ONLY`).
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_origin

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.processes import MESSAGES
from modtok_cli.base.read_file import read_toml
from modtok_cli.base.suggestion import near
from modtok_cli.cli.names import MEANT_OPTIONS
from modtok_cli.cli.tree import Node, nodes, options_of_command

FILE = "modtok.toml"
SHARED_TABLE = "default"
LISTED = 100  # most names that an error lists; [default] has the options of all commands
# Parameters that a settings file cannot set. `force` overwrites files; `set` has keys of recipes,
# some of which name places; `port` and arguments of vLLM open the machine to others; the rest can
# run code: lm-eval tasks, and job scripts of executors.
COMMAND_LINE_ONLY = frozenset(
    {"force", "set", "include", "allow_code", "executor_option", "vllm_arguments", "port"}
)
# Parameters that name what a command writes: a settings file can only name places in the workspace.
OUTPUTS = frozenset({"output", "plot", "examples", "runs", "offload_file", "hf"})
_NAMES = {dict: "a table", list: "a list", str: "a string", bool: "true or false"}


def load_settings(root: Any, directory: Path = Path()) -> dict[str, Any]:
    """Return defaults of every command below `root` from `modtok.toml`, nested by command words.

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
        raise _no_table(SHARED_TABLE, shared)
    result: dict[str, Any] = {}
    known: dict[str, str] = {}
    for node in commands:
        keys = _keys(node)
        known |= _spellings(keys)
        own = {key: value for key, value in shared.items() if key in keys}
        mine = _defaults(node, keys, own, SHARED_TABLE)
        mine |= _defaults(node, keys, _take(tables, node.path), ".".join(node.path))
        for name in OUTPUTS.intersection(mine):
            _check_inside(directory, ".".join(node.path), name, mine[name])
        if mine:
            _put(result, node.path, mine)
    _refuse_unknown_tables(tables, commands)
    for key in shared:
        if known.get(key) != key:
            raise _unknown(f"[{SHARED_TABLE}]", "key", key, known)
    return result


def named(commands: Iterable[str]) -> list[str]:
    """Return the commands (`bpe-seq`, `corpus count`) that `modtok.toml` names."""
    try:
        tables = _read(Path(FILE))
    except UsageError:  # `load_settings` says what is wrong
        tables = {}
    names = {*tables}
    for group, table in tables.items():
        names |= {f"{group} {name}" for name in table} if isinstance(table, dict) else set()
    return [name for name in commands if name in names]


def ignored_variables(commands: Iterable[str]) -> list[str]:
    """Return environment variables that look like options of commands (`MODTOK_BPE_SEQ_K`).

    None in a rank that modtok has started, and in ranks but the first: one process says it.
    """
    if MESSAGES in os.environ or os.environ.get("RANK", "0") != "0":
        return []
    names = (re.sub("[ -]", "_", command).upper() for command in commands)
    starts = tuple(f"MODTOK_{name}_" for name in names)
    return sorted(name for name in os.environ if name.startswith(starts))


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return {}
        raise


def _keys(node: Node) -> dict[str, Any]:
    """Return the options of a command by key."""
    params = node.command.params
    return {p.name: p for p in params if p.param_type_name == "option" and not p.hidden}


def _spellings(keys: dict[str, Any]) -> dict[str, str]:
    """Return keys by what else they may be called: flags, with hyphens too."""
    return {
        word: key
        for key, param in keys.items()
        for flag in (f"--{key}", *param.opts, *param.secondary_opts)
        for word in (flag.lstrip("-"), flag.lstrip("-").replace("_", "-"))
    }


def _take(tables: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Remove and return the table of a command, and its group if that is empty then."""
    table: Any = tables
    for word in path[:-1]:
        table = table.get(word, {})
        if not isinstance(table, dict):
            raise _no_table(word, table)
    values = table.pop(path[-1], {})
    if not isinstance(values, dict):
        raise _no_table(".".join(path), values)
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
            if table == "pretrain" and (section := _section_of(key)):
                raise UsageError(
                    f"[{table}] {key}: is a key of recipes",
                    where=FILE,
                    remedy=f"write it under [{section}] of a file that 'config' names, or pass "
                    f"--set {section}.{key}=VALUE",
                )
            raise _unknown(f"[{table}]", "key", key, _spellings(keys))
        param = keys[key]
        if param.name in COMMAND_LINE_ONLY:
            raise UsageError(
                f"[{table}] {key}: not allowed in a settings file",
                where=FILE,
                remedy=f"give {param.opts[-1]} on the command line",
            )
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


def _no_table(name: str, value: Any) -> UsageError:
    words = _NAMES.get(type(value), f"{value}")
    return UsageError(f"[{name}]: expected a table, got {words}", where=FILE)


def _section_of(key: str) -> str:
    """Return the section of a recipe that has a key; "" if none has."""
    from modtok_cli.training.settings import OPTIONS

    return OPTIONS[key].section if key in OPTIONS else ""


def _unknown(where: str | None, what: str, name: str, known: Mapping[str, str]) -> UsageError:
    """`known`: right names by what they may be called."""
    close = near(name, known)
    flag = f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}"
    words = (each.split()[0].lstrip("-") for each in MEANT_OPTIONS.get(flag, ()))
    meant = [known[word] for word in words if word in known]
    if name in known or meant:
        remedy = f"write {known.get(name, meant[:1] and meant[0])!r}"
    elif close:
        remedy = f"did you mean {known[close[0]]!r}?"
    elif len(set(known.values())) > LISTED:
        remedy = "expected the name of an option, see modtok COMMAND --help"
    else:
        remedy = f"expected one of {', '.join(sorted(set(known.values())))}"
    place = f"{where}: " if where else ""
    return UsageError(f"{place}unknown {what} {name!r}", where=FILE, remedy=remedy)


def _refuse_unknown_tables(tables: dict[str, Any], commands: list[Node]) -> None:
    names = [*(".".join(node.path) for node in commands), SHARED_TABLE]
    known = {name: name for name in names} | {name.replace("-", "_"): name for name in names}
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
