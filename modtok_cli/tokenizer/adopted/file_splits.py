"""The pre-tokenizer of a `tokenizer.json` as the `tokenizers` library runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from modtok_cli.base.signature import digest
from modtok_cli.text.pretokenizer import CalledPreTokenizer, PreTokenizer, rewriting
from modtok_cli.tokenizer.encoding.external import library_tokenizer
from modtok_cli.tokenizer.vocabulary import spell

_PROBE = (
    " a  b\t\n c's 12345 x1 HelloWorld \u00c9\u0301\u00df \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\u4e2d\u6587\u304b\u306a \uff01..//<|a|> \U0001f600\u200d\r\n "
)


class LibrarySplits(CalledPreTokenizer):
    """Splits as the library does; `document` is the file, of BPE of bytes.

    With `normalizes`, documents are changed before, by the file's normalizer.
    """

    def __init__(self, document: Mapping[str, Any], where: str, *, normalizes: bool) -> None:
        frame = {**document, "added_tokens": [], "post_processor": None, "decoder": None}
        frame["model"] = {"type": "BPE", "vocab": {}, "merges": []}
        whole = library_tokenizer(orjson.dumps(frame), where)
        self._library, self._normalizer = whole.pre_tokenizer, whole.normalizer
        parts = [document["normalizer"], document["pre_tokenizer"]][not normalizes :]
        super().__init__(f"library-{digest(*map(orjson.dumps, parts))}", "")
        if normalizes:
            self.rewrite = self._normalized

    def _normalized(self, document: bytes) -> bytes:
        text: str = self._normalizer.normalize_str(document.decode("utf-8", "replace"))
        return text.encode()

    def words(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """The spelling of each word, and where it is."""
        # A byte that is part of no character, as one that the library takes.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        found: list[tuple[str, tuple[int, int]]] = self._library.pre_tokenize_str(text)
        return found

    def ends(self, text: str) -> Iterator[int]:
        """Ends of the words."""
        return (stop for _, (start, stop) in self.words(text) if stop > start)

    def covers(self) -> bool:
        """Whether words are the text itself without gaps, at least of texts of all kinds."""
        for text in (_PROBE, _PROBE.strip()):
            at = 0
            for spelling, (start, stop) in self.words(text):
                if start != at or spelling != spell(text[start:stop].encode()):
                    return False
                at = stop
            if at != len(text):
                return False
        return True


def file_splits(document: Mapping[str, Any], where: str) -> PreTokenizer | None:
    """How a file normalizes and splits text, where no pre-tokenizer of ours does; None if its
    words are not the text."""
    normalizer = document.get("normalizer")
    steps = normalizer.get("normalizers") if isinstance(normalizer, Mapping) else None
    steps = [normalizer] if steps is None else steps
    how = {"[null]": "", "[]": "", '[{"type":"NFC"}]': "nfc"}.get(orjson.dumps(steps).decode())
    if not isinstance(document.get("pre_tokenizer"), Mapping):
        return None
    splits = LibrarySplits(document, where, normalizes=how is None)
    if not splits.covers():
        return None
    added = document.get("added_tokens") or ()
    whole = tuple(token["content"] for token in added if not token.get("special"))
    return rewriting(splits, how or "", whole)
