"""A trained model with the vocabulary of one's choice: the room's public face.

`load(path, inputs, outputs)` gives a `SlicedModel`. Its ids are **rows** on the input side
and ids of `tokenizer_out` on the output side (see `vocabularies`): the same numbers wherever
both sides are one set of languages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.sources import Side, Source, open_source
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.modular.subtokenizer import Subtokenizer

# A prefix that several continuations share is computed once, from this length on.
_SHARED_PREFIX = 16


@dataclass(frozen=True)
class Likelihood:
    """Of a continuation after a context.

    Attributes:
        nats: sum of log-probabilities, base e, over V_out.
        tokens: tokens of the continuation.
        greedy: whether each was the most probable one.
        truncated: whether the context had to lose its beginning.
    """

    nats: float
    tokens: int
    greedy: bool
    truncated: bool = False


class SlicedModel:
    """Backbone, input rows and output rows of two subtokenizers.

    Attributes:
        source: what it was loaded from.
        vocabularies: both sides and how their ids meet.
        backbone: transformers' `LlamaModel`, fed with embeddings.
        embedding: (n, d) input rows; head: (|V_out|, d) output rows.
        context: tokens that fit.
        end_of_text: id of the token between documents, on both sides; every text that the
            model was trained on follows one, so begin a prompt with it.
    """

    def __init__(
        self, source: Source, vocabularies: Vocabularies, backbone: Any, dtype: torch.dtype
    ) -> None:
        self.source, self.vocabularies, self.backbone = source, vocabularies, backbone
        self.dtype = dtype
        self.device: torch.device = next(backbone.parameters()).device
        embedding, head = source.tables(vocabularies)
        self.embedding = embedding.to(device=self.device, dtype=dtype)
        tied = head is embedding
        self.head = self.embedding if tied else head.to(device=self.device, dtype=dtype)
        self.context = source.context
        self.end_of_text = source.end_of_text()
        self.row_of_out = torch.from_numpy(vocabularies.row_of_out).to(self.device)

    @property
    def tokenizer_in(self) -> Subtokenizer:
        """What text is read by."""
        return self.vocabularies.tokenizer_in

    @property
    def tokenizer_out(self) -> Subtokenizer:
        """What is predicted in."""
        return self.vocabularies.tokenizer_out

    def with_vocabulary(self, inputs: Side, outputs: Side = None) -> SlicedModel:
        """The same backbone, shared and not copied, with other rows of its run."""
        vocabularies = self.source.vocabularies(inputs, outputs)
        return SlicedModel(self.source, vocabularies, self.backbone, self.dtype)

    def encode_in(self, text: str) -> list[int]:
        """Rows of a text cut by `tokenizer_in`; without `end_of_text` before it."""
        return self.vocabularies.encode_in(text)

    def encode_out(self, text: str) -> list[int]:
        """Ids of a text cut by `tokenizer_out`: what `loglikelihoods` scores."""
        return self.vocabularies.encode_out(text)

    @torch.inference_mode()
    def hidden(
        self,
        rows: torch.Tensor,
        *,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        cache: Any = None,
    ) -> torch.Tensor:
        """Hidden states behind the final norm, (B, T) rows to (B, T, d).

        `cache`: a transformers `DynamicCache`, which grows by these tokens.
        `attention_mask` (B, past + T) marks padding on the left by 0; padding on the right
        needs none, since no earlier token sees it.
        """
        states: torch.Tensor = self.backbone(
            inputs_embeds=F.embedding(rows, self.embedding),
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return states

    @torch.inference_mode()
    def head_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(…, d) to float32 logits over V_out, (…, |V_out|)."""
        return F.linear(hidden, self.head).float()

    def logits(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits over V_out behind every token; (B, T) rows to (B, T, |V_out|) float32."""
        position_ids = None
        if attention_mask is not None:
            position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0)
        hidden = self.hidden(input_ids, attention_mask=attention_mask, position_ids=position_ids)
        return self.head_logits(hidden)

    @torch.inference_mode()
    def loglikelihoods(
        self,
        requests: Sequence[tuple[Sequence[int], Sequence[int]]],
        *,
        batch_tokens: int = 4096,
    ) -> list[Likelihood]:
        """Score continuations: (context in rows, continuation in ids of `tokenizer_out`).

        A context that several requests share is computed once. One too long for the model
        loses its beginning. The answers come in the order of the requests.

        Raises:
            UsageError: an empty context, or a continuation that alone is too long.
        """
        shared: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, (context, continuation) in enumerate(requests):
            if not context:
                raise UsageError("an empty context", remedy="begin it with the end of text")
            if len(continuation) > self.context:
                raise UsageError(
                    f"a continuation of {len(continuation):,} tokens; the model reads "
                    f"{self.context:,}"
                )
            room = self.context + 1 - len(continuation)
            shared[tuple(context[-room:])].append(index)
        found: dict[int, Likelihood] = {}
        alone: list[int] = []
        for context, members in shared.items():
            if len(members) > 1 and len(context) >= _SHARED_PREFIX:
                found.update(self._score_shared(context, members, requests, batch_tokens))
            else:
                alone += members
        found.update(self._score_alone(alone, requests, batch_tokens))
        return [found[index] for index in range(len(requests))]

    def _score_alone(
        self,
        members: list[int],
        requests: Sequence[tuple[Sequence[int], Sequence[int]]],
        batch_tokens: int,
    ) -> dict[int, Likelihood]:
        sequences = {}
        for index in members:
            context, continuation = requests[index]
            rows = [*context, *self._as_rows(continuation)]
            sequences[index] = rows[:-1][-self.context :] if continuation else rows[:1]
        found = {}
        order = sorted(members, key=lambda index: len(sequences[index]))
        for part in _batches(order, [len(sequences[index]) for index in order], batch_tokens):
            hidden = self.hidden(self._padded([sequences[index] for index in part]))
            for place, index in enumerate(part):
                continuation = requests[index][1]
                stop = len(sequences[index])
                states = hidden[place, stop - len(continuation) : stop]
                found[index] = self._likelihood(states, requests[index])
        return found

    def _score_shared(
        self,
        context: tuple[int, ...],
        members: list[int],
        requests: Sequence[tuple[Sequence[int], Sequence[int]]],
        batch_tokens: int,
    ) -> dict[int, Likelihood]:
        from transformers import DynamicCache

        found = {}
        width = max(len(requests[index][1]) for index in members)
        most = max(1, batch_tokens // (len(context) + width))
        prefix = DynamicCache(config=self.backbone.config)
        last = self.hidden(torch.tensor([context], device=self.device), cache=prefix)[:, -1:]
        for start in range(0, len(members), most):
            part = members[start : start + most]
            tails = [self._as_rows(requests[index][1][:-1]) for index in part]
            states = last.expand(len(part), -1, -1)
            if any(tails):
                cache = _repeated(prefix, len(part), self.backbone.config)
                states = torch.cat([states, self.hidden(self._padded(tails), cache=cache)], 1)
            for place, index in enumerate(part):
                taken = states[place, : len(requests[index][1])]
                found[index] = self._likelihood(taken, requests[index])
        return found

    def _as_rows(self, out_ids: Sequence[int]) -> list[int]:
        rows: list[int] = self.vocabularies.row_of_out[list(out_ids)].tolist() if out_ids else []
        return rows

    def _padded(self, sequences: Sequence[Sequence[int]]) -> torch.Tensor:
        width = max(map(len, sequences))
        rows = [
            [*sequence, *[self.end_of_text] * (width - len(sequence))] for sequence in sequences
        ]
        return torch.tensor(rows, device=self.device)

    def _likelihood(
        self, states: torch.Tensor, request: tuple[Sequence[int], Sequence[int]]
    ) -> Likelihood:
        context, continuation = request
        if not continuation:
            return Likelihood(0.0, 0, True)
        logits = self.head_logits(states)
        wanted = torch.tensor(list(continuation), device=self.device)
        chosen = logits.log_softmax(-1).gather(1, wanted[:, None])
        return Likelihood(
            nats=float(chosen.sum(dtype=torch.float64)),
            tokens=len(continuation),
            greedy=bool((logits.argmax(-1) == wanted).all()),
            truncated=len(context) + len(continuation) > self.context + 1,
        )


def _batches(order: Sequence[int], lengths: Sequence[int], most: int) -> list[list[int]]:
    """Cut `order` (ascending lengths) so that no padded batch exceeds `most` tokens."""
    batches: list[list[int]] = []
    for index, length in zip(order, lengths, strict=True):
        if not batches or (len(batches[-1]) + 1) * length > most:
            batches.append([])
        batches[-1].append(index)
    return batches


def _repeated(cache: Any, count: int, config: Any) -> Any:
    """A copy of a cache of one sequence for `count` sequences."""
    from transformers import DynamicCache

    copy = DynamicCache(config=config)
    for index, layer in enumerate(cache.layers):
        keys, values = (x.expand(count, -1, -1, -1) for x in (layer.keys, layer.values))
        copy.update(keys, values, index)
    return copy


def load(
    path: Path,
    inputs: Side = None,
    outputs: Side = None,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> SlicedModel:
    """Load a run (`runs/latest`), a checkpoint of one, or a slice.

    `inputs`, `outputs`: languages, or "full"; `inputs` None is everything there is,
    `outputs` None the same as inputs. ("full", ["fr"]) is the paper's full-lang,
    (["en"], ["fr"]) its src|tgt. `tokenizer` names the modular directory where it is not
    beside the run. Numbers are those of training unless `dtype` says otherwise.

    Example:
        model = load(Path("runs/latest"), ["fr", "en"])
        rows = [model.end_of_text, *model.encode_in("Il était")]
        model.logits(torch.tensor([rows])).shape    # (1, T, |V_fr,en|)

    Raises:
        UsageError: no run and no slice, or a language that it does not have.
        ModtokError: something in it is damaged.
    """
    source = open_source(Path(path), tokenizer=tokenizer, step=step, progress=progress)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    vocabularies = source.vocabularies(inputs, outputs)
    numbers = dtype or source.dtype
    return SlicedModel(source, vocabularies, source.backbone(numbers, where), numbers)
