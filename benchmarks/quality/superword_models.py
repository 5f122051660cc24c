"""Models over the share of superwords: bits per byte by language at equal steps and equal text.

    python -m benchmarks superword_models CORPUS VALID WORK --langs en,fr,de,fi -k 8000 \\
        --superwords 0,167,333,667,1333 --sizes 4x128,4x256 --seeds 0,1,2 --steps 1000

CORPUS holds text by language; VALID other text, files by language. Tokenizers and runs are kept
in WORK, and what is there is not trained again; shorter runs go on. Each batch is text of one
language, predicted over the k tokens of that language, so a step costs the same with any number of
superwords. The learning rate is constant after the warm-up: every evaluation is one of a run of
that length. Runs take turns, the first seed of all first, on `--processes` processes of one thread.

`--superwords bpe-seq,0` compares with the tokens and merges of `bpe-seq`.

`--late N`: runs that start from the run without superwords, evaluated at the same steps after it,
with N superwords whose first rows are the mean of the rows that spell them, or random.

Prints a JSON object per run, evaluation and set of texts: bits per byte by language, and the
tokens and bytes trained on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import emit, parser_of
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.text.workspace import language_files

SEQUENTIAL = "bpe-seq"


@dataclass(frozen=True)
class Plan:
    """A run. Size: layers and hidden size; start: how rows of late superwords begin.

    superwords: None for the tokens and merges of `bpe-seq` in place of `bpe-merge`.
    """

    superwords: int | None
    size: str
    seed: int
    start: str | None = None

    @property
    def name(self) -> str:
        late = "" if self.start is None else f"-late-{self.start}"
        return f"{self.size}-{self.kind}-seed-{self.seed}{late}"

    @property
    def kind(self) -> str:
        return SEQUENTIAL if self.superwords is None else str(self.superwords)


def learn(options: argparse.Namespace, plan: Plan) -> None:
    output: Path = options.work / f"tokenizer-{plan.kind}"
    languages = options.langs.split(",")
    if output.is_dir():
        return
    if plan.superwords is None:
        bpe_seq(languages, data=options.corpus, output=output, k=options.k)
    else:
        bpe_merge(
            languages, data=options.corpus, output=output, k=options.k, superwords=plan.superwords
        )


def train(options: argparse.Namespace, plan: Plan) -> None:
    layers, width = map(int, plan.size.split("x"))
    run = options.work / "runs" / plan.name
    flags = {"runs": run.parent, "name": plan.name, "steps": options.steps}
    words = ["pretrain"]
    if (run / "config.json").is_file():
        words.append("--resume")
    else:
        flags |= {
            "sampling": "none", "langs": options.langs, "mix": "en=0.25", "schedule": "constant",
            "warmup": 100, "lr": options.lr, "batch-size": 16, "micro-batch": 16,
            "seq-length": 256, "seed": plan.seed, "eval-every": options.eval_every,
            "save-every": options.steps, "valid": f"other={options.valid}", "workers": 0,
            "data": options.corpus, "tokenizer": options.work / f"tokenizer-{plan.kind}",
        }  # fmt: skip
        keys = {
            "data.mix_rest": "uniform", "architecture.layers": layers,
            "architecture.hidden_size": width, "architecture.ffn": width * 11 // 4,
            "architecture.heads": width // 32, "architecture.kv_heads": width // 32,
            "architecture.head_width": 32, "evaluation.eval_bytes": options.eval_bytes,
            "evaluation.log_every": options.eval_every,
        }  # fmt: skip
        if plan.start is not None:
            flags["init-from"] = run.parent / Plan(0, plan.size, plan.seed).name
            keys["init.init_rows"] = plan.start
        words += [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
    words += [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    with (options.work / f"{plan.name}.log").open("a") as log:
        subprocess.run(
            [sys.executable, "-m", "modtok_cli", *words], check=True, stdout=log, stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


def is_finished(options: argparse.Namespace, plan: Plan) -> bool:
    return any(row["step"] == options.steps for row in evaluations(options, plan))


def evaluations(options: argparse.Namespace, plan: Plan) -> Iterator[dict[str, Any]]:
    """A row per evaluation and set of texts; none of a run that has not begun."""
    metrics = options.work / "runs" / plan.name / "metrics.jsonl"
    if not metrics.is_file():
        return
    tokens = size = 0
    for line in metrics.read_bytes().splitlines():
        row = orjson.loads(line)
        if "loss" in row:
            tokens = row["tokens"]
            size += sum(each["bytes"] for each in row["languages"].values())
        elif "held_out" in row:
            for name, found in (("held-out", row["held_out"]), *row.get("valid", {}).items()):
                bits = {key: round(each["bits_per_byte"], 4) for key, each in found.items()}
                yield {
                    "what": "superword model", "superwords": plan.superwords, "size": plan.size,
                    "seed": plan.seed, "late": plan.start, "step": row["step"], "tokens": tokens,
                    "bytes": size, "texts": name, "bits_per_byte": bits,
                    "bytes_per_token": {
                        key: round(each["bytes"] / each["tokens"], 3) for key, each in found.items()
                    },
                }  # fmt: skip


def plans(options: argparse.Namespace) -> list[Plan]:
    numbers = [
        None if number == SEQUENTIAL else int(number) for number in options.superwords.split(",")
    ]
    seeds = [int(seed) for seed in options.seeds.split(",")]
    sizes: Sequence[str] = options.sizes.split(",")
    return [Plan(number, size, seed) for seed in seeds for size in sizes for number in numbers]


def late_plans(options: argparse.Namespace) -> list[Plan]:
    numbers = [int(number) for number in options.late.split(",") if number]
    return [
        Plan(number, plan.size, plan.seed, start)
        for plan in plans(options)
        if plan.superwords == 0
        for number in numbers
        for start in ("spelling", "random")
    ]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("valid", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--langs", default="en,fr,de,fi")
    parser.add_argument("-k", type=int, default=8000)
    parser.add_argument("--superwords", default="0,167,333,667,1333")
    parser.add_argument("--late", default="", help="superwords of runs that begin without")
    parser.add_argument("--sizes", default="4x128,4x256", help="layers x hidden size, ...")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", default="3e-3")
    parser.add_argument("--eval-every", type=int, default=125)
    parser.add_argument("--eval-bytes", default="64KiB")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only-print", action="store_true", help="train nothing more")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    first, late = plans(options), late_plans(options)
    if not options.only_print:
        language_files(options.valid, options.langs.split(","))
        for plan in [*first, *late]:
            learn(options, plan)
        with ThreadPoolExecutor(options.processes) as pool:
            for group in (first, late):  # late ones begin with a finished run
                left = [plan for plan in group if not is_finished(options, plan)]
                list(pool.map(lambda plan: train(options, plan), left))
    for plan in [*first, *late]:
        for row in evaluations(options, plan):
            emit(row)
