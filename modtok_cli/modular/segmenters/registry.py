"""The segmentations by name."""

from __future__ import annotations

from modtok_cli.modular.segmenters.fewest_tokens import ModularFewestTokens
from modtok_cli.modular.segmenters.interface import ModularSegmenter
from modtok_cli.modular.segmenters.merges import ModularMerges
from modtok_cli.modular.segmenters.unigram import ModularUnigram

SEGMENTATIONS: dict[str, type[ModularSegmenter]] = {
    modular.kind.name: modular for modular in (ModularMerges, ModularUnigram, ModularFewestTokens)
}
