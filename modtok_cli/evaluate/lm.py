"""Sliced models as an `LM` of lm-eval, with separate input and output vocabularies.

lm-eval's `TemplateLM` encodes context and continuation together and splits the tokens at the length
of the context. This fails if a token spans the boundary, and supports one tokenizer only. Here:

* Boundary: context and continuation are tokenized separately, the context by `tokenizer_in`, the
  continuation by `tokenizer_out`. Trailing white space of the context is moved to the continuation,
  as in lm-eval: the pre-tokenizer attaches a space to the following word, so a continuation
  " word" has the same tokens as within a text.
  A model of other programs is scored as lm-eval scores it: both are tokenized together, because a
  tokenizer may put a space before a text, and the tokens after the context's tokens count.
* Start: every context starts with the end-of-text token, as documents do in training; with what the
  tokenizer of another program puts before a text, often nothing.
* Score: the sum of log-probabilities (base e) of the continuation's tokens over the output
  vocabulary. A context that is too long is truncated on the left; `truncated` counts these.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lm_eval.api.model import LM

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.bits import windows
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.score import Request, score
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.generate.worker_processes import ALONE, Processes

_MAX_TOKENS = 256  # default of lm-eval


class ModtokLM(LM):
    """A sliced model for lm-eval.

    Attributes:
        model: the model.
        batch_size: number of requests that run together.
        truncated: number of requests so far whose context was truncated.
    """

    def __init__(
        self,
        model: SlicedModel,
        *,
        batch_size: int = 32,
        processes: Processes = ALONE,
        progress: Progress = SILENT,
        label: str = "scoring",
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise UsageError(
                f"expected a batch size of 1 or more, got {batch_size}", where="--batch-size"
            )
        self.model, self.batch_size, self.truncated = model, batch_size, 0
        self._processes, self._progress, self._label = processes, progress, label
        self._score = partial(
            score, model, batch=batch_size, processes=processes, progress=progress, label=label
        )
        self._contexts: dict[str, list[int]] = {}

    def context_rows(self, context: str) -> list[int]:
        """Return embedding rows of a context, with what begins a text."""
        rows = self._contexts.get(context)
        if rows is None:
            rows = self._contexts[context] = self.model.prompt(context)
        return rows

    def fits(self, context: str, continuations: Sequence[str]) -> bool:
        """Return whether a context fits together with each of its continuations."""
        both = (self.request(context, text) for text in continuations)
        return all(len(rows) + len(ids) <= self.model.context + 1 for rows, ids in both)

    def request(self, context: str, continuation: str) -> Request:
        """Return tokens of a request, see the module's docstring."""
        text = context.rstrip()
        moved, rows = context[len(text) :], self.context_rows(text)
        return rows, self.model.continuation(text, rows, moved + continuation)

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        """Return (log-probability, whether greedy decoding produces it) of each continuation."""
        likelihoods = self._score([self.request(*request.args) for request in requests])
        self._contexts.clear()
        self.truncated += sum(likelihood.truncated for likelihood in likelihoods)
        return [(likelihood.nats, likelihood.greedy) for likelihood in likelihoods]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        """Return the log-probability of whole texts; each token is predicted once.

        A text longer than the context is scored in windows; the last window has as much left
        context as possible. Inputs are tokenized by `tokenizer_out`, like the predictions.
        """
        texts = [self.model.encode_out(request.args[0]) for request in requests]
        parts = [
            (owner, part) for owner, ids in enumerate(texts) for part in windows(self.model, ids)
        ]
        totals = [0.0] * len(requests)
        likelihoods = self._score([part for _, part in parts])
        for (owner, _part), likelihood in zip(parts, likelihoods, strict=True):
            totals[owner] += likelihood.nats
        return totals

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        """Generate after each context up to a stop string, the end of text or the token limit."""
        outputs = [""] * len(requests)
        asked = [(self.context_rows(request.args[0]), request.args[1]) for request in requests]
        # A batch shares its options. Longest prompts first: a model that does not fit into memory
        # fails immediately.
        groups: dict[str, list[int]] = {}
        for index, pair in enumerate(asked):
            groups.setdefault(repr(sorted(pair[1].items(), key=str)), []).append(index)
        parts: list[tuple[SamplingOptions, list[int], list[list[int]]]] = []
        for members in groups.values():
            options = options_of(asked[members[0]][1])
            members.sort(key=lambda index: -len(asked[index][0]))
            for start in range(0, len(members), self.batch_size):
                part = members[start : start + self.batch_size]
                prompts = [self._prompt(asked[index][0], options) for index in part]
                parts.append((options, part, prompts))
        with self._progress.task(self._label, len(requests), "requests") as task:
            texts = self._processes.map(
                self._generate, parts, done=lambda part: task.advance(len(part[1]))
            )
        for part, made in zip((indices for _options, indices, _rows in parts), texts, strict=True):
            for index, text in zip(part, made, strict=True):
                outputs[index] = text
        self._contexts.clear()
        return outputs

    def _generate(self, part: tuple[SamplingOptions, list[int], list[list[int]]]) -> list[str]:
        options, indices, prompts = part
        self.model.check_batch(len(indices), len(prompts[0]) + options.max_tokens)
        return [made.text for made in generate(self.model, prompts, options, indices=indices)]

    def _prompt(self, rows: Sequence[int], options: SamplingOptions) -> list[int]:
        """End of a context that leaves space for the answer; at least half of what fits."""
        width = self.model.context
        room = max(width - options.max_tokens, width // 2, 1)
        self.truncated += len(rows) > room
        return list(rows[-room:])


def options_of(settings: Mapping[str, Any]) -> SamplingOptions:
    """Convert lm-eval's `generation_kwargs`; greedy unless `do_sample` is set.

    >>> options_of({"until": ["\\n"], "max_gen_toks": 5, "do_sample": False}).stop
    ('\\n',)
    """
    until = settings.get("until") or ()
    stop = (until,) if isinstance(until, str) else tuple(text for text in until if text)
    drawn = bool(settings.get("do_sample", False))
    return SamplingOptions(
        max_tokens=int(
            settings.get("max_gen_toks") or settings.get("max_new_tokens") or _MAX_TOKENS
        ),
        temperature=float(settings.get("temperature", 1.0)) if drawn else 0.0,
        top_p=float(settings.get("top_p", 1.0)) if drawn else 1.0,
        stop=stop,
    )
