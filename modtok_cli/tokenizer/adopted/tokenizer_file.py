"""A `tokenizer.json` of any origin on flat arrays: ids, bytes, merges and their derivations."""

import heapq
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, flatten
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.state import Lasting
from modtok_cli.core.segment import Pairs, Symbols, build_trie, trie_of
from modtok_cli.core.text import CODE_POINTS
from modtok_cli.text.pretokenizer import PreTokenizer
from modtok_cli.tokenizer.adopted.restrict import (
    indispensable,
    restrict,
    restrict_frame,
    vocabulary_of,
)
from modtok_cli.tokenizer.adopted.text_form import OTHER, SPACE, TextForm, text_form
from modtok_cli.tokenizer.encoding.decoder import Decoder
from modtok_cli.tokenizer.segmenters.json_frame import PROVENANCE, read_merges
from modtok_cli.tokenizer.vocabulary import Vocabulary, spell

_MOST_STEPS = 1 << 30
"""Merging a token takes its squared length in steps. Published files take up to 20 million."""


class TokenizerFile(Lasting):
    """The content of a `tokenizer.json`: BPE or Unigram, with its own ids.

    Attributes:
        document: the JSON object.
        ids: token → id, added tokens included.
        size: highest id + 1, or `rows` of the model where they are more, up to 4 for each token.
            Ids without a token are in no language.
        merges: (M, 3) int32 in rank order: left, right, result; of Unigram none.

    Raises:
        UsageError: another type of model, or one with prefixes or suffixes of subwords.
        ModtokError: the document is invalid; names the field.
    """

    def __init__(self, document: Mapping[str, Any], where: str, rows: object = None) -> None:
        self.document = document
        self.where = where
        self.ids = vocabulary_of(document, where)
        if not self.ids:
            raise ModtokError("field 'model.vocab' is empty", where=where)
        self.size = max(self.ids.values()) + 1
        if self.size > 4 * len(self.ids):
            raise ModtokError(f"field 'model.vocab': id {self.size - 1} is too high", where=where)
        if isinstance(rows, int) and self.size < rows <= 4 * len(self.ids):
            self.size = rows
        self._model = document["model"]
        for name in ("continuing_subword_prefix", "end_of_word_suffix"):
            if self._model.get(name):
                raise UsageError(
                    f"field 'model.{name}' is not supported",
                    where=where,
                    remedy="adopt a byte-level or SentencePiece tokenizer",
                )

        merges = self._model.get("merges") or [] if self.is_bpe else []
        self.merges = read_merges(merges, self.ids, where)
        lengths = np.fromiter(map(len, self.ids), np.int64, len(self.ids))
        if self.is_bpe and lengths @ lengths > _MOST_STEPS:
            raise ModtokError(
                f"field 'model.vocab': tokens of up to {lengths.max():,} characters, too long for "
                "merging each of them",
                where=where,
            )

    @property
    def is_bpe(self) -> bool:
        """Whether tokens are built by merges; else the model is Unigram."""
        return isinstance(self._model["vocab"], Mapping)

    @property
    def has_fallback(self) -> bool:
        """Whether unknown characters are spelled by byte tokens."""
        return bool(self._model.get("byte_fallback"))

    @property
    def unknown(self) -> int | None:
        """Id of the token of characters that no other has; None without one."""
        name: object = self._model.get("unk_token")
        place = self._model.get("unk_id")
        return place if type(place) is int else self.ids.get(str(name)) if name else None

    @cached_property
    def names(self) -> list[str]:
        """Token of each id; "" where there is none."""
        names = [""] * self.size
        for name, index in self.ids.items():
            names[index] = name
        return names

    @cached_property
    def added(self) -> BoolArray:
        """Which ids are added tokens, which are text and not spelled; (V,) bool."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for token in self.document.get("added_tokens") or ():
            mask[token["id"]] = True
        return mask

    @cached_property
    def special(self) -> BoolArray:
        """Which ids are special tokens, a kind of added ones; (V,) bool."""
        mask = np.zeros(self.size, dtype=np.bool_)
        for token in self.document.get("added_tokens") or ():
            mask[token["id"]] = bool(token.get("special"))
        return mask

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The bytes of each token: what it decodes to in the middle of a text."""
        return Vocabulary.from_tokens((), self.decoder.each(self.names))

    @cached_property
    def decoder(self) -> Decoder:
        """Tokens to text."""
        return Decoder(self.document, self.where)

    @cached_property
    def scores(self) -> Float64Array | None:
        """Scores by id, (V,) float64; None for BPE."""
        if self.is_bpe:
            return None
        scores = np.zeros(self.size)
        rows = self._model["vocab"]
        scores[: len(rows)] = [float(row[1]) for row in rows]
        return scores

    @cached_property
    def needed(self) -> BoolArray:
        """Tokens that every restriction keeps, (V,) bool; see `restrict.indispensable`."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[indispensable(self.document)] = True
        return mask

    @cached_property
    def derivation(self) -> Int32Array:
        """For each token the rank of the merge that builds it; see the function `derivation`."""
        if not self.is_bpe:
            return np.full(self.size, GIVEN, dtype=np.int32)
        flat, offsets = symbols_of(self.names, self._model["vocab"], self.has_fallback)
        ids = np.arange(self.size, dtype=np.int32)
        ranks = derivation(flat, offsets, ids, self.merges)
        ranks[self.needed & (ranks < 0)] = GIVEN
        return ranks

    def use_derivation(self, ranks: Int32Array, where: str) -> None:
        """Use derivations that were stored, (V,) int32."""
        built = np.flatnonzero(ranks >= 0)
        valid = len(self.merges) > int(ranks.max(initial=-1)) and int(ranks.min(initial=0)) >= -2
        if not valid or (self.merges[ranks[built], 2] != built).any():
            raise ModtokError("field 'derivation': not ranks of the tokens' merges", where=where)
        self.__dict__["derivation"] = ranks

    @cached_property
    def pieces(self) -> Int64Array:
        """Tokens that spell a token once it is removed, (V,) int64; 0: it cannot be removed."""
        pieces = np.zeros(self.size, dtype=np.int64)
        pieces[self.derivation >= 0] = 2
        single = self.derivation == GIVEN
        if not self.is_bpe:
            pieces[single] = 2
        elif self.has_fallback:
            pieces[single] = np.maximum(self.vocabulary.lengths[single], 2)
        pieces[self.needed] = 0
        return pieces

    @cached_property
    def form(self) -> TextForm:
        """The changes of a text before merging."""
        form = text_form(self.document, (self.names[i] for i in np.unique(self.merges[:, 2])))
        return OTHER if form.of_characters and self.whole.any() else form

    @cached_property
    def whole(self) -> BoolArray:
        """Tokens that a word is before anything is merged, and that merging it does not give.

        (V,) bool; all False but for BPE with `ignore_merges`.
        """
        mask = np.zeros(self.size, dtype=np.bool_)
        if self._model.get("ignore_merges"):
            mask[[index for name, index in self._model["vocab"].items() if len(name) > 1]] = True
            mask &= self.derivation < 0
        return mask

    @property
    def pretokenizer(self) -> PreTokenizer:
        """The pre-tokenizer of ours that splits as the file does; else `none`: whole documents."""
        return self.form.pretokenizer

    def symbols(self, local: Int32Array) -> Symbols:
        """The symbols that merging starts from, in ids `local` (V,): -1 for tokens left out."""
        ids = np.full(256, -1, dtype=np.int32)
        if not self.form.of_characters:
            for byte in range(256):
                index = self._model["vocab"].get(spell(bytes([byte])), -1)
                ids[byte] = local[index] if index >= 0 else -1
            words = self.whole_words(local)
            if not words:
                return Symbols(ids)
            numbers = np.array([*words.values()])
            return Symbols(ids, whole=build_trie(*flatten([*words]), numbers))
        for byte in range(256):
            ids[byte] = local[self._model["vocab"][f"<0x{byte:02X}>"]]
        characters = np.full(CODE_POINTS, -1, dtype=np.int32)
        for name, index in self._model["vocab"].items():
            if len(name) == 1:
                characters[ord(name)] = local[index]
        characters[ord(" ")] = characters[ord(SPACE)]
        added = {
            token["content"].encode(): -1 if token.get("special") else int(local[token["id"]])
            for token in self.document.get("added_tokens") or ()
            if local[token["id"]] >= 0
        }
        if not any(index >= 0 for index in added.values()):
            return Symbols(ids, characters)
        numbers = np.array(list(added.values()), dtype=np.int32)
        return Symbols(ids, characters, trie_of(list(added)), numbers)

    def whole_words(self, local: Int32Array) -> dict[bytes, int]:
        """The words that are tokens of `whole` -> their ids in `local` (V,), which has them."""
        tokens, numbers = self.vocabulary.tokens(), np.flatnonzero(self.whole & (local >= 0))
        words = {tokens[index]: index for index in numbers.tolist() if tokens[index]}
        return {word: int(local[i]) for word, i in words.items() if spell(word) == self.names[i]}

    def closed(self, mask: BoolArray) -> BoolArray:
        """`mask` (V,) with the needed tokens and all that its tokens are built from."""
        return closed(mask | self.needed, self.derivation, self.merges)

    def selected(self, rows: Int32Array) -> Mapping[str, Any]:
        """The document of the ids `rows`, ascending; all of them: with its own ids."""
        if len(rows) == self.size:
            return self.document
        return restrict(self.document, rows, self.where)

    def restricted(self, rows: Int32Array, provenance: Mapping[str, Any] | None = None) -> bytes:
        """The `tokenizer.json` of the ids `rows`."""
        document = self.selected(rows)
        if provenance is not None:
            document = {**document, "model": {**document["model"], PROVENANCE: dict(provenance)}}
        return orjson.dumps(document) + b"\n"

    def frame(self, rows: Int32Array) -> bytes:
        """Everything but vocabulary, merges, scores and provenance, for signatures."""
        new_of = {int(old): new for new, old in enumerate(rows.tolist())}
        model = {
            name: value
            for name, value in self._model.items()
            if name not in ("vocab", "merges", "unk_id", PROVENANCE)
        }
        document = {**restrict_frame(self.document, new_of), "model": model}
        return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


GIVEN = -1
"""No merge builds the token: it is a single character or a byte."""
UNREACHED = -2
"""Encoding the token's string does not give the token."""


