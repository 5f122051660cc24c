"""Find the modular tokenizer that a run was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.modular.comparison import containment
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.manifest import read_manifest
from modtok_cli.modular.tokenizer import ModularTokenizer


def find_tokenizer(
    run: Path,
    facts: Mapping[str, Any],
    given: Path | None = None,
    *,
    remedy: str = "give its directory with -t",
) -> Path:
    """The modular directory with the run's signature: `given`, or one that is found.

    It is searched in the run, in the run's workspace and in the current directory. If `given`
    contains the run's tokenizer (a language was appended to it), the run's own is returned.
    `facts` is "tokenizer" of the run's config.json.

    Raises:
        UsageError: none has the run's signature; names those that were found.
    """
    real = run.resolve()
    name = str(facts.get("path", "tokenizer"))
    usual = [real / name, real.parent.parent / name, Path(name)]
    found = []
    for place in [given] if given else usual:
        if is_modular(place):
            signature = _signature(place)
            if signature == facts["signature"]:
                return place
            found.append(f"{place} is {signature}")
    if given is not None and found:
        own = [place for place in usual if is_modular(place)]
        own = [place for place in own if _signature(place) == facts["signature"]]
        if own and containment(ModularTokenizer.load(given), ModularTokenizer.load(own[0])).holds:
            return own[0]
    seen = f" ({'; '.join(dict.fromkeys(found))})" if found else ""
    raise UsageError(
        f"was trained with tokenizer {facts['signature']}, which was not found{seen}",
        where=str(run),
        remedy=remedy,
    )


def _signature(directory: Path) -> str:
    return str(read_manifest(directory)["signature"])
