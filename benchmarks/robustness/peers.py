"""Extracted files with the pre-tokenizers of published models, in gigatoken and fastokens.

    pip install gigatoken fastokens      # needed by this script alone
    python -m benchmarks peers DATA PARALLEL [TOKENIZER ...]

DATA holds text to learn from, PARALLEL holds <lang>.txt. For each pre-tokenizer a modular
tokenizer of --langs is learned (-k) and the file of --subset extracted; a TOKENIZER is a file to
compare as it is. All lines of PARALLEL, and 200 lines of each file as one text, are encoded by
modtok and by each program that opens the file. JSON lines: texts, texts with other ids, and the
first of them, or why the program refuses the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.common import emit, parser_of
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

NAMES = "gpt2,smollm,llama3,qwen2,o200k,gemma,bpe"
Encode = Callable[[Sequence[str]], list[list[int]]]


def with_gigatoken(file: Path) -> Encode:
    import gigatoken

    tokenizer = gigatoken.Tokenizer(str(file))
    return lambda texts: [[int(i) for i in tokenizer.encode(text)] for text in texts]


def with_fastokens(file: Path) -> Encode:
    import fastokens

    tokenizer = fastokens.Tokenizer.from_file(str(file))

    def ids(text: str) -> list[int]:
        found: Any = tokenizer.encode(text, add_special_tokens=False)
        return list(getattr(found, "ids", found))

    return lambda texts: [ids(text) for text in texts]


PEERS = {"gigatoken": with_gigatoken, "fastokens": with_fastokens}


def compare(name: str, file: Path, ours: Subtokenizer, texts: list[str]) -> None:
    """A row for each program."""
    expected = [ids.tolist() for ids in ours.encode_batch(texts)]
    for peer, opened in PEERS.items():
        row: dict[str, Any] = {"tokenizer": name, "peer": f"{peer} {version(peer)}"}
        try:
            found = opened(file)(texts)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            emit({**row, "refused": " ".join(str(error).split())[:200]})
            continue
        wrong = [text for text, a, b in zip(texts, expected, found, strict=True) if a != list(b)]
        emit({**row, "texts": len(texts), "different": len(wrong), "example": wrong[:1]})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("tokenizers", type=Path, nargs="*")
    parser.add_argument("--langs", default="el,en,fi,fr")
    parser.add_argument("--subset", default="en,fr")
    parser.add_argument("-k", type=int, default=8000)
    parser.add_argument("--names", default=NAMES)
    args = parser.parse_args()
    texts = []
    for path in sorted(args.parallel.glob("*.txt")):
        lines = path.read_text("utf-8").splitlines()
        texts += [*filter(None, lines), "\n".join(lines[:200])]
    with tempfile.TemporaryDirectory() as scratch:
        for name in filter(None, args.names.split(",")):
            made = Path(scratch) / name
            bpe_seq(
                args.langs.split(","), data=args.data, output=made, k=args.k, pretokenizer=name,
                references=False,
            )  # fmt: skip
            file = made.with_suffix(".json")
            ModularTokenizer.load(made).subset(args.subset.split(",")).save(file)
            opened = open_tokenizer(str(file))
            assert isinstance(opened, Subtokenizer)
            compare(name, file, opened, texts)
        for path in args.tokenizers:
            compare(
                f"{path.parent.name}/{path.name}",
                path,
                Subtokenizer(Library(read_tokenizer_file(path))),
                texts,
            )