def symbols_of(
    texts: Sequence[str], ids: Mapping[str, int], fallback: bool
) -> tuple[Int32Array, Int64Array]:
    """The symbols that merging starts from: flat ids (N,) and offsets (len(texts) + 1,).

    One symbol for each character; with `fallback`, a character that is no token is spelled by the
    tokens `<0x00>` to `<0xFF>` of its bytes. -1 is a character without a token.
    """
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    table = np.full(0x110000, -1, dtype=np.int32)
    for name, index in ids.items():
        if len(name) == 1:
            table[ord(name)] = index
    flat = table[points]
    spelled: dict[int, list[int]] = {}
    if fallback:
        for point in np.unique(points[flat < 0]).tolist():
            names = (f"<0x{byte:02X}>" for byte in chr(point).encode("utf-8", "surrogatepass"))
            bytes_of = [ids.get(name, -1) for name in names]
            if -1 not in bytes_of:
                spelled[point] = bytes_of
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    if not spelled:
        np.cumsum(lengths, out=offsets[1:])
        return flat, offsets
    sizes = np.ones(len(flat), dtype=np.int64)
    rare = np.flatnonzero(flat < 0)
    for at in rare.tolist():
        sizes[at] = len(spelled.get(int(points[at]), [-1]))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    result = np.repeat(flat, sizes)
    for at in rare.tolist():
        if int(points[at]) in spelled:
            result[ends[at] : ends[at + 1]] = spelled[int(points[at])]
    np.cumsum(lengths, out=offsets[1:])
    return result, ends[offsets]


