"""The segmentations by name; a segmenter is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from modtok_cli.modular.segmenters.interface import ModularSegmenter

# A file of an adopted tokenizer says so and is asked first; it may have the shape of another.
_CLASSES = {
    "library": "adopted:ModularLibrary",
    "merges": "merges:ModularMerges",
    "unigram": "unigram:ModularUnigram",
    "fewest-tokens": "fewest_tokens:ModularFewestTokens",
}


class _Segmentations(Mapping[str, type[ModularSegmenter]]):
    """Name → class. Commands start faster if they import one segmenter instead of four."""

    def __getitem__(self, name: str) -> type[ModularSegmenter]:
        module, _, kind = _CLASSES[name].partition(":")
        found = getattr(import_module(f"modtok_cli.modular.segmenters.{module}"), kind)
        return cast(type[ModularSegmenter], found)

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


SEGMENTATIONS: Mapping[str, type[ModularSegmenter]] = _Segmentations()
