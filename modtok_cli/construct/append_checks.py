"""Checks for adding languages to an existing tokenizer, or removing them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modtok_cli.base.errors import UsageError


def refuse_disagreement(directory: Path, options: Mapping[str, tuple[object, object]]) -> None:
    """Refuse settings that differ from those of the tokenizer in `directory`.

    `options`: option → value given (None: not given) and value of the tokenizer.

    Raises:
        UsageError: names the first option that differs, and both values.
    """
    for name, (given, existing) in options.items():
        if given is not None and given != existing:
            if isinstance(existing, bool):
                built = "with it" if existing else "without it"
            else:
                built = f"with {_shown(existing)}, not with {_shown(given)}"
            raise UsageError(
                f"{directory} was built {built}",
                where=name,
                remedy=f"omit {name}, or build another tokenizer",
            )


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
