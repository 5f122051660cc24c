"""How words are split into tokens, one way a module."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modtok_cli.modular.segmenters.interface import ModularSegmenter

_CLASSES = {
    "library": "adopted.segmenter:ModularLibrary",
    "merges": "segmenters.merges:ModularMerges",
    "unigram": "segmenters.unigram:ModularUnigram",
    "fewest-tokens": "segmenters.fewest_tokens:ModularFewestTokens",
}
# A file of an adopted tokenizer says so and is asked first; it may have the shape of another.
SEGMENTATIONS = tuple(_CLASSES)


def segmentation(name: str) -> type[ModularSegmenter]:
    """The segmentation of that name. Commands start faster if they import one instead of four."""
    module, _, kind = _CLASSES[name].partition(":")
    modular: type[ModularSegmenter] = getattr(import_module(f"modtok_cli.modular.{module}"), kind)
    return modular
