"""What a grid evaluates, as dataclasses or as a TOML file of the same fields.

infer = ["lang", "full"]          # for all tasks that name no modes

[[runs]]
path = "runs/sub-*"

[[mcq]]
tasks = ["facts"]

[[mt]]
pairs = ["all"]
infer = ["lang", "full", "src|tgt"]
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import options_of
from modtok_cli.base.parameters import FilePath
from modtok_cli.base.reading import read_toml
from modtok_cli.base.records import from_json
from modtok_cli.text.languages import canonical, is_language, split_pair
from modtok_cli.text.reading import Reading

KINDS = ("mcq", "mt", "sum", "bpb")
ALL = "all"  # pairs
DTYPES = ("float32", "bfloat16", "float16")
_TABLES = ("runs", *KINDS)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs, checkpoints or slices.

    Attributes:
        path: a directory, or a pattern such as `runs/sub-*`.
        name: name in tables. Runs of one name are the seeds of one system; by default those
            that share all settings but the seed.
        steps: checkpoints; the last one by default.
        tokenizer: modular directory of the runs, if it moved.
    """

    path: str
    name: str | None = None
    steps: tuple[int, ...] | None = None
    tokenizer: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Inference over random sets of languages, which contain those of the task.

    Attributes:
        sizes: numbers of languages.
        draws: sets of each size, for each language or pair.
        seed: seed of the draws.
    """

    sizes: tuple[int, ...]
    draws: int = 3
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Tasks:
    """Fields of every task.

    Attributes:
        infer: inference modes, see `models`; by default those of the grid.
        sets: further modes, drawn at random.
        limit: maximum number of examples of each task and language.
        batch_size: as in the command of the task. It changes results by rounding only.
    """

    infer: tuple[str, ...] | None = None
    sets: Sets | None = None
    limit: int | None = None
    batch_size: int = 8


@dataclass(frozen=True, kw_only=True)
class Mcq(Tasks):
    """Multiple choice, see `evaluate.evaluate_mcq`.

    Attributes:
        languages: by default those of the grid, else those of each run.
        data: directory with questions; `tasks` if it has some, else the hub.
        tasks: all that have data by default.
        include: directory with tasks of lm-eval; those that contain code are refused.
    """

    languages: tuple[str, ...] | None = None
    data: Path | None = None
    tasks: tuple[str, ...] | None = None
    include: Path | None = None
    shots: int | None = None
    batch_size: int = 32


@dataclass(frozen=True, kw_only=True)
class Mt(Tasks):
    """Translation, see `evaluate.evaluate_mt`.

    Attributes:
        pairs: such as "en-fr", or ("all",). By default English to each other language.
        languages: those that pairs are made of by default; as of `Mcq`.
    """

    pairs: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    data: Path = Path("tasks")
    shots: int = 5
    max_tokens: int = 128
    lowercase: bool = False


@dataclass(frozen=True, kw_only=True)
class Sum(Tasks):
    """Summarization, see `evaluate.evaluate_sum`; `languages` as of `Mcq`."""

    languages: tuple[str, ...] | None = None
    data: Path = Path("tasks")
    shots: int = 5
    max_tokens: int = 128


@dataclass(frozen=True, kw_only=True)
class Bpb(Tasks):
    """Bits per byte, see `evaluate.evaluate_bpb`.

    Attributes:
        texts: files, or directories of files.
        language: language of all texts; by file name or document by default.
        errors, field, lang_field: see `Reading`.
    """

    texts: tuple[Path, ...]
    language: str | None = None
    errors: str = "strict"
    field: str = "text"
    lang_field: str | None = None


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Everything that is evaluated: each run, task, language or pair, and mode.

    Attributes:
        infer: modes of tasks that name none; None is the default of the commands.
        languages: languages of tasks that name none.
        dtype: of the weights; that of training by default.
    """

    runs: tuple[Runs, ...]
    mcq: tuple[Mcq, ...] = ()
    mt: tuple[Mt, ...] = ()
    sum: tuple[Sum, ...] = ()
    bpb: tuple[Bpb, ...] = ()
    infer: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    dtype: str | None = None


def read_grid(path: Path, runs: Sequence[Runs] | None = None) -> Grid:
    """Read a TOML file; with `runs` one that names tasks only, for these."""
    where, content = str(path), read_toml(path)
    if runs is None:
        return parse_grid(content, where)
    if "runs" in content:
        raise UsageError("names runs of its own", where=where, remedy="leave [[runs]] out")
    grid = parse_grid({**content, "runs": [{"path": each.path} for each in runs]}, where)
    return replace(grid, runs=tuple(runs))


