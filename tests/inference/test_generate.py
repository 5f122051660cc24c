"""What a slice writes and scores: as the whole model with other tokens masked, one by one."""

from __future__ import annotations

import inspect
import random
import subprocess
import sys
from dataclasses import fields
from os.path import commonprefix
from pathlib import Path

import numpy as np
import pytest
import torch

import modtok_cli as modtok
from modtok_cli.base import memory
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.inference.run import score as scores
from modtok_cli.inference.run.decode import generate
from modtok_cli.inference.run.generate import Generator, Prompt, answer_all, read_prompts
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.route import route, routing_references
from modtok_cli.inference.run.sampling import SamplingOptions
from modtok_cli.inference.run.score import Request, score

PROMPTS = ("Il était une fois", "The", "La ville de Paris, it's")


def prompts_of(model: SlicedModel) -> list[list[int]]:
    return [[model.end_of_text, *model.encode_in(text)] for text in PROMPTS]


def masked(
    whole: SlicedModel, kept: np.ndarray, prompt: list[int], options: SamplingOptions
) -> list[int]:
    """Plain generation in ids of T without a cache, tokens outside `kept` at -inf."""
    outside = torch.ones(whole.tokenizer_out.size, dtype=torch.bool)
    outside[kept] = False
    rows = list(prompt)
    while len(rows) - len(prompt) < options.max_tokens:
        logits = whole.logits(torch.tensor([rows]))[:, -1].masked_fill(outside, -torch.inf)
        token = int(options.choose(logits, [0], len(rows) - len(prompt))[0])
        if token == whole.end_of_text:
            break
        rows.append(token)
    return rows[len(prompt) :]


def test_a_batch_is_its_prompts_one_by_one(model: SlicedModel) -> None:
    together = generate(model, prompts_of(model), SamplingOptions(12))
    alone = [generate(model, [prompt], SamplingOptions(12))[0] for prompt in prompts_of(model)]
    assert together == alone
    assert generate(model, [], SamplingOptions(12)) == []


def test_draws_depend_on_seed_index_and_position_only(run: Path) -> None:
    generator = Generator(run, inputs=["fr"])
    prompts = [Prompt("Il")] * 16

    def texts(seed: int, batch: int) -> list[str]:
        options = SamplingOptions(8, temperature=1.0, seed=seed)
        return [row["text"] for row in answer_all(generator, prompts, options, batch=batch)]

    first = texts(0, 4)
    assert len(set(first)) == 16
    assert texts(0, 5) == texts(0, 16) == first
    assert not set(first) & set(texts(1, 4))
    # Neighbours change nothing.
    others = [Prompt("La"), Prompt("Le chat"), Prompt("Il")]
    options = SamplingOptions(8, temperature=1.0)
    assert generator.answer(others, options)[2]["text"] == first[2]


def test_a_batch_that_does_not_fit_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    with pytest.raises(ModtokError, match=r"a batch of 99 prompts needs .*; lower --batch-size or"):
        Generator(run).answer([Prompt("Il")] * 99, SamplingOptions(10**30))
    Generator(run).answer([Prompt("Il")], SamplingOptions(10**30, stop=("e", "a", "i", " ")))


def test_streaming_is_the_text_in_whole_characters(model: SlicedModel) -> None:
    options = SamplingOptions(24, temperature=1.5, seed=5)  # random enough for broken characters
    heard: dict[int, list[str]] = {0: [], 1: [], 2: []}
    found = generate(
        model, prompts_of(model), options, listener=lambda i, text: heard[i].append(text)
    )
    for index, result in enumerate(found):
        assert "".join(heard[index]) == result.text
        assert result.text == model.tokenizer_out.decode(result.ids)


def test_stop_strings_end_the_text_before_them(model: SlicedModel) -> None:
    options = SamplingOptions(24, temperature=1.0, seed=3)
    free = generate(model, prompts_of(model)[:1], options)[0].text
    assert len(free) > 12
    for stop in (free[6], free[5:8], free[8:11]):
        heard: list[str] = []
        found = generate(
            model,
            prompts_of(model)[:1],
            SamplingOptions(24, temperature=1.0, seed=3, stop=(stop, "never there")),
            listener=lambda _, text, heard=heard: heard.append(text),
        )[0]
        assert found.text == free[: free.index(stop)] == "".join(heard)
        assert found.reason == "stop"


def test_filters_leave_the_most_probable_tokens() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().repeat(400, 1)
    for filters, kept in (({}, 4), ({"top_p": 0.6}, 2), ({"min_p": 0.2}, 3)):
        options = SamplingOptions(temperature=1.0, **filters)  # type: ignore[arg-type]
        assert options.choose(logits, range(400), 0).unique().tolist() == [*range(kept)]


