"""Open a tokenizer of any kind: a modular directory, a subset of it, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import standard_input
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_file, read_stream
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.formats.interface import Own
from modtok_cli.modular.formats.registry import formats
from modtok_cli.modular.manifest import MISSING
from modtok_cli.modular.open_subset import open_subset
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer

KINDS = (
    "expected a modular directory, DIR@fr,en, a tokenizer.json, a SentencePiece .model, "
    "a tiktoken rank file or -"
)


def open_tokenizer(
    spec: str, *, stdin: BinaryIO | None = None, progress: Progress = SILENT
) -> Tokenizer:
    """The tokenizer that `spec` names.

    - `DIR`: a modular directory, all its languages; `DIR@fr,en`: those languages of it;
    - a `tokenizer.json`: by modtok's encoder if the ids are the same, else by the library;
    - a SentencePiece `.model`, Mistral's tekken JSON;
    - a tiktoken rank file; `FILE#o200k` names its pre-tokenizer (cl100k, o200k, r50k);
    - `-`: any of these files on standard input.

    The content decides the format, not the name. A special token that is written in a text is
    plain text to all of them: user input must not end a document.

    Raises:
        UsageError: the file or the language does not exist.
        ModtokError: it is damaged, or of an unknown kind.
    """
    if spec == "-":
        data = read_stream(stdin or standard_input(), "stdin")
        if not data:
            raise ModtokError(
                "standard input is empty",
                where="stdin",
                remedy="pipe a tokenizer, or name one with -t",
            )
        return open_bytes(data, "-", "stdin", progress=progress)
    path = Path(spec)
    if not path.exists():
        return _open_qualified(spec, progress)
    if path.is_dir():
        if is_modular(path):
            return open_subset(path, None, name=spec)
        inner = path / "tokenizer.json"
        if inner.is_file():
            return open_bytes(_read(inner), spec, str(inner), progress=progress)
        raise UsageError("the directory contains no tokenizer", where=spec, remedy=KINDS)
    return open_bytes(_read(path), spec, spec, progress=progress)


def split_spec(spec: str) -> tuple[str, str | None]:
    """Directory and languages of `DIR@fr,en`; None where none are named.

    An existing path is never split.
    """
    head, at, tail = spec.rpartition("@")
    return (head, tail) if at and not Path(spec).exists() else (spec, None)


def _open_qualified(spec: str, progress: Progress) -> Tokenizer:
    """`DIR@fr,en` and `FILE#pattern`."""
    head, tail = split_spec(spec)
    if tail is not None and is_modular(Path(head)):
        return open_subset(Path(head), tail.replace(",", " ").split(), name=spec)
    if tail is not None and Path(head).is_dir():
        raise UsageError("the directory is not a modular tokenizer", where=head, remedy=KINDS)
    file, hash_mark, pattern = spec.rpartition("#")
    if hash_mark and Path(file).is_file():
        return open_bytes(_read(Path(file)), spec, file, variant=pattern, progress=progress)
    owner, _, rest = spec.partition("/")
    if rest and "/" not in rest and not Path(rest).suffix == ".json" and not Path(owner).exists():
        raise UsageError(
            "tokenizer does not exist",
            where=spec,
            remedy="if it is on the Hugging Face hub, download it first: "
            f"hf download {spec} tokenizer.json --local-dir DIR",
        )
    if spec == "tokenizer":  # of the workspace
        raise UsageError(MISSING.format(spec))
    raise UsageError("tokenizer does not exist", where=spec, remedy=KINDS)


def open_bytes(
    data: bytes,
    name: str,
    where: str,
    *,
    variant: str | None = None,
    progress: Progress = SILENT,
) -> Tokenizer:
    """The tokenizer of a file with the content `data`; `where` is for messages.

    `variant`: as in `FILE#variant`, see `formats.interface.Format`. `progress` is warned of
    settings of the file that are not applied.

    Raises:
        UsageError: the format has no variants.
        ModtokError: it is damaged, or of an unknown kind.
    """
    if not data:
        raise ModtokError("the file is empty", where=where)
    found = next((one for one in formats() if one.recognizes(data)), None)
    if variant is not None and not (found and found.has_variants):
        raise UsageError(f"'#{variant}' is for tiktoken rank files only", where=where)
    if found is None:
        raise ModtokError("unknown kind of tokenizer", where=where, remedy=KINDS)
    read = found.read(data, name, where, variant)
    ignored = getattr(read, "ignored", ())
    if ignored:
        progress.warn(f"{where}: not applied: {', '.join(ignored)}")
    if not isinstance(read, Own):
        return read
    parent = read.provenance.get("parent")
    return Subtokenizer(
        read.segmenter,
        languages=_texts(read.provenance.get("languages")),
        parent_signature=parent if isinstance(parent, str) else None,
        name=name,
        provenance=read.provenance,
    )


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _read(path: Path) -> bytes:
    return read_file(path, factor=16)  # a JSON object of many short strings
