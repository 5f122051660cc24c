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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson

from benchmarks.common import describe, emit
from modtok_cli.inference.load import load
from modtok_cli.inference.run.decode import generate
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.sampling import SamplingOptions


@dataclass(frozen=True)
class Question:
    """A prompt, the languages of its answer in T's order, and at most how many tokens."""

    prompt: str
    languages: tuple[str, ...]
    tokens: int


def questions(whole: SlicedModel, folder: Path, count: int, draw: random.Random) -> list[Question]:
    """So many questions about lines of the languages of a run, which fit into its context."""
    languages = whole.tokenizer_in.languages
    lines = {
        language: (folder / f"{language}.txt").read_text("utf-8").splitlines()[:20]
        for language in languages
    }
    made: list[Question] = []
    while len(made) < count:
        own = draw.choice(languages)
        others = draw.sample(languages, draw.randint(0, 2))
        names = {own, *others} if draw.random() < 0.9 or not others else set(others)
        words = draw.choice(lines[own]).split()
        prompt = " ".join(words[: draw.randint(1, min(20, len(words)))])
        ordered = tuple(name for name in languages if name in names)
        size = len(whole.with_vocabulary(ordered).encode_in(prompt)) + 1
        if size < whole.context:
            tokens = draw.randint(1, min(24, whole.context - size))
            made.append(Question(prompt, ordered, tokens))
    return made


def post(url: str, body: Any) -> tuple[int, Any]:
    """Status and JSON of an answer."""
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    request = Request(url, data, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=600) as answer:
            return answer.status, orjson.loads(answer.read())
    except HTTPError as error:
        return error.code, orjson.loads(error.read())


def ask(url: str, model: str, question: Question) -> list[int]:
    """Ids in T of the server's answer, without the end of text."""
    body = {
        "model": model,
        "prompt": question.prompt,
        "languages": list(question.languages),
        "max_tokens": question.tokens,
        "temperature": 0,
        "return_token_ids": True,
    }
    status, answer = post(f"{url}/v1/completions", body)
    if status != 200:
        raise RuntimeError(f"{status}: {answer}")
    choice = answer["choices"][0]
    ids: list[int] = choice["token_ids"]
    return ids[:-1] if choice["finish_reason"] == "stop" else ids


def expected(whole: SlicedModel, asked: Sequence[Question]) -> Iterator[tuple[list[int], set[int]]]:
    """Ids in T that each question is answered with, and those of its languages."""
    for question in asked:
        model = whole.with_vocabulary(question.languages)
        ids = model.vocabularies.ids
        prompt = [model.end_of_text, *model.encode_in(question.prompt)]
        answer = generate(model, [prompt], SamplingOptions(question.tokens))[0]
        yield [int(ids[model.row_of_out[each]]) for each in answer.ids], set(ids.tolist())


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
