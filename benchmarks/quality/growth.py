"""Give a trained model a language: French after Greek, English and Finnish.

    python -m benchmarks growth --data DIR --texts DIR -t OLD --grown NEW --work DIR \
        [--steps 800] [--more 400] [--plot FILE.svg] > results.jsonl

OLD is a modular tokenizer of el,en,fi, NEW the same with fr appended. One model is trained on
el,en,fi for `--steps`; then French is added in `--more` steps: only new rows (`--train rows`,
rows by spelling or random), everything on French alone, everything on all four languages. Beside
it models from nothing: French alone for `--more` and for `--steps` + `--more` steps, and all four
languages for `--steps` + `--more`. A row per model: held-out French bits per byte over the steps,
and bits per byte of `--texts` (<lang>.txt, not of the corpus) for every language. A finished run
in `--work` is not trained again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import emit
from modtok_cli.evaluate.evaluate import evaluate_bpb
from modtok_cli.reports.charts import Curves
from modtok_cli.reports.plot.layout import write_plot
from modtok_cli.training import loop
from modtok_cli.training.settings import RunSettings

OLD, ADDED = ("el", "en", "fi"), "fr"
ALL = (*OLD, ADDED)


def settings(options: argparse.Namespace, name: str, **changes: Any) -> RunSettings:
    """The small model that all runs share, with `changes`."""
    shared: dict[str, Any] = {
        "sampling": "sub:1",
        "mix": {},
        "mix_rest": "uniform",
        "data": options.data,
        "tokenizer": options.grown,
        "runs": options.work,
        "name": name,
        "model": "tiny",
        "layers": 2,
        "hidden_size": 96,
        "ffn": 256,
        "heads": 3,
        "kv_heads": 3,
        "head_width": 32,
        "seq_length": 128,
        "batch_size": 16,
        "micro_batch": 4,
        "lr": 2e-3,
        "eval_every": options.more // 8,
        "save_every": options.more,
        "keep": 1,
        "workers": 0,
    }
    steps = changes["steps"]
    return RunSettings(**{**shared, "warmup": steps // 20, **changes})


def models(options: argparse.Namespace) -> dict[str, RunSettings]:
    """Name → run, in the order of training."""
    base, more = options.steps, options.more
    start = {"init_from": options.work / "base", "steps": more}
    return {
        "base": settings(options, "base", tokenizer=options.tokenizer, langs=OLD, steps=base),
        "rows": settings(options, "rows", langs=(ADDED,), sampling="none", train="rows", **start),
        "rows, random": settings(
            options,
            "rows-random",
            langs=(ADDED,),
            sampling="none",
            train="rows",
            init_rows="random",
            **start,
        ),
        "all, fr": settings(options, "all-fr", langs=(ADDED,), sampling="none", **start),
        "all, el,en,fi,fr": settings(options, "all-four", langs=ALL, **start),
        "fr from nothing": settings(
            options, "scratch-fr", langs=(ADDED,), sampling="none", steps=more
        ),
        "fr from nothing, compute of both": settings(
            options, "scratch-fr-long", langs=(ADDED,), sampling="none", steps=base + more
        ),
        "el,en,fi,fr from nothing, compute of both": settings(
            options, "scratch-four", langs=ALL, steps=base + more
        ),
    }


def measure(options: argparse.Namespace, name: str, asked: RunSettings) -> dict[str, Any]:
    """Train (or open) a run; its French curve, and bits per byte of each language."""
    path = options.work / str(asked.name)
    if not (path / "checkpoints" / f"step-{asked.steps}").is_dir():
        loop.pretrain(asked, resume=path.is_dir())
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    curve = {
        int(line["step"]): round(line["held_out"][ADDED]["bits_per_byte"], 4)
        for line in lines
        if ADDED in line.get("held_out", {})
    }
    known = OLD if name == "base" else ALL
    texts = [options.texts / f"{language}.txt" for language in known]
    found = evaluate_bpb(path, texts, batch_size=16, limit=options.limit).rows
    bits = {row["language"]: row["bits_per_byte"] for row in found}
    return {"what": "growth", "model": name, "steps": asked.steps, "curve": curve, "texts": bits}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("-t", "--tokenizer", type=Path, required=True)
    parser.add_argument("--grown", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--more", type=int, default=400)
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("--plot", type=Path, help="chart of the curves")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, asked in models(options).items():
        rows.append(measure(options, name, asked))
        emit(rows[-1])
    if options.plot is not None:
        curves = {
            row["model"]: [(float(step), bits) for step, bits in row["curve"].items()]
            for row in rows
            if row["curve"]
        }
        chart = Curves(
            "French after el,en,fi: held-out bits per byte", "steps", "bits per byte", curves
        )
        write_plot([chart], options.plot)
    return 0
