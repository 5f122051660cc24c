"""Batched likelihoods equal those of the slow twin for any batch size and order."""

from __future__ import annotations

import random
from os.path import commonprefix

import pytest
import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.inference.run import score as scores
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.score import Request, score

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