def derivation(
    symbols: Int32Array, offsets: Int64Array, wanted: Int32Array, merges: Int32Array
) -> Int32Array:
    """Rank of the merge that builds each token; (W,) int32, `GIVEN` or `UNREACHED` without.

    A vocabulary may list several merges for one token, and the first listed one is often not the
    one that is applied. The merge that is applied last in the encoding of the token's own string
    is: a token in a longer word develops as it does alone, because no merge crosses its ends. So
    one merge for each token describes all derivations, and non-applied merges never build a token.

    Token `wanted[i]` is spelled by `symbols[offsets[i]:offsets[i + 1]]`; merges (M, 3) in rank
    order.
    """
    results, last = Pairs(merges).last_merges(symbols, offsets)
    return np.where(results == wanted, last, np.int32(UNREACHED)).astype(np.int32)


def closed(mask: BoolArray, ranks: Int32Array, merges: Int32Array) -> BoolArray:
    """`mask` (V,) with every token that the derivations of its tokens pass through.

    ranks (V,) int32 is what `derivation` gave for every token.
    """
    result = mask.copy()
    fresh: npt.NDArray[np.integer] = np.flatnonzero(result)
    while len(fresh):
        parts = np.unique(merges[ranks[fresh][ranks[fresh] >= 0], :2])
        fresh = parts[~result[parts]]
        result[fresh] = True
    return result


