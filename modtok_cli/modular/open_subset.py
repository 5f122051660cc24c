"""Open the tokenizer of some languages of a modular directory without the rest of T.

The result equals `ModularTokenizer.load(directory).subset(languages)`, which reads and validates
all languages. Here the checksum covers the whole file as well, but only the tokenizer in question
is validated, as a tokenizer of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.modular import directory as directories
from modtok_cli.modular.segmenters.interface import union
from modtok_cli.modular.segmenters.registry import SEGMENTATIONS
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import places


def open_subset(
    directory: Path, languages: str | Iterable[str] | None, name: str | None = None
) -> Subtokenizer:
    """The tokenizer of a set of languages of a modular directory; of T with None.

    Raises:
        UsageError: an unknown language (names those there are), or none at all.
        ModtokError: a file is missing, damaged or changed by hand; names it and the field.
    """

    def choose(manifest: Mapping[str, Any]) -> Sequence[int]:
        known = [row["language"] for row in manifest["languages"]]
        if languages is not None:
            return places(known, languages)
        modular = SEGMENTATIONS[manifest["segmentation"]]
        return range(len(known)) if modular.whole_needs_members else ()

    contents = directories.read(directory, choose)
    manifest, modular, members = contents.manifest, contents.segmenter, contents.token_membership
    rows, chosen = manifest["languages"], contents.columns
    contents.verify_sizes()
    modular.check_part(members, [rows[column]["language"] for column in chosen], contents.where)
    everything = languages is None or (modular.covers and len(chosen) == len(rows))
    columns = range(len(chosen))
    segmenter = modular.subset(members, columns, None if everything else union(members, columns))
    segmenter.check(contents.where)
    return Subtokenizer(
        segmenter,
        languages=[row["language"] for i, row in enumerate(rows) if everything or i in chosen],
        parent_signature=manifest["signature"],
        name=name,
    )
