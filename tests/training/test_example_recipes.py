"""Recipes in examples/ and presets fit the machines that they state, by their plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from modtok_cli.architectures.sizes import PAPER
from modtok_cli.training.config import Config, check_ranks
from modtok_cli.training.recipe import PRESETS, read_recipe
from modtok_cli.training.resolve import resolve
from modtok_cli.training.run_memory import StepRows, capacity, check_fits, host_need, recomputed
from modtok_cli.training.settings import RunSettings

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "examples" / "recipes").glob("*.toml"))
HOST = 64e9  # examples/recipes/7b-32.toml


def measured(config: Config) -> tuple[int, StepRows]:
    """|T| and the rows of a step, sequential BPE of 21 languages."""
    file = ROOT / "benchmarks" / "results" / "active-rows-2026-11-22.jsonl"
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        if (row["sampling"], row["draw"]) == (config.sampling, config.draw):
            rows = StepRows(row["draw_rows"], row["rank_rows"], row["step_rows"])
            return row["vocabulary"], rows
    raise AssertionError(f"no rows of {config.sampling}, {config.draw}")


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_example_recipes_fit_their_machine(file: Path) -> None:
    given: dict[str, Any] = read_recipe(file)
    config = resolve(RunSettings(**given), gpu=True)
    assert {"gpus", "device_memory"} <= given.keys()  # the machine
    check_ranks(config, config.gpus)
    size, rows = measured(config)
    room, owner = capacity(config, gpu=True)
    chosen = recomputed(config, size, rows, config.gpus, room)
    check_fits(chosen, size, rows, config.gpus, room, owner)
    if config.offload:
        need = host_need(config, size, rows.union, config.gpus, 8)
        assert need.tables + need.buffers < HOST


def test_every_paper_preset_has_a_recipe() -> None:
    models = {read_recipe(file)["model"] for file in RECIPES}
    assert models == {*PAPER, "7b-32"}
    assert models <= PRESETS.keys()