def smallest(
    mask: BoolArray,
    counts: Int64Array,
    ranks: Int32Array,
    merges: Int32Array,
    pieces: Int64Array,
    k: int | None,
    coverage: float | None,
) -> BoolArray:
    """The `k` tokens of `mask` (V,) of greatest use, or as few as `coverage` allows, or all.

    With `coverage`, a text takes about 1 + (1 - coverage) times as many tokens at most; the other
    arguments are as in `prune`.
    """
    if coverage is not None and not 0 < coverage <= 1:
        raise UsageError(f"coverage {coverage} is not between 0 and 1", where="--coverage")
    if k is None and coverage is None:
        return mask
    total = int(counts.sum())
    loss = total << 32 if coverage is None else int((1 - coverage) * total)
    pruned = prune(mask, counts, ranks, merges, pieces, k or 0, loss)
    if k is not None and coverage is None and int(pruned.sum()) > k:
        raise UsageError(
            f"{k:,} tokens are too few: {int(pruned.sum()):,} cannot be removed",
            where="--top",
            remedy=f"choose at least {int(pruned.sum()):,}",
        )
    return pruned


def prune(
    mask: BoolArray,
    counts: Int64Array,
    ranks: Int32Array,
    merges: Int32Array,
    pieces: Int64Array,
    size: int,
    loss: int,
) -> BoolArray:
    """Remove the tokens whose loss costs least from `mask` (V,), which is closed.

    Removes until `size` tokens are left, or until the next removal would cost more than what
    remains of `loss` tokens of text. A token that another kept token is built from stays. A removed
    token is spelled by its two parts, which inherit its count (V,); or by `pieces[i]` tokens, if no
    merge builds it. 0 pieces: the token stays.

    Example: merges a b → ab, ab c → abc, counts of a and b 5, ab 3, abc 1, and a size of 3: abc and
    then c are removed, and cost one token of text each time that they occur.
    """
    members = mask.copy()
    counts = counts.copy()
    chosen = np.flatnonzero(members & (ranks >= 0))
    users = np.zeros(len(members), dtype=np.int64)
    np.add.at(users, merges[ranks[chosen], :2].reshape(-1), 1)
    left = int(members.sum())

    def cost(index: int) -> tuple[int, int]:
        return int(counts[index] * (pieces[index] - 1)), -index

    free = members & (pieces > 0)
    heap = [cost(index) for index in np.flatnonzero(free & (users == 0)).tolist()]
    heapq.heapify(heap)
    while heap and left > size:
        price, index = heapq.heappop(heap)
        index = -index
        if price > loss:
            break
        loss -= price
        members[index] = False
        left -= 1
        if ranks[index] < 0:
            continue
        for part in merges[ranks[index], :2].tolist():
            counts[part] += counts[index]
            users[part] -= 1
            if users[part] == 0 and free[part]:
                heapq.heappush(heap, cost(part))
    return members
