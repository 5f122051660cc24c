"""The tokenizer that a run was trained with, by its signature; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.manifest import read_manifest


def find_tokenizer(
    run: Path,
    facts: Mapping[str, Any],
    said: Path | None = None,
    *,
    remedy: str = "name its directory with -t",
) -> Path:
    """The modular directory of the run's signature: as `said`, or in the run, in its
    workspace or in the current directory.

    `facts` is "tokenizer" of the run's config.json.

    Raises:
        UsageError: none there has the run's signature; names those that are there.
    """
    real = run.resolve()
    name = str(facts.get("path", "tokenizer"))
    places = [said] if said else [real / name, real.parent.parent / name, Path(name)]
    found = []
    for place in places:
        if is_modular(place):
            signature = str(read_manifest(place)["signature"])
            if signature == facts["signature"]:
                return place
            found.append(f"{place} is {signature}")
    seen = f" ({'; '.join(dict.fromkeys(found))})" if found else ""
    raise UsageError(
        f"was trained with tokenizer {facts['signature']}, which is not at hand{seen}",
        where=str(run),
        remedy=remedy,
    )
