"""Membership as bits is indexed, united and counted as an array of bool is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modtok_cli.base.membership import Membership


@given(st.data(), st.integers(0, 30), st.integers(0, 19), st.integers(0, 2**32))
def test_as_an_array_of_bool(data: st.DataObject, rows: int, columns: int, seed: int) -> None:
    dense = np.random.default_rng(seed).random((rows, columns)) < 0.4
    members = Membership.of(dense)
    assert members.shape == dense.shape
    assert len(members) == rows
    assert np.array_equal(np.asarray(members), dense)
    some = data.draw(st.lists(st.integers(0, rows - 1), max_size=5)) if rows else []
    some = np.array(some, dtype=int)
    few = sorted(data.draw(st.sets(st.integers(0, columns - 1), max_size=5))) if columns else []
    few = np.array(few, dtype=int)
    for key in (
        np.s_[:],
        np.s_[: rows // 2],
        some,
        np.s_[:, few],
        np.s_[: rows // 2, few],
        np.s_[:, columns // 2 :],
    ):
        assert np.array_equal(members[key], dense[key])
        assert members[key].dtype == np.bool_
    for column in few:
        assert np.array_equal(members[:, column], dense[:, column])
        assert np.array_equal(members[some, column], dense[some, column])
        assert np.array_equal(members.ids(column), np.flatnonzero(dense[:, column]))
    for row in some:
        assert np.array_equal(members[row], dense[row])
    assert np.array_equal(members.union(few), dense[:, few].any(axis=1))
    assert members.sizes().tolist() == dense.sum(axis=0).tolist()
    assert members.owners().tolist() == dense.sum(axis=1).tolist()
    assert members.owned(some).tolist() == dense[some].sum(axis=0).tolist()
    assert members.select(few).equals(Membership.of(dense[:, few]))
    by_ids = [np.flatnonzero(column) for column in dense.T]
    assert Membership.of_columns(rows, by_ids, columns).equals(members)


def test_packed_is_the_layout_of_the_file() -> None:
    dense = np.zeros((2, 10), dtype=np.bool_)
    dense[0, [0, 9]] = dense[1, 7] = True
    assert Membership.of(dense).packed().tolist() == [[1, 2], [128, 0]]


def test_a_difference_is_found() -> None:
    members = Membership.everywhere(3, 9)
    assert members.equals(Membership.everywhere(3, 9))
    assert not members.equals(Membership.everywhere(3, 10))
    assert not members.equals(Membership.everywhere(4, 9))
    changed = members[:]
    changed[2, 8] = False
    assert not members.equals(Membership.of(changed))
    with pytest.raises(IndexError):
        members[:, 9]
