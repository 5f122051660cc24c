"""`modtok encode`: text → token ids, one JSON line per document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    GlobalIds,
    Json,
    Langs,
    OptionalTexts,
    Tokenizer,
    subset_spec,
)
from modtok_cli.cli.output import emit_text
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.modular.protocol import Tokenizer as AnyTokenizer

Ids = Annotated[
    bool, typer.Option("--ids/--tokens", help="Output token ids, or the text of each token.")
]
AddSpecialTokens = Annotated[
    bool,
    typer.Option(
        "--add-special-tokens", help="Encode special tokens that occur in the text to their ids."
    ),
]


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
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Encode text to token ids, one JSON line per document.

    A line is {"ids": [...]}, or {"tokens": [...]} with --tokens, where incomplete
    characters are escaped as \\xNN. Without TEXT, reads standard input.
    """
    spec = subset_spec(tokenizer, langs)
    texts = texts or ["-"]
    if "-" in texts and tokenizer == "-":
        raise UsageError(
            "text and tokenizer cannot both be standard input", remedy="give a file for one of them"
        )
    import orjson

    from modtok_cli.modular.open import open_tokenizer

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
