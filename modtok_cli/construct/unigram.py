"""`modtok unigram`: plain Unigram tokenizers, one per language or one for all."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Unpack

from modtok_cli.base import parameters
from modtok_cli.base.membership import Membership
from modtok_cli.base.public import public
from modtok_cli.construct.bpe import Joint, PlainFiles, Separate
from modtok_cli.construct.cancellable import results_of
from modtok_cli.construct.journal import JournalState
from modtok_cli.construct.learner import Learner
from modtok_cli.construct.parameters import Budget, BuildOptions, JointFlag
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.request import BuildReport, Destination, LearnerOptions, TrainingText
from modtok_cli.construct.states import UnigramState
from modtok_cli.construct.unigram_models import model_json, tokenizer_of
from modtok_cli.construct.work import Work
from modtok_cli.learn.monolingual_unigram import check_unigram_budget, learn_unigram
from modtok_cli.learn.pieces import UNKNOWN, LearnedPieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM
from modtok_cli.tokenizer.segmenters.unigram import Unigram

EM_SECONDS = 10.0
"""How much EM a kill may lose; its state is some megabytes."""


class UnigramLearner(Learner):
    """Base of all Unigram constructions: budget, workers, journal, monolingual models."""

    pretokenizer = UNIGRAM
    segmentation = Unigram.name
    first_specials = (UNKNOWN,)
    journal_seconds = EM_SECONDS

    def __init__(self, k: int, specials: Sequence[str], settings: Mapping[str, Any]) -> None:
        super().__init__(k, specials, settings)
        self._state = UnigramState(self.specials)

    def check(self) -> None:
        """Check the budget and the special tokens."""
        for k in (self.k, *self.budgets.values()):
            check_unigram_budget(k, self.specials)

    def journal_key(self, everything: dict[str, Any]) -> dict[str, Any]:
        """Leave languages and files out: models are identified by their text."""
        return {name: everything[name] for name in ("algorithm", "k", "budgets", "specials")}

    def workers(self, threads: int) -> int:
        """Return the number of languages to learn at a time; the trainer has threads of its own."""
        return max(min(threads, 2), threads // 4)

    def state(self) -> JournalState:
        """Return the models and the state of EM."""
        return self._state.to_kept()

    def restore(self, saved: JournalState) -> list[str]:
        """Take models and EM; their text is counted again and compared."""
        self._state.restore(saved)
        return []

    def start_models(
        self, languages: Sequence[str], work: Work
    ) -> dict[str, Future[LearnedPieces]]:
        """Start learning the model of each language in the thread pool.

        Models of the journal are not learned again; learned ones are added to it.
        """
        return {language: work.submit(self._model, language, work) for language in languages}

    def _model(self, language: str, work: Work) -> LearnedPieces:
        counts = work.words.of(language)
        model = self._state.model(language, counts)
        if model is not None:
            work.progress.note(f"{language}: learned before the interruption")
            return model
        k = self.k_of(language)
        model = learn_unigram(language, counts, k, self.specials, progress=work.progress)
        self._state.add(language, counts, model)
        work.keep(now=True)
        return model


class SeparateUnigram(Separate, UnigramLearner):
    """A `tokenizer.json` and a SentencePiece model per language."""

    algorithm = "unigram"
    suffixes = (".json", ".model")

    def learn(self, work: Work) -> None:
        """All languages in the thread pool."""
        work.words.start(work.languages)
        self._models: Mapping[str, LearnedPieces] = results_of(
            self.start_models(work.languages, work)
        )

    def result(self, work: Work) -> PlainFiles:
        """Return the files `<lang>.json` and `<lang>.model`."""
        files: dict[str, bytes] = {}
        for language, model in self._models.items():
            files[f"{language}.json"] = model_json(
                language, model, work.words.of(language), self.k, {"learner": self.provenance()}
            )
            files[f"{language}.model"] = tokenizer_of(model, language).to_model()
        rows = {name: {"tokens": model.size} for name, model in self._models.items()}
        return PlainFiles(files, rows)


class JointUnigram(Joint, UnigramLearner):
    """One vocabulary over the text of all languages."""

    algorithm = "unigram"

    def learn_all(self, languages: tuple[str, ...], counts: WordCounts, work: Work) -> None:
        """One model."""
        name = ",".join(languages)
        model = learn_unigram(name, counts, self.k, self.specials, progress=work.progress)
        every = Membership.everywhere(model.size, len(languages))
        self._learned = replace(model, languages=languages, token_membership=every)


@public
def unigram(
    languages: parameters.Langs = None,
    *,
    k: Budget = None,
    joint: JointFlag = False,
    output: parameters.Output = None,
    **how: Unpack[BuildOptions],
) -> BuildReport:
    """Learn plain Unigram tokenizers, per language or jointly.

    SentencePiece trains on word counts with the settings of the paper: no normalization,
    whitespace preserved, digits split, byte fallback. Each tokenizer is written as
    tokenizer.json and as SentencePiece .model; both give the same tokens. Without `languages`,
    all languages of the data are used.

    Returns:
        A report, as `bpe`; `output` is unigram/ or unigram-joint/ by default.

    Examples:
        >>> [row["tokens"] for row in modtok.unigram("fi,fr", k=600).lines]
        [600, 600]

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    kind = JointUnigram if joint else SeparateUnigram
    options = LearnerOptions(unigram, how, k, joint=joint)
    place = output or ("unigram-joint" if joint else "unigram")
    destination = Destination(place, how.get("force"), references=False)
    return construct(kind, options, TrainingText(languages, how), destination)
