"""The ids of a subset before and after it has a trie of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from modtok_cli.modular.encoding import encoder as encoder_module
from modtok_cli.modular.tokenizer import ModularTokenizer


def check_own_trie(tokenizer: ModularTokenizer, names: Sequence[str], alphabet: str) -> None:
    """Random texts have the same ids in the trie of all tokens and in that of the subset."""
    rng = random.Random(5)
    texts = ["".join(rng.choices(alphabet, k=40)).encode() for _ in range(50)]
    expected = [ids.tolist() for ids in tokenizer.subset(names).encode_utf8(texts)]
    encoder = tokenizer.subset(names).encoder
    assert encoder._alone is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder_module, "OWN_TRIE", 0)
        encoder.texts([b"a"])
    assert encoder._alone is None
    assert [ids.tolist() for ids in encoder.texts(texts)] == expected
