"""Log-likelihoods of many continuations, batched, each context computed once.

Requests of an evaluation have three parts: examples that all questions share, a question, and its
choices. The first is computed once per group, the second once per question, the third together
for a batch; logits are computed for the tokens of choices only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from os.path import commonprefix
from typing import Any

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.generate.worker_processes import ALONE, Processes

# (context in rows, continuation in ids of tokenizer_out)
Request = tuple[Sequence[int], Sequence[int]]

# Minimum length of a shared prefix, and minimum number of contexts that share it.
_SHARED_TOKENS = 16
_SHARED_CONTEXTS = 4
# Logits in memory at once, float32.
_LOGITS = 1 << 26


@dataclass(frozen=True)
class Likelihood:
    """Likelihood of a continuation after a context.

    Attributes:
        nats: sum of log-probabilities, base e, over V_out.
        tokens: tokens of the continuation.
        greedy: whether each was the most probable token.
        truncated: whether the beginning of the context was dropped.
    """

    nats: float
    tokens: int
    greedy: bool
    truncated: bool = False


@dataclass
class _Context:
    """A context, truncated to what fits, and its continuations with their requests."""

    context: tuple[int, ...]
    truncated: bool
    continuations: dict[tuple[int, ...], list[int]] = field(default_factory=dict)


# Some contexts, and some continuations of each, computed together.
_Part = list[tuple[_Context, list[tuple[int, ...]]]]


def score(
    model: SlicedModel,
    requests: Sequence[Request],
    *,
    batch: int = 32,
    processes: Processes = ALONE,
    progress: Progress = SILENT,
    label: str = "scoring",
) -> list[Likelihood]:
    """Score continuations, in the order of the requests.

    `batch` continuations run together; `processes` share the batches. A context that does not fit
    with its continuation loses its beginning. `label` names the work for `progress`.

    Example:
        context = [model.end_of_text, *model.encode_in("Two and two are")]
        score(model, [(context, model.encode_out(" four"))])

    Raises:
        UsageError: an empty context, a continuation that alone is too long, or a batch that does
            not fit in memory.
    """
    if not requests:
        return []
    longest = max(len(context) + len(tail) for context, tail in requests)
    model.check_batch(min(batch, len(requests)), min(longest, model.context + 1))
    units = [
        (prefix, part)
        for prefix, contexts in _groups(_contexts(model, requests))
        for part in _parts(contexts, batch, model.context, ragged=model.ragged)
    ]
    caches: dict[tuple[int, ...], Any] = {}

    def cache_of(prefix: tuple[int, ...]) -> Any:
        if prefix not in caches:
            caches.clear()  # before the next one takes memory
            caches[prefix] = _prefix_cache(model, prefix)
        return caches[prefix]

    with progress.task(label, len(requests), "requests") as task:
        scored = processes.map(
            lambda unit: _score_part(model, unit[0], cache_of(unit[0]), unit[1]),
            units,
            done=lambda unit: task.advance(sum(map(len, _members(unit[1])))),
        )
    likelihoods: dict[int, Likelihood] = {}
    for (_, part), results in zip(units, scored, strict=True):
        for (index, (nats, tokens, greedy)), members in zip(results, _members(part), strict=True):
            answer = Likelihood(nats, tokens, greedy, part[index][0].truncated)
            likelihoods |= dict.fromkeys(members, answer)
    return [likelihoods[index] for index in range(len(requests))]


def _contexts(model: SlicedModel, requests: Sequence[Request]) -> list[_Context]:
    by_context: dict[tuple[tuple[int, ...], bool], _Context] = {}
    for index, (context, continuation) in enumerate(requests):
        if not context:
            raise UsageError("the context is empty", remedy="begin it with the end of text")
        room = model.context + 1 - len(continuation)
        if room < 1:
            raise UsageError(
                f"a continuation has {len(continuation):,} tokens, "
                f"the context is {model.context:,}",
                remedy="leave it out",
            )
        key = tuple(context[-room:]), len(context) > room
        asked = by_context.setdefault(key, _Context(*key))
        asked.continuations.setdefault(tuple(continuation), []).append(index)
    return list(by_context.values())


def _groups(contexts: list[_Context]) -> Iterator[tuple[tuple[int, ...], list[_Context]]]:
    """Contexts by their shared prefix, which may be empty; short contexts first.

    A prefix leaves at least one token of each of its contexts.
    """
    groups: list[tuple[tuple[int, ...], list[_Context]]] = []
    for asked in sorted(contexts, key=lambda asked: asked.context):
        last = groups[-1][0] if groups else ()
        shared = tuple(commonprefix([last, asked.context]))  # noqa: RUF071 - no paths
        if len(shared) < _SHARED_TOKENS:
            groups.append((asked.context, [asked]))
        else:
            groups[-1][1].append(asked)
            groups[-1] = (shared, groups[-1][1])
    alone: list[_Context] = []
    for shared, group in groups:
        shared = shared[: min(len(asked.context) for asked in group) - 1]
        if len(group) < _SHARED_CONTEXTS or len(shared) < _SHARED_TOKENS:
            alone += group
        else:
            yield shared, sorted(group, key=lambda asked: len(asked.context))
    if alone:
        yield (), sorted(alone, key=lambda asked: len(asked.context))


def _parts(group: list[_Context], batch: int, width: int, *, ragged: bool) -> Iterator[_Part]:
    """Parts of a group with at most `batch` continuations each; a context stays together.

    Contexts of a part have the same length unless `ragged`. A part with its padding has at most
    `width` tokens: a model may have no position beyond its context, or other ones.
    """
    part: _Part = []
    count = longest = 0
    for asked in group:
        tails = sorted(asked.continuations, key=len)  # with little padding
        size = len(asked.context)
        if part and not ragged and size != len(part[0][0].context):
            yield part
            part, count, longest = [], 0, 0
        for start in range(0, len(tails), batch):
            piece = tails[start : start + batch]
            longest = max(longest, len(piece[-1]) - 1)  # the last token is not read
            full = count + (len(piece) if start else len(tails)) > batch
            if part and (full or size + longest > width):
                yield part
                part, count, longest = [], 0, len(piece[-1]) - 1
            part.append((asked, piece))
            count += len(piece)
    if part:
        yield part


def _members(part: _Part) -> list[list[int]]:
    """Requests of each continuation of a part."""
    return [asked.continuations[tail] for asked, tails in part for tail in tails]


def _prefix_cache(model: SlicedModel, prefix: tuple[int, ...]) -> Any:
    if not prefix:
        return None
    cache = model.new_cache()
    model.hidden(torch.tensor([list(prefix)], device=model.device), cache=cache)
    return cache


@torch.inference_mode()
def _score_part(
    model: SlicedModel, prefix: Sequence[int], cache: Any, part: _Part
) -> list[tuple[int, tuple[float, int, bool]]]:
    """(place in the part, nats, tokens, greedy) of each of its continuations.

    Shapes: B contexts, N continuations; p tokens of the prefix, Q of the rest of the contexts,
    padded on the right, T of the continuations without their last token.
    """
    device, p = model.device, len(prefix)
    rest = [asked.context[p:] for asked, _ in part]
    lengths = torch.tensor([len(rows) for rows in rest], device=device)  # (B,)
    owner = [place for place, (_, tails) in enumerate(part) for _ in tails]
    tails = [tail for _, tails in part for tail in tails]
    owners = torch.tensor(owner, device=device)  # (N,)
    row_of_out = model.vocabularies.row_of_out
    fed = [row_of_out[list(tail[:-1])].tolist() for tail in tails]
    if not p and max(map(len, rest)) <= _SHARED_TOKENS:  # computed again, which takes no mask
        whole = [[*rest[place], *rows] for place, rows in zip(owner, fed, strict=True)]
        hidden_NTD = model.hidden(_padded(model, whole))
        states = [
            hidden_NTD[place, len(rows) - len(tail) : len(rows)]
            for place, (rows, tail) in enumerate(zip(whole, tails, strict=True))
        ]
        return list(zip(owner, _likelihoods(model, states, tails), strict=True))
    further = any(fed)
    grown = _repeated(model, cache, torch.zeros_like(lengths)) if cache or further else None
    rest_BQ = _padded(model, rest)
    hidden_BQD = model.hidden(rest_BQ, cache=grown)
    last_BD = hidden_BQD[torch.arange(len(part), device=device), lengths - 1]
    states_N1D = last_BD[owners][:, None]
    if further:
        tails_NT = _padded(model, fed)
        steps_NT = torch.arange(tails_NT.shape[1], device=device).expand_as(tails_NT)
        seen_NQ = torch.arange(rest_BQ.shape[1], device=device)[None] < lengths[owners][:, None]
        behind = model.hidden(
            tails_NT,
            attention_mask=torch.cat(
                [seen_NQ.new_ones(len(tails), p), seen_NQ, torch.ones_like(tails_NT).bool()], 1
            ).long(),
            position_ids=p + lengths[owners][:, None] + steps_NT,
            cache=_repeated(model, grown, owners),
        )
        states_N1D = torch.cat([states_N1D, behind], 1)
    states = [states_N1D[place, : len(tail)] for place, tail in enumerate(tails)]
    return list(zip(owner, _likelihoods(model, states, tails), strict=True))


def _likelihoods(
    model: SlicedModel, states: list[torch.Tensor], tails: list[tuple[int, ...]]
) -> list[tuple[float, int, bool]]:
    """From the hidden state before each token of a continuation, (len, d) each."""
    wanted = torch.tensor([token for tail in tails for token in tail], device=model.device)
    flat = torch.cat(states)
    chosen, best = [], []
    for start in range(0, len(flat), step := max(1, _LOGITS // model.head.shape[0])):
        logits = model.head_logits(flat[start : start + step])
        targets = wanted[start : start + step]
        own = logits.gather(1, targets[:, None])[:, 0]
        chosen.append(own.double() - logits.logsumexp(-1).double())
        best.append(logits.argmax(-1) == targets)
    nats = torch.cat(chosen).tolist() if chosen else []
    greedy = torch.cat(best).tolist() if best else []
    ends = list(accumulate(map(len, tails)))
    return [
        (float(sum(nats[stop - len(tail) : stop])), len(tail), all(greedy[stop - len(tail) : stop]))
        for stop, tail in zip(ends, tails, strict=True)
    ]


def _padded(model: SlicedModel, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
    """(count, longest), padded on the right."""
    width = max(map(len, sequences))
    end = model.end_of_text
    return torch.tensor(
        [[*rows, *[end] * (width - len(rows))] for rows in sequences], device=model.device
    )


def _repeated(model: SlicedModel, cache: Any, owners: torch.Tensor) -> Any:
    """A cache with sequence `owners[i]` of `cache` at place i; empty without `cache`."""
    copy = model.new_cache()
    for index, layer in enumerate(cache.layers if cache else ()):
        copy.update(layer.keys[owners], layer.values[owners], index)
    return copy
