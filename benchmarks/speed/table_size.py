"""A step with T of 4 and of 250 languages, at equal active rows.

    python -m benchmarks table_size

Two models in one process, one thread, take turns: the same batches, up to the ids of their rows.
These are the rows of two languages of T, which lie together as in a tokenizer by sequential BPE,
or rows all over T, each on a page of its own. Seconds of the processor and of the clock, medians
of the ratio of neighbouring steps; rows that a step changes. Prints a JSON object a line.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from benchmarks.common import emit

ROWS, WIDTH, ACTIVE, LENGTH = 8000, 64, 4000, 128
LANGUAGES, TURNS = (4, 250), 150


def batch(torch: Any, languages: int, turn: int, together: bool) -> Any:
    from modtok_cli.training.rows.microbatch import MicroBatch

    generator = torch.Generator().manual_seed(turn)
    if together:
        two = torch.randperm(languages, generator=generator)[:2].sort().values
        vocabulary = (two[:, None] * ROWS + torch.arange(ACTIVE // 2)).flatten()
    else:  # row i of the active ones is anywhere in the i-th part of T
        part = languages * ROWS // ACTIVE
        vocabulary = torch.arange(ACTIVE) * part
        vocabulary += torch.randint(part, (ACTIVE,), generator=generator)
    generator.manual_seed(turn)
    chosen = torch.randint(ACTIVE, (4, LENGTH + 1), generator=generator)
    ids = vocabulary[chosen]
    weights = torch.full((4 * LENGTH,), 1 / (4 * LENGTH))
    return MicroBatch(ids[:, :-1], ids[:, 1:].flatten(), vocabulary, weights)


def main() -> int:
    import torch

    from modtok_cli.architectures.families.llama import llama
    from modtok_cli.training.distributed.ranks import start_ranks
    from modtok_cli.training.model.model import Model
    from modtok_cli.training.step import optimizer_step

    torch.set_num_threads(1)
    ranks = start_ranks()
    shape = llama(4, WIDTH, 32, 176)
    models = {count: Model(shape, count * ROWS, ranks, seed=1) for count in LANGUAGES}
    for model in models.values():
        for table in model.tables.values():
            table.moment1.fill_(0)  # committed, as after many steps
            table.moment2.fill_(0)
    changed: dict[int, list[int]] = {}
    for count, model in models.items():
        before = {name: table.weight.clone() for name, table in model.tables.items()}
        optimizer_step(model, [batch(torch, count, 0, True)], 1e-3)
        changed[count] = [
            int((table.weight != before[name]).any(1).sum()) for name, table in model.tables.items()
        ]
    del before
    for together in (True, False):
        compare(torch, models, together)
    emit(
        {
            "what": "table size, rows",
            "languages": list(LANGUAGES),
            "rows_of_T": [count * ROWS for count in LANGUAGES],
            "active": ACTIVE,
            "rows_changed": [changed[count] for count in LANGUAGES],
        }
    )
    return 0


def compare(torch: Any, models: dict[int, Any], together: bool) -> None:
    """Steps of both models in turns; prints seconds and ratios."""
    from modtok_cli.training.step import optimizer_step

    seconds: dict[int, list[tuple[float, float]]] = {count: [] for count in LANGUAGES}
    for turn in range(1, TURNS + 1):
        for count in LANGUAGES if turn % 2 else LANGUAGES[::-1]:
            one = batch(torch, count, turn, together)
            clock, processor = time.perf_counter(), time.process_time()
            optimizer_step(models[count], [one], 1e-3)
            seconds[count].append((time.process_time() - processor, time.perf_counter() - clock))
    few, many = LANGUAGES
    for place, what in enumerate(("processor", "clock")):
        ratios = [b[place] / a[place] for a, b in zip(seconds[few], seconds[many], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        emit(
            {
                "what": "table size",
                "active rows": "of two languages" if together else "all over T",
                "seconds": what,
                "turns": TURNS,
                **{
                    f"step_{count}": round(statistics.median(s[place] for s in seconds[count]), 5)
                    for count in LANGUAGES
                },
                "ratio_median": round(middle, 4),
                "ratio_quartiles": [round(low, 4), round(high, 4)],
            }
        )
