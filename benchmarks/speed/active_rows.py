"""Embedding rows that a training step gathers, by sampling regime and --draw.

    python -m benchmarks active_rows -t tokenizer --data data

Draws come from the sampler of `modtok pretrain` with the mixture of the text in --data. Batch,
microbatch and GPUs are those of the paper's recipes (64 sequences, 2, and 8), so that their rows
are the same and only the bytes differ: "device_gb" is what the plan has for gathered rows. Rows
are those of the output table; the input table's are the tokens that occur. Prints a JSON object
a line.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.common import emit
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.readers import read_documents
from modtok_cli.text.workspace import language_files
from modtok_cli.training.config import Config, resolve
from modtok_cli.training.data.sampling import Mixture, draw
from modtok_cli.training.memory import StepRows, memory_parts
from modtok_cli.training.settings import RunSettings

RECIPES = ("0.5b", "1b", "2.5b", "7b-32")
SAMPLINGS = ("none", "sub:1", "sub:2", "sub:5", "full")
DRAWS = ("micro", "rank", "step")
GPUS = 8


class Rows:
    """Number of rows of the subtokenizer of some languages."""

    def __init__(self, tokenizer: ModularTokenizer) -> None:
        self.size = tokenizer.size
        member = tokenizer.token_membership
        self._member = {
            name: np.ascontiguousarray(member[:, index])
            for index, name in enumerate(tokenizer.languages)
        }
        self._known: dict[frozenset[str], int] = {}

    def count(self, languages: frozenset[str] | None) -> int:
        if languages is None:
            return self.size
        if languages not in self._known:
            columns = [self._member[name] for name in languages]
            self._known[languages] = int(np.count_nonzero(np.logical_or.reduce(columns)))
        return self._known[languages]


def measure(
    config: Config, mixture: Mixture, rows: Rows, steps: int
) -> tuple[StepRows, dict[str, Any]]:
    """Rows of a draw, of the first rank's draws, and of all draws of a step; means over steps."""
    groups = config.batch_size // config.group_size(GPUS)
    share = -(-groups // GPUS)
    single, ranks, unions, languages = [], [], [], []
    for step in range(1, steps + 1):
        drawn = [
            draw(config.regime, config.p, mixture, config.seed, step, group).languages
            for group in range(groups)
        ]
        sets = [None if names is None else frozenset(names) for names in drawn]
        single += [rows.count(each) for each in sets]
        ranks.append(rows.count(_union(sets[:share])))
        whole = _union(sets)
        unions.append(rows.count(whole))
        languages.append(len(mixture.languages if whole is None else whole))
    found = StepRows(mean(single), mean(ranks), mean(unions))
    return found, {
        "draws": groups,
        "languages": round(mean(languages), 1),
        "draw_rows": round(found.active),
        "rank_rows": round(found.gathered),
        "step_rows": round(found.union),
        "step_rows_p95": int(np.quantile(unions, 0.95)),
    }


def _union(sets: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    """Languages of the union; None: all of T."""
    known = [names for names in sets if names is not None]
    return frozenset().union(*known) if len(known) == len(sets) else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks active_rows")
    parser.add_argument("-t", "--tokenizer", type=Path, default=Path("tokenizer"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    tokenizer = ModularTokenizer.load(options.tokenizer)
    files = language_files(options.data, tuple(tokenizer.languages))
    sizes = {
        name: sum(len(one.text) for path in paths for one in read_documents(path))
        for name, paths in files.items()
    }
    mixture, rows = Mixture.of(sizes), Rows(tokenizer)
    facts = {"vocabulary": rows.size, "text_languages": len(sizes), "steps": options.steps}
    for sampling, chosen in product(SAMPLINGS, DRAWS):
        configs = {
            name: resolve(
                RunSettings(model=name, sampling=sampling, draw=chosen, gpus=GPUS), gpu=True
            )
            for name in RECIPES
        }
        found, row = measure(configs[RECIPES[0]], mixture, rows, options.steps)
        sizes_gb = {
            name: round(memory_parts(config, rows.size, found, GPUS)["active rows"][1] / 1e9, 2)
            for name, config in configs.items()
        }
        emit({"sampling": sampling, "draw": chosen, **row, "device_gb": sizes_gb, **facts})
    return 0
