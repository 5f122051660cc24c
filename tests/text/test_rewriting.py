"""Changes of documents: normalization form C is the library's, for every code point."""

from __future__ import annotations

import pytest
from tokenizers.normalizers import NFC

from modtok_cli.base.errors import UsageError
from modtok_cli.text.pretokenizer import composed, prefixed, restore_pretokenizer, spaced


def test_composition_of_every_code_point() -> None:
    library = NFC()
    points = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000]
    # Alone, after a letter, and after what Hangul and Indic vowels compose with.
    for before in ("", "a", "\u1100", "\uac00", "\u0bc6", "\u0915"):
        for first in range(0, len(points), 64):
            text = "".join(f"{before}{point} " for point in points[first : first + 64])
            assert composed(text.encode()).decode() == library.normalize_str(text), hex(first)


def test_plain_text_is_returned_as_it_is() -> None:
    for text in ("ascii", "déjà vu", "данные", "漢字 かな"):
        data = text.encode()
        assert composed(data) is data


def test_spaces_before_documents() -> None:
    assert [prefixed(text) for text in (b"", b"a", b" a")] == [b"", b" a", b"  a"]
    texts = [b"", b"a", b" a", "▁a".encode()]
    assert [spaced(text) for text in texts] == [b"", b" a", *texts[2:]]


def test_names_that_are_none() -> None:
    names = ("qwen2+nfd", "none+", "gpt9+nfc", "+nfc", "gpt2+[]", "gpt2+[1]", 'gpt2+[""]', "gpt2+[")
    for name in names:
        with pytest.raises(UsageError, match="unknown pre-tokenizer"):
            restore_pretokenizer(name)
