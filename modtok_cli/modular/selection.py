"""Some tokens of a vocabulary, renumbered from 0 in ascending order."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from modtok_cli.base.arrays import BoolArray
from modtok_cli.modular.vocabulary import Vocabulary


class Selection:
    """The tokens of a mask; a vocabulary of their own is made when it is asked for.

    Attributes:
        whole: the vocabulary that they are selected from.
        mask: (V,) bool, None for all tokens.
        global_ids: (n,) int32, ascending: the id in `whole` of each local id.
        local_of_global: (V,) int32: the local id of each id in `whole`, -1 outside.
    """

    def __init__(self, whole: Vocabulary, mask: BoolArray | None = None) -> None:
        self.whole = whole
        self.mask = mask
        if mask is None:
            self.global_ids = np.arange(len(whole), dtype=np.int32)
            self.local_of_global = self.global_ids
        else:
            self.global_ids = np.flatnonzero(mask).astype(np.int32)
            self.local_of_global = np.where(
                mask, np.cumsum(mask, dtype=np.int32) - np.int32(1), np.int32(-1)
            )

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The tokens in local order."""
        if len(self.global_ids) == len(self.whole):
            return self.whole
        return self.whole.take(self.global_ids)
