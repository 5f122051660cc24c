"""Divide the documents of a language by the other language in them, for `--sampling auto`.

The **other language** of a document owns most of its tokens under T that its own language lacks. It
has it if it takes a fifth more tokens with those of its own language than with those of both, and
than under T; else it is plain. The order is stored beside the text, once for each tokenizer, and
mapped by all processes:

foreign-120-<signature>.npy   training documents, int64: plain ones, then those with each language
foreign-120-<signature>.json  [[language, documents, bytes], …] in this order
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
from modtok_cli.base.progress import SILENT, Progress, Task
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.training.data.sampling import Draw
from modtok_cli.training.data.text_store import TextStore

LEAST = 120
"""Tokens of a document in its own language's, in percent of those in both, if it is not plain."""

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
    files = {name: _file(store, tokenizer.signature, "json") for name, store in stores.items()}
    while missing := [name for name, file in files.items() if not file.exists()]:
        for language in missing:
            with alone(stores[language].directory) as is_alone:
                if is_alone and not files[language].exists():
                    _divide(stores[language], language, tokenizer, threads, progress)
        if not is_alone:
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
    """The documents of each source of `--sampling auto`, see `Draw.source`."""
    for language, store in stores.items():
        order: Int64Array = np.load(_file(store, signature, "npy"), mmap_mode="r")
        start = 0
        for other, count, _ in _parts(store, signature):
            name = Draw(language, None, None if other == language else other).source
            yield name, replace(store, chosen=order[start : start + count])
            start += count


def others_of(
    store: TextStore,
    language: int,
    tokenizer: ModularTokenizer,
    threads: int | None = None,
    task: Task | None = None,
) -> Int64Array:
    """The other language of each document, as a column of the membership; its own if it is plain.

    `language` is the column of the store's. Each byte is encoded twice, and more only in documents
    that T shortens.
    """
    names = tokenizer.languages
    own, full = tokenizer.subset((names[language],)), tokenizer.full()
    found = np.full(len(store), language, dtype=np.int64)
    lengths = np.zeros(len(store), dtype=np.int64)
    for numbers in _chunks(store, np.arange(len(store))):
        texts = [store.document(number) for number in numbers]
        lengths[numbers] = np.diff(own.encode_flat(texts, threads)[1])
        ids, bounds = full.encode_flat(texts, threads)
        for place in np.flatnonzero(100 * lengths[numbers] >= LEAST * np.diff(bounds)):
            tokens = ids[bounds[place] : bounds[place + 1]]
            foreign = tokens[~tokenizer.token_membership[tokens, language]]
            owned = tokenizer.token_membership.owned(foreign)
            if owned.any():
                found[numbers[place]] = owned.argmax()
        if task is not None:
            task.advance(sum(map(len, texts)))
    for other in set(found.tolist()) - {language}:
        both = tokenizer.subset(tuple(sorted({names[language], names[other]})))
        for numbers in _chunks(store, np.flatnonzero(found == other)):
            texts = [store.document(number) for number in numbers]
            shorter = np.diff(both.encode_flat(texts, threads)[1])
            found[numbers[100 * lengths[numbers] < LEAST * shorter]] = language
    return found


def _divide(
    store: TextStore,
    language: str,
    tokenizer: ModularTokenizer,
    threads: int | None,
    progress: Progress,
) -> None:
    column = tokenizer.languages.index(language)
    with progress.task(f"other languages in {language}", store.text_bytes, "B") as task:
        found = others_of(store, column, tokenizer, threads, task)
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


def _chunks(store: TextStore, numbers: Int64Array) -> Iterator[Int64Array]:
    """Some documents after another, with 16 MiB of text or one document each."""
    ends = np.cumsum(np.diff(store.ends, prepend=0)[numbers])
    first = 0
    while first < len(numbers):
        start = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, start + _CHUNK)))
        yield numbers[first:last]
        first = last


def _file(store: TextStore, signature: str, kind: str) -> Path:
    return store.directory / f"foreign-{LEAST}-{signature}.{kind}"


def _parts(store: TextStore, signature: str) -> list[tuple[str, int, int]]:
    return [tuple(part) for part in orjson.loads(_file(store, signature, "json").read_bytes())]
