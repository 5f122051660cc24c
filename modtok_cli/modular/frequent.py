"""Reduce a Unigram tokenizer to its most frequent tokens on a corpus.

The paper's alternative to modular training: any tokenizer gives a small one for a language, but
only with tokens that it already has. Only Unigram can lose single tokens; BPE would lose merges
that build other tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Float64Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_file
from modtok_cli.modular.adopted.restrict import restrict
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
from modtok_cli.modular.formats.sentencepiece import SentencePieceTokenizer
from modtok_cli.modular.open import open_tokenizer
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


def most_frequent(counts: Int64Array, scores: Float64Array, always: BoolArray, k: int) -> BoolArray:
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


def extract_frequent(
    spec: str,
    k: int,
    texts: Sequence[Path | str],
    *,
    as_model: bool | None = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> bytes:
    """The tokenizer `spec` with the `k` tokens that it uses most on `texts`.

    Special tokens and bytes are always kept and count towards k. An
    external `.model` gives a `.model`, an external `tokenizer.json` a `tokenizer.json`, a
    tokenizer of modtok the format of `as_model` (None: JSON).
    """
    tokenizer = open_tokenizer(spec, progress=progress)
    if isinstance(tokenizer, Subtokenizer) and tokenizer.scores is not None:
        words = count_corpus(
            texts, pretokenizer=tokenizer.pretokenizer, reading=reading, progress=progress
        )
        always = np.arange(tokenizer.size) < len(tokenizer.vocabulary.specials) + 256
        mask = most_frequent(tokenizer.token_occurrences(words), tokenizer.scores, always, k)
        cut = tokenizer.restricted(mask)
        if as_model:
            return cut.to_model()
        return cut.to_json({"top_k": k, "on": words.fingerprint()})
    if not isinstance(tokenizer, SentencePieceTokenizer | LibraryTokenizer):
        raise _not_unigram(spec, "it is a BPE tokenizer")

    def occurrences() -> Int64Array:
        """How often each token occurs in the documents of `texts`; (V,) int64."""
        total = np.zeros(tokenizer.size, dtype=np.int64)
        for path in texts:
            for batch in read_batches(path, reading, progress=progress):
                for ids in tokenizer.encode_batch([document.text.decode() for document in batch]):
                    total += np.bincount(ids, minlength=len(total))
        return total

    if isinstance(tokenizer, SentencePieceTokenizer):
        if as_model is False:
            raise UsageError(
                "an external .model is only written as .model", where=spec, remedy="-o x.model"
            )
        data = _content(spec)
        model = read_model(data, spec)
        if model.model_type != UNIGRAM:
            raise _not_unigram(spec, f"it is of type '{kind_name(model.model_type)}'")
        always = np.array(model.kinds) != NORMAL
        mask = most_frequent(occurrences(), np.array(model.scores), always, k)
        return without_pieces(data, mask.tolist())
    if as_model:
        raise UsageError(
            "an external tokenizer.json is only written as JSON", where=spec, remedy="-o x.json"
        )
    document = orjson.loads(_content(spec))
    if document["model"].get("type") != "Unigram":
        raise _not_unigram(spec, f"it is of type {document['model'].get('type') or 'BPE'}")
    rows, unknown = document["model"]["vocab"], document["model"].get("unk_id")
    added = {token["content"]: token["id"] for token in document.get("added_tokens") or []}
    always = np.array([name in added or name in BYTE_NAMES for name, _ in rows])
    if unknown is not None:
        always[unknown] = True
    # Tokens that were added after the vocabulary are not pieces; they stay after it.
    behind = sorted(index for index in added.values() if index >= len(rows))
    scores = np.array([score for _, score in rows], dtype=np.float64)
    mask = most_frequent(occurrences()[: len(rows)], scores, always, k)
    ids = np.array([*np.flatnonzero(mask), *behind], dtype=np.int32)
    return orjson.dumps(restrict(document, ids, spec)) + b"\n"


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
