"""Answers of a running `modtok serve`: equal to `modtok generate` on the run, whatever the batch.

    python -m benchmarks serving RUN FOLDER [--url http://127.0.0.1:8000] [--requests 200]
        [--at-once 32] [--rounds 1] [--seed 0] [--process PID] [--name MODEL]

FOLDER holds <lang>.txt. Each request is the beginning of a line and one to three languages, mostly
that of the line too; many share their beginning, so that the prefix cache is used. All are sent
again in every round, in another order. Prints a JSON object for each answer that differs and one
for each round: requests, those that are equal, tokens outside the languages, resident MiB of PID
and its descendants before and after. Memory for the KV cache is touched as it is first used; with
`-- --num-gpu-blocks-override 400` there is little of it. Between the rounds, other requests of the
same questions are sent to every address that answers with text (`others`): sampled, by beams,
streamed, in batches, and ended by the client; tokens outside of the languages are counted. Exit 1
if any answer differs or any token is outside.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson

from benchmarks.common import describe, emit, parser_of
from helpers.served import Question, ask, expected, post, questions
from modtok_cli.model.load import load


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


KINDS = ("sampled", "beams", "stream", "chat", "invocations", "batch", "gone")


def other(url: str, name: str, question: Question, kind: str) -> tuple[int, list[int]]:
    """Status and ids in T of the answers of a request of one of `KINDS`."""
    body: dict[str, Any] = {
        "model": name,
        "languages": list(question.languages),
        "max_tokens": question.tokens,
        "return_token_ids": True,
        "ignore_eos": True,
        "temperature": 1.5,
    }
    path, text = "/v1/completions", {"prompt": question.prompt}
    messages = [{"role": "user", "content": question.prompt}]
    if kind == "beams":
        body |= {"use_beam_search": True, "n": 3, "temperature": 0}
    elif kind == "chat":
        path, text = "/v1/chat/completions", {"messages": messages}
    elif kind == "batch":
        path, text = "/v1/chat/completions/batch", {"messages": [messages, messages]}
    elif kind == "invocations":
        path = "/invocations"
    if kind not in ("stream", "gone"):
        status, answer = post(url + path, body | text)
        return status, [each for one in answer.get("choices", ()) for each in one["token_ids"]]
    data = orjson.dumps(body | text | {"stream": True})
    ids: list[int] = []
    with urlopen(Request(url + path, data, {"Content-Type": "application/json"})) as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                for one in orjson.loads(line[6:])["choices"]:
                    ids += one.get("token_ids") or []
                if kind == "gone":
                    break
        return answer.status, ids


def main(args: list[str] | None = None) -> int:
    """Ask all questions in every round; the exit status."""
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--process", type=int)
    parser.add_argument("--name", help="of the model in requests")
    options = parser.parse_args(args)
    draw = random.Random(options.seed)
    whole = load(options.run)
    asked = questions(whole, options.folder, options.requests, draw)
    right = list(expected(whole, asked))
    name, wrong = options.name or options.run.resolve().name, 0

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
        kinds = [draw.choice(KINDS) for _ in asked]
        with ThreadPoolExecutor(options.at_once) as pool:
            rest = [(options.url, name, asked[at], kinds[at]) for at in order]
            found = list(pool.map(lambda each: other(*each), rest))
        outside = [
            sum(token not in right[at][1] for token in ids)
            for at, (_, ids) in zip(order, found, strict=True)
        ]
        failed = sum(status != 200 for status, _ in found)
        wrong += sum(outside) + failed
        emit(
            {
                "others": dict(Counter(kinds)),
                "failed": failed,
                "tokens": sum(len(ids) for _, ids in found),
                "foreign_tokens": sum(outside),
            }
        )
    return 1 if wrong else 0
