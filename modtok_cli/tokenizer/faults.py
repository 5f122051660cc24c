"""Oddities of a tokenizer of another program: tokens that no text gives, gaps, and more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import is_installed
from modtok_cli.tokenizer.adopted.file_ids import odd_ids
from modtok_cli.tokenizer.adopted.restrict import (
    BYTE_TOKENS,
    check_document,
    is_byte_level,
    names_of,
)
from modtok_cli.tokenizer.adopted.tokenizer_file import UNREACHED, TokenizerFile
from modtok_cli.tokenizer.comparison import text_of
from modtok_cli.tokenizer.encoding.decoder import Decoder
from modtok_cli.tokenizer.encoding.external import External
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import as_text, byte_piece, spell

_EXAMPLES = 5
# What may stand before and after a token, where its own text does not give it.
_AROUND = (
    ("a", ""), ("", "a"), (" a", "b "), ("A", ""), (" ", ""), ("", " "), ("!", ""), ("", "!"),
    ("!!", "!"), ("\n", ""), ("", "\n"), ("1", "1"), ("", "m"), ("a", "."), ("", "\na"),
)  # fmt: skip
_MARK = re.compile(r"[<\[{(|].*[>\]})|]", re.DOTALL)


def is_foreign(tokenizer: External | Subtokenizer) -> bool:
    """Whether a tokenizer is of another program."""
    if isinstance(tokenizer, Subtokenizer):
        return not tokenizer.provenance and tokenizer.directory is None
    return True


def faults(tokenizer: External | Subtokenizer) -> list[dict[str, Any]]:
    """One row for each kind of fault: `fault`, `count`, `ids` and up to five `examples`.

    - `unreached`: no text gives the token: no merges build it, or text is split inside it. Looked
      for by encoding the token alone and with text around it; in models by words the count is None.
    - `whole words only`: no merges build it, but a word that is the token is looked up.
    - `not in UTF-8`: no text has its bytes, such as 0xFF.
    - `duplicates`: another token has the same bytes. Byte tokens are not compared.
    - `missing bytes`: text with them is lost or unknown.
    - `shadows text`: an added token that a text may contain: it comes before all else.
    - `gaps`: ids without a token.
    - `other ids`: tokens that the `tokenizers` library has under other ids, with a line for each;
      None if it is not installed.

    Special tokens count as text nowhere in modtok, so no text gives them: they have no row.

    Raises:
        UsageError: a `.model` that a `tokenizer.json` cannot hold.
    """
    if isinstance(tokenizer, Subtokenizer):
        document = orjson.loads(tokenizer.to_json())
    elif isinstance(tokenizer, LibraryTokenizer):
        document = orjson.loads(tokenizer.content)  # the library drops an id of two
    else:
        document = tokenizer.document()
    check_document(document, tokenizer.name)
    names = names_of(document)
    ids = {name: index for index, name in names.items()}
    added = {token["id"]: token for token in document.get("added_tokens") or ()}
    spelled = Decoder(document, tokenizer.name).each([*names.values()])
    tokens = dict(zip(names, spelled, strict=True))
    ordinary = {i: b for i, b in tokens.items() if b and not added.get(i, {}).get("special")}
    strange = [index for index, data in ordinary.items() if not is_in_utf8(data)]
    rows = [_row("not in UTF-8", strange, tokens)]
    looked = {index: data for index, data in ordinary.items() if index not in {*strange}}
    lost, whole = _unreached(tokenizer, document, looked)
    rows += [_row("unreached", lost, tokens), _row("whole words only", whole, tokens)]
    by_bytes: dict[bytes, list[int]] = {}
    byte_ids = {ids[name] for name in BYTE_TOKENS & ids.keys()}
    for index in sorted(tokens.keys() - byte_ids):
        by_bytes.setdefault(tokens[index], []).append(index)
    twice = [each for same in by_bytes.values() if len(same) > 1 for each in same]
    rows.append(_row("duplicates", twice, tokens))
    lacking = _missing_bytes(document, ids)
    shown = [f"0x{byte:02X}" for byte in lacking]
    rows.append({"fault": "missing bytes", "count": len(lacking), "ids": [], "examples": shown})
    shadows = [
        index
        for index, token in added.items()
        if not token.get("special") or not _MARK.fullmatch(token["content"].strip())
    ]
    rows.append(_row("shadows text", shadows, tokens))
    gaps = sorted({*range(tokenizer.size)} - names.keys())
    rows.append({"fault": "gaps", "count": len(gaps), "ids": gaps, "examples": _ranges(gaps)})
    rows.append(_other_ids(document, tokenizer.name))
    return [{**row, "examples": row["examples"][:_EXAMPLES]} for row in rows]


def _other_ids(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    row: dict[str, Any] = {"fault": "other ids", "count": None, "ids": [], "examples": []}
    if not is_installed("tokenizers"):
        return row
    lines = [*odd_ids(orjson.dumps(document), where)]
    return row | {"count": len(lines), "examples": lines}


def _row(fault: str, indices: Iterable[int] | None, tokens: Mapping[int, bytes]) -> dict[str, Any]:
    if indices is None:
        return {"fault": fault, "count": None, "ids": [], "examples": []}
    found = sorted(indices)
    examples = [text_of(tokens[index]) for index in found[:_EXAMPLES]]
    return {"fault": fault, "count": len(found), "ids": found, "examples": examples}


def _unreached(
    tokenizer: Tokenizer, document: Mapping[str, Any], tokens: Mapping[int, bytes]
) -> tuple[list[int] | None, list[int] | None]:
    """Tokens that no text gives, and tokens that only whole words give; None: not known."""
    try:
        file = TokenizerFile(document, tokenizer.name)
    except ModtokError:  # words, or subwords with prefixes: a token alone tells nothing
        return None, None
    unbuilt = {index for index in tokens if file.is_bpe and file.derivation[index] == UNREACHED}
    texts = {index: text for index, data in tokens.items() if (text := as_text(data)) is not None}
    lost = unbuilt - texts.keys()  # parts of characters
    left = [*texts]
    for before, after in (("", ""), *_AROUND):
        given = tokenizer.encode_batch([before + texts[index] + after for index in left])
        left = [i for i, found in zip(left, given, strict=True) if i not in found]
    is_whole = file.whole & ~file.added
    whole = {index for index in unbuilt & texts.keys() if is_whole[index]}.difference(left)
    return [*lost, *left], [*whole]


def is_in_utf8(data: bytes) -> bool:
    """Whether some text in UTF-8 contains these bytes.

    >>> [is_in_utf8(data) for data in (b"\\x80\\x80a\\xe2", b"\\xff", b"a\\x80", b"\\xe0\\x80")]
    [True, False, False, False]
    """
    rest = data.lstrip(bytes(range(0x80, 0xC0)))
    if len(data) - len(rest) > 3:
        return False
    try:
        rest.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


def _missing_bytes(document: Mapping[str, Any], ids: Mapping[str, int]) -> list[int]:
    if is_byte_level(document, ("normalizer", "pre_tokenizer")):
        return [byte for byte in range(256) if spell(bytes([byte])) not in ids]
    falls_back = document["model"].get("byte_fallback")
    return [byte for byte in range(256) if not falls_back or byte_piece(byte) not in ids]


def _ranges(ids: Sequence[int]) -> list[str]:
    """`_ranges([3, 4, 5, 9])` is ["3 to 5", "9"]."""
    runs = np.split(np.array(ids), np.flatnonzero(np.diff(ids) > 1) + 1) if ids else []
    return [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
