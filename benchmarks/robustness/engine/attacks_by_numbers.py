"""Commands that once gave a wrong number without a warning."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.robustness.engine.arena import Arena, attack
from benchmarks.robustness.engine.attacks_by_input import PRETRAIN, TRAINING, rows_of

MODEL = ["runs/tiny", "--tokenizer", "bpe"]


@attack("numbers")
def seeds_of_generate(arena: Arena) -> None:
    """`generate` draws by seed, prompt and position: not by batch size or neighbors"""
    prompts = arena.place / "prompts.jsonl"
    prompts.write_text('{"prompt": "The"}\n' * 16)

    def texts(*options: str) -> list[str]:
        words = ["generate", *MODEL, "--langs", "en", "--max-tokens", "12", "--json", *options]
        done = arena.modtok(*words, "--temperature", "1", stdin=prompts.read_bytes())
        return [json.dumps(row.get("text", row.get("completion"))) for row in rows_of(done.out)]

    four, eight = texts("--batch-size", "4"), texts("--batch-size", "8")
    other = texts("--batch-size", "8", "--seed", "1")
    arena.check(len(four) == 16, f"{len(four)} texts")
    arena.check(four == eight, "texts depend on --batch-size")
    arena.check(len(set(four)) == 16, f"{len(set(four))} distinct texts of 16")
    shared = sum(one == two for one, two in zip(eight, other, strict=False))
    arena.check(shared == 0, f"seeds 0 and 1 share {shared} texts")


@attack("numbers")
def fairness_over_common_languages(arena: Arena) -> None:
    """`fairness` summarizes all tokenizers over the languages that all have"""
    texts = ["parallel/en.txt", "parallel/fi.txt", "parallel/fr.txt", "parallel/sw.txt"]
    alone = arena.modtok("fairness", "-t", "bpe", *texts[:2], "--json")
    both = arena.modtok("fairness", "-t", "bpe", "-t", "bpe@each", *texts, "--json")

    def summary(out: bytes) -> dict[str, Any]:
        keys = ("gini", "max_premium", "mean", "worst", "premium")
        rows = [row for row in rows_of(out) if not row.get("language")]
        return {
            str(row.get("tokenizer")): {key: row[key] for key in keys if key in row} for row in rows
        }

    one, two = summary(alone.out), summary(both.out)
    for name in one.keys() & two.keys():
        arena.check(one[name] == two[name], f"{name}: {two[name]} for {one[name]}")


@attack("numbers")
def time_of_a_long_text(arena: Arena) -> None:
    """`cost --time` measures a text longer than the context whole, or refuses it"""
    line = " ".join((arena.place / "parallel" / "en.txt").read_text().split())
    (arena.place / "long.txt").write_text(line * 12 + "\n")
    ids = arena.modtok("encode", "-t", "bpe", "long.txt")
    tokens = sum(len(row["ids"]) for row in rows_of(ids.out))
    done = arena.line(
        "cost --time -t bpe --model tiny --limit 1 --lang en long.txt --json", seconds=600
    )
    for row in rows_of(done.out):
        found = row.get("tokens")
        if row.get("tokenizer") == "bpe":  # the other row is the reference
            arena.check(abs(float(found) - tokens) <= 2, f"{found} tokens measured of {tokens}")


@attack("numbers")
def corpus_build_that_keeps_nothing(arena: Arena) -> None:
    """`corpus build` that keeps no page is an error"""
    line = "corpus build crawl.warc --min-characters 100000000 -o none --workers 1"
    done = arena.line(line, seconds=300)
    arena.check(done.status != 0, "exit status 0")


@attack("numbers")
def schedule_of_a_resumed_run(arena: Arena) -> None:
    """`--resume --steps N` does not jump in the learning rate without a word"""
    words = list(PRETRAIN)
    words[words.index("--steps") + 1] = "20"
    arena.modtok(*words, "--save-every", "20", "--name", "longer")
    done = arena.modtok("pretrain", "--resume", "--steps", "200", "--name", "longer", seconds=400)
    rates = rates_of(arena.place / "runs" / "longer")
    jumps = [after / before for before, after in pairwise(rates[18:])]
    silent = done.status == 0 and b"lr" not in done.err and b"rate" not in done.err
    worst = max(jumps, default=1.0)
    arena.check(worst < 1.5 or not silent, f"the learning rate jumps {worst:.1f} times")


def rates_of(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row["lr"] for row in rows if "lr" in row]


@attack("numbers")
def resume_without_options(arena: Arena) -> None:
    """`--resume` needs no other option: the run stores its data and its settings"""
    shutil.move(arena.place / "data", arena.place / "texts")
    options = "--data texts --set parallelism.recompute=2 --save-every 1 --name it"
    arena.line(f"{TRAINING} {options}")
    done = arena.modtok("pretrain", "--resume", "--name", "it")
    arena.check(done.status == 0, f"status {done.status} {done.error}")
    config = json.loads((arena.place / "runs" / "it" / "config.json").read_bytes())
    stored = config["config"]["parallelism"]
    arena.check(stored["recompute"] == 2, "recompute was forgotten")
