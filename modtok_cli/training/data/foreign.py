"""Divide the documents of a language by the other language in them, for `--sampling auto`.

A document has the language besides its own that owns most of its **foreign tokens**: those of its
tokens under T that its own language lacks, if these are at least a tenth. All others are plain.
The order is stored beside the text, once for each tokenizer, and mapped by all processes:

foreign-<signature>.npy   training documents, int64: plain ones, then those with each language
foreign-<signature>.json  [[language, documents, bytes], …] in this order
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import orjson

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.files import write_bytes
from modtok_cli.base.locks import alone
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.training.data.sampling import Draw
from modtok_cli.training.data.text_store import TextStore

LEAST = 0.1
"""Share of foreign tokens from which a document is not plain."""

FEWEST = 100
"""A language with fewer of a language's documents is not told apart: they are plain."""

_CHUNK = 1 << 24
_POLL_SECONDS = 0.5


def divide(
    stores: Mapping[str, TextStore],
    tokenizer: ModularTokenizer,
    *,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, dict[str, float]]:
    """Language → other language → share of its training text; plain text is under the language.

    Processes that call it at the same time divide the languages; each returns when all are done.
    """
    missing = dict(stores)
    while missing:
        for language, store in missing.items():
            with alone(store.directory) as is_alone:
                if is_alone and not _file(store, tokenizer.signature, "json").exists():
                    _divide(store, language, tokenizer, threads, progress)
        missing = {
            language: store
            for language, store in missing.items()
            if not _file(store, tokenizer.signature, "json").exists()
        }
        if missing:
            time.sleep(_POLL_SECONDS)
    shares: dict[str, dict[str, float]] = {}
    for language, store in stores.items():
        parts = _parts(store, tokenizer.signature)
        total = sum(size for _, _, size in parts)
        shares[language] = {other: size / total for other, _, size in parts}
    return shares


def in_words(divided: Mapping[str, Mapping[str, float]], most: int = 5) -> str:
    """The largest shares of text with another language, for people."""
    shares = sorted(
        (-share, language, other)
        for language, parts in divided.items()
        for other, share in parts.items()
        if other != language
    )
    if not shares:
        return "no text has much of another language: --sampling auto is as none"
    words = [f"{-share:.1%} of {language} has {other}" for share, language, other in shares[:most]]
    return ", ".join(words) + (f", … ({len(shares)} pairs)" if len(shares) > most else "")


def streams(stores: Mapping[str, TextStore], signature: str) -> Iterator[tuple[str, TextStore]]:
    """The documents that each draw of `--sampling auto` reads, by its string."""
    for language, store in stores.items():
        order: Int64Array = np.load(_file(store, signature, "npy"), mmap_mode="r")
        start = 0
        for other, count, _ in _parts(store, signature):
            draw = Draw(language, tuple(sorted({language, other})))
            yield str(draw), replace(store, chosen=order[start : start + count])
            start += count


def others_of(
    texts: list[bytes], language: int, tokenizer: ModularTokenizer, threads: int | None = None
) -> Int64Array:
    """The other language of each text, as a column of the membership; its own if it is plain."""
    ids, bounds = tokenizer.full().encode_flat(texts, threads)
    membership = tokenizer.token_membership
    foreign = ~membership[ids, language]
    places = np.repeat(np.arange(len(texts)), np.diff(bounds))
    counts = np.bincount(places[foreign], minlength=len(texts))
    found = np.full(len(texts), language, dtype=np.int64)
    for text in np.flatnonzero((counts > 0) & (counts >= LEAST * np.diff(bounds))):
        of_text = slice(bounds[text], bounds[text + 1])
        owned = membership.owned(ids[of_text][foreign[of_text]])
        if owned.any():
            found[text] = owned.argmax()
    return found


def _divide(
    store: TextStore,
    language: str,
    tokenizer: ModularTokenizer,
    threads: int | None,
    progress: Progress,
) -> None:
    column = tokenizer.languages.index(language)
    found = np.full(len(store), column, dtype=np.int16)
    with progress.task(f"other languages in {language}", store.text_bytes, "B") as task:
        for first, texts in _chunks(store):
            found[first : first + len(texts)] = others_of(texts, column, tokenizer, threads)
            task.advance(sum(map(len, texts)))
    documents = np.delete(np.arange(len(store)), store.held_out)
    found = found[documents]
    counts = np.bincount(found, minlength=len(tokenizer.languages))
    found[counts[found] < FEWEST] = column
    others = [column, *(int(each) for each in np.unique(found) if each != column)]
    groups = [documents[found == each] for each in others]
    lengths = np.diff(store.ends, prepend=0)
    parts = [
        (tokenizer.languages[other], len(group), int(lengths[group].sum()))
        for other, group in zip(others, groups, strict=True)
    ]
    order = BytesIO()
    np.save(order, np.concatenate(groups))
    write_bytes(_file(store, tokenizer.signature, "npy"), order.getvalue())
    write_bytes(_file(store, tokenizer.signature, "json"), orjson.dumps(parts))


def _chunks(store: TextStore) -> Iterator[tuple[int, list[bytes]]]:
    """All documents: number of the first, and some in a row."""
    ends, first = store.ends, 0
    while first < len(store):
        start = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, start + _CHUNK)))
        yield first, [store.document(number) for number in range(first, last)]
        first = last


def _file(store: TextStore, signature: str, kind: str) -> Path:
    return store.directory / f"foreign-{signature}.{kind}"


def _parts(store: TextStore, signature: str) -> list[tuple[str, int, int]]:
    return [tuple(part) for part in orjson.loads(_file(store, signature, "json").read_bytes())]