def test_the_context_ends_it(model: SlicedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "ends_of_output", frozenset())
    prompt = [model.end_of_text, *model.encode_in("la " * 80)][: model.context - 3]
    found = generate(model, [prompt], SamplingOptions(20))[0]
    assert (len(found.ids), found.reason) == (3, "context")
    with pytest.raises(UsageError, match=f"the context is {model.context}"):
        generate(model, [[0] * model.context])


def test_writing_another_vocabulary(run: Path, model: SlicedModel) -> None:
    """What is predicted in V_fr is read again, though it was no token of the input side."""
    found = model.with_vocabulary(["fi"], ["fr"])
    prompt = [found.end_of_text, *found.encode_in("Olipa kerran")]
    options = SamplingOptions(10, temperature=1.0, seed=1)
    result = generate(found, [prompt], options)[0]
    whole = model.with_vocabulary("full")
    french = found.tokenizer_out.global_ids.astype(np.int64)
    expected = masked(whole, french, found.vocabularies.ids[prompt].tolist(), options)
    assert french[list(result.ids)].tolist() == expected


@pytest.mark.parametrize(
    "wrong", [{"max_tokens": 0}, {"temperature": -1}, {"top_p": 0}, {"min_p": 2}, {"stop": ("",)}]
)
def test_options_out_of_range(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        SamplingOptions(**wrong)  # type: ignore[arg-type]


def test_the_prompt_chooses_its_subtokenizer(run: Path, workspace: Path) -> None:
    prices = routing_references(workspace / "tokenizer", ("el", "en", "fi", "fr"))
    sure, doubt = route(["Olipa kerran pieni poika, joka asui metsässä", "a"], prices)
    assert sure.languages == ("fi",)
    assert sure.certain
    assert len(doubt.languages) > 1
    assert doubt.lead < 8
    found = Generator(run, inputs=["auto"]).answer(
        [Prompt("Ήταν μια φορά ένας βασιλιάς"), Prompt("Il était une fois un roi"), Prompt("a")],
        SamplingOptions(3),
    )
    assert [row["languages"] for row in found[:2]] == [["el"], ["fr"]]
    assert set(found[2]["languages"]) == set(doubt.languages)
    assert all(row["routed"] for row in found)


def test_a_prompt_in_another_language_says_its_cost(run: Path) -> None:
    text = "Ήταν μια φορά ένας"
    row = Generator(run, inputs=["fr"]).answer([Prompt(text)], SamplingOptions(3))[0]
    assert row["looks_like"] == "el"
    assert row["own_tokens"] < row["prompt_tokens"]
    assert "looks_like" not in Generator(run).answer([Prompt(text)], SamplingOptions(3))[0]
    with pytest.raises(ModtokError, match="nowhere: no monolingual references"):
        Generator(run, inputs=["fr"], references=Path("nowhere"))


def test_json_lines_in_their_order(run: Path) -> None:
    lines = [
        b'{"prompt": "Il"}\n',
        b"\n",
        b'{"prompt": "The", "languages": "en"}\n',
        b'{"prompt": "Olipa kerran metsa", "languages": ["auto"]}',
    ]
    generator = Generator(run, inputs=["fr", "en"])
    rows = list(answer_all(generator, read_prompts(lines), SamplingOptions(2), batch=2))
    assert [row["prompt"] for row in rows] == ["Il", "The", "Olipa kerran metsa"]
    assert [row["languages"] for row in rows] == [["en", "fr"], ["en"], ["fi"]]
    for bad in (b"{", b"[]", b'{"prompt": 1}', b'{"prompt": "a", "langs": "en"}'):
        with pytest.raises(ModtokError, match="standard input:2: "):
            list(read_prompts([b'{"prompt": "a"}', bad]))
    long = b'{"prompt": "' + b"la " * 90 + b'"}'
    with pytest.raises(UsageError, match="line 2: the prompt has"):
        list(answer_all(generator, read_prompts([b'{"prompt": "a"}', long]), SamplingOptions(2)))


def test_threads_generate_at_first_use(french_english: Path) -> None:
    """transformers replaces itself while it loads, which threads that wait for it must not see."""
    program = (
        "import sys, threading, time\n"
        "import modtok_cli as modtok\n"
        "def one(number):\n"
        "    time.sleep(0.05 * number)\n"
        "    made.append([*modtok.generate(sys.argv[1], ['La ville'], max_tokens=4)])\n"
        "made = []\n"
        "threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "assert len(made) == 6 and all(each == made[0] for each in made), made\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(french_english)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_options_have_the_defaults_of_the_command() -> None:
    given = inspect.signature(modtok.generate).parameters
    own = {each.name: each.default for each in fields(SamplingOptions) if each.name in given}
    assert own == {name: given[name].default for name in own}
    assert len(own) > 4


# --- likelihoods ---


SHARED = "The doctor in our valley is old now. "
QUESTIONS = ["What is her car?", "Who listens?", "What does she do?", "Hm?", "So?"]
CHOICES = [" blue", " an old blue car", " x", "", " nobody, madam"]


def asked(model: SlicedModel) -> list[Request]:
    """Long shared beginnings, short contexts, one context alone, the same request twice."""

    def rows(text: str) -> list[int]:
        return [model.end_of_text, *model.encode_in(text)]

    contexts = [rows(SHARED + question) for question in QUESTIONS]
    contexts += [rows(question) for question in QUESTIONS] + [[model.end_of_text]]
    pairs = [(context, model.encode_out(choice)) for context in contexts for choice in CHOICES]
    return [*pairs, pairs[0], (rows("Only once."), model.encode_out(" Yes."))]


def plain(model: SlicedModel, requests: list[Request]) -> list[tuple[float, int, bool]]:
    """The slow twin: one sequence at a time, from the logits of all its places."""
    found = []
    for context, continuation in requests:
        fed = [*context, *model.vocabularies.row_of_out[list(continuation)].tolist()]
        logs = model.logits(torch.tensor([fed]))[0].log_softmax(-1)
        places = range(len(context) - 1, len(context) - 1 + len(continuation))
        at = list(zip(places, continuation, strict=True))
        nats = sum(float(logs[place, token]) for place, token in at)
        greedy = all(int(logs[place].argmax()) == token for place, token in at)
        found.append((nats, len(continuation), greedy))
    return found


@pytest.mark.parametrize("sides", [("en",), ("full", "fr"), ("fi", "fr")], ids="/".join)
def test_equals_one_by_one(model: SlicedModel, sides: tuple[str, ...]) -> None:
    ours = model.with_vocabulary(sides[0], sides[1] if sides[1:] else None)
    requests = asked(ours)
    expected = plain(ours, requests)
    found = score(ours, requests)
    assert [(one.tokens, one.greedy) for one in found] == [one[1:] for one in expected]
    assert [one.nats for one in found] == pytest.approx([one[0] for one in expected], abs=2e-4)
    assert not any(one.truncated for one in found)
    # Contexts matter, by more than the tolerance.
    assert len({round(one[0], 3) for one in expected}) > len(QUESTIONS) * 6


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 1000])
def test_batch_size_order_and_padding_change_nothing(
    model: SlicedModel, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = asked(model)
    expected = [one.nats for one in score(model, requests)]
    order = list(range(len(requests)))
    random.Random(batch).shuffle(order)
    monkeypatch.setattr(scores, "_LOGITS", 3 * model.head.shape[0])  # in many pieces
    done: list[int] = []
    found = score(model, [requests[index] for index in order], batch=batch, advance=done.append)
    assert [one.nats for one in found] == pytest.approx(
        [expected[index] for index in order], abs=2e-4
    )
    assert sum(done) == len(requests)


def test_what_is_shared_is_computed_once(
    model: SlicedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens fed to the backbone: the beginning once, each question once, choices apart."""
    requests = [pair for pair in asked(model)[: len(QUESTIONS) * len(CHOICES)] if pair[1]]
    fed: list[int] = []
    hidden = SlicedModel.hidden

    def counted(self: SlicedModel, rows: torch.Tensor, **settings: object) -> torch.Tensor:
        fed.append(rows.numel())
        return hidden(self, rows, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(SlicedModel, "hidden", counted)
    score(model, requests, batch=1000)
    longest = max(len(tail) for _, tail in requests) - 1
    contexts = sorted({tuple(context) for context, _ in requests})
    start = len(commonprefix([contexts[0], contexts[-1]]))  # noqa: RUF071 - no paths
    assert start >= 16
    rest = max(len(context) for context in contexts) - start
    assert fed[0] == start
    assert sum(fed) <= start + len(contexts) * rest + len(requests) * longest


def test_too_long(model: SlicedModel) -> None:
    """The context loses its beginning; a continuation that alone does not fit is refused."""
    context = [model.end_of_text, *model.encode_in(SHARED * 5)]
    tail = model.encode_out(" She drives an old blue car.")
    assert len(context) > model.context
    kept = context[-(model.context + 1 - len(tail)) :]
    long, short = score(model, [(context, tail), (kept, tail)])
    assert (long.truncated, short.truncated) == (True, False)
    assert long.nats == short.nats
    assert long.nats == pytest.approx(plain(model, [(kept, tail)])[0][0], abs=2e-4)
    with pytest.raises(UsageError, match=r"a continuation has \d+ tokens, the context is 48"):
        score(model, [(kept, tail * 40)])
    with pytest.raises(UsageError, match="the context is empty"):
        score(model, [([], tail)])
    assert score(model, []) == []
