"""Our models as lm-eval sees them: the plain `LM` interface over two vocabularies.

lm-eval's `TemplateLM` encodes context and continuation together and cuts the tokens where the
context's end lies, which fails where a token spans the join, and knows one tokenizer. Here:

* The boundary: context and continuation are tokenized apart, the context by `tokenizer_in`,
  the continuation by `tokenizer_out`. White space at the end of the context is moved to the
  beginning of the continuation, as lm-eval does: our pre-tokenizer joins a space to the word
  behind it. So a continuation " word" has the tokens that it has within a text.
* A document begins: before every context stands an end of text, as in training.
* The score is the sum of log-probabilities, base e, of the continuation's own tokens over
  V_out. A context that does not fit loses its beginning; `truncated` counts these requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.api.model import LM

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.decode import generate
from modtok_cli.inference.model import SlicedModel
from modtok_cli.inference.sampling import Options
from modtok_cli.inference.score import Likelihood, Request, score

_MOST = 256  # tokens to generate where a task does not say; lm-eval's own default


class ModtokLM(LM):
    """A sliced model for lm-eval.

    Attributes:
        model: what is evaluated.
        batch: requests that run together.
        truncated: requests so far whose context lost its beginning.
    """

    def __init__(
        self, model: SlicedModel, *, batch: int = 32, progress: Progress = SILENT, label: str = ""
    ) -> None:
        super().__init__()
        if batch < 1:
            raise UsageError(f"a batch of {batch}", where="--batch-size", remedy="from 1")
        self.model, self.batch, self.truncated = model, batch, 0
        self._progress, self._label = progress, label or "scoring"
        self._contexts: dict[str, list[int]] = {}

    def context_rows(self, context: str) -> list[int]:
        """Rows of a context, an end of text before them."""
        found = self._contexts.get(context)
        if found is None:
            found = [self.model.end_of_text, *self.model.encode_in(context)]
            self._contexts[context] = found
        return found

    def fits(self, context: str, continuations: Sequence[str]) -> bool:
        """Whether the model reads a context with each of its continuations whole."""
        longest = max((len(self.model.encode_out(text)) for text in continuations), default=0)
        return len(self.context_rows(context)) + longest <= self.model.context + 1

    def request(self, context: str, continuation: str) -> Request:
        """Tokens of a request, by the rule above."""
        kept = context.rstrip()
        moved = context[len(kept) :]
        return self.context_rows(kept), self.model.encode_out(moved + continuation)

    def likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood]:
        """Score continuations of contexts, both as text."""
        requests = [self.request(context, continuation) for context, continuation in pairs]
        found = self._score(requests)
        self._contexts.clear()
        return found

    def _score(self, requests: Sequence[Request]) -> list[Likelihood]:
        with self._progress.task(self._label, len(requests), "requests") as task:
            found = score(self.model, requests, batch=self.batch, advance=task.advance)
        self.truncated += sum(likelihood.truncated for likelihood in found)
        return found

    def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
        """(log-probability, whether greedy decoding gives it) of each continuation."""
        found = self.likelihoods([request.args for request in requests])
        return [(likelihood.nats, likelihood.greedy) for likelihood in found]

    def loglikelihood_rolling(self, requests: list[Any], **_: Any) -> list[float]:
        """Log-probability of whole texts, each token predicted once.

        A text longer than the model is scored in windows that fit; the last one looks back
        as far as it can. Texts are read as they are predicted, by `tokenizer_out`.
        """
        windows: list[Request] = []
        owners: list[int] = []
        for owner, request in enumerate(requests):
            ids = self.model.encode_out(request.args[0])
            for window in self._windows(ids):
                windows.append(window)
                owners.append(owner)
        totals = [0.0] * len(requests)
        for owner, likelihood in zip(owners, self._score(windows), strict=True):
            totals[owner] += likelihood.nats
        return totals

    def _windows(self, ids: Sequence[int]) -> list[Request]:
        """(context in rows, ids) that together predict each of `ids` once."""
        width = self.model.context
        rows = self.model.vocabularies.row_of_out[list(ids)].tolist() if ids else []
        found: list[Request] = []
        for start in range(0, len(ids), width):
            stop = min(start + width, len(ids))
            before = rows[max(0, stop - width - 1) : start]
            found.append((before or [self.model.end_of_text], list(ids[start:stop])))
        return found

    def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
        """Text behind each context, up to a stop string, an end of text, or the most tokens."""
        found = [""] * len(requests)
        asked = [(self.context_rows(request.args[0]), request.args[1]) for request in requests]
        # Prompts of one batch have one set of options; long ones first, so that a model that
        # does not fit into memory fails at once.
        groups: dict[str, list[int]] = {}
        for index, pair in enumerate(asked):
            groups.setdefault(repr(sorted(pair[1].items(), key=str)), []).append(index)
        with self._progress.task(self._label, len(requests), "requests") as task:
            for members in groups.values():
                options = options_of(asked[members[0]][1])
                members.sort(key=lambda index: -len(asked[index][0]))
                for start in range(0, len(members), self.batch):
                    part = members[start : start + self.batch]
                    prompts = [self._prompt(asked[index][0], options) for index in part]
                    for index, made in zip(
                        part, generate(self.model, prompts, options), strict=True
                    ):
                        found[index] = made.text
                    task.advance(len(part))
        self._contexts.clear()
        return found

    def _prompt(self, rows: Sequence[int], options: Options) -> list[int]:
        """What is left of a context when the answer shall fit; half the model at the least."""
        width = self.model.context
        room = max(width - options.most, width // 2, 1)
        self.truncated += len(rows) > room
        return list(rows[-room:])


def options_of(settings: Mapping[str, Any]) -> Options:
    """lm-eval's `generation_kwargs` as options of ours; greedy unless `do_sample`.

    >>> options_of({"until": ["\\n"], "max_gen_toks": 5, "do_sample": False}).stop
    ('\\n',)
    """
    until = settings.get("until") or ()
    stop = (until,) if isinstance(until, str) else tuple(text for text in until if text)
    drawn = bool(settings.get("do_sample", False))
    return Options(
        most=int(settings.get("max_gen_toks") or settings.get("max_new_tokens") or _MOST),
        temperature=float(settings.get("temperature", 1.0)) if drawn else 0.0,
        top_p=float(settings.get("top_p", 1.0)) if drawn else 1.0,
        stop=stop,
    )
