"""What holds where a tokenizer that is there gets more languages, or loses some."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from modtok_cli.base.errors import UsageError


def refuse_disagreement(output: Path, options: Mapping[str, tuple[object, object]]) -> None:
    """Refuse settings other than those of the tokenizer at `output`, which stay in force.

    `options`: name → what was told (None: nothing) and what the tokenizer has.

    Raises:
        UsageError: they differ; names the first that does, and both values.
    """
    for name, (told, there) in options.items():
        if told is not None and told != there:
            if isinstance(there, bool):
                made = "with it" if there else "without it"
            else:
                made = f"with {_shown(there)}, not with {_shown(told)}"
            raise UsageError(
                f"{output} was made {made}",
                where=name,
                remedy=f"leave {name} out, or learn another tokenizer",
            )


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
