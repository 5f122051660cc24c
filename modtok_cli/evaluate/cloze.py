"""A suite in one language as a task of lm-eval, in cloze form.

The choices are not shown; each is scored as the continuation of the prompt, and the best one
under the suite's normalization is the answer:

    none        sum of log-probabilities
    characters  … divided by the characters of the choice
    pmi         … minus the same after "Answer:" alone, in the language's word for it

These are OLMES's; lm-eval's `acc_mutual_info` compares with an empty context instead. The
task runs on any `LM` of lm-eval, its Hugging Face class too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import datasets
import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from modtok_cli.evaluate.questions import Question
from modtok_cli.evaluate.suites import Suite

Fits = Callable[[str, Sequence[str]], bool]
_BETWEEN = "\n\n"


class ClozeTask(ConfigurableTask):
    """Questions, and examples to show before them.

    Attributes:
        suite, language: what is asked.
        shown: examples that may be shown; the first `shots` of the question's group are.
        shortened: questions that were shown fewer, because the model reads no more.
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
                # What the methods below do; lm-eval copies its settings, so no methods here.
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
        """Nothing is fetched: the questions are at hand."""
        rows = [
            {"place": place, "choices": list(row.choices), "answer": row.answer}
            for place, row in enumerate(self.questions)
        ]
        self.dataset = {"test": datasets.Dataset.from_list(rows)}

    def fewshot_docs(self) -> None:
        """Examples are ours to choose, see `examples`."""

    def examples(self, question: Question) -> list[Question]:
        """Examples to show before a question: of its group, and not itself."""
        fitting = (
            row for row in self.shown if row.group == question.group and not row.same(question)
        )
        return [row for row, _ in zip(fitting, range(self.shots), strict=False)]

    def fewshot_context(self, doc: dict[str, Any], num_fewshot: int, **_: Any) -> str:
        """Examples and question; the first examples are left out where all do not fit."""
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
        """The prompt of a question."""
        return self._prompt(self.questions[doc["place"]])

    def _prompt(self, row: Question) -> str:
        return self.suite.render(row.question, row.context, self.language)

    def construct_requests(self, doc: dict[str, Any], ctx: str, **kwargs: Any) -> list[Instance]:
        """One request a choice; under pmi as many again after the word for "Answer:"."""
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
        """1.0 or 0.0 under each metric."""
        return _scored(doc, results)


def _scored(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, float]:
    chosen = choose([nats for nats, _ in results], doc["choices"])
    return {name: float(place == doc["answer"]) for name, place in chosen.items()}


def choose(nats: Sequence[float], choices: Sequence[str]) -> dict[str, int]:
    """Place of the best choice under each metric; the first of equals.

    `nats` are the choices' log-likelihoods, behind them those without the question if there
    are any.

    >>> choose([-4.0, -5.0], ["one", "eleven"])
    {'acc': 0, 'acc_norm': 1}
    >>> choose([-4.0, -5.0, -1.0, -7.0], ["one", "eleven"])
    {'acc': 0, 'acc_norm': 1, 'acc_pmi': 1}
    """
    count = len(choices)
    told = np.array(nats[:count])
    found = {
        "acc": int(told.argmax()),
        "acc_norm": int((told / [len(choice) for choice in choices]).argmax()),
    }
    if len(nats) > count:
        found["acc_pmi"] = int((told - np.array(nats[count:])).argmax())
    return found
