"""Base of segmentations by search: scores, and the trie of the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from modtok_cli.base.arrays import BoolArray, Float64Array
from modtok_cli.base.memory import no_collection
from modtok_cli.core.segment import SegmenterHandle
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.segmenters.interface import Segmenter
from modtok_cli.tokenizer.segmenters.json_frame import PROVENANCE, in_parts, library_json
from modtok_cli.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from modtok_cli.core.binding import Splitter
    from modtok_cli.tokenizer.encoding.encoder import Encoder


class Search(NamedTuple):
    """The arguments of `SegmenterHandle.by_search` beside the trie; scores (V,) float64."""

    scores: Float64Array
    each: int
    unknown: float = 0.0
    fallback: bool = False


class Scored(Segmenter):
    """The best path over tokens with scores; a subset is a mask over the trie of all tokens.

    `all_scores` (V,) float64 are the scores before the selection.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        pretokenizer: PreTokenizer,
        all_scores: Float64Array,
        mask: BoolArray | None = None,
    ) -> None:
        super().__init__(vocabulary, pretokenizer, mask)
        self._all_scores = np.ascontiguousarray(all_scores, dtype=np.float64)

    @cached_property
    def scores(self) -> Float64Array:
        return self._all_scores[self.selection.global_ids]

    def _encoder(self) -> Encoder:
        from modtok_cli.tokenizer.encoding.encoder import Encoder

        selection = self.selection
        whole, mask = selection.whole, selection.mask
        active = np.ones(len(whole), dtype=np.uint8) if mask is None else mask.astype(np.uint8)
        segmenter = SegmenterHandle.by_search(
            whole.trie,
            active=active,
            byte_ids=whole.byte_ids,
            local=None if mask is None else selection.local_of_global,
            **self._search()._asdict(),
        )
        return Encoder(
            self.pretokenizer,
            segmenter,
            splitter=self._splitter(),
            alone=None if mask is None else self._alone,
        )

    def _alone(self) -> SegmenterHandle:
        """The same with a trie of the tokens of the selection only, under their local ids."""
        vocabulary, search = self.vocabulary, self._search()
        return SegmenterHandle.by_search(
            vocabulary.trie,
            active=np.ones(len(vocabulary), dtype=np.uint8),
            byte_ids=vocabulary.byte_ids,
            **search._replace(scores=search.scores[self.selection.global_ids])._asdict(),
        )

    def _search(self) -> Search:
        raise NotImplementedError

    def _json(
        self,
        provenance: Mapping[str, Any],
        before: Mapping[str, Any],
        decoder: Mapping[str, Any],
        unknown: int | None = None,
    ) -> bytes:
        """A `tokenizer.json` of type Unigram; `unknown` is the id of the unknown token."""
        with no_collection():
            names, scores = self.vocabulary.spellings(), self.scores

            def rows(some: slice) -> list[tuple[str, float]]:
                return list(zip(names[some], scores[some].tolist(), strict=True))

            model = {
                "type": "Unigram",
                "unk_id": unknown,
                "byte_fallback": unknown is not None,
                PROVENANCE: dict(provenance),
                "vocab": in_parts(len(names), rows),
            }
            return library_json(self.vocabulary.specials, before, decoder, model)

    def _splitter(self) -> Splitter | None:
        """The splitter of text into parts that are segmented independently, if not the words."""
        return None

    def restricted(self, mask: BoolArray) -> Scored:
        rules = (self.selection.whole, self.pretokenizer, self._all_scores)
        return type(self)(*rules, self.selection.part(mask))
