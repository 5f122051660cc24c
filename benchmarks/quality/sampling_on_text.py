"""Sampling regimes on real text: bits per byte of one language, and of text mixed with English.

    python -m benchmarks sampling_on_text CORPUS PARALLEL WORK -k 8000 \\
        --regimes none,sub:2 --size 4x256 --steps 1200 [--seeds 0] [--processes 2]

Learns sequential BPE of CORPUS (text by language). The text of training is --text of CORPUS in each
language and, but for English, its first --pairs lines of PARALLEL, each followed by the English
line, four pairs a document. A model is trained for each regime and seed; all have the compute of
--steps steps of `none`: the others take as many steps as fit into its floating-point operations, by
the rows of their draws. English has --english of the mixture, the other languages equal shares.

PARALLEL has the same lines in each language. Its last --lines lines (`own`) are predicted over the
tokens of the language (`lang`), with English (`en+lang`) and over T (`full`); so are lines whose
second half is that of the English line (`mixed`). What is in WORK is not made again.

Prints a JSON line per kind of text: how many times as many tokens it takes without English,
as 1, 10, 50, 90 and 99% quantiles over documents of all languages. Then one per run,
text and mode: mean bits per byte over languages, and each language's. --steps 0 stops before.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson

from benchmarks.common import describe, emit
from modtok_cli.base.files import atomic_directory
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.evaluate.bits import BitsSettings, measure_texts
from modtok_cli.evaluate.models import open_models
from modtok_cli.measure.robustness import half
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.studies.world.train import train_runs
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files
from modtok_cli.training.config import resolve
from modtok_cli.training.data.sampling import Draw
from modtok_cli.training.settings import RunSettings

PILOT = 20
MODES = ("lang", "en+lang", "full")


@dataclass(frozen=True)
class Plan:
    """A run of a regime, such as `sub:2` or `sub:2 p=0.9`."""

    regime: str
    seed: int

    @property
    def name(self) -> str:
        return "-".join([*re.split("[: =]", self.regime), "seed", str(self.seed)])


def write_training_text(options: argparse.Namespace) -> None:
    lines = parallel_lines(options.parallel)
    place: Path = options.work / "data"
    with atomic_directory(place) as beside:
        for language, files in language_files(options.corpus, sorted(lines)).items():
            documents: list[bytes] = []
            for document in chain.from_iterable(map(read_documents, files)):
                documents.append(document.text)
                if sum(map(len, documents)) > options.text:
                    break
            if language != "en":
                pairs = list(zip(lines[language], lines["en"], strict=True))[: options.pairs]
                documents += [
                    "\n".join(side for pair in pairs[first : first + 4] for side in pair).encode()
                    for first in range(0, len(pairs), 4)
                ]
            content = b"".join(orjson.dumps({"text": each.decode()}) + b"\n" for each in documents)
            (beside / f"{language}.jsonl").write_bytes(content)


def parallel_lines(parallel: Path) -> dict[str, list[str]]:
    """The lines of each language."""
    return {
        path.stem: path.read_text(encoding="utf-8").splitlines()
        for path in sorted(parallel.glob("*.txt"))
    }


def settings_of(options: argparse.Namespace, plan: Plan, steps: int, name: str) -> RunSettings:
    layers, width = map(int, options.size.split("x"))
    regime, _, p = plan.regime.partition(" p=")
    given = RunSettings() if not p else RunSettings(p=float(p))
    return replace(
        given,
        data=options.work / "data", tokenizer=options.work / "tokenizer",
        runs=options.work / "runs", name=name, sampling=regime, seed=plan.seed, steps=steps,
        model="small", layers=layers, hidden_size=width, ffn=width * 11 // 4, heads=width // 64,
        kv_heads=width // 64, seq_length=options.length, batch_size=options.batch,
        micro_batch=options.micro_batch, warmup=options.warmup,
        mix={"en": options.english}, mix_rest="uniform", workers=0, lr=options.lr,
        eval_every=steps, eval_bytes=4096, save_every=max(PILOT, steps // 10), keep=1,
    )  # fmt: skip


def pilot_of(options: argparse.Namespace, plan: Plan) -> RunSettings:
    return settings_of(options, plan, PILOT, f"pilot-{plan.name}")


def mean_rows(options: argparse.Namespace, plans: list[Plan]) -> dict[str, float]:
    """Rows of a draw of each plan, by short runs; WORK/rows.json has those that are known."""
    place: Path = options.work / "rows.json"
    known: dict[str, float] = orjson.loads(place.read_bytes()) if place.exists() else {}
    new = {plan: pilot_of(options, plan) for plan in plans if plan.name not in known}
    train_runs(list(new.values()), workers=options.processes)
    tokenizer = ModularTokenizer.load(options.work / "tokenizer")
    for plan, settings in new.items():
        assert settings.runs is not None
        metrics = (settings.runs / str(settings.name) / "metrics.jsonl").read_bytes()
        drawn = [
            Draw.parse(each).languages
            for line in metrics.splitlines()
            for each in orjson.loads(line).get("draws", ())
        ]
        sizes = {one: (tokenizer.full() if one is None else tokenizer.subset(one)).size
                 for one in set(drawn)}  # fmt: skip
        known[plan.name] = fmean(sizes[one] for one in drawn)
    place.write_bytes(orjson.dumps(known))
    return known


def flops(options: argparse.Namespace, plan: Plan, rows: float) -> float:
    """Floating-point operations of a step."""
    config = resolve(pilot_of(options, plan), gpu=False)
    return config.shape.step_flops(config.seq_length, [(config.step_tokens, rows)])


def mixed_with_english(line: str, english: str) -> str:
    """The first half of a line, and the second of the English one."""
    return line[: half(line)] + english[half(english) :]


def texts_of(options: argparse.Namespace) -> dict[str, dict[str, Path]]:
    """Files of the parallel text, as it is and mixed, by language."""
    lines = {
        name: every[-options.lines :] for name, every in parallel_lines(options.parallel).items()
    }
    texts: dict[str, dict[str, Path]] = {"own": {}, "mixed": {}}
    for name, own in lines.items():
        mixed = map(mixed_with_english, own, lines["en"])
        for kind, content in (("own", own), ("mixed", mixed)):
            path: Path = options.work / "texts" / kind / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
            if kind == "own" or name != "en":
                texts[kind][name] = path
    return texts


def evaluations(
    run: Path, texts: dict[str, dict[str, Path]], modes: list[str]
) -> list[dict[str, Any]]:
    """A row per text and mode."""
    models = open_models(run)
    found = []
    for kind, files in texts.items():
        for mode in modes:
            bits = {}
            for language, path in files.items():
                infer = ",".join(sorted({"en", language})) if mode == "en+lang" else mode
                settings = BitsSettings(infer, 32)
                rows, _ = measure_texts(models, [path], language, Reading(), settings)
                bits[language] = round(rows[0]["bits_per_byte"], 4)
            mean = round(fmean(bits.values()), 4)
            found.append({"text": kind, "infer": mode, "mean": mean, **bits})
    return found


def gains(options: argparse.Namespace, tokenizer: ModularTokenizer) -> Iterator[dict[str, Any]]:
    """A row per kind of text, made of lines that are not predicted."""
    found: dict[str, list[float]] = {"plain": [], "third": [], "mixed": [], "pairs": []}
    lines = parallel_lines(options.parallel)
    english = lines["en"]
    for language, own in lines.items():
        if language == "en":
            continue
        alone = tokenizer.subset((language,))
        both = tokenizer.subset(tuple(sorted({"en", language})))
        starts = range(0, options.pairs - 11, 12)
        texts = {
            "plain": [" ".join(own[at : at + 12]) for at in starts],
            "third": [" ".join([*own[at : at + 8], *english[at + 8 : at + 12]]) for at in starts],
            "mixed": [mixed_with_english(own[at], english[at]) for at in starts],
            "pairs": [
                "\n".join(side for i in range(at, at + 4) for side in (own[i], english[i]))
                for at in starts
            ],
        }
        for kind, documents in texts.items():
            spelled = [np.diff(each.encode_flat(documents)[1]) for each in (alone, both)]
            found[kind] += (spelled[0] / spelled[1]).tolist()
    for kind, values in found.items():
        quantiles = np.quantile(values, (0.01, 0.1, 0.5, 0.9, 0.99)).round(3).tolist()
        yield {"what": "gain", "text": kind, "quantiles": quantiles}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("-k", type=int, default=8000)
    parser.add_argument("--regimes", default="none,sub:2")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--size", default="4x256", help="layers x hidden size")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--batch", type=int, default=8, help="sequences of a step")
    parser.add_argument("--micro-batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--english", type=float, default=0.1)
    parser.add_argument(
        "--text", type=int, default=1 << 20, help="bytes of CORPUS of each language"
    )
    parser.add_argument(
        "--pairs", type=int, default=600, help="first lines of PARALLEL, in training"
    )
    parser.add_argument("--lines", type=int, default=100, help="last lines of PARALLEL, predicted")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    emit({"what": "machine", "machine": describe()})
    place = options.work / "tokenizer"
    if not place.exists():
        bpe_seq(data=options.corpus, output=place, k=options.k)
    if not (options.work / "data").exists():
        write_training_text(options)
    for row in gains(options, ModularTokenizer.load(place)):
        emit(row)
    if not options.steps:
        return
    plans = [Plan(regime, int(seed)) for seed in options.seeds.split(",")
             for regime in options.regimes.split(",")]  # fmt: skip
    first = Plan("none", plans[0].seed)
    rows = mean_rows(options, list(dict.fromkeys([first, *plans])))
    costs = {plan: flops(options, plan, rows[plan.name]) for plan in [first, *plans]}
    budget = options.steps * costs[first]
    runs = {
        plan: settings_of(options, plan, round(budget / costs[plan]), plan.name) for plan in plans
    }
    train_runs(list(runs.values()), workers=options.processes)
    texts, modes = texts_of(options), options.modes.split(",")
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        evaluated = {
            plan: pool.submit(evaluations, options.work / "runs" / plan.name, texts, modes)
            for plan in runs
        }
        for plan, found in evaluated.items():
            head = {"what": "on text", "regime": plan.regime, "seed": plan.seed}
            for row in found.result():
                emit({**head, "steps": runs[plan].steps, **row})


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
