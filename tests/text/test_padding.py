"""Bytes behind a text: kernels may read them, and words do not depend on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.text import text_format
from modtok_cli.text.count_kernel import split_all
from modtok_cli.text.pretokenizer import find_pretokenizer, pretokenizers
from modtok_cli.text.word_key_kernel import PADDING

TEXTS = st.text(alphabet="ab 1é漢'.\n\u0301s", max_size=200)


def test_readers_and_kernels_agree() -> None:
    assert bytes(PADDING) == text_format.PADDING


@pytest.mark.parametrize("name", list(pretokenizers()))
@given(text=TEXTS, follows=st.binary(min_size=PADDING, max_size=PADDING))
@settings(deadline=None, max_examples=20)
def test_words_do_not_depend_on_what_follows(name: str, text: str, follows: bytes) -> None:
    splitter = find_pretokenizer(name).splitter
    found = []
    for padding in (bytes(PADDING), follows):
        data = np.frombuffer(text.encode() + padding, dtype=np.uint8)
        ends = np.empty(len(data), dtype=np.int64)
        found.append(ends[: split_all(data, *splitter, ends)].tolist())
    assert found[0] == found[1]
    assert not found[0] or found[0][-1] == len(text.encode())
