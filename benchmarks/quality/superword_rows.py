"""Where a model with superwords wins and loses, by how often it saw them.

    python -m benchmarks superword_rows CORPUS VALID WORK --superwords 333 --seeds 0,1,2

WORK has the tokenizers and runs of `superword_models`. Every superword of VALID, and the rest of
its text, is scored by the run with superwords and by the run without of the same seed, which
spells it in words: nats of the same bytes, after the same text. Superwords are grouped by how
often training showed them: their number in as much text of CORPUS as the run saw. Left out are
occurrences that have no token ends at both their ends in the other run.

Prints a JSON object per group, language and seed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import emit
from modtok_cli.inference.load import load
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.modular.segmenters.chunks import superwords
from modtok_cli.text.readers import read_documents
from modtok_cli.text.workspace import language_files

GROUPS = (0, 8, 32, 128, 512, 1 << 40)
REST = "rest"


def scored(model: SlicedModel, text: str) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Ids of a text, ends of the tokens in bytes with 0 before them, and nats up to each."""
    ids = model.encode_out(text)
    rows = [model.end_of_text, *model.encode_in(text)][: model.context]
    ids = ids[: len(rows)]
    logits = model.logits(torch.tensor([rows[: len(ids)]]))[0]
    nats = -torch.log_softmax(logits, -1)[torch.arange(len(ids)), torch.tensor(ids)]
    tokens = model.tokenizer_out.vocabulary.tokens()
    sizes = [len(tokens[i]) for i in ids]
    return ids, np.cumsum([0, *sizes]), np.cumsum([0.0, *nats.tolist()])


def times_seen(model: SlicedModel, text: Path, size: int) -> np.ndarray:
    """How often each id occurs in the first `size` bytes of a text."""
    seen = np.zeros(len(model.tokenizer_out.vocabulary), dtype=np.int64)
    for document in read_documents(text):
        ids = model.encode_out(bytes(document.text).decode())
        np.add.at(seen, ids, 1)
        size -= len(document.text)
        if size < 0:
            break
    return seen


def compare(
    ours: SlicedModel, other: SlicedModel, lines: list[str], seen: np.ndarray, superword: np.ndarray
) -> Iterator[dict[str, object]]:
    """A row per group of superwords, and one for the rest of the text."""
    sums: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(4))
    for line in lines:
        ids, ends, nats = scored(ours, line)
        _, other_ends, other_nats = scored(other, line)
        place = {int(end): i for i, end in enumerate(other_ends)}
        last = 0  # begin of the text since the last superword
        for i, token in enumerate(ids):
            if not superword[token] or int(ends[i]) not in place or int(ends[i + 1]) not in place:
                continue
            group = next(top for top in GROUPS[1:] if seen[token] < top)
            bottom = GROUPS[GROUPS.index(group) - 1]
            name = f"{bottom} or more" if group == GROUPS[-1] else f"{bottom}-{group - 1}"
            for key, first, stop in ((REST, last, i), (name, i, i + 1)):
                begin, end = place[int(ends[first])], place[int(ends[stop])]
                sums[key] += (
                    stop - first if key == REST else 1, ends[stop] - ends[first],
                    nats[stop] - nats[first], other_nats[end] - other_nats[begin],
                )  # fmt: skip
            last = i + 1
    for name, (number, size, mine, theirs) in sorted(sums.items()):
        yield {
            "group": name, "tokens": int(number), "bytes": int(size),
            "bits_per_byte": round(mine / size / np.log(2), 4),
            "bits_per_byte_without": round(theirs / size / np.log(2), 4),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--langs", default="en,fr,de,fi")
    parser.add_argument("--size", default="4x128")
    parser.add_argument("--superwords", type=int, default=333)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--step", type=int, default=500)
    parser.add_argument("--bytes-seen", type=float, default=2.2e6, help="of each language")
    options = parser.parse_args()
    languages = options.langs.split(",")
    texts = language_files(options.corpus, languages)
    for seed in map(int, options.seeds.split(",")):
        runs = [
            options.work / "runs" / f"{options.size}-{number}-seed-{seed}"
            for number in (options.superwords, 0)
        ]
        for language in languages:
            ours, other = (
                load(
                    run,
                    [language],
                    tokenizer=options.work / f"tokenizer-{number}",
                    step=options.step,
                    device="cpu",
                )
                for run, number in zip(runs, (options.superwords, 0), strict=True)
            )
            seen = times_seen(ours, texts[language][0], int(options.bytes_seen))
            lines = (options.valid / f"{language}.txt").read_text().split("\n")[: options.lines]
            superword = superwords(ours.tokenizer_out.vocabulary)
            for row in compare(ours, other, [line for line in lines if line], seen, superword):
                emit({
                    "what": "superword rows", "size": options.size, "language": language,
                    "superwords": options.superwords, "seed": seed, **row,
                })  # fmt: skip


if __name__ == "__main__":
    main()
