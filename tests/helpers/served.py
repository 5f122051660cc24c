"""Questions to a running `modtok serve`, and what `modtok generate` answers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson

from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.sliced_model import SlicedModel


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
