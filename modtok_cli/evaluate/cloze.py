"""Suite in one language as a task of lm-eval, in cloze form.

The choices are not part of the prompt. Each choice is scored as the continuation of the prompt, and
the choice with the highest score under the suite's normalization is the prediction:

    none        sum of log-probabilities
    characters  sum divided by the number of characters of the choice
    pmi         sum minus the sum of the choice after "Answer:" alone (the word in the language)

The normalizations are OLMES's. lm-eval's `acc_mutual_info` subtracts the likelihood after an
empty context instead. The task runs on any `LM` of lm-eval, including its Hugging Face class.
"""

from collections.abc import Callable, Sequence
from typing import Any

import datasets
import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from modtok_cli.evaluate.questions import Question
from modtok_cli.evaluate.suite import Suite

Fits = Callable[[str, Sequence[str]], bool]
_BETWEEN = "\n\n"


class ClozeTask(ConfigurableTask):
    """Questions and few-shot examples.

    Attributes:
        suite, language: the suite and its language.
        shown: pool of few-shot examples; a question gets the first `shots` of its group.
        shortened: number of questions with fewer examples, because the context is too short.
    """

    def __init__(
        self,
        suite: Suite,
        language: str,
        questions: Sequence[Question],
        shown: Sequence[Question] = (),
        *,
        shots: int | None = None,
        fits: Fits | None = None,
    ) -> None:
        self.suite, self.language = suite, language
        self.questions, self.shown = list(questions), list(shown)
        self.shots = suite.shots if shots is None else shots
        self.shortened = 0
        self._fits = fits
        metrics = dict.fromkeys(["acc", "acc_norm", suite.metric])
        super().__init__(
            config={
                "task": f"{suite.task}_{language}",
                "test_split": "test",
                "output_type": "multiple_choice",
                "num_fewshot": self.shots,
                # The methods below implement these. lm-eval deep-copies its settings: no bound
                # methods here.
                "doc_to_text": "",
                "doc_to_choice": "choices",
                "doc_to_target": "answer",
                "process_results": _scored,
                "metric_list": [
                    {"metric": name, "aggregation": "mean", "higher_is_better": True}
                    for name in metrics
                ],
            }
        )

    def download(self, *_: Any, **__: Any) -> None:
        """Build the dataset from the questions; nothing is downloaded."""
        rows = [
            {"place": place, "choices": list(row.choices), "answer": row.answer}
            for place, row in enumerate(self.questions)
        ]
        self.dataset = {"test": datasets.Dataset.from_list(rows)}

    def fewshot_docs(self) -> None:
        """Unused: see `examples`."""

    def examples(self, question: Question) -> list[Question]:
        """Return few-shot examples of a question: from its group, without the question itself."""
        fitting = (
            row for row in self.shown if row.group == question.group and not row.same(question)
        )
        return [row for row, _ in zip(fitting, range(self.shots), strict=False)]

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **_: Any) -> str:
        """Examples and question. Leading examples are dropped until the rest fits the context."""
        question = self.questions[doc["place"]]
        turns = [
            f"{self._prompt(row)} {row.choices[row.answer]}" for row in self.examples(question)
        ]
        wanted = len(turns)
        while True:
            text = _BETWEEN.join([*turns, self._prompt(question)])
            if not turns or self._fits is None:
                break
            if self._fits(text, [f" {choice}" for choice in question.choices]):
                break
            del turns[0]
        self.shortened += len(turns) < wanted
        return text

    def doc_to_text(self, doc: dict[str, Any], *_: Any) -> str:
        """Return the prompt of a question."""
        return self._prompt(self.questions[doc["place"]])

    def _prompt(self, row: Question) -> str:
        return self.suite.render(row.question, row.context, self.language)

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """Return a request per choice; with pmi another one after the bare "Answer:"."""
        requests: list[Instance] = super().construct_requests(doc, ctx, **kwargs)
        if self.suite.normalization != "pmi":
            return requests
        kwargs = {key: value for key, value in kwargs.items() if key in ("metadata",)}
        bare = self.suite.unconditional(self.language)
        return requests + [
            Instance(
                request_type="loglikelihood",
                doc=doc,
                arguments=(bare, f"{self.config.target_delimiter}{choice}"),
                idx=len(requests) + place,
                **kwargs,
            )
            for place, choice in enumerate(doc["choices"])
        ]

    def process_results(
        self, doc: dict[str, Any], results: Sequence[tuple[float, bool]]
    ) -> dict[str, float]:
        """Score of 1.0 or 0.0 under each metric."""
        return _scored(doc, results)


def _scored(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    chosen = choose([nats for nats, _ in results], doc["choices"])
    return {name: float(place == doc["answer"]) for name, place in chosen.items()}


def choose(nats: Sequence[float], choices: Sequence[str]) -> dict[str, int]:
    """Index of the best choice under each metric; the first one on a tie.

    `nats` are the log-likelihoods of the choices, optionally followed by those without the
    question.

    >>> choose([-4.0, -5.0], ["one", "eleven"])
    {'acc': 0, 'acc_norm': 1}
    >>> choose([-4.0, -5.0, -1.0, -7.0], ["one", "eleven"])
    {'acc': 0, 'acc_norm': 1, 'acc_pmi': 1}
    """
    count = len(choices)
    scores = np.array(nats[:count])
    best = {
        "acc": int(scores.argmax()),
        "acc_norm": int((scores / [len(choice) for choice in choices]).argmax()),
    }
    if len(nats) > count:
        best["acc_pmi"] = int((scores - np.array(nats[count:])).argmax())
    return best
