"""Train every regime in worlds of several seeds, evaluate every mode, and test the claims.

OUTPUT/seed-N/world/      text, questions and parallel sentences
OUTPUT/seed-N/plain/      text of the same world without quotations, which tokenizers learn from
OUTPUT/seed-N/held-out/   further such text, which bits per byte are of
OUTPUT/seed-N/tokenizer/, baseline/ (ordinary, of its size), runs/, scores/ (a file for each run)
OUTPUT/curves.jsonl       a row for each regime, p, seed, number of steps and mode
OUTPUT/claims.jsonl

A point of a curve is a run that ends with a decay of the learning rate. The run of the next point
continues the steps before that decay, so that each step is trained once. What is complete is not
repeated, so that an interrupted study goes on; two processes with other seeds share the work.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

import modtok_cli as modtok
from benchmarks.world.claims import System, check_claims, systems_of
from benchmarks.world.corpus import WorldSettings, write_documents, write_world
from modtok_cli.base.files import atomic_directory, write_lines

FACTS = ("facts-all", "facts-own", "facts-other")
FIGURES = (*FACTS, "BLEU", "in language", "bits per byte")
MODES = ("lang", "full")
HELD_OUT = 100
"""Documents of each language that bits per byte are of."""
RECIPE: Mapping[str, Any] = {
    "model": "tiny", "layers": 2, "hidden_size": 128, "ffn": 352, "heads": 4, "kv_heads": 4,
    "seq_length": 256, "batch_size": 8, "micro_batch": 8, "warmup": 40, "lr": 5e-3,
    "eval_bytes": 16384, "attention": "document", "mix_rest": "uniform", "schedule": "wsd",
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """A study; `limit` is the number of sentences to translate for each pair and mode."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    regimes: tuple[str, ...] = ("baseline", "joint", "none", "full", "sub:1", "sub:2")
    p_values: tuple[float, ...] = (0.5, 0.9)
    points: tuple[int, ...] = (300, 600, 1200, 2400, 4800)
    k: int = 1500
    limit: int = 30
    world: WorldSettings = field(default_factory=WorldSettings)
    training: Mapping[str, Any] = field(default_factory=dict)


def run_study(output: Path, study: Study) -> None:
    """Make worlds, train every regime in each, evaluate all modes, and test the claims."""
    systems = systems_of(study.regimes, study.p_values)
    for seed in study.seeds:
        place = output / f"seed-{seed}"
        _prepare(place, seed, study)
        for shorter, steps in zip((None, *study.points), study.points, strict=False):
            for system in systems:
                run = _run(system, steps, seed, place, study)
                scores = place / "scores" / f"{run.name}.jsonl"
                if not scores.exists():
                    _train(run, shorter)
                    scores.parent.mkdir(exist_ok=True)
                    facts = {"regime": system.regime, "p": system.p, "seed": seed, "step": steps}
                    rows = _evaluate(place, place / "runs" / str(run.name), study)
                    write_lines(scores, [facts | row for row in rows])
    files = sorted(output.glob("seed-*/scores/*.jsonl"))
    curves = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
    write_lines(output / "curves.jsonl", curves)
    write_lines(output / "claims.jsonl", check_claims(curves, systems, len(study.world.languages)))


def _prepare(place: Path, seed: int, study: Study) -> None:
    world = replace(study.world, seed=seed)
    plain = replace(world, quotes=0.0)
    # Sentences of other languages are rare in the text that real tokenizers learn from.
    write_world(place / "world", world)
    write_world(place / "plain", plain)
    if not (place / "held-out").exists():
        with atomic_directory(place / "held-out") as beside:
            few = replace(plain, documents=HELD_OUT)
            for code in world.languages:
                write_documents(beside / f"{code}.jsonl", code, few, "held out")
    text = {"data": place / "plain" / "data"}
    modtok.bpe_seq(world.languages, output=place / "tokenizer", k=study.k, **text)
    size = modtok.load(place / "tokenizer").full().size
    modtok.bpe(world.languages, output=place / "baseline", k=size, joint=True, **text)