def place_of(grid: FilePath | Mapping[str, Any], output: FilePath | None) -> Path:
    """Directory of a grid's results: `output`, else grids/NAME."""
    if output is not None:
        return Path(output)
    if isinstance(grid, Mapping):
        raise UsageError("no directory for the results", where="--output", remedy="choose one")
    return Path("grids") / Path(grid).stem


def parse_grid(content: Mapping[str, Any], where: str = "grid") -> Grid:
    """The grid of a parsed file."""
    tables = {
        name: [content[name]]  # [mcq] for [[mcq]]
        for name in _TABLES
        if isinstance(content.get(name), Mapping)
    }
    try:
        grid = from_json(Grid, {**content, **tables}, where)
    except ModtokError as error:
        raise UsageError(error.what, where=error.where, remedy=error.remedy) from error
    return checked(grid, where)


def checked(grid: Grid, where: str = "grid") -> Grid:
    """The grid with short language codes."""
    for path, value in _values(grid):
        wrong = _wrong(path.rpartition(".")[2], value)
        if wrong:
            raise UsageError(f"field '{path}' {wrong}", where=where)
    if not grid.runs:
        raise UsageError("field 'runs' is empty", where=where, remedy="add [[runs]] with a path")
    if not any(getattr(grid, kind) for kind in KINDS):
        what = f"no task: add [[{']], [['.join(KINDS)}]]"
        raise UsageError(what, where=where)
    normalized: Grid = _normalized(grid)
    return normalized


def _values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, value) of every field, as `records.from_json` names them."""
    for each in fields(value):
        item, name = getattr(value, each.name), f"{path}{each.name}"
        if each.name in _TABLES:
            for number, table in enumerate(item):
                yield from _values(table, f"{name}[{number}].")
        elif isinstance(item, Sets):
            yield from _values(item, f"{name}.")
        else:
            yield name, item


_AT_LEAST = {"limit": 1, "batch_size": 1, "shots": 0, "max_tokens": 1, "draws": 1}
_LISTS = ("infer", "steps", "sizes", "languages", "tasks", "pairs", "texts")


def _wrong(name: str, value: Any) -> str:
    """What is wrong with a value of the right type, or ""."""
    if value is None:
        return ""
    if name in _AT_LEAST and value < _AT_LEAST[name]:
        return f"is {value}, expected at least {_AT_LEAST[name]}"
    if name in _LISTS:
        return _wrong_list(name, value)
    if name in ("path", "name") and not value.strip():
        return "is empty"
    if name == "language" and not is_language(value):
        return f"is {value!r}, which is not a language"
    choices = {"dtype": DTYPES, "errors": options_of(Reading)["errors"].choices}.get(name)
    if choices and value not in choices:
        return f"is {value!r}, expected one of {', '.join(choices)}"
    return ""


def _wrong_list(name: str, values: Sequence[Any]) -> str:
    if not values:
        return "is empty"
    if name == "pairs" and tuple(values) != (ALL,):
        return _wrong_pairs(values)
    for value in values:
        if name == "languages" and not is_language(value):
            return f"has {value!r}, which is not a language"
        if isinstance(value, str) and not value.strip():
            return "has an empty entry"
        low = {"steps": 0, "sizes": 1}.get(name)
        if low is not None and value < low:
            return f"has {value}, expected at least {low}"
    plain = [canonical(value) if name == "languages" else value for value in values]
    twice = next((value for value in plain if plain.count(value) > 1), None)
    return "" if twice is None else f"has {str(twice)!r} twice"


def _wrong_pairs(values: Sequence[str]) -> str:
    pairs: list[list[str]] = []
    for value in values:
        sides = [canonical(side) for side in split_pair(value) or ()]
        if len(sides) != 2 or not all(map(is_language, sides)) or sides[0] == sides[1]:
            return f"has {value!r}, expected pairs such as en-fr"
        if sides in pairs:
            return f"has {value!r} twice"
        pairs.append(sides)
    return ""


def _normalized(value: Any) -> Any:
    """`value` with languages as labels."""
    changed: dict[str, Any] = {}
    for each in fields(value):
        item = getattr(value, each.name)
        if each.name in _TABLES:
            changed[each.name] = tuple(map(_normalized, item))
        elif each.name == "languages" and item is not None:
            changed[each.name] = tuple(map(canonical, item))
        elif each.name == "language" and item is not None:
            changed[each.name] = canonical(item)
    return replace(value, **changed)
