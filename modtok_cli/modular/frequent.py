"""Reduce a Unigram tokenizer to its most frequent tokens on a corpus.

The paper's alternative to modular training: any tokenizer gives a small one for a language, but
only with tokens that it already has. Only Unigram can lose single tokens; BPE would lose merges
that build other tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.arrays import BoolArray, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_file
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
from modtok_cli.modular.formats.sentencepiece import SentencePieceTokenizer
from modtok_cli.modular.open import Tokenizer, open_tokenizer
from modtok_cli.modular.segmenters.sentencepiece_file import (
    NORMAL,
    UNIGRAM,
    kind_name,
    read_model,
    without_pieces,
)
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.vocabulary import byte_piece
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading


def most_frequent(
    counts: Int64Array, scores: npt.NDArray[np.float64], always: BoolArray, k: int
) -> BoolArray:
    """Mask of the `k` tokens to keep, including those of `always`; (V,) bool.

    Ordered by higher count, then higher score, then smaller id.

    Raises:
        UsageError: k is more than there are, or leaves nothing beside `always`.
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
    kept = np.zeros(len(counts), dtype=np.bool_)
    kept[order[:k]] = True
    return kept


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

    Raises:
        UsageError: k out of range, or a format that this tokenizer cannot be written in.
        ModtokError: a tokenizer that is not Unigram, or texts that cannot be read.
    """
    tokenizer = open_tokenizer(spec, progress=progress)
    if isinstance(tokenizer, Subtokenizer) and tokenizer.scores is not None:
        return _cut_ours(tokenizer, k, texts, bool(as_model), reading, progress)
    if isinstance(tokenizer, SentencePieceTokenizer):
        if as_model is False:
            raise UsageError(
                "an external .model is only written as .model", where=spec, remedy="-o x.model"
            )
        return _cut_model(tokenizer, spec, k, texts, reading, progress)
    if isinstance(tokenizer, LibraryTokenizer):
        if as_model:
            raise UsageError(
                "an external tokenizer.json is only written as JSON", where=spec, remedy="-o x.json"
            )
        return _cut_json(tokenizer, spec, k, texts, reading, progress)
    raise _not_unigram(spec, "it is a BPE tokenizer")


def _not_unigram(spec: str, why: str) -> ModtokError:
    return ModtokError(
        f"expected a Unigram tokenizer: {why}",
        where=spec,
        remedy="extract languages from a modular tokenizer with --langs instead",
    )


def _cut_ours(
    tokenizer: Subtokenizer,
    k: int,
    texts: Sequence[Path | str],
    as_model: bool,
    reading: Reading,
    progress: Progress,
) -> bytes:
    counts = count_corpus(
        texts, pretokenizer=tokenizer.pretokenizer, reading=reading, progress=progress
    )
    scores = tokenizer.scores
    assert scores is not None
    always = np.zeros(tokenizer.size, dtype=np.bool_)
    always[: len(tokenizer.vocabulary.specials) + 256] = True
    kept = most_frequent(tokenizer.token_occurrences(counts), scores, always, k)
    cut = tokenizer.restricted(kept)
    if as_model:
        return cut.to_model()
    return cut.to_json({"top_k": k, "on": counts.fingerprint()})


def _occurrences(
    tokenizer: Tokenizer, texts: Sequence[Path | str], reading: Reading, progress: Progress
) -> Int64Array:
    """How often each token occurs in the documents of `texts`; (V,) int64."""
    total = np.zeros(tokenizer.size, dtype=np.int64)
    for path in texts:
        for batch in read_batches(path, reading, progress=progress):
            for ids in tokenizer.encode_batch([document.text.decode() for document in batch]):
                total += np.bincount(ids, minlength=len(total))
    return total


def _cut_model(
    tokenizer: SentencePieceTokenizer,
    spec: str,
    k: int,
    texts: Sequence[Path | str],
    reading: Reading,
    progress: Progress,
) -> bytes:
    data = _content(spec)
    model = read_model(data, spec)
    if model.model_type != UNIGRAM:
        raise _not_unigram(spec, f"it is of type '{kind_name(model.model_type)}'")
    always = np.array(model.kinds) != NORMAL
    counts = _occurrences(tokenizer, texts, reading, progress)
    kept = most_frequent(counts, np.array(model.scores), always, k)
    return without_pieces(data, kept.tolist())


def _cut_json(
    tokenizer: LibraryTokenizer,
    spec: str,
    k: int,
    texts: Sequence[Path | str],
    reading: Reading,
    progress: Progress,
) -> bytes:
    document = orjson.loads(_content(spec))
    model = document["model"]
    if model.get("type") != "Unigram":
        raise _not_unigram(spec, f"it is of type {model.get('type') or 'BPE'}")
    rows = model["vocab"]
    names = [row[0] for row in rows]
    added = {token["content"] for token in document.get("added_tokens") or []}
    keep = added | {byte_piece(byte) for byte in range(256)}
    always = np.array([name in keep for name in names])
    if model.get("unk_id") is not None:
        always[model["unk_id"]] = True
    # Tokens that were added after the vocabulary are not pieces; they stay after it.
    counts = _occurrences(tokenizer, texts, reading, progress)[: len(rows)]
    kept = most_frequent(counts, np.array([row[1] for row in rows]), always, k)
    local = np.cumsum(kept) - 1
    known = set(names)
    behind = sorted(
        token["id"] for token in document.get("added_tokens") or [] if token["content"] not in known
    )

    def new_id(old: int) -> int:
        if old < len(rows):
            return int(local[old])
        return int(kept.sum()) + behind.index(old)

    model["vocab"] = [row for row, stays in zip(rows, kept.tolist(), strict=True) if stays]
    if model.get("unk_id") is not None:
        model["unk_id"] = new_id(model["unk_id"])
    for token in document.get("added_tokens") or []:
        token["id"] = new_id(token["id"])
    for holder, key in _ids_in(document.get("post_processor")):
        holder[key] = new_id(holder[key])
    return orjson.dumps(document) + b"\n"


def _ids_in(node: Any) -> Iterator[tuple[Any, Any]]:
    """Where a post-processor holds token ids: (container, key)."""
    if not isinstance(node, dict):
        return
    for part in node.get("processors") or []:
        yield from _ids_in(part)
    for name in ("sep", "cls"):
        if isinstance(node.get(name), list):
            yield node[name], 1
    special = node.get("special_tokens")
    for entry in special.values() if isinstance(special, dict) else ():
        for index in range(len(entry["ids"])):
            yield entry["ids"], index


def _content(spec: str) -> bytes:
    if spec == "-":
        raise UsageError("standard input can be read once only", remedy="name the file")
    path = Path(spec)
    return read_file(path / "tokenizer.json" if path.is_dir() else path)
