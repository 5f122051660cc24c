"""`modtok decode`: token ids → text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import standard_input
from modtok_cli.cli.command import command
from modtok_cli.cli.options import GlobalIds, Json, Langs, Tokenizer, subset_spec
from modtok_cli.cli.output import emit_text
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    from modtok_cli.modular.open import Tokenizer as AnyTokenizer

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help="File with lines of ids; - (stdin) by default."),
]


@command(
    "decode",
    tables=False,
    examples="""
    modtok encode -t tokenizer@fr text.txt | modtok decode -t tokenizer@fr
    # ids of the full vocabulary, as written by encode --global-ids
    echo '[301, 542, 99]' | modtok decode
    """,
)
def decode(
    session: Session,
    files: Files = None,
    tokenizer: Tokenizer = "tokenizer",
    langs: Langs = None,
    global_ids: GlobalIds = False,
    json: Json = False,
) -> None:
    """Decode token ids to text, one text per line of ids.

    A line is {"ids": [...]} as written by encode, a JSON list, or ids separated by spaces. A
    text with line breaks is printed on several lines; --json keeps it on one.
    """
    spec = subset_spec(tokenizer, langs)
    files = files or ["-"]
    if "-" in files and tokenizer == "-":
        raise UsageError(
            "ids and tokenizer cannot both be standard input", remedy="give a file for one of them"
        )
    import orjson

    from modtok_cli.modular.open import open_tokenizer

    texts = decode_lines(open_tokenizer(spec), files, global_ids=global_ids)
    if json:
        emit_text(
            orjson.dumps(
                {"text": text.decode("utf-8", "replace")}, option=orjson.OPT_APPEND_NEWLINE
            )
            for text in texts
        )
    else:
        emit_text(text + b"\n" for text in texts)


def decode_lines(tokenizer: AnyTokenizer, files: list[str], *, global_ids: bool) -> Iterator[bytes]:
    """Decoded bytes of each line of ids.

    Raises:
        ModtokError: an invalid line, or an id outside the vocabulary (`file:line`).
    """
    for file in files:
        if file != "-" and not Path(file).exists():
            raise ModtokError(
                "file does not exist",
                where=file,
                remedy="check the path, or use - for standard input",
            )
        with nullcontext(standard_input()) if file == "-" else open(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    ids = parse_ids(line)
                    if global_ids:
                        ids = _to_local(tokenizer, ids)
                    yield tokenizer.decode_bytes(ids)
                except ModtokError as error:
                    where = f"{'stdin' if file == '-' else file}:{number}"
                    raise type(error)(error.what, where=where, remedy=error.remedy) from error


def parse_ids(line: bytes) -> list[int]:
    r"""Parse one line of ids in any of the three forms.

    >>> parse_ids(b'{"ids": [1, 2]}'), parse_ids(b"[1, 2]"), parse_ids(b"1 2\n")
    ([1, 2], [1, 2], [1, 2])

    Raises:
        ModtokError: another form.
    """
    import orjson

    found: Any
    try:
        if line.lstrip()[:1] in (b"{", b"["):
            found = orjson.loads(line)
            if isinstance(found, dict):
                found = found.get("ids")
        else:
            found = [int(word) for word in line.split()]
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(
        type(item) is int and -(2**63) <= item < 2**63 for item in found
    ):
        raise ModtokError(
            "invalid token ids", remedy='expected a line such as {"ids": [1, 2]}, [1, 2] or 1 2'
        )
    return found


def _to_local(tokenizer: AnyTokenizer, ids: list[int]) -> list[int]:
    from modtok_cli.modular.subtokenizer import Subtokenizer

    if not isinstance(tokenizer, Subtokenizer):
        raise UsageError("--global-ids requires a subset of a modular tokenizer")
    local = []
    for index in ids:
        inside = 0 <= index < len(tokenizer.local_of_global)
        local.append(int(tokenizer.local_of_global[index]) if inside else -1)
        if local[-1] < 0:
            raise ModtokError(
                f"token {index} is not in this subset", remedy="add its language to --langs"
            )
    return local
