"""What a slice writes and scores: as the whole model with other tokens masked, one by one."""

from __future__ import annotations

import inspect
import random
import subprocess
import sys
from codecs import utf_8_decode
from contextlib import nullcontext
from dataclasses import fields
from os.path import commonprefix
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import modtok_cli as modtok
from modtok_cli.base import memory
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.model.generate import score as scores
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.generate import Generator, Prompt, answer_all, read_prompts
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.route import route, routing_references
from modtok_cli.model.generate.score import Request, score
from modtok_cli.model.generate.sliced_model import SlicedModel

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
    assert generator.answer([], SamplingOptions()) == []
    # Neighbours change nothing, nor do those that run with another subset.
    others = [Prompt("La"), Prompt("The", ("en",)), Prompt("Il")]
    options, heard = SamplingOptions(8, temperature=1.0), ["", "", ""]

    def listen(place: int, text: str) -> None:
        heard[place] += text

    rows = generator.answer(others, options, listen)
    assert rows[2]["text"] == first[2]
    assert heard == [row["text"] for row in rows]


def test_a_batch_that_does_not_fit_is_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    with pytest.raises(ModtokError, match=r"a batch of 99 prompts needs .*; lower --batch-size or"):
        Generator(run).answer([Prompt("Il")] * 99, SamplingOptions(10**30))
    Generator(run).answer([Prompt("Il")], SamplingOptions(10**30, stop=("e", "a", "i", " ")))


def continued(
    tokens: list[bytes | None], prompt: int, context: int, options: SamplingOptions
) -> tuple[str, str]:
    """Text and reason of a continuation by these tokens, where None ends a text."""
    data = b""
    for count, token in enumerate(tokens, 1):
        if token is None:
            return data.decode("utf-8", "replace"), "end"
        data += token
        text = utf_8_decode(data, "replace", False)[0]  # no part of a character
        if places := [text.index(stop) for stop in options.stop if stop in text]:
            return text[: min(places)], "stop"
        if count == options.max_tokens or prompt + count == context:
            reason = "length" if count == options.max_tokens else "context"
            return data.decode("utf-8", "replace"), reason
    raise AssertionError


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_texts_end_where_they_should(model: SlicedModel, data: st.DataObject) -> None:
    """Batches of scripted tokens: characters in parts, stop strings over and within tokens."""
    tokenizer, end = model.tokenizer_out, model.end_of_text
    some = [*(tokenizer.vocabulary.byte_ids[each] for each in b"ab\xc3\xa9"), *range(300, 306), end]
    scripts = data.draw(st.lists(st.lists(st.sampled_from(some), min_size=9, max_size=9),
                                 min_size=1, max_size=3))  # fmt: skip
    words = [tokenizer.decode([i for i in each if i != end]) for each in scripts]
    stop = st.sampled_from(words).flatmap(
        lambda word: st.tuples(st.integers(0, len(word)), st.integers(1, 4)).map(
            lambda at: word[at[0] : at[0] + at[1]] or "never"
        )
    )
    options = SamplingOptions(
        data.draw(st.integers(1, 9)), stop=tuple(data.draw(st.lists(stop, max_size=3)))
    )
    lengths = [data.draw(st.sampled_from((1, 3, model.context - 4))) for _ in scripts]
    heard = [""] * len(scripts)

    def listen(place: int, text: str) -> None:
        heard[place] += text

    def scripted(self: SamplingOptions, logits: Any, prompts: Any, position: int) -> Any:
        return torch.tensor([scripts[prompt][position] for prompt in prompts])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SamplingOptions, "choose", scripted)
        found = generate(model, [[end] * length for length in lengths], options, listener=listen)
    for place, (ids, length) in enumerate(zip(scripts, lengths, strict=True)):
        tokens = [None if each == end else tokenizer.token_bytes(each) for each in ids]
        expected = continued(tokens, length, model.context, options)
        assert (found[place].text, found[place].reason) == expected
        assert heard[place] == found[place].text
        assert list(found[place].ids) == ids[: len(found[place].ids)]


def test_filters_leave_the_most_probable_tokens() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().repeat(400, 1)
    for filters, kept in (({}, 4), ({"top_p": 0.6}, 2), ({"min_p": 0.2}, 3)):
        options = SamplingOptions(temperature=1.0, **filters)  # type: ignore[arg-type]
        assert options.choose(logits, range(400), 0).unique().tolist() == [*range(kept)]


def test_a_prompt_that_fills_the_context_is_refused(model: SlicedModel) -> None:
    with pytest.raises(UsageError, match=f"the context is {model.context}"):
        generate(model, [[0] * model.context])


@pytest.mark.parametrize("inputs", ["full", ["fi"]])
def test_writing_another_vocabulary(model: SlicedModel, inputs: Any) -> None:
    """What is predicted in V_fr is read again, though it was no token of the input side."""
    found = model.with_vocabulary(inputs, ["fr"])
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
    with pytest.raises(ModtokError, match="nowhere: does not exist"):
        Generator(run, inputs=["fr"], references=Path("nowhere"))


def test_json_lines_in_their_order(run: Path) -> None:
    lines = [
        b'{"prompt": "Il"}\n',
        b"\n",
        b'{"prompt": "The", "languages": "en"}\n',
        b'{"prompt": "Olipa kerran metsa", "languages": ["auto"]}',
    ]
    generator = Generator(run, inputs=["fr", "en"])
    rows = list(answer_all(generator, read_prompts(lines), SamplingOptions(2), batch=3))
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
    progress = Silent()
    task = nullcontext(SimpleNamespace(advance=done.append))
    monkeypatch.setattr(progress, "task", lambda *_: task)
    found = score(model, [requests[index] for index in order], batch=batch, progress=progress)
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
