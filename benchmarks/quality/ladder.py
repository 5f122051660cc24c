"""Bits per byte of models over tokenizers at equal compute and at equal text, by language.

    python -m benchmarks ladder CORPUS NTREX WORK --sizes tiny --flops 4e12 --seeds 0,1,2

CORPUS has LANG.jsonl.zst, NTREX has LANG.txt. Lines 1 to 998 of NTREX choose fair budgets (and are
the development text of `ParityBpeTrainer`), the others are measured. One model learns all languages
in equal shares, for each size (a preset of `modtok pretrain`), tokenizer and seed:

* bpe-seq, bpe-merge, superwords, fair: modular tokenizers of k tokens a language. Text is predicted
  over the tokens of its language (`--sampling none`), and one language is served by k rows.
* T: that of bpe-seq; baseline, parity: joint BPE and parity-aware BPE of its size; small: joint BPE
  of k tokens. Text is predicted over all tokens (`--sampling joint`).

All runs of a size have the same number of floating-point operations in training: backbone,
attention and the head over the active rows. The learning rate is constant after the warm-up, so
that each evaluation is one of a run of that length. "Equal text" is the number of bytes that the
run with the fewest bytes has read, by interpolation in the logarithm of bytes; a run whose first
evaluation is after more bytes counts by that one.

Tokenizers and runs are kept in WORK; the same call prints what is there and trains the rest, and
texts, languages, k or operations of another call are refused. Prints JSON lines: each evaluation,
then for each size and tokenizer the cost to serve one language (rows, forward operations of a byte)
and means with Student's 95% intervals over the seeds, also of the difference from bpe-seq.
`--figure` draws them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson

import modtok_cli as modtok
from benchmarks.common import describe, emit, parser_of
from benchmarks.quality.fair_budgets import parity, split
from benchmarks.world.claims import at_step, interval
from modtok_cli.model.architecture.arithmetic import step_flops
from modtok_cli.training.config import Config
from modtok_cli.training.resolve import resolve

TOKENIZERS = ("bpe-seq", "baseline", "bpe-merge", "superwords", "fair", "parity", "small", "T")
TOGETHER = ("baseline", "parity", "small", "T")
EVALUATIONS = {"baseline": 1, "parity": 1, "T": 1}
"""Evaluations of a run, for which others have 3: these read the least text, and need the last."""


@dataclass(frozen=True)
class Plan:
    """A run; the size is a preset."""

    tokenizer: str
    size: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.size}-{self.tokenizer}-seed-{self.seed}"


class Ladder:
    """Tokenizers, runs and rows of the options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work
        self.languages: list[str] = options.langs.split(",")
        self.chosen, self.measured = split(options.parallel, self.languages, self.work)

    def tokenizer(self, name: str) -> Path:
        """The directory of a tokenizer, learned at first."""
        made = self.work / f"tokenizer-{'bpe-seq' if name == 'T' else name}"
        if made.is_dir():
            return made
        k, data = self.options.k, self.options.corpus
        common = {"data": data, "output": made}
        if name == "parity":
            path, size = self.work / "parity.json", modtok.load(self.tokenizer("bpe-seq")).size
            parity(data, self.languages, self.chosen, size, "base", path, end="<|endoftext|>")
            modtok.adopt(path, self.languages, end_of_text="<|endoftext|>", **common)
        elif name in TOGETHER:
            size = k if name == "small" else modtok.load(self.tokenizer("bpe-seq")).size
            modtok.bpe(self.languages, joint=True, k=size, **common)
        else:
            learn = modtok.bpe_seq if name in ("bpe-seq", "fair") else modtok.bpe_merge
            more = {"superwords": {"superwords": k // 24}, "fair": {"fair": self.chosen}}
            learn(self.languages, k=k, references=False, **common, **more.get(name, {}))
        return made

    def rows(self, name: str) -> dict[str, int]:
        """Rows that a language is predicted over."""
        whole = modtok.load(self.tokenizer(name))
        if name in TOGETHER:
            return dict.fromkeys(self.languages, whole.size)
        return {language: whole.subset([language]).size for language in self.languages}

    def settings(self, plan: Plan, **more: Any) -> modtok.RunSettings:
        sampling = "joint" if plan.tokenizer in TOGETHER else "none"
        return modtok.RunSettings(
            model=plan.size, sampling=sampling, langs=self.languages, mix={}, mix_rest="uniform",
            schedule="constant", seed=plan.seed, valid={"NTREX": self.measured}, workers=0,
            data=self.options.corpus, tokenizer=self.tokenizer(plan.tokenizer),
            runs=self.work / "runs", name=plan.name, **more,
        )  # fmt: skip

    def config(self, plan: Plan) -> Config:
        """The run's sizes, before its number of steps is known."""
        return resolve(self.settings(plan), gpu=False)

    def steps(self, plan: Plan, flops: float) -> int:
        config = self.config(plan)
        rows = fmean(self.rows(plan.tokenizer).values())
        one = step_flops(config.shape, config.data.seq_length, [(config.step_tokens, rows)])
        if flops < one:
            raise SystemExit(f"--flops: a step of {plan.name} is {one:.2g}, give as many or more")
        return round(flops / one)

    def train(self, plan: Plan, steps: int) -> None:
        last = next((row["step"] for row in reversed(list(self.evaluations(plan)))), 0)
        if last < steps:
            every = -(-steps // EVALUATIONS.get(plan.tokenizer, 3))
            run = self.settings(
                plan, steps=steps, save_every=steps, eval_every=every,
                eval_bytes=self.options.eval_bytes,
            )  # fmt: skip
            modtok.pretrain(run, resume=(self.work / "runs" / plan.name).exists())

    def evaluations(self, plan: Plan) -> Iterator[dict[str, Any]]:
        """A row for each evaluation and text; none of a run that has not begun."""
        metrics = self.work / "runs" / plan.name / "metrics.jsonl"
        size = flops = 0.0
        for line in metrics.read_bytes().splitlines() if metrics.is_file() else ():
            row = orjson.loads(line)
            if "loss" in row:
                size += sum(each["bytes"] for each in row["languages"].values())
                time = row["time"]
                flops += time["model_flops_per_second"] * time["step_seconds"]
                tokens = row["tokens"]
            elif "held_out" in row and size:
                for name, found in (("held-out", row["held_out"]), *row["valid"].items()):
                    yield {
                        "what": "ladder", "tokenizer": plan.tokenizer, "size": plan.size,
                        "seed": plan.seed, "step": row["step"], "tokens": tokens,
                        "bytes": int(size), "flops": float(f"{flops:.4g}"), "text": name,
                        "bits_per_byte": {
                            key: round(each["bits_per_byte"], 4) for key, each in found.items()
                        },
                    }  # fmt: skip

    def serving(self, plan: Plan) -> dict[str, Any]:
        """Cost of one language: rows, tokens of a byte and forward operations of a byte."""
        whole, rows = modtok.load(self.tokenizer(plan.tokenizer)), self.rows(plan.tokenizer)
        config = self.config(plan)
        density, cost = {}, {}
        for language in self.languages:
            text = (self.measured / f"{language}.txt").read_text("utf-8").splitlines()
            own = whole if plan.tokenizer in TOGETHER else whole.subset([language])
            tokens = sum(map(len, own.encode_batch(text)))
            density[language] = round(tokens / sum(len(line.encode()) for line in text), 4)
            one = step_flops(config.shape, config.data.seq_length, [(1, rows[language])]) / 3
            cost[language] = round(one * density[language])
        return {
            "what": "ladder serving", "tokenizer": plan.tokenizer, "size": plan.size,
            "tokens_of_t": whole.size, "rows": rows, "tokens_per_byte": density,
            "flops_per_byte": cost, "mean_rows": fmean(rows.values()),
            "mean_flops_per_byte": round(fmean(cost.values())),
        }  # fmt: skip


def means(rows: Sequence[Mapping[str, Any]], languages: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Bits per byte by size, text and tokenizer: mean and interval over seeds."""
    for size, text in sorted({(row["size"], row["text"]) for row in rows}):
        curves: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for row in rows:
            if (row["size"], row["text"]) == (size, text):
                curves.setdefault((row["tokenizer"], row["seed"]), []).append(row)
        fewest = min(curve[-1]["bytes"] for curve in curves.values())
        for at in ("equal compute", "equal text"):
            found: dict[str, dict[int, dict[str, float]]] = {}
            for (tokenizer, seed), curve in curves.items():
                point = curve[-1]["bytes"] if at == "equal compute" else fewest
                bits = {}
                for x in languages:
                    points = [(row["bytes"], row["bits_per_byte"][x]) for row in curve]
                    value = at_step(points, max(point, points[0][0]))
                    assert value is not None
                    bits[x] = value
                found.setdefault(tokenizer, {})[seed] = {"mean": fmean(bits.values()), **bits}
            for tokenizer, seeds in found.items():
                first = found["bpe-seq"]
                pairs = [(seeds[x]["mean"], first[x]["mean"]) for x in seeds.keys() & first.keys()]
                yield {
                    "what": "ladder mean", "size": size, "text": text, "at": at,
                    "tokenizer": tokenizer, "seeds": len(seeds),
                    "bits_per_byte": {
                        x: rounded(interval([each[x] for each in seeds.values()]))
                        for x in ("mean", *languages)
                    },
                    "to_bpe_seq": rounded(interval([a - b for a, b in pairs])),
                    "bytes": round(fmean(
                        curves[tokenizer, x][-1]["bytes"] if at == "equal compute" else fewest
                        for x in seeds
                    )),
                }  # fmt: skip


def rounded(values: Sequence[float]) -> list[float | None]:
    """Mean and ends of an interval; an infinite end is null."""
    return [round(value, 4) if abs(value) < 1e9 else None for value in values]


def keep_settings(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Refuse what differs from an earlier call in WORK, whose tokenizers and runs are used."""
    if len(options.sizes.split(",")) != len(options.flops.split(",")):
        parser.error("--flops: give one number for each of --sizes")
    own = {name: str(getattr(options, name)) for name in ("corpus", "parallel", "langs", "k")}
    own["eval_bytes"] = str(options.eval_bytes)
    flops = zip(options.sizes.split(","), options.flops.split(","), strict=True)
    own |= {f"flops of {size}": number for size, number in flops}
    options.work.mkdir(parents=True, exist_ok=True)
    file = options.work / "settings.json"
    kept = orjson.loads(file.read_bytes()) if file.is_file() else {}
    for name, value in own.items():
        if kept.setdefault(name, value) != value:
            parser.error(f"{file}: {name} was {kept[name]}, not {value}: use another WORK")
    file.write_bytes(orjson.dumps(kept))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--langs", default="en,hu,te,fi,el,sw")
    parser.add_argument("-k", type=int, default=2000)
    parser.add_argument("--tokenizers", default=",".join(TOKENIZERS))
    parser.add_argument("--sizes", default="tiny", help="presets; on a GPU also small")
    parser.add_argument("--flops", default="4e12", help="of a run, for each size")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--eval-bytes", type=int, default=1 << 15)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    names = options.tokenizers.split(",")
    if "bpe-seq" not in names or not {*names} <= {*TOKENIZERS}:
        parser.error(f"--tokenizers: use bpe-seq, and any of {', '.join(TOKENIZERS)}")
    keep_settings(options, parser)
    ladder = Ladder(options)
    emit({"what": "machine", "machine": describe(), "k": options.k, "langs": options.langs})
    sizes = dict(zip(options.sizes.split(","), options.flops.split(","), strict=True))
    serving = [ladder.serving(Plan(name, size, 0)) for size in sizes for name in names]
    for row in serving:
        emit(row)
    rows = []
    for seed in map(int, options.seeds.split(",")):
        for size, flops in sizes.items():
            for name in names:
                plan = Plan(name, size, seed)
                ladder.train(plan, ladder.steps(plan, float(flops)))
                for row in ladder.evaluations(plan):
                    rows.append(row)
                    emit(row)
    found = list(means(rows, ladder.languages))
    for row in found:
        emit(row)
    if options.figure:
        draw(serving, found, options.figure)


def draw(
    serving: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]], path: Path
) -> None:
    """Bits per byte of NTREX at equal compute against the cost of serving a byte."""
    from matplotlib import style
    from matplotlib.figure import Figure

    from modtok_cli.reports.plot.figures import COLOURS, STYLE

    costs = {(row["size"], row["tokenizer"]): row for row in serving}
    with style.context(["default", STYLE]):
        figure = Figure((7.9, 4.2), layout="constrained")
        axes = figure.subplots()
        shown = [row for row in found if (row["text"], row["at"]) == ("NTREX", "equal compute")]
        for number, row in enumerate(shown):
            cost = costs[row["size"], row["tokenizer"]]
            mean, low, high = row["bits_per_byte"]["mean"]
            bar = None if low is None else [[mean - low], [high - mean]]
            marker = "s" if row["tokenizer"] in TOGETHER else "o"
            name = f"{row['size']}, {row['tokenizer']}, {round(cost['mean_rows']):,} rows"
            axes.errorbar(
                cost["mean_flops_per_byte"] / 1e6, mean, bar, fmt=marker, capsize=3,
                color=COLOURS[number % len(COLOURS)], label=name,
            )  # fmt: skip
        figure.legend(loc="outside right upper")
        axes.set_xlabel("forward operations to read a byte of one language, millions")
        axes.set_ylabel("bits per byte, mean of languages")
        axes.grid(visible=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
