"""Replay runs in plain torch with a masked full softmax, from the draws in their metrics.

Of a run the replay takes the initial weights, the text and the draws in metrics.jsonl. Decoder,
softmax over T, gradients, clipping and AdamW are plain torch in float64
(`helpers.plain_training`); the run computes in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from helpers.plain_training import PlainTraining, Rates, Sequences
from helpers.rank_of_runs import train_on
from modtok_cli.model.architecture.megatron_layout import to_hf
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import Draw
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.rundir import RunDirectory
from modtok_cli.training.stored_config import config_from_json

# Largest difference of losses, relative to the loss.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Case:
    """A run: processes, and options that differ between runs."""

    world: int
    tp: int
    sampling: str
    draw: str
    update: str = "sparse"
    tied: bool = False
    staged: bool = False

    @property
    def name(self) -> str:
        words = [self.sampling.replace(":", ""), self.draw, self.update]
        words += [f"tp{self.tp}", f"dp{self.world // self.tp}", *["tied"] * self.tied]
        words += ["staged"] * self.staged
        return "-".join(words)

    def options(self, place: Path, steps: int, seed: int) -> dict[str, Any]:
        """A decoder of 2 layers and width 32; 8 sequences of 24 tokens, 2 in a microbatch.

        The last two thirds of a staged run have other text, batches and rates, then longer ones.
        """
        part = steps // 3 if self.staged else 0
        stages: list[dict[str, Any]] = [
            {"steps": part, "langs": "el,fi", "sampling": "sub:1", "batch_size": 4, "lr": 1e-3},
            {"steps": part, "mix": {"fi": 0.8}, "seq_length": 32, "rope_theta": 5e5},
        ]  # fmt: skip
        return {
            "sampling": self.sampling, "draw": self.draw, "update": self.update, "tied": self.tied,
            "tp": self.tp, "gpus": self.world, "model": "tiny", "layers": 2, "hidden_size": 32,
            "ffn": 88, "heads": 4, "kv_heads": 2, "head_width": 8, "batch_size": 8,
            "micro_batch": 2, "seq_length": 24, "steps": steps - 2 * part, "warmup": 10,
            "lr": 3e-3, "seed": seed, "eval_every": steps, "save_every": steps, "eval_bytes": 256,
            "workers": 0, "name": self.name, "stages": stages if self.staged else [],
            **{name: str(place / name) for name in ("data", "tokenizer", "runs")},
        }  # fmt: skip


def train(cases: Sequence[Case], place: Path, steps: int, seed: int = 0) -> None:
    """Train the cases of one number of processes, each process one rank of all of them."""
    runs = [case.options(place, steps, seed) for case in cases]
    train_on(cases[0].world, runs, place / "settings.json")


def replay(run: Path, replicas: int) -> tuple[list[float], list[float]]:
    """Losses of a run by its metrics, and by plain torch."""
    directory = RunDirectory(run)
    config = config_from_json(directory.read_config()["config"])
    rows = map(orjson.loads, directory.metrics.read_bytes().splitlines())
    lines = [row for row in rows if "loss" in row]
    subtokenizers = SubtokenizerCache.load(run / "tokenizer")
    rates = Rates(
        config.optimizer.beta1,
        config.optimizer.beta2,
        config.optimizer.eps,
        config.optimizer.weight_decay,
        config.optimizer.clip,
    )
    plain = PlainTraining(
        config.shape,
        initial_weights(config, subtokenizers.size),
        sparse=config.optimizer.update == "sparse",
        rates=rates,
    )
    found = []
    batches = sequences(run, config, subtokenizers, [line["draws"] for line in lines], replicas)
    for line, (shape, parts) in zip(lines, batches, strict=True):
        plain.shape = shape
        found.append(plain.step(parts, line["lr"]))
    return [line["loss"] for line in lines], found


def initial_weights(config: Config, size: int) -> dict[str, torch.Tensor]:
    """The weights that a run starts with, under the names of transformers."""
    from modtok_cli.training.distributed.ranks import start_ranks
    from modtok_cli.training.model.model import Model

    model = Model(config.shape, size, start_ranks(), seed=config.init.seed)
    weights = to_hf(config.shape, {n: p.detach() for n, p in model.backbone.parameters.items()})
    weights["input"] = model.input.weight
    if not config.shape.tied:
        weights["output"] = model.output.weight
    return weights


def sequences(
    run: Path,
    config: Config,
    subtokenizers: SubtokenizerCache,
    draws: Sequence[Sequence[str]],
    replicas: int,
) -> Iterator[tuple[Shape, list[Sequences]]]:
    """The model's shape in each step, and its sequences, those of a draw together."""
    from helpers.microbatches import plan_of
    from helpers.text_store import text_store
    from modtok_cli.text.workspace import language_files
    from modtok_cli.training.data.slot_packer import SlotPacker
    from modtok_cli.training.data.stream import positions_of

    packers: list[SlotPacker] = []
    for period in config.periods:
        config = period.config
        stores = {
            language: text_store(language, paths, run.parent / ".text")
            for language, paths in language_files(config.data.data, config.data.langs).items()
        }
        size = config.group_size
        state = {packer.slot: packer.positions for packer in packers}
        state = positions_of(state, config.data.batch_size)
        plan = plan_of(config, run / "tokenizer", stores, replicas)
        packers = [
            SlotPacker(plan, slot, stores, subtokenizers, state.get(slot))
            for slot in range(config.data.batch_size)
        ]
        for step in period.steps:
            parts = []
            for group, name in enumerate(draws[step - 1]):
                mine = packers[group * size : (group + 1) * size]
                batches = [packer.batch(step) for packer in mine]
                drawn = {str(batch.draw) for batch in batches}
                if drawn != {name}:
                    raise AssertionError(f"step {step}: recorded {name}, sampled {drawn}")
                ids = subtokenizers.of(Draw.parse(name).languages).global_ids
                vocabulary = torch.from_numpy(ids.astype(np.int64))
                inputs, targets = (
                    torch.from_numpy(np.concatenate(arrays).astype(np.int64))
                    for arrays in zip(*((b.inputs, b.targets) for b in batches), strict=True)
                )
                parts.append(Sequences(inputs, vocabulary[targets], vocabulary))
            yield config.shape, parts


def compare(case: Case, place: Path) -> dict[str, Any]:
    """The row of a case whose run is below `place`."""
    run, plain = replay(place / "runs" / case.name, case.world // case.tp)
    errors = [abs(a - b) for a, b in zip(run, plain, strict=True)]
    relative = [error / b for error, b in zip(errors, plain, strict=True)]
    return {
        **vars(case),
        "steps": len(run),
        "first_loss": plain[0],
        "last_loss": plain[-1],
        "largest_error": max(errors),
        "largest_relative_error": max(relative),
        "equal": max(relative) <= TOLERANCE,
    }
