"""Which languages each token or merge belongs to: one bit for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import BoolArray, Int64Array, UInt8Array


@dataclass(frozen=True, eq=False)
class Membership:
    """Rows (tokens or merges) × columns (languages), indexed as an (N, L) bool array.

    An index unpacks what it selects, `numpy.asarray` all of it.

    Attributes:
        planes: (⌈L / 8⌉, N) uint8; bit j % 8 of plane j // 8 is column j, so a column is read from
            one plane.
        columns: L.
    """

    planes: UInt8Array
    columns: int

    @classmethod
    def of_columns(cls, rows: int, columns: Iterable[npt.NDArray[Any]], count: int) -> Membership:
        """From what selects the rows of each of `count` columns: ids, or (N,) bool.

        >>> Membership.of_columns(3, [np.array([0, 2]), np.array([True, True, False])], 2)[0]
        array([ True,  True])
        """
        planes = np.zeros(((count + 7) // 8, rows), dtype=np.uint8)
        for column, chosen in enumerate(columns):
            planes[column // 8, chosen] |= np.uint8(1 << column % 8)
        return cls(planes, count)

    @classmethod
    def of(cls, members: BoolArray) -> Membership:
        """From (N, L) bool."""
        return cls.of_columns(len(members), members.T, members.shape[1])

    @classmethod
    def everywhere(cls, rows: int, columns: int) -> Membership:
        """Every row in every column."""
        return cls.of(np.ones((rows, columns), dtype=np.bool_))

    @property
    def shape(self) -> tuple[int, int]:
        """(N, L)."""
        return len(self), self.columns

    def __len__(self) -> int:
        return int(self.planes.shape[1])

    def __getitem__(self, key: Any) -> BoolArray:
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        chosen = np.arange(self.columns)[columns]
        if chosen.ndim == 0:
            plane: UInt8Array = self.planes[chosen // 8][rows]
            marks: BoolArray = plane & np.uint8(1 << chosen % 8) != 0
            return marks
        found = [self[rows, column] for column in chosen]
        shape = self.planes[:0, rows].shape[1:]
        return np.moveaxis(np.array(found, dtype=np.bool_).reshape(len(found), *shape), 0, -1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[:], dtype)

    def ids(self, column: int) -> Int64Array:
        """The rows of a column, ascending."""
        return np.flatnonzero(self[:, column])

    def union(self, columns: Sequence[int]) -> BoolArray:
        """Rows that are in at least one of the columns, (N,) bool."""
        rows = np.zeros(len(self), dtype=np.bool_)
        for column in columns:
            rows |= self[:, column]
        return rows

    def select(self, columns: Sequence[int]) -> Membership:
        """These columns only."""
        if list(columns) == list(range(self.columns)):
            return Membership(np.ascontiguousarray(self.planes), self.columns)
        return self.of_columns(len(self), (self[:, column] for column in columns), len(columns))

    def sizes(self) -> Int64Array:
        """Rows of each column, (L,)."""
        return np.array([np.count_nonzero(self[:, column]) for column in range(self.columns)])

    def owners(self) -> Int64Array:
        """Columns of each row, (N,)."""
        owners: Int64Array = np.bitwise_count(self.planes).sum(axis=0, dtype=np.int64)
        return owners

    def owned(self, rows: npt.NDArray[Any]) -> Int64Array:
        """How many of these rows each column has, (L,)."""
        bits = np.unpackbits(self.planes[:, rows], axis=0, count=self.columns, bitorder="little")
        owned: Int64Array = bits.sum(axis=1, dtype=np.int64)
        return owned

    def equals(self, other: Membership) -> bool:
        """Whether rows, columns and bits are the same."""
        return self.shape == other.shape and np.array_equal(self.planes, other.planes)

    def packed(self) -> UInt8Array:
        """(N, ⌈L / 8⌉) uint8, as a file holds it."""
        return np.ascontiguousarray(self.planes.T)
