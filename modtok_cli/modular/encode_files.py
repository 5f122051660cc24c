"""Encode a corpus to flat files of token ids: in bounded memory, whole or not at all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, refuse_others
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.token_files import FACTS, FORMS, TokenFiles
from modtok_cli.text.parallel import cores, total_bytes
from modtok_cli.text.readers import Spans, read_spans, text_files
from modtok_cli.text.reading import Reading

_OURS = {FACTS, *(name for form in FORMS.values() for name in form.names)}


def encode_files(
    tokenizer: Tokenizer,
    texts: Sequence[str | Path],
    output: Path,
    form: str = "npy",
    *,
    end_of_text: str | None = None,
    global_ids: bool = False,
    reading: Reading = Reading(),
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write the token ids of all documents of `texts`, in order, to the directory `output`.

    Blocks of about a megabyte are read in this thread and encoded in `threads` others.

    Args:
        form: a key of `token_files.FORMS`.
        end_of_text: token to append to every document.
        global_ids: ids of the modular tokenizer that `tokenizer` is a subset of.

    Returns:
        What `tokens.json` holds: form, type, tokens, documents, bytes of text, the tokenizer's
        signature and size, the id at the end of a document or None.

    Raises:
        UsageError: `output` exists, or the tokenizer lacks the token or global ids.
        ModtokError: unreadable text, or the output cannot be written.
    """
    if form not in FORMS:
        raise UsageError(
            f"unknown format '{form}'", where="--format", remedy=f"choose from: {', '.join(FORMS)}"
        )
    refuse_others(output, _OURS.__contains__)
    if output.exists() and not force:
        raise UsageError(
            "already exists", where=str(output), remedy="choose another -o, or use --force"
        )
    ours = tokenizer if isinstance(tokenizer, Subtokenizer) else None
    if global_ids and ours is None:
        raise UsageError(
            "--global-ids is not supported for external tokenizers", where=tokenizer.name
        )
    end = None if end_of_text is None else _token_id(tokenizer, end_of_text)
    size, names = tokenizer.size, None
    if ours is not None and global_ids:
        size, names = len(ours.segmenter.selection.whole), ours.global_ids

    def encode(spans: Spans) -> tuple[Int32Array, Int64Array, int]:
        ids, ends = _ids_of(tokenizer, spans)
        if end is not None:
            ids = np.insert(ids, ends, end)
            ends = ends + np.arange(1, len(ends) + 1)
        return (ids if names is None else names[ids]), ends, int((spans.stops - spans.starts).sum())

    files = [file for text in texts for file in text_files(text)]
    count = 0
    with (
        atomic_directory(output) as directory,
        progress.task("encoding", total_bytes(files), "B") as task,
    ):
        written: TokenFiles = FORMS[form](directory, size)
        blocks = (
            spans
            for text in texts
            for spans in read_spans(text, reading, progress=progress, advance=task.advance)
        )
        for ids, ends, taken in _in_order(encode, blocks, threads or cores()):
            written.append(ids, ends)
            count += taken
        written.close()
        facts = {
            "format": form,
            "dtype": written.dtype.name,
            "tokens": written.tokens,
            "documents": written.documents,
            "bytes": count,
            "tokenizer": tokenizer.signature,
            "size": size,
            "end_of_text": end if end is None or names is None else int(names[end]),
        }
        (directory / FACTS).write_bytes(orjson.dumps(facts, option=orjson.OPT_APPEND_NEWLINE))
    return facts


def _in_order(
    work: Callable[[Spans], tuple[Int32Array, Int64Array, int]],
    items: Iterable[Spans],
    threads: int,
) -> Iterator[tuple[Int32Array, Int64Array, int]]:
    """`work` of each item, in order; a few items per thread are read ahead."""
    if threads <= 1:
        yield from map(work, items)
        return
    waiting: deque[Future[tuple[Int32Array, Int64Array, int]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # no effect when all are done
            for future in waiting:
                future.cancel()


def _ids_of(tokenizer: Tokenizer, spans: Spans) -> tuple[Int32Array, Int64Array]:
    """Ids of a block of documents, and the end of each among them."""
    if isinstance(tokenizer, Subtokenizer):
        ids, offsets = tokenizer.encoder.spans(spans.data, spans.starts, spans.stops)
        return ids, offsets[1:]
    places = zip(spans.starts.tolist(), spans.stops.tolist(), strict=True)
    parts = tokenizer.encode_batch([spans.data[a:b].tobytes().decode() for a, b in places])
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return np.concatenate(parts), ends


def _token_id(tokenizer: Tokenizer, text: str) -> int:
    """The id of a token that stands for itself: a special one, or an added one of a file.

    Raises:
        UsageError: there is none.
    """
    wanted = text.encode()
    if isinstance(tokenizer, Subtokenizer):
        vocabulary = tokenizer.vocabulary
        if text in vocabulary.specials:
            return vocabulary.specials.index(text)
        found = vocabulary.find(wanted)
    else:
        each = range(tokenizer.size - 1, -1, -1)  # added tokens are the last
        found = next((i for i in each if tokenizer.decode_bytes([i]) == wanted), None)
    if found is not None:
        return found
    raise UsageError(
        f"the tokenizer has no token '{text}'",
        where="--end-of-text",
        remedy="give one of its special tokens",
    )
