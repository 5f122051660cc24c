"""The segmentations by name."""

from __future__ import annotations

from modtok_cli.modular.segmenters.adopted import ModularLibrary
from modtok_cli.modular.segmenters.fewest_tokens import ModularFewestTokens
from modtok_cli.modular.segmenters.interface import ModularSegmenter
from modtok_cli.modular.segmenters.merges import ModularMerges
from modtok_cli.modular.segmenters.unigram import ModularUnigram

SEGMENTATIONS: dict[str, type[ModularSegmenter]] = {
    modular.kind.name: modular
    # A file of an adopted tokenizer says so; it may have the shape of another as well.
    for modular in (ModularLibrary, ModularMerges, ModularUnigram, ModularFewestTokens)
}
