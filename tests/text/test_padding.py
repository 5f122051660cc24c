"""Bytes behind a text: the core may read them, and words do not depend on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import split
from modtok_cli.text import text_format
from modtok_cli.text.pretokenizer import find_pretokenizer, pretokenizers

TEXTS = st.text(alphabet="ab 1é漢'.\n\u0301s", max_size=200)


def test_readers_and_the_core_agree() -> None:
    assert bytes(PADDING) == text_format.PADDING


@pytest.mark.parametrize("name", list(pretokenizers()))
@given(text=TEXTS, follows=st.binary(min_size=PADDING, max_size=PADDING))
@settings(deadline=None, max_examples=20)
def test_words_do_not_depend_on_what_follows(name: str, text: str, follows: bytes) -> None:
    splitter = find_pretokenizer(name).splitter
    found = []
    for padding in (bytes(PADDING), follows):
        data = np.frombuffer(text.encode() + padding, dtype=np.uint8)
        found.append(split(data, splitter).tolist())
    assert found[0] == found[1]
    assert not found[0] or found[0][-1] == len(text.encode())
