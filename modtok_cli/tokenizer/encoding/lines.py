"""Texts to lines of JSON with ids or tokens, and lines of ids to texts."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import standard_input
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import (
    PATHS,
    EncodedOutput,
    FilePath,
    Force,
    Langs,
    Threads,
    text_paths,
)
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.encoding.flat_files import FORMS, GlobalIds, count_tokens, encode_files
from modtok_cli.tokenizer.open import opened
from modtok_cli.tokenizer.parameters import AnyTokenizer
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

OptionalTexts = Annotated[
    FilePath | Sequence[FilePath] | None,
    Option(
        "Text file (.txt, .jsonl, .parquet, .csv, .arrow; may be compressed), directory, or - "
        "(stdin).",
        argument=True,
        kind=list[str],
        metavar="TEXT",
        accepts=PATHS,
    ),
]


@public
def encode(
    texts: OptionalTexts = None,
    tokenizer: AnyTokenizer = "tokenizer",
    languages: Langs = None,
    *,
    ids: Annotated[
        bool, Option("Output token ids, or the text of each token.", flags="--ids/--tokens")
    ] = True,
    count: Annotated[bool, Option("Print a row for each file, with its number of tokens.")] = False,
    global_ids: GlobalIds = False,
    add_special_tokens: Annotated[
        bool, Option("Encode special tokens that occur in the text to their ids.")
    ] = False,
    format: Annotated[
        str,
        Option(
            "Format of the output. One of jsonl, and of directories with all ids in one file: npy "
            "for NumPy, bin for Megatron and nanoGPT.",
            metavar="NAME",
        ),
    ] = "jsonl",
    end_of_text: Annotated[
        str | None,
        Option("Token that ends a document. With --format npy or bin.", metavar="TOKEN"),
    ] = None,
    output: EncodedOutput = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> Iterator[dict[str, Any]]:
    """Encode text to token ids, one JSON line per document.

    A line is {"ids": [...]}, or {"tokens": [...]} without `ids`, where incomplete characters are
    escaped as \\xNN. Without TEXT, reads standard input.

    `format` npy and bin write a directory. npy: tokens.npy with the ids of all documents, and
    offsets.npy with the start of each. bin: tokens.bin, the ids alone in little-endian order,
    and tokens.idx, Megatron's index. An id has two bytes if the vocabulary has at most 65,536
    tokens, else four; tokens.json says which.

    Returns:
        A row for each document, with `ids` (N,) int32 or `tokens`; with `count` one for each file,
        with `documents`, `tokens` and `bytes`; with another `format` one with the content of
        tokens.json: format, type of the ids, number of tokens, documents and bytes of text, the
        tokenizer's signature and size, the id at the end of a document or None.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("two.txt").write_text("Hyvää päivää\\nkiitos\\n")
        >>> len(list(modtok.encode("two.txt", "tokenizer@fi")))
        2

    Raises:
        UsageError: options that exclude one another, or that external tokenizers do not have.
        ModtokError: unreadable text, or a damaged tokenizer.
    """
    paths = text_paths("-" if texts is None else texts)
    if "-" in paths and tokenizer == "-":
        raise UsageError(
            "text and tokenizer cannot both be standard input", remedy="give a file for one of them"
        )
    given = {
        "--tokens": not ids,
        "--add-special-tokens": add_special_tokens,
        "--global-ids": global_ids,
        "--format": format != "jsonl",
        "--end-of-text": end_of_text is not None,
        "-o": output is not None,
    }

    def refuse(flags: Iterable[str], what: str, remedy: str = "give one of them") -> None:
        for flag in flags:
            if given[flag]:
                raise UsageError(what, where=flag, remedy=remedy)

    if count:
        refuse(given, "excludes --count")
        return count_tokens(
            opened(tokenizer, languages, progress=progress), paths, reading, progress
        )
    if not ids:
        refuse(["--global-ids"], "excludes --tokens")
    if format == "jsonl":
        what = "JSON lines go to standard output, one per document"
        refuse(("--end-of-text", "-o"), what, "choose --format npy or bin, or leave it out")
        subset = opened(tokenizer, languages, progress=progress)
        batches = (
            [document.text.decode() for document in batch]
            for path in paths
            for batch in read_batches(path, reading, progress=progress)
        )
        return _rows(subset, batches, ids, global_ids, add_special_tokens)
    refuse(("--tokens", "--add-special-tokens"), "is for JSON lines", "leave out --format")
    if output is None:
        raise UsageError(f"--format {format} writes a directory", remedy="name it with -o")
    if format not in FORMS:
        raise UsageError(
            f"unknown format '{format}'",
            where="--format",
            remedy=f"choose from: {', '.join(FORMS)}",
        )
    facts = encode_files(
        opened(tokenizer, languages, progress=progress),
        paths,
        Path(output),
        format,
        end_of_text=end_of_text,
        global_ids=global_ids,
        reading=reading,
        threads=threads,
        force=force,
        progress=progress,
    )
    return iter([{"output": str(output), **facts}])


def _rows(
    tokenizer: Tokenizer,
    batches: Iterator[list[str]],
    as_ids: bool,
    global_ids: bool,
    specials: bool,
) -> Iterator[dict[str, Any]]:
    ours = tokenizer if isinstance(tokenizer, Subtokenizer) else None
    if (global_ids or specials) and ours is None:
        flag = "--global-ids" if global_ids else "--add-special-tokens"
        raise UsageError(f"{flag} is not supported for external tokenizers", where=tokenizer.name)
    names: dict[int, str] = {}

    def name(index: int) -> str:
        if index not in names:
            names[index] = tokenizer.token_bytes(index).decode("utf-8", "backslashreplace")
        return names[index]

    for texts in batches:
        if ours is not None and specials:
            encoded = [ours.encode(text, specials=True) for text in texts]
        else:
            encoded = tokenizer.encode_batch(texts)
        for ids in encoded:
            if not as_ids:
                yield {"tokens": [name(index) for index in ids.tolist()]}
            else:
                yield {"ids": ours.global_ids[ids] if ours is not None and global_ids else ids}


@public
def decode(
    files: Annotated[
        FilePath | Sequence[FilePath] | None,
        Option(
            "File with lines of ids; - (stdin) by default.",
            argument=True,
            kind=list[str],
            metavar="FILE",
            accepts=PATHS,
        ),
    ] = None,
    tokenizer: AnyTokenizer = "tokenizer",
    languages: Langs = None,
    *,
    global_ids: GlobalIds = False,
) -> Iterator[bytes]:
    """Decode token ids to text, one text per line of ids.

    A line is {"ids": [...]} as written by encode, a JSON list, or ids separated by spaces. A
    text with line breaks is printed on several lines; --json keeps it on one.

    Returns:
        The bytes of each text; ids may end in the middle of a character.

    Examples:
        >>> from pathlib import Path
        >>> ids = modtok.load("tokenizer@fi").encode("kiitos").tolist()
        >>> _ = Path("ids.txt").write_text(f"{ids}\\n")
        >>> list(modtok.decode("ids.txt", "tokenizer@fi"))
        [b'kiitos']

    Raises:
        UsageError: ids and tokenizer both on standard input, or global ids of no subset.
        ModtokError: an invalid line, or an id outside the vocabulary (`file:line`).
    """
    paths = [str(path) for path in text_paths("-" if files is None else files)]
    if "-" in paths and tokenizer == "-":
        raise UsageError(
            "ids and tokenizer cannot both be standard input", remedy="give a file for one of them"
        )
    return _decoded(opened(tokenizer, languages), paths, global_ids)


def _decoded(tokenizer: Tokenizer, files: Sequence[str], global_ids: bool) -> Iterator[bytes]:
    for file in files:
        if file != "-" and not Path(file).exists():
            raise missing(file, "check the name, or use - for standard input")
        with nullcontext(standard_input()) if file == "-" else open(file, "rb") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    ids = parse_ids(line)
                    yield tokenizer.decode_bytes(_local(tokenizer, ids) if global_ids else ids)
                except ModtokError as error:
                    where = f"{'stdin' if file == '-' else file}:{number}"
                    raise type(error)(error.what, where=where, remedy=error.remedy) from error


def parse_ids(line: bytes) -> list[int]:
    r"""Parse one line of ids in any of the three forms.

    >>> parse_ids(b'{"ids": [1, 2]}'), parse_ids(b"[1, 2]"), parse_ids(b"1 2\n")
    ([1, 2], [1, 2], [1, 2])
    """
    ids: Any
    try:
        if line.lstrip()[:1] in (b"{", b"["):
            ids = orjson.loads(line)
            if isinstance(ids, dict):
                ids = ids.get("ids")
        else:
            ids = [int(word) for word in line.split()]
    except ValueError:
        ids = None
    if not isinstance(ids, list) or not all(
        type(item) is int and -(2**63) <= item < 2**63 for item in ids
    ):
        raise ModtokError(
            "invalid token ids", remedy='expected a line such as {"ids": [1, 2]}, [1, 2] or 1 2'
        )
    return ids


def _local(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    if not isinstance(tokenizer, Subtokenizer):
        raise UsageError("--global-ids requires a subset of a modular tokenizer")
    table = tokenizer.local_of_global
    for index in ids:
        if not 0 <= index < len(table) or table[index] < 0:
            raise ModtokError(
                f"token {index} is not in this subset", remedy="add its language to --langs"
            )
    return [int(table[index]) for index in ids]