def _constant(steps: int) -> int:
    """Last step with the peak learning rate; the last fifth is the decay."""
    return steps - max(1, steps // 5)


def _run(system: System, steps: int, seed: int, place: Path, study: Study) -> modtok.RunSettings:
    """The run of a point, with checkpoints such that a longer one can continue it."""
    p = {} if system.p is None else {"p": system.p}
    words = [system.regime.replace(":", "-"), *(f"p-{each:g}" for each in p.values()), f"{steps}"]
    constant = _constant(steps)
    options: dict[str, Any] = {
        **RECIPE, **study.training, **p, "sampling": system.sampling, "seed": seed, "steps": steps,
        "decay_steps": steps - constant, "eval_every": steps, "save_every": constant,
        "keep_every": constant, "keep": 1, "langs": study.world.languages,
        "data": place / "world" / "data",
        "tokenizer": place / ("baseline" if system.regime == "baseline" else "tokenizer"),
        "runs": place / "runs", "name": "-".join(words),
    }  # fmt: skip
    return modtok.RunSettings(**options)


def _train(run: modtok.RunSettings, shorter: int | None) -> None:
    """Train or resume a run; a new one begins with the constant steps of the `shorter` one."""
    from modtok_cli.training.checkpoint.checkpoint_files import step_directory
    from modtok_cli.training.opening import TOKENIZER
    from modtok_cli.training.resolve import resolve
    from modtok_cli.training.rundir import CHECKPOINTS, METRICS, RunDirectory
    from modtok_cli.training.stored_config import config_as_json

    config = resolve(run, gpu=False)
    path = config.runs / str(run.name)
    if shorter is not None and not path.exists():
        source = path.with_name(f"{path.name.rpartition('-')[0]}-{shorter}")
        short = RunDirectory(source)
        with atomic_directory(path) as beside:
            shutil.copytree(source / TOKENIZER, beside / TOKENIZER)
            checkpoint = step_directory(short.checkpoints, _constant(shorter))
            shutil.copytree(checkpoint, beside / CHECKPOINTS / checkpoint.name)
            shutil.copyfile(short.metrics, beside / METRICS)  # resuming removes later lines
            content = {**short.read_config(), "config": config_as_json(config)}
            RunDirectory(beside).write_config(content)
    modtok.pretrain(run, resume=path.exists())


def _evaluate(place: Path, run: Path, study: Study) -> list[dict[str, Any]]:
    """A row for each mode: means over languages or pairs of every figure."""
    tasks = place / "world" / "tasks"
    codes = study.world.languages
    pairs = ",".join(f"{a}-{b}" for a in codes for b in codes if a != b)
    rows = []
    for mode in (*MODES, "src|tgt"):
        found: dict[str, list[float]] = {}
        answered: list[Any] = []
        translated = modtok.evaluate_mt(
            run, pairs, data=tasks, infer=mode, shots=2, limit=study.limit, max_tokens=96,
            batch_size=64,
        )  # fmt: skip
        if mode in MODES:
            answers = modtok.evaluate_mcq(
                run, list(codes), tasks=list(FACTS), data=tasks, infer=mode, batch_size=128
            )
            answered = list(answers.results)
            for code in codes:
                text = place / "held-out" / f"{code}.jsonl"
                bits = modtok.evaluate_bpb(run, text, language=code, infer=mode, batch_size=32)
                found.setdefault("bits per byte", []).append(bits.rows[0]["bits_per_byte"])
        for result in (*answered, *translated.results):
            figure = result.metric if result.task == "mt" else result.task
            if result.metric in ("acc", "BLEU", "in language"):
                found.setdefault(figure, []).append(result.value)
        figures = {name: fmean(found[name]) for name in FIGURES if name in found}
        rows.append({"infer": mode, **figures})
    return rows


def numbers(value: str) -> tuple[int, ...]:
    """Whole numbers of `1,2`."""
    return tuple(sorted(map(int, value.split(","))))


def codes_of(value: str) -> Sequence[str]:
    """Words of `a,b`."""
    return tuple(value.split(","))
