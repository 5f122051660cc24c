"""Tokens and rows of a tokenizer reduced to the tokens of a text, by three kinds of closure.

    python -m benchmarks adopt TOKENIZER TEXT... --held-out TEXT [--top 16000]

Chosen are the --top tokens that the texts use most. "first" adds what builds them by the first
listed merge of each token, "derivation" what builds them in fact, and "pruned" has as many tokens
as "derivation", but those of greatest use (`modtok adopt -k`). "used" keeps all used tokens.
`unreachable` is the share of the chosen that encoding their own strings does not give, `tokens`
the number on the held-out text relative to the whole tokenizer. Prints JSON lines.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common import emit, parser_of
from modtok_cli.text.corpus import count_corpus
from modtok_cli.tokenizer.adopted.adopt import members, read_tokenizer_file, token_counts
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile, closed
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

Mask = npt.NDArray[np.bool_]


def first_listed(file: TokenizerFile) -> npt.NDArray[np.int32]:
    """Rank of the first merge that is listed for each token; -1 for none."""
    ranks = np.full(file.size, -1, dtype=np.int32)
    backwards = np.arange(len(file.merges) - 1, -1, -1)
    ranks[file.merges[backwards, 2]] = backwards
    return ranks


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--held-out", type=Path, required=True)
    parser.add_argument("--top", type=int, default=16000)
    args = parser.parse_args()
    file = read_tokenizer_file(args.tokenizer)
    start = time.perf_counter()
    counted = count_corpus(args.texts, pretokenizer=file.pretokenizer)
    counts = token_counts(file, counted)
    seconds = time.perf_counter() - start
    held = count_corpus([args.held_out], pretokenizer=file.pretokenizer)
    whole = int(Subtokenizer(Library(file)).token_lengths(held) @ held.counts)
    emit(
        {
            "tokenizer": args.tokenizer.name,
            "texts": [text.name for text in args.texts],
            "bytes": counted.size.bytes,
            "seconds": round(seconds, 2),
            "rows": file.size,
            "used": int((counts > 0).sum()),
            "held_out_tokens": whole,
        }
    )
    chosen = np.zeros(file.size, dtype=np.bool_)
    chosen[np.argsort(-counts, kind="stable")[: args.top]] = True
    chosen &= counts > 0
    derived = file.closed(chosen)
    masks = {
        "first": closed(chosen | file.needed, first_listed(file), file.merges),
        "derivation": derived,
        "pruned": members(file, counts, k=int(derived.sum())),
        "used": members(file, counts),
    }
    for name, mask in masks.items():
        part = Subtokenizer(Library(file, mask))
        lost = np.zeros(file.size, dtype=np.bool_)
        lost[part.global_ids[part.segmenter.unreachable_tokens()]] = True
        tokens = int(part.token_lengths(held) @ held.counts)
        emit(
            {
                "closure": name,
                "top": args.top,
                "rows": int(mask.sum()),
                "unreachable": round(float((lost & chosen).sum() / chosen.sum()), 4),
                "tokens": round(tokens / whole, 4),
            }
        )
