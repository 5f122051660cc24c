"""Other ways to sample subtokenizers, as curves in the worlds of `modtok study world`.

    python -m benchmarks sampling_recipes WORLDS [--seeds 0] [--recipes annealed,micro]
        [--points 150,300,600,1200,2400] [--workers 2] [--limit 30]

WORLDS is the output of `modtok study world`; its worlds, tokenizers and settings of runs are used,
runs go to WORLDS/seed-N/recipes. A recipe is a way to choose the vocabulary of a batch:

annealed  sub:2, p falls from 1 to 0 over the steps of the last point.
micro     sub:2, p = 0.5, with a draw for each two of the eight sequences of a step.

Prints a JSON line per recipe, seed, number of steps and mode, as curves.jsonl has them, with the
mean number of languages and the mean rows of a draw.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

from benchmarks.common import describe, emit
from modtok_cli.evaluate.grid.grid import run_grid
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.studies.world import study
from modtok_cli.studies.world.curves import System
from modtok_cli.studies.world.train import point_of, train_point
from modtok_cli.training.data import sampling, slot_packer
from modtok_cli.training.data.sampling import Draw, Mixture, Regime
from modtok_cli.training.settings import RunSettings

RECIPES = ("annealed", "micro")
SYSTEM = System("sub:2", 0.5)


def anneal(last: int) -> None:
    """p falls from 1 to 0 over `last` steps."""
    from modtok_cli.training import config

    plain = sampling.draw

    def draw(regime: Regime, p: float, mixture: Mixture, seed: int, step: int, group: int) -> Draw:
        return plain(regime, max(0.0, 1 - step / last), mixture, seed, step, group)

    config.draw = slot_packer.draw = draw


def train(run: RunSettings, *, last: int, shorter: int | None) -> None:
    """Train a point of the recipe that the name of the run begins with."""
    recipe = str(run.name).partition("-")[0]
    if recipe == "annealed":
        anneal(last)
    train_point(run, shorter=shorter)


def each_alone(how: Callable[[RunSettings], None], runs: Sequence[RunSettings], n: int) -> None:
    """Train `n` runs at a time, each in a process of its own, whose functions are replaced."""

    def alone(run: RunSettings) -> None:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            pool.submit(how, run).result()
        print(f"{run.runs}/{run.name}: trained", file=sys.stderr)

    with ThreadPoolExecutor(n) as threads:
        list(threads.map(alone, runs))


def run_of(
    recipe: str, place: Path, seed: int, settings: study.WorldStudySettings, steps: int
) -> RunSettings:
    """The run of a point; batches are made in the process that trains, where functions change."""
    run = study._run(SYSTEM, steps, seed, place, settings)
    changed: dict[str, Any] = {"runs": place / "recipes", "name": f"{recipe}-{steps}", "workers": 0}
    if recipe == "micro":
        changed |= {"micro_batch": 2, "draw": "micro"}
    return point_of(replace(run, **changed), steps)


def draws_of(metrics: Path, tokenizer: ModularTokenizer) -> tuple[float, float]:
    """Mean number of languages, and mean tokens, of the draws of a run."""
    every = [
        Draw.parse(each)
        for line in metrics.read_bytes().splitlines()
        for each in orjson.loads(line).get("draws", ())
    ]
    sizes = {
        one: (tokenizer.full() if one is None else tokenizer.subset(one)).size
        for one in {each.languages for each in every}
    }
    counts = [len(each.languages or tokenizer.languages) for each in every]
    return fmean(counts), fmean(sizes[each.languages] for each in every)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("worlds", type=Path)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--points", default="150,300,600,1200,2400")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=30)
    options = parser.parse_args()
    seeds = tuple(map(int, options.seeds.split(",")))
    points = tuple(sorted(map(int, options.points.split(","))))
    recipes = options.recipes.split(",")
    emit({"what": "machine", "machine": describe()})
    settings = study.WorldStudySettings(seeds=seeds, points=points, limit=options.limit)
    shorter: int | None = None
    for number, steps in enumerate(points, 1):
        runs = [
            run_of(recipe, options.worlds / f"seed-{seed}", seed, settings, steps)
            for seed in seeds
            for recipe in recipes
        ]
        how = partial(train, last=points[-1], shorter=shorter)
        each_alone(how, runs, options.workers)
        shorter = steps
        for seed in seeds:
            place = options.worlds / f"seed-{seed}"
            tokenizer = ModularTokenizer.load(place / "tokenizer")
            for recipe in recipes:
                grid = study._grid(place, [SYSTEM], settings, points[:number])
                names = [f"{recipe}-{each}" for each in points[:number]]
                grid = replace(
                    grid,
                    runs=tuple(
                        replace(each, path=str(place / "recipes" / name), name=name)
                        for each, name in zip(grid.runs, names, strict=True)
                    ),
                )
                result = run_grid(grid, place / f"scores-{recipe}", workers=options.workers)
                result.require_complete()
                metrics = place / "recipes" / f"{recipe}-{steps}" / "metrics.jsonl"
                languages, rows = draws_of(metrics, tokenizer)
                for row in study.curve_rows(result.rows):
                    if row["step"] == steps:
                        found = {"what": "recipe", **row, "regime": recipe, "p": None}
                        emit({**found, "languages": round(languages, 3), "rows": round(rows)})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
