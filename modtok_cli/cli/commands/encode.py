"""`modtok encode`: text → token ids, as JSON lines or as flat files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Force,
    GlobalIds,
    Json,
    Langs,
    OptionalTexts,
    Output,
    Threads,
    Tokenizer,
    subset_spec,
)
from modtok_cli.cli.output import Column, emit_rows, emit_text
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.modular.open import Tokenizer as AnyTokenizer

Ids = Annotated[
    bool, typer.Option("--ids/--tokens", help="Output token ids, or the text of each token.")
]
AddSpecialTokens = Annotated[
    bool,
    typer.Option(
        "--add-special-tokens", help="Encode special tokens that occur in the text to their ids."
    ),
]
Form = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="jsonl; or a directory with all ids in one file: npy for NumPy, bin for Megatron and "
        "nanoGPT.",
    ),
]
EndOfText = Annotated[
    str | None,
    typer.Option(
        "--end-of-text",
        metavar="TOKEN",
        help="Token to append to every document, with --format npy or bin.",
    ),
]
_COLUMNS = (
    Column("output", "output"),
    Column("documents", "documents", "int"),
    Column("tokens", "tokens", "int"),
    Column("bytes", "text", "bytes"),
    Column("dtype", "type"),
)


@command(
    "encode",
    tables=False,
    examples="""
    # one document per line; one JSON line of ids per document
    echo "Un très long mot" | modtok encode --langs fr
    # show the tokens
    modtok encode -t tokenizer@fr,en --tokens flores.txt
    # round trip
    modtok encode -t tokenizer@fr text.txt | modtok decode -t tokenizer@fr
    # a corpus for Megatron (--data-path ids/tokens) and nanoGPT
    modtok encode --langs fr data/fr.jsonl --format bin -o ids
    """,
)
def encode(
    session: Session,
    texts: OptionalTexts = None,
    tokenizer: Tokenizer = "tokenizer",
    langs: Langs = None,
    ids: Ids = True,
    global_ids: GlobalIds = False,
    add_special_tokens: AddSpecialTokens = False,
    format: Form = "jsonl",
    end_of_text: EndOfText = None,
    output: Output = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Encode text to token ids, one JSON line per document.

    A line is {"ids": [...]}, or {"tokens": [...]} with --tokens, where incomplete
    characters are escaped as \\xNN. Without TEXT, reads standard input.

    --format npy and bin write a directory, whole or not at all. npy: tokens.npy with the ids
    of all documents, and offsets.npy with where each begins. bin: tokens.bin, the ids alone in
    little-endian order, and tokens.idx, Megatron's index. An id has two bytes if the
    vocabulary has at most 65,536 tokens, else four; tokens.json says which.
    """
    spec = subset_spec(tokenizer, langs)
    texts = texts or ["-"]
    if "-" in texts and tokenizer == "-":
        raise UsageError(
            "text and tokenizer cannot both be standard input", remedy="give a file for one of them"
        )
    files = {"--end-of-text": end_of_text, "-o": output}
    _check(format, output, as_ids=ids, specials=add_special_tokens, files=files)
    import orjson

    from modtok_cli.modular.open import open_tokenizer

    if output is not None:
        from modtok_cli.modular.encoding.files import encode_files

        facts = encode_files(
            open_tokenizer(spec, progress=session.progress),
            texts,
            output,
            format,
            end_of_text=end_of_text,
            global_ids=global_ids,
            reading=reading,
            threads=threads,
            force=force,
            progress=session.progress,
        )
        row = {"output": str(output), **facts}
        emit_rows([row], _COLUMNS, title="encoded", json=json)
        return
    rows = encode_documents(
        open_tokenizer(spec, progress=session.progress),
        texts,
        as_ids=ids,
        global_ids=global_ids,
        specials=add_special_tokens,
        reading=reading,
        progress=session.progress,
    )
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    emit_text(orjson.dumps(row, option=option) for row in rows)


def _check(
    format: str, output: Path | None, *, as_ids: bool, specials: bool, files: dict[str, Any]
) -> None:
    """Refuse options of JSON lines with another format, and `files`, by flag, with JSON lines.

    Raises:
        UsageError: an option does not fit `format`.
    """
    if format == "jsonl":
        for flag, value in files.items():
            if value is not None:
                raise UsageError(
                    "JSON lines go to standard output, one per document",
                    where=flag,
                    remedy="choose --format npy or bin, or leave it out",
                )
        return
    for flag, given in (("--tokens", not as_ids), ("--add-special-tokens", specials)):
        if given:
            raise UsageError("is for JSON lines", where=flag, remedy="leave out --format")
    if output is None:
        raise UsageError(f"--format {format} writes a directory", remedy="name it with -o")


def encode_documents(
    tokenizer: AnyTokenizer,
    texts: list[str],
    *,
    as_ids: bool,
    global_ids: bool,
    specials: bool,
    reading: Reading,
    progress: Any,
) -> Iterator[dict[str, Any]]:
    """One row per document of `texts`: {"ids": (N,) int32} or {"tokens": [str]}.

    Raises:
        UsageError: `global_ids` or `specials` with an external tokenizer.
    """
    from modtok_cli.modular.subtokenizer import Subtokenizer
    from modtok_cli.text.readers import read_batches

    ours = tokenizer if isinstance(tokenizer, Subtokenizer) else None
    if (global_ids or specials) and ours is None:
        flag = "--global-ids" if global_ids else "--add-special-tokens"
        raise UsageError(f"{flag} is not supported for external tokenizers", where=tokenizer.name)
    names: dict[int, str] = {}

    def name(index: int) -> str:
        if index not in names:
            names[index] = tokenizer.decode_bytes([index]).decode("utf-8", "backslashreplace")
        return names[index]

    for path in texts:
        for batch in read_batches(path, reading, progress=progress):
            documents = [document.text.decode() for document in batch]
            if ours is not None and specials:
                encoded = [ours.encode(document, specials=True) for document in documents]
            else:
                encoded = tokenizer.encode_batch(documents)
            for ids in encoded:
                if not as_ids:
                    yield {"tokens": [name(index) for index in ids.tolist()]}
                elif ours is not None and global_ids:
                    yield {"ids": ours.global_ids[ids]}
                else:
                    yield {"ids": ids}
