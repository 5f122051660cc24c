"""Values of training options: text from a flag or a file → checked value.

Each function raises ValueError with the text of the error.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from modtok_cli.base.remote import path_of
from modtok_cli.training.data.sampling import Regime, power_of

SEEDS = 1 << 62
"""Seeds are smaller than this: seeds of the tables are derived from them, and fit 64 bits."""

KINDS = ("matrices", "embeddings", "norms")
"""Kinds of parameters: matrices of the backbone, embedding rows, and norms with biases."""

NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
"""Pattern of the names of runs."""


def sampling(value: str) -> str:
    """A sampling regime, for example "sub:2"."""
    return str(Regime.parse(value))


def mix_rest(value: str) -> str:
    """`data`, `uniform`, or `data^A` with a power A between 0 and 1.

    >>> mix_rest("data^0.3")
    'data^0.3'
    """
    power_of(value)
    return value


def _parts(value: str | Sequence[str], expected: str) -> list[str]:
    """The entries of `a,b` or of a list."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"expected {expected}, got {value!r}")
    return [part.strip() for part in parts]


def languages(value: str | Sequence[str]) -> tuple[str, ...]:
    """Sorted codes of `en,fi` or of a list."""
    codes = _parts(value, "a list of languages")
    if not codes or not all(codes):
        raise ValueError(f"{value!r} has an empty entry; write it as en,fi,fr")
    repeated = next((code for code in codes if codes.count(code) > 1), None)
    if repeated is not None:
        raise ValueError(f"{repeated!r} is given twice")
    return tuple(sorted(codes))


def model(value: str) -> str:
    """The name of a preset."""
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise ValueError(f"expected the name of a preset, got {value!r}")
    return value


def run_name(value: str) -> str:
    """The name of a run, which becomes a directory."""
    if not isinstance(value, str) or not re.fullmatch(NAME, value) or value == "latest":
        raise ValueError(
            f"{value!r} cannot be the name of a run; use letters, digits, and . _ + - "
            "(not 'latest')"
        )
    return value


LOGGERS = ("tensorboard", "wandb")
"""Programs that metrics can be logged to, see `reporting`."""


def loggers(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names in `tensorboard,wandb` or a list; () for `none`.

    >>> loggers("wandb,tensorboard"), loggers("none")
    (('tensorboard', 'wandb'), ())
    """
    names = [n for n in _parts(value, "names such as tensorboard,wandb") if n != "none"]
    unknown = next((name for name in names if name not in LOGGERS), None)
    if unknown is not None:
        raise ValueError(f"expected {', '.join(LOGGERS)} or none, got {unknown!r}")
    return tuple(sorted(set(names)))


def names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names in `arc_easy,hellaswag` or a list; () for `none`."""
    names = _parts(value, "names separated by commas")
    if names == ["none"]:
        return ()
    if not all(names):
        raise ValueError(f"{value!r} has an empty entry")
    return tuple(dict.fromkeys(names))


def directories(value: str | Mapping[str, str | Path]) -> dict[str, Path]:
    """Directories by name; the default name is the directory's own. {} for `none`.

    >>> directories("news=texts/2026,parallel/"), directories("none")
    ({'news': PosixPath('texts/2026'), 'parallel': PosixPath('parallel')}, {})
    """
    pairs: list[tuple[str, str | Path]] = [("", "")]
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip() != "none"]
        pairs = []
        for part in parts:
            name, equals, rest = part.partition("=")
            own = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(part).absolute().name).strip("-")
            pairs.append((name, rest) if equals else (own, part))
    paths: dict[str, Path] = {}
    for name, path in pairs:
        if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]+", name) and path):
            raise ValueError(f"expected directories such as news=DIR, got {value!r}")
        if name in paths:
            raise ValueError(f"two directories have the name {name!r}; write them as NAME=DIR")
        paths[name] = path_of(path)
    return paths


def decayed(value: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds of parameters of `matrices,norms` or of a list, in the order of `KINDS`."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not set(parts) <= set(KINDS):
        raise ValueError(f"expected some of {', '.join(KINDS)}, got {value!r}")
    return tuple(kind for kind in KINDS if kind in parts)


def tenth_of(steps: int) -> int:
    """A tenth of the steps, at least 1."""
    return max(1, steps // 10)
