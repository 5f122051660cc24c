"""Find the modular tokenizer that a run was trained with."""

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
    given: Path | None = None,
    *,
    remedy: str = "give its directory with -t",
) -> Path:
    """The modular directory with the run's signature: `given`, or one that is found.

    It is searched in the run, in the run's workspace and in the current directory. `facts` is
    "tokenizer" of the run's config.json.

    Raises:
        UsageError: none has the run's signature; names those that were found.
    """
    real = run.resolve()
    name = str(facts.get("path", "tokenizer"))
    places = [given] if given else [real / name, real.parent.parent / name, Path(name)]
    found = []
    for place in places:
        if is_modular(place):
            signature = str(read_manifest(place)["signature"])
            if signature == facts["signature"]:
                return place
            found.append(f"{place} is {signature}")
    seen = f" ({'; '.join(dict.fromkeys(found))})" if found else ""
    raise UsageError(
        f"was trained with tokenizer {facts['signature']}, which was not found{seen}",
        where=str(run),
        remedy=remedy,
    )
