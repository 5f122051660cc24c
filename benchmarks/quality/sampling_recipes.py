"""Other ways to sample subtokenizers, as curves in the worlds of `modtok study world`.

    python -m benchmarks sampling_recipes WORLDS [--seeds 0] [--recipes content,annealed,micro]
        [--points 150,300,600,1200,2400] [--workers 2] [--limit 30]

WORLDS is the output of `modtok study world`; its worlds, tokenizers and settings of runs are used,
runs go to WORLDS/seed-N/recipes. A recipe is a way to choose the vocabulary of a batch:

content   The vocabulary follows from the text. A document has the language besides its own that
          owns most of its other tokens under T, if these are --least of its tokens. A batch is of
          documents that share this, and has their languages, of the plain ones its own alone.
          Batches of each kind have the share of the text that is of it. There is no p.
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
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson

from benchmarks.common import describe, emit
from modtok_cli.evaluate.grid.grid import run_grid
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.studies.world import study
from modtok_cli.studies.world.curves import System
from modtok_cli.studies.world.train import point_of, train_point
from modtok_cli.training.data import sampling, slot_packer
from modtok_cli.training.data.sampling import Draw, Mixture, Regime
from modtok_cli.training.data.slot_packer import Batch, SlotPacker
from modtok_cli.training.data.text_store import TextStore, permuted
from modtok_cli.training.settings import RunSettings

RECIPES = ("content", "annealed", "micro")
SYSTEM = System("sub:2", 0.5)


@dataclass(frozen=True)
class Kinds:
    """Documents of a language by the other language in them.

    Attributes:
        names: the other languages, None for plain documents.
        shares: of the text, in the order of names.
        documents: of the training documents, those of each kind.
    """

    names: tuple[str | None, ...]
    shares: tuple[float, ...]
    documents: tuple[np.ndarray[Any, np.dtype[np.int64]], ...]


def kinds_of(
    language: str, texts: Sequence[bytes], numbers: Sequence[int], tokenizer: ModularTokenizer,
    least: float,
) -> Kinds:  # fmt: skip
    """Divide documents by the language that owns most of what their own language lacks."""
    everything, names = tokenizer.full(), tokenizer.languages
    others = [name for name in names if name != language]
    member = {name: np.asarray(tokenizer.token_membership[:, i]) for i, name in enumerate(names)}
    kind = np.full(len(texts), -1)
    for place, ids in enumerate(everything.encode_batch([text.decode() for text in texts])):
        foreign = ids[~member[language][ids]]
        if len(foreign) >= least * len(ids):
            kind[place] = np.argmax([member[name][foreign].sum() for name in others])
    sizes = np.array(list(map(len, texts)))
    numbered = np.array(numbers)
    found = [(None if k < 0 else others[k], kind == k) for k in sorted(set(kind.tolist()))]
    return Kinds(
        tuple(name for name, _ in found),
        tuple(float(sizes[which].sum() / sizes.sum()) for _, which in found),
        tuple(numbered[which] for _, which in found),
    )


class Content:
    """Draws and packs by kinds of documents, in place of `sampling.draw` and `SlotPacker.batch`."""

    def __init__(self, tokenizer: Path, least: float) -> None:
        self._tokenizer = ModularTokenizer.load(tokenizer)
        self._least = least
        self._kinds: dict[str, Kinds] = {}

    def prepare(self, stores: dict[str, TextStore]) -> None:
        """Look at all training documents."""
        for language, store in stores.items():
            held = set(store.held_out)
            numbers = [number for number in range(len(store)) if number not in held]
            texts = [store.document(number) for number in numbers]
            kinds = kinds_of(language, texts, numbers, self._tokenizer, self._least)
            self._kinds[language] = kinds
            shares = zip(kinds.names, kinds.shares, strict=True)
            words = (f"{name or 'plain'} {share:.3f}" for name, share in shares)
            print(f"{language}: {', '.join(words)}", file=sys.stderr)

    def draw(
        self, regime: Regime, p: float, mixture: Mixture, seed: int, step: int, group: int
    ) -> Draw:
        """A language, then a kind by its share of the text."""
        first, second = sampling.uniforms(seed, step, group, 2)
        language = mixture.languages[sampling._pick(mixture.weights, first)]
        kinds = self._kinds[language]
        other = kinds.names[sampling._pick(kinds.shares, second)]
        return Draw(language, tuple(sorted({language, other or language})))

    def document(self, packer: Any, language: str, number: int) -> int:
        """Document `number` of the kind that the packer is at."""
        kinds = self._kinds[language]
        documents = kinds.documents[kinds.names.index(packer.kind)]
        epoch, place = divmod(number * packer._slots + packer.slot, len(documents))
        return int(documents[permuted(place, len(documents), packer._seed, epoch)])

    def install(self) -> None:
        """Replace the functions in this process, which also makes its batches."""
        from modtok_cli.training import config, prepare

        opened = prepare.text_stores

        def text_stores(*given: Any, **more: Any) -> dict[str, TextStore]:
            stores: dict[str, TextStore] = opened(*given, **more)
            if not self._kinds:
                self.prepare(stores)
            return stores

        prepare.text_stores = text_stores
        config.draw = slot_packer.draw = self.draw
        of_batch = SlotPacker.batch

        def batch(packer: Any, step: int) -> Batch:
            what = self.draw(
                packer._regime, packer._p, packer._mixture, packer._seed, step, packer._group
            )
            (packer.kind,) = set(what.languages or ()) - {what.language} or {None}
            key = f"{what.language}+{packer.kind}"
            packer.positions[what.language] = packer.positions.get(key, (0, 0))
            made = of_batch(packer, step)
            packer.positions = {**packer.positions, key: packer.positions[what.language]}
            return replace(made, positions=packer.positions)

        SlotPacker.batch = batch
        SlotPacker._document = lambda packer, *place: self.document(packer, *place)


def anneal(last: int) -> None:
    """p falls from 1 to 0 over `last` steps."""
    from modtok_cli.training import config

    plain = sampling.draw

    def draw(regime: Regime, p: float, mixture: Mixture, seed: int, step: int, group: int) -> Draw:
        return plain(regime, max(0.0, 1 - step / last), mixture, seed, step, group)

    config.draw = slot_packer.draw = draw


def train(run: RunSettings, *, last: int, least: float, shorter: int | None) -> None:
    """Train a point of the recipe that the name of the run begins with."""
    recipe = str(run.name).partition("-")[0]
    if recipe == "annealed":
        anneal(last)
    elif recipe == "content":
        Content(Path(str(run.tokenizer)), least).install()
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
    parser.add_argument("--least", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=int, default=30)
    options = parser.parse_args()
    seeds = tuple(map(int, options.seeds.split(",")))
    points = tuple(sorted(map(int, options.points.split(","))))
    recipes = options.recipes.split(",")
    emit({"what": "machine", "machine": describe(), "least": options.least})
    settings = study.WorldStudySettings(seeds=seeds, points=points, limit=options.limit)
    shorter: int | None = None
    for number, steps in enumerate(points, 1):
        runs = [
            run_of(recipe, options.worlds / f"seed-{seed}", seed, settings, steps)
            for seed in seeds
            for recipe in recipes
        ]
        how = partial(train, last=points[-1], least=options.least, shorter=shorter)
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
