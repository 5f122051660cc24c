"""Reduce a Unigram tokenizer to its most frequent tokens on a corpus.

The paper's alternative to modular training: any Unigram tokenizer gives a small one for a language,
but only with tokens that it already has. Only Unigram can lose single tokens; BPE would lose merges
that build other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Float64Array, Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.base.reading import read_file
from modtok_cli.modular.adopted.restrict import restrict
from modtok_cli.modular.encoding.external import External
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
from modtok_cli.modular.formats.sentencepiece import SentencePieceTokenizer
from modtok_cli.modular.open import Tokenizer, open_bytes
from modtok_cli.modular.segmenters.sentencepiece_file import (
    NORMAL,
    UNIGRAM,
    kind_name,
    read_model,
    without_pieces,
)
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.vocabulary import BYTE_NAMES
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading


def check_suffix(tokenizer: External, suffix: str | None) -> None:
    """Refuse to write an external tokenizer in another format than its own."""
    is_model = isinstance(tokenizer, SentencePieceTokenizer)
    if suffix is not None and is_model != (suffix == ".model"):
        what = "external .model is only written as .model"
        if not is_model:
            what = "external tokenizer.json is only written as JSON"
        remedy = f"-o x.{'model' if is_model else 'json'}"
        raise UsageError(f"an {what}", where=tokenizer.name, remedy=remedy)


def _cut(data: bytes, name: str) -> Tokenizer:
    tokenizer = open_bytes(data, name, name)
    assert isinstance(tokenizer, External)
    tokenizer.content = data
    return tokenizer


class Documents:
    """Texts that tokens are counted in."""

    def __init__(self, paths: Sequence[Path | str], reading: Reading, progress: Progress) -> None:
        self.paths, self.reading, self.progress = paths, reading, progress

    def batches(self) -> Iterator[list[str]]:
        """Documents in lists."""
        for path in self.paths:
            for batch in read_batches(path, self.reading, progress=self.progress):
                yield [document.text.decode() for document in batch]

    def occurrences(self, tokenizer: Tokenizer) -> Int64Array:
        """How often each token occurs; (V,) int64."""
        total = np.zeros(tokenizer.size, dtype=np.int64)
        for texts in self.batches():
            for ids in tokenizer.encode_batch(texts):
                total += np.bincount(ids, minlength=len(total))
        return total


def most_frequent(
    tokenizer: Tokenizer, k: int, documents: Documents, suffix: str | None
) -> Tokenizer:
    """The tokenizer with the `k` tokens that it uses most.

    Special tokens and bytes are always kept and count towards k. An external `.model` gives a
    `.model`, an external `tokenizer.json` a `tokenizer.json`; `suffix` must agree.
    """
    name = tokenizer.name
    if isinstance(tokenizer, Subtokenizer) and tokenizer.scores is not None:
        words = count_corpus(
            documents.paths,
            pretokenizer=tokenizer.pretokenizer,
            reading=documents.reading,
            progress=documents.progress,
        )
        always = np.arange(tokenizer.size) < len(tokenizer.vocabulary.specials) + 256
        mask = frequent_mask(tokenizer.token_occurrences(words), tokenizer.scores, always, k)
        return tokenizer.restricted(mask, {"top_k": k, "on": words.fingerprint()})
    if not isinstance(tokenizer, SentencePieceTokenizer | LibraryTokenizer):
        raise _not_unigram(name, "it is a BPE tokenizer")
    check_suffix(tokenizer, suffix)
    if isinstance(tokenizer, SentencePieceTokenizer):
        model = read_model(_content(name), name)
        if model.model_type != UNIGRAM:
            raise _not_unigram(name, f"it is of type '{kind_name(model.model_type)}'")
        always = np.array(model.kinds) != NORMAL
        scores = np.array(model.scores)
        mask = frequent_mask(documents.occurrences(tokenizer), scores, always, k)
        return _cut(without_pieces(_content(name), mask.tolist()), name)
    document = orjson.loads(_content(name))
    if document["model"].get("type") != "Unigram":
        raise _not_unigram(name, f"it is of type {document['model'].get('type') or 'BPE'}")
    rows, unknown = document["model"]["vocab"], document["model"].get("unk_id")
    added = {token["content"]: token["id"] for token in document.get("added_tokens") or []}
    always = np.array([piece in added or piece in BYTE_NAMES for piece, _ in rows])
    if unknown is not None:
        always[unknown] = True
    # Tokens that were added after the vocabulary are not pieces; they stay after it.
    behind = sorted(index for index in added.values() if index >= len(rows))
    scores = np.array([score for _, score in rows], dtype=np.float64)
    mask = frequent_mask(documents.occurrences(tokenizer)[: len(rows)], scores, always, k)
    ids: Int32Array = np.array([*np.flatnonzero(mask), *behind], dtype=np.int32)
    return _cut(orjson.dumps(restrict(document, ids, name)) + b"\n", name)


def frequent_mask(counts: Int64Array, scores: Float64Array, always: BoolArray, k: int) -> BoolArray:
    """Mask of the `k` tokens to keep, including those of `always`; (V,) bool.

    Ordered by higher count, then higher score, then smaller id.
    """
    if k > len(counts):
        raise UsageError(
            f"the tokenizer has {len(counts):,} tokens, cannot keep {k:,}",
            where="--top-k",
            remedy=f"choose at most {len(counts):,}",
        )
    least = int(always.sum())
    if k <= least:
        raise UsageError(
            f"{k:,} tokens are too few: {least:,} are bytes and special tokens",
            where="--top-k",
            remedy=f"choose more than {least:,}",
        )
    order = np.lexsort((np.arange(len(counts)), -scores, -counts, ~always))
    mask = np.zeros(len(counts), dtype=np.bool_)
    mask[order[:k]] = True
    return mask


def _not_unigram(spec: str, why: str) -> ModtokError:
    return ModtokError(
        f"expected a Unigram tokenizer: {why}",
        where=spec,
        remedy="extract languages from a modular tokenizer with --langs instead",
    )


def _content(spec: str) -> bytes:
    if spec == "-":
        raise UsageError("standard input can be read once only", remedy="name the file")
    path = Path(spec)
    return read_file(path / "tokenizer.json" if path.is_dir() else path)
