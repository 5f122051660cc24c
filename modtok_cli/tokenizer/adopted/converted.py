"""Files of other programs as a `tokenizer.json`: rank files, merges, and whether ids are equal."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.memory import no_collection
from modtok_cli.core.segment import Pairs
from modtok_cli.text.pretokenizer import pretokenizers, split_json
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile, symbols_of
from modtok_cli.tokenizer.encoding.external import LibraryEncoder
from modtok_cli.tokenizer.segmenters.json_frame import BYTE_LEVEL, added_tokens
from modtok_cli.tokenizer.vocabulary import BYTE_NAMES, spell

REMEDY = "adopt the tokenizer.json of the same model"
_PROBES = 1000
_NAMES = 100
_ODD_TEXTS = (
    "  ", "a  b\n \n c", "x\t12345 \u4e2d\u6587don't E\u0301 \U0001f600 ", "\u2581 a\u2581b",
    "Gar\u00e7on, \u00c5ngstr\u00f6m \u1ec7\u0323 \ufb01 \u0915\u093c\u093e \uac01 \u0958",
)  # fmt: skip
_Ids = Callable[[Sequence[str]], Sequence[Int32Array]]


class Runs(Protocol):
    """A tokenizer."""

    def encode_batch(self, texts: Sequence[str]) -> list[Int32Array]: ...

    def decode(self, ids: npt.ArrayLike) -> str: ...


def of_ranks(ranks: Mapping[bytes, int], pattern: str, first: int) -> dict[str, Any]:
    """Byte strings with ranks: BPE of bytes in which a word that is a token comes first.

    `first` ids before rank 0 are special tokens.
    """
    tokens = sorted(ranks, key=ranks.__getitem__)
    ids = {spell(token): first + ranks[token] for token in tokens}
    specials = [f"<SPECIAL_{index}>" for index in range(first)]
    for index, name in enumerate(("<unk>", "<s>", "</s>")[:first]):
        specials[index] = specials[index] if name in ids else name
    vocab = {name: index for index, name in enumerate(specials)}
    known = next((each for each in pretokenizers().values() if each.pattern == pattern), None)
    level = {**BYTE_LEVEL, "trim_offsets": True}
    before = {"type": "Sequence", "pretokenizers": [split_json(pattern), level]}
    return {
        "version": "1.0",
        "added_tokens": added_tokens(specials),
        "pre_tokenizer": known.to_json(byte_level=True) if known else before,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "ignore_merges": True,
            "vocab": vocab | ids,
            "merges": merges_of([*ids], ids, fallback=False),
        },
    }


def merges_of(names: Sequence[str], ids: Mapping[str, int], *, fallback: bool) -> list[list[str]]:
    """The merges of a BPE that joins two tokens if they make a third, the earliest of `names`.

    A token is built by the same merges inside a word as alone, so that of all pairs that make it
    one alone is ever next to each other: the last that its own string comes to.
    """
    rows: list[int] = []
    find = ids.get
    with no_collection():
        for name in names:
            for cut in range(1, len(name)):
                left, right = find(name[:cut]), find(name[cut:])
                if left is not None and right is not None:
                    rows += (left, right, ids[name])
    merges: Int32Array = np.array(rows, dtype=np.int32).reshape(-1, 3)
    results, last = Pairs(merges).last_merges(*symbols_of(names, ids, fallback))
    wanted = np.fromiter((ids[name] for name in names), np.int32, len(names))
    by_id = {index: name for name, index in ids.items()}
    built = merges[last[(last >= 0) & (results == wanted)], :2].tolist()
    return [[by_id[left], by_id[right]] for left, right in built]


def check_same(ours: Runs, owner: Runs, file: TokenizerFile, where: str, *, exact: bool) -> str:
    """A line on texts with other ids than in the library that owns the file; "" for none.

    The texts: one and several tokens of the file, drawn with a fixed seed; and composed and
    decomposed characters, names of control tokens and of bytes. If `exact`, modtok gives the ids
    of the owner for all, and the line is about the `tokenizers` library.

    Raises:
        UsageError: of the tokens more than one text of a hundred has other ids; of others, or in
            decoding, or if `exact`, any.
    """
    drawn, spelled = _probes(file)
    texts = [*drawn, *spelled]
    ids = owner.encode_batch(texts)
    odd = _different(texts, ids, ours.encode_batch)
    decoded = zip(texts, ids, strict=True)
    odd_text = [text for text, each in decoded if ours.decode(each) != owner.decode(each)]
    if odd_text or (exact and odd):
        what = "ids" if exact and odd else "decoded text"
        text = _shortest((exact and odd) or odd_text)
        line = f"{text!r} has other {what} than in the library that owns the file"
        raise UsageError(line, where=where, remedy=REMEDY)
    if exact:
        every = np.arange(file.size, dtype=np.int32)
        library = LibraryEncoder(file.restricted(every), where)
        odd = _different(texts, ids, lambda some: library.texts([text.encode() for text in some]))
    if not odd:
        return ""
    line = (
        f"{len(odd):,} of {len(texts):,} texts, such as {_shortest(odd)!r}, get other ids as a "
        f"tokenizer.json{' in the tokenizers library' if exact else ''}"
    )
    if sum(text in odd for text in drawn) > len(drawn) / 100:
        raise UsageError(line, where=where, remedy=REMEDY)
    return f"{line}; modtok gives the owner's" if exact else line


def _shortest(texts: Iterable[str]) -> str:
    return min(texts, key=lambda text: (len(text), text))


def _different(texts: Sequence[str], ids: Sequence[Int32Array], encoded: _Ids) -> set[str]:
    pairs = zip(texts, ids, encoded(texts), strict=True)
    return {text for text, one, other in pairs if one.tolist() != other.tolist()}


def _probes(file: TokenizerFile) -> tuple[list[str], list[str]]:
    """Texts made of ordinary tokens, and those that spell what no text may become."""
    names = [
        token
        for token, added in zip(file.vocabulary.tokens(), file.added.tolist(), strict=True)
        if token and not added
    ]
    texts = [text for name in names if (text := name.decode(errors="ignore")).encode() == name]
    places = np.random.default_rng(0).integers(0, max(len(texts), 1), 8 * _PROBES).tolist()
    drawn, joined = list(_ODD_TEXTS[:3]), []
    if texts:
        drawn += [times * texts[i] for i in places[:_PROBES] for times in (1, 3)]
        joined = ["".join(texts[i] for i in places[at : at + 8]) for at in range(0, len(places), 8)]
    apart = [token["content"] for token in file.document.get("added_tokens") or ()]
    names_apart = [*apart[:: -(-len(apart) // _NAMES) or 1], *BYTE_NAMES[::7]]
    spelled = [*_ODD_TEXTS, *(f"{a}{name}{b}" for name in names_apart for a, b in ("  ", "ab"))]
    forms = [unicodedata.normalize(f, text) for text in (*joined, *spelled) for f in ("NFC", "NFD")]
    return [*drawn, *joined], list(dict.fromkeys([*spelled, *forms]))
