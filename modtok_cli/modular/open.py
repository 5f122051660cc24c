"""Open whatever a user calls a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import standard_input
from modtok_cli.modular.directory import is_modular, load
from modtok_cli.modular.parse import misfit, parse_document, parse_plain
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.search import open_search
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.text.pretokenizer import UNIGRAM

KINDS = (
    "give a modular directory, DIR@fr,en, a tokenizer.json, a SentencePiece .model, "
    "a tiktoken rank file or -"
)


def open_tokenizer(spec: str, *, stdin: BinaryIO | None = None) -> Tokenizer:
    """The tokenizer that `spec` names.

    - `DIR`: a modular directory, all its languages; `DIR@fr,en`: those languages of it;
    - a `tokenizer.json`: by our encoder if it has our shape, else by the `tokenizers` library;
    - a SentencePiece `.model`, Mistral's tekken JSON;
    - a tiktoken rank file; `FILE#o200k` names its pre-tokenizer (cl100k, o200k, r50k);
    - `-`: any of these files on standard input.

    What a file is, its content tells, not its name. A special token that is written in a
    text is plain text to all of them: what users write must not end a document.

    Raises:
        UsageError: there is no such file, or the directory has no such language.
        ModtokError: it is damaged, or of no kind we read.
    """
    if spec == "-":
        data = (stdin or standard_input()).read()
        if not data:
            raise ModtokError(
                "no tokenizer came in", where="stdin", remedy="pipe one in, or name it with -t"
            )
        return open_bytes(data, "-", "stdin")
    path = Path(spec)
    if not path.exists():
        return _open_qualified(spec)
    if path.is_dir():
        if is_modular(path):
            return load(path).full(name=spec)
        inner = path / "tokenizer.json"
        if inner.is_file():
            return open_bytes(_read(inner), spec, str(inner))
        raise UsageError("the directory holds no tokenizer", where=spec, remedy=KINDS)
    return open_bytes(_read(path), spec, spec)


def split_spec(spec: str) -> tuple[str, str | None]:
    """Directory and languages of `DIR@fr,en`; None where none are named.

    What is there is a path as it stands, whatever signs are in it.
    """
    head, at, tail = spec.rpartition("@")
    return (head, tail) if at and not Path(spec).exists() else (spec, None)


def _open_qualified(spec: str) -> Tokenizer:
    """`DIR@fr,en` and `FILE#pattern`."""
    head, tail = split_spec(spec)
    if tail is not None and is_modular(Path(head)):
        return load(Path(head)).subset(tail.replace(",", " ").split(), name=spec)
    if tail is not None and Path(head).is_dir():
        raise UsageError("the directory is no modular tokenizer", where=head, remedy=KINDS)
    file, hash_mark, pattern = spec.rpartition("#")
    if hash_mark and Path(file).is_file():
        return open_bytes(_read(Path(file)), spec, file, pattern=pattern)
    raise UsageError("no such tokenizer", where=spec, remedy=KINDS)


def open_bytes(data: bytes, name: str, where: str, *, pattern: str | None = None) -> Tokenizer:
    """The tokenizer whose file has the content `data`; `where` is for messages.

    Raises:
        ModtokError: it is damaged, or of no kind we read.
    """
    from modtok_cli.modular import foreign

    if data.lstrip()[:1] == b"{":
        if pattern is not None:
            raise UsageError(f"'#{pattern}' is for rank files; this is JSON", where=where)
        if b'"config"' in data[:4096]:
            document = _json_or_none(data)
            if foreign.is_tekken(document):
                return foreign.open_tekken(name, data, document, where)
        return open_json(data, name, where)
    if foreign.is_rank_file(data):
        return foreign.open_ranks(name, data, where, pattern)
    if pattern is not None:
        raise UsageError(f"'#{pattern}' is for rank files; this is none", where=where)
    if not data:
        raise ModtokError("the file is empty", where=where)
    try:
        return open_model(data, name, where)
    except ModtokError as error:
        raise ModtokError("no kind of tokenizer we read", where=where, remedy=KINDS) from error


def open_json(data: bytes, name: str, where: str) -> Tokenizer:
    """A `tokenizer.json`, ours or the library's.

    Raises:
        ModtokError: it is damaged, or the library does not load it.
    """
    document = parse_document(data, where)
    if misfit(document) is None:
        return open_plain(document, name, where)
    from modtok_cli.modular.foreign import LibraryTokenizer

    return LibraryTokenizer(name, data, where)


def open_plain(document: dict[str, object], name: str, where: str) -> Subtokenizer:
    """A parsed `tokenizer.json` of our shape, by our own encoder."""
    plain = parse_plain(document, where)
    if plain.segmentation == UNIGRAM:
        from modtok_cli.modular.piece_vocabulary import check_pieces

        check_pieces(plain.vocabulary, plain.scores, where)
    said = plain.provenance
    parent = said.get("parent")
    return Subtokenizer(
        plain.vocabulary,
        plain.merges,
        scheme=plain.scheme,
        segmentation=plain.segmentation,
        languages=_texts(said.get("languages")),
        parent_signature=parent if isinstance(parent, str) else None,
        name=name,
        provenance=said,
        search=open_search(plain.vocabulary, plain.scores, plain.segmentation, plain.scheme),
    )


def open_model(data: bytes, name: str, where: str) -> Tokenizer:
    """A SentencePiece `.model`: by our own encoder if we wrote it, else by the library.

    Raises:
        ModtokError: it is damaged, or the library does not load it.
    """
    from modtok_cli.modular.piece_vocabulary import check_pieces
    from modtok_cli.modular.sentencepiece_file import read_model
    from modtok_cli.modular.unigram_file import own_model

    found = own_model(read_model(data, where), where)
    if found is None:
        from modtok_cli.modular.foreign import SentencePieceTokenizer

        return SentencePieceTokenizer(name, data, where)
    vocabulary, scores = found
    check_pieces(vocabulary, scores, where)
    return Subtokenizer(
        vocabulary,
        np.zeros((0, 3), dtype=np.int32),
        scheme=UNIGRAM,
        segmentation=UNIGRAM,
        name=name,
        search=open_search(vocabulary, scores, UNIGRAM, UNIGRAM),
    )


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _json_or_none(data: bytes) -> object:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=str(path)) from error
