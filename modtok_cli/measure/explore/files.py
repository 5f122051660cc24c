"""Published `tokenizer.json` files for the page: BPE of bytes, or of characters with byte fallback.

Adopted tokenizers keep such a file; others that the `tokenizers` library runs are read as one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.measure.explore.planes import byte_planes, width_of
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
from modtok_cli.modular.segmenters.adopted import Library
from modtok_cli.modular.tokenizer_file import TokenizerFile
from modtok_cli.text.rewriting import REWRITES

_ODD = ("single_word", "lstrip", "rstrip")


def runs(file: TokenizerFile) -> bool:
    """Whether the page gives the ids of the library."""
    form, before = file.form, file.pretokenizer
    ordinary = [token for token in _added(file) if not token.get("special")]
    odd = any(token.get(name) for token in ordinary for name in _ODD)
    # Where a prefix goes depends on the added tokens of the text.
    shifted = before.is_whole is not None and form.of_characters
    known = form.is_native and file.is_bpe and not odd and not shifted
    return known and bool((file.symbols(np.arange(file.size, dtype=np.int32)).byte_ids >= 0).all())


def whole_file(tokenizer: object) -> Library | None:
    """A tokenizer that the library runs, if the page can run it as well."""
    if not isinstance(tokenizer, LibraryTokenizer):
        return None
    try:
        file = TokenizerFile(orjson.loads(tokenizer.inner.to_str()), tokenizer.name)
        return Library(file) if runs(file) else None
    except ModtokError:  # of a kind that cannot be adopted
        return None


def file_merges(segmenter: Library) -> tuple[dict[str, Any], list[bytes]]:
    """`meta` and planes: merges, the symbols they begin with, added tokens, the change of texts."""
    file, local = segmenter.file, segmenter.selection.local_of_global
    symbols, merges = file.symbols(local), segmenter.merges
    width = width_of(len(segmenter.vocabulary))
    points = np.flatnonzero(symbols.characters >= 0)
    before = segmenter.pretokenizer.rewrite
    rewrite = next((name for name, change in REWRITES.items() if change is before), "")
    meta = {
        "kind": "merges",
        "merges": len(merges),
        "width": width,
        "ids": len(segmenter.vocabulary),
        "bytes": symbols.byte_ids.tolist(),
        "characters": len(points),
        "rewrite": rewrite,
        "added": [
            [token["content"], -1 if token.get("special") else int(local[token["id"]])]
            for token in _added(file)
            if local[token["id"]] >= 0
        ],
    }
    planes = [plane for column in merges.T for plane in byte_planes(column, width)]
    planes += byte_planes(points, 3) + byte_planes(symbols.characters[points], width)
    return meta, planes


def _added(file: TokenizerFile) -> list[dict[str, Any]]:
    return list(file.document.get("added_tokens") or ())
