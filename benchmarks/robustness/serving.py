"""Answers of a running `modtok serve`: equal to `modtok generate` on the run, whatever the batch.

    python -m benchmarks serving RUN FOLDER [--url http://127.0.0.1:8000] [--requests 200]
        [--at-once 32] [--rounds 1] [--seed 0] [--process PID]

FOLDER holds <lang>.txt. Each request is the beginning of a line and one to three languages, mostly
that of the line too; many share their beginning, so that the prefix cache is used. All are sent
again in every round, in another order. Prints a JSON object for each answer that differs and one
for each round: requests, those that are equal, tokens outside the languages, resident MiB of PID
and its descendants before and after. Memory for the KV cache is touched as it is first used; with
`-- --num-gpu-blocks-override 400` there is little of it. Exit 1 if any answer differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import orjson

from benchmarks.common import describe, emit
from helpers.served import ask, expected, questions
from modtok_cli.inference.load import load


def vllm(url: str) -> str:
    """Version of the server."""
    with urlopen(f"{url}/version", timeout=60) as answer:
        return str(orjson.loads(answer.read())["version"])


def cached(url: str) -> float:
    """Tokens of prompts that the prefix cache had, since the server began."""
    with urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    name = "vllm:prefix_cache_hits_total{"
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def resident(pid: int | None) -> float | None:
    """Resident MiB of a process and its descendants (Linux)."""
    if pid is None:
        return None
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    rest = sum(resident(int(child)) or 0.0 for child in children)
    return pages * 4096 / 2**20 + rest


def main(args: list[str] | None = None) -> int:
    """Ask all questions in every round; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks serving")
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", type=int)
    options = parser.parse_args(args)
    draw = random.Random(options.seed)
    whole = load(options.run)
    asked = questions(whole, options.folder, options.requests, draw)
    right = list(expected(whole, asked))
    name, wrong = options.run.resolve().name, 0

    def answer_of(at: int) -> list[int]:
        return ask(options.url, name, asked[at])

    for number in range(options.rounds):
        order = draw.sample(range(len(asked)), len(asked))
        began, before = time.perf_counter(), resident(options.process)
        hits = cached(options.url)
        with ThreadPoolExecutor(options.at_once) as pool:
            answers = list(pool.map(answer_of, order))
        seconds = time.perf_counter() - began
        foreign = 0
        equal = 0
        for at, answer in zip(order, answers, strict=True):
            ids, own = right[at]
            foreign += sum(token not in own for token in answer)
            equal += answer == ids
            if answer != ids:
                emit({"question": asked[at].__dict__, "answer": answer, "expected": ids})
        wrong += len(asked) - equal
        emit(
            {
                "round": number,
                "requests": len(asked),
                "equal": equal,
                "languages": len({code for each in asked for code in each.languages}),
                "sets": len({each.languages for each in asked}),
                "at_once": options.at_once,
                "foreign_tokens": foreign,
                "tokens": sum(map(len, answers)),
                "cached_prompt_tokens": cached(options.url) - hits,
                "seconds": round(seconds, 1),
                "resident": [before, resident(options.process)],
                "command": "python -m benchmarks serving " + " ".join(args or sys.argv[1:]),
                "vllm": vllm(options.url),
                "machine": describe(),
            }
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
