"""`modtok encode`: text → token ids, a JSON line for each document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Errors,
    GlobalIds,
    Json,
    Langs,
    OptionalTexts,
    Tokenizer,
    subset_spec,
)
from modtok_cli.cli.output import emit_chunks
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    from modtok_cli.modular.protocol import Tokenizer as AnyTokenizer

Ids = Annotated[
    bool, typer.Option("--ids/--tokens", help="Write numbers, or the text of each token.")
]
AddSpecialTokens = Annotated[
    bool,
    typer.Option("--add-special-tokens", help="Encode special tokens in the text to their ids."),
]


@command(
    "encode",
    examples="""
    # a document per line in, a JSON line with its ids out
    echo "Un très long mot" | modtok encode --langs fr
    # see the tokens themselves
    modtok encode -t tokenizer@fr,en --tokens flores.txt
    # and back
    modtok encode -t tokenizer@fr text.txt | modtok decode -t tokenizer@fr
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
    errors: Errors = "strict",
    json: Json = False,
) -> None:
    """Turn text into tokens, a JSON line for each document.

    A line is {"ids": [...]}, or {"tokens": [...]} with --tokens, where bytes that are no
    whole characters are written as \\xNN. Without TEXT, standard input is read.
    """
    spec = subset_spec(tokenizer, langs)
    texts = texts or ["-"]
    if "-" in texts and tokenizer == "-":
        raise UsageError("text and tokenizer cannot both be standard input", remedy="name a file")
    import orjson

    from modtok_cli.modular.open import open_tokenizer

    rows = encode_documents(
        open_tokenizer(spec),
        texts,
        as_ids=ids,
        global_ids=global_ids,
        specials=add_special_tokens,
        errors=errors,
        progress=session.progress,
    )
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    emit_chunks(orjson.dumps(row, option=option) for row in rows)


def encode_documents(
    tokenizer: AnyTokenizer,
    texts: list[str],
    *,
    as_ids: bool,
    global_ids: bool,
    specials: bool,
    errors: Any,
    progress: Any,
) -> Iterator[dict[str, Any]]:
    """One row for each document of `texts`: {"ids": (N,) int32} or {"tokens": [str]}.

    Raises:
        UsageError: `global_ids` or `specials` of a tokenizer that is not one of ours.
    """
    from modtok_cli.modular.subtokenizer import Subtokenizer
    from modtok_cli.text.readers import read_batches

    ours = tokenizer if isinstance(tokenizer, Subtokenizer) else None
    if (global_ids or specials) and ours is None:
        flag = "--global-ids" if global_ids else "--add-special-tokens"
        raise UsageError(f"{flag} is for our own tokenizers", where=tokenizer.name)
    names: dict[int, str] = {}

    def name(index: int) -> str:
        if index not in names:
            names[index] = tokenizer.decode_bytes([index]).decode("utf-8", "backslashreplace")
        return names[index]

    for path in texts:
        for batch in read_batches(path, errors, progress=progress):
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
