"""`modtok eval mcq`: multiple-choice questions under any inference vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate import hub
from modtok_cli.evaluate.foreign import PACKAGES, ask_foreign
from modtok_cli.evaluate.generation import Models, languages_of, mode_name, vocabulary_of
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.questions import Folder, Question
from modtok_cli.evaluate.results import (
    Evaluation,
    Result,
    ResultBuilder,
    checkpoint_digest,
    data_digest,
    example,
)
from modtok_cli.evaluate.suites import TASK_FILE, Suite, read_suite, suites
from modtok_cli.inference.sources import Source, open_source

if TYPE_CHECKING:
    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.lm import ModtokLM

MEAN = "mean"
LAYOUT = (
    "lay questions out as DIR/mcq/<task>/<lang>.jsonl, with what is shown before them in "
    '<lang>.train.jsonl: {"question": "…", "choices": ["…", "…"], "answer": 0} a line'
)


@dataclass(frozen=True)
class Settings:
    """How to ask.

    Attributes:
        infer: the inference mode, see `modes`; None is `lang` of a run, and of a slice what it
            was cut for.
        tasks: names of suites, or of lm-eval's tasks; None is all there is data for.
        shots: examples shown before each question; None is what each suite says.
        batch: choices that run together.
        limit: questions of each task and language at the most.
    """

    infer: str | None = None
    tasks: tuple[str, ...] | None = None
    shots: int | None = None
    batch: int = 32
    limit: int | None = None


@dataclass(frozen=True)
class _Sheet:
    """What is to be asked in one task and language."""

    suite: Suite
    language: str
    questions: list[Question]
    shown: list[Question]


def evaluate_mcq(
    run: Path,
    langs: Sequence[str] | None = None,
    *,
    data: Path | None = None,
    include: Path | None = None,
    settings: Settings | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Score a run's model, or a slice, on multiple-choice questions.

    `langs`: languages to evaluate, all of the run by default; `data`: directory with the
    questions (see `questions`), None for the hub; `include`: a folder with tasks of lm-eval.

    Returns:
        The accuracy of each task and language under the task's normalization, and the mean
        of each language; what could not be asked is in `skipped`.

    Raises:
        UsageError: a task, language or mode that makes no sense for the run.
        ModtokError: no questions at all, or a damaged row.
    """
    settings = settings or Settings()
    source = open_source(Path(run), tokenizer=tokenizer, step=step, progress=progress)
    languages = list(langs or languages_of(source))
    vocabularies = {
        language: vocabulary_of(source, settings.infer, language=language) for language in languages
    }
    evaluation = Evaluation()
    own, foreign = _tasks(settings, data)
    sheets = _sheets(own, languages, data, settings, evaluation, progress)
    if foreign and len(set(vocabularies.values())) > 1:
        raise UsageError(
            f"the language of {foreign[0]!r} is not known",
            where="--langs",
            remedy="name one language for it, or use --infer full",
        )
    if not sheets and not foreign:
        raise _nothing(evaluation, data)
    asked = {
        language: [sheet for sheet in sheets if sheet.language == language]
        for language in vocabularies
    }
    for language, infer in vocabularies.items():
        if asked[language]:
            _require_room(source, infer, asked[language])
    models = Models(source, dtype=dtype, device=device)
    mode = mode_name(source, settings.infer)
    for language, infer in vocabularies.items():
        for sheet in asked[language]:
            _ask(models, infer, mode, sheet, settings, evaluation, progress)
        _add_mean(evaluation, language, mode, [sheet.suite.task for sheet in asked[language]])
    if foreign:
        language, infer = next(iter(vocabularies.items()))
        name = language if len(vocabularies) == 1 else str(infer)
        told = ask_foreign(
            models.of(infer),
            f"{mode}:{infer}",
            mode,
            name,
            foreign,
            include=include,
            shots=settings.shots,
            batch=settings.batch,
            limit=settings.limit,
            progress=progress,
        )
        evaluation.results += told.results
        evaluation.examples += told.examples
    return evaluation


def _tasks(settings: Settings, data: Path | None) -> tuple[list[Suite], list[str]]:
    """Suites of ours, and names that are not ours."""
    known = dict(suites())
    folder = Folder(data) if data is not None else None
    there = folder.tasks if folder is not None else []
    for name in there:
        own = folder.path / name / TASK_FILE if folder is not None else Path()
        if own.is_file():
            suite = read_suite(own)
            if suite.task != name:
                raise ModtokError(
                    f"is of the task {suite.task!r}", where=str(own), remedy=f"name it {name!r}"
                )
            known[name] = suite
    if settings.tasks is not None:
        chosen = [known[name] for name in settings.tasks if name in known]
        return chosen, [name for name in settings.tasks if name not in known]
    if folder is None:
        return list(known.values()), []
    unknown = [name for name in there if name not in known]
    if unknown:
        raise ModtokError(
            "is no task of ours and says nothing of itself",
            where=str(folder.path / unknown[0]),
            remedy=f"write a {TASK_FILE} there, see docs/evaluation.md",
        )
    return [suite for name, suite in known.items() if name in there], []


def _sheets(
    own: Sequence[Suite],
    languages: Sequence[str],
    data: Path | None,
    settings: Settings,
    evaluation: Evaluation,
    progress: Progress,
) -> list[_Sheet]:
    """Everything that can be asked; the rest goes to `evaluation.skipped`."""
    found: list[_Sheet] = []
    missing: dict[str, list[str]] = {}
    for suite in own:
        for language in languages:
            if suite.hub and suite.source(language) is None and not _named(data, suite, language):
                if settings.tasks is not None:
                    missing.setdefault(f"{suite.task} does not exist", []).append(language)
                continue
            questions = _questions(suite, language, data, missing, progress)
            if questions is None:
                continue
            sheet = _Sheet(suite, language, questions[0][: settings.limit], questions[1])
            lacking = _lacks_examples(sheet, settings)
            if lacking:
                missing.setdefault(f"{suite.task} {lacking}", []).append(language)
            else:
                found.append(sheet)
    evaluation.skipped += [f"{what} in {','.join(langs)}" for what, langs in missing.items()]
    told = {name for names in missing.values() for name in names}
    told.update(sheet.language for sheet in found)
    bare = [name for name in languages if name not in told]
    if bare and own:
        evaluation.skipped.append(f"no questions at all in {','.join(bare)}")
    return found


def _named(data: Path | None, suite: Suite, language: str) -> bool:
    """Whether local files have a language that the hub has not."""
    return data is not None and Folder(data).has(suite.task, language)


def _questions(
    suite: Suite,
    language: str,
    data: Path | None,
    missing: dict[str, list[str]],
    progress: Progress,
) -> tuple[list[Question], list[Question]] | None:
    if data is not None:
        folder = Folder(data)
        local = folder.of(suite.task, language)
        if local is None:
            missing.setdefault(f"{folder.path / suite.task} has no questions", []).append(language)
        return local
    source = suite.source(language)
    if source is None or not hub.reachable():
        missing.setdefault(f"the hub is not reachable: no {suite.task}", []).append(language)
        return None
    try:
        with progress.task(f"{language} {suite.task}", None, "rows"):
            return hub.fetch(source, language, progress=progress)
    except ModtokError as error:
        missing.setdefault(f"{suite.task} ({error})", []).append(language)
        return None


def _lacks_examples(sheet: _Sheet, settings: Settings) -> str | None:
    """Why what is shown before the questions is not there; None if it is."""
    shots = sheet.suite.shots if settings.shots is None else settings.shots
    if not shots:
        return None
    groups: dict[str, int] = {}
    for row in sheet.shown:
        groups[row.group] = groups.get(row.group, 0) + 1
    least = min(groups.get(row.group, 0) for row in sheet.questions)
    if least < shots:
        return f"has {least} examples to show where {shots} are wanted (<lang>.train.jsonl)"
    return None


def _require_room(source: Source, infer: Infer, sheets: Sequence[_Sheet]) -> None:
    """Find a choice that alone is too long now, and not behind hours of other tasks.

    Raises:
        ModtokError: there is one.
    """
    encode = source.vocabularies(infer.inputs, infer.outputs).encode_out
    for sheet in sheets:
        for question in sheet.questions:
            longest = max(len(encode(f" {choice}")) for choice in question.choices)
            if longest > source.context:
                raise ModtokError(
                    f"question {question.name} has a choice of {longest:,} tokens; the model reads "
                    f"{source.context:,}",
                    where=f"{sheet.language} {sheet.suite.task}",
                    remedy="leave it out",
                )


def _nothing(evaluation: Evaluation, data: Path | None) -> ModtokError:
    where = str(Folder(data).path) if data is not None else "tasks/"
    what = "no questions: " + "; ".join(evaluation.skipped or ["there is no task"])
    return ModtokError(what, where=where, remedy=f"{LAYOUT}, and name DIR with --data")


def _ask(
    models: Models,
    infer: Infer,
    mode: str,
    sheet: _Sheet,
    settings: Settings,
    evaluation: Evaluation,
    progress: Progress,
) -> None:
    """Ask one task in one language."""
    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.harness import run_tasks
    from modtok_cli.evaluate.lm import ModtokLM

    model = models.of(infer)
    suite, language = sheet.suite, sheet.language
    label = f"{language} {suite.task}"
    lm = ModtokLM(model, batch=settings.batch, progress=progress, label=label)
    task = ClozeTask(
        suite, language, sheet.questions, sheet.shown, shots=settings.shots, fits=lm.fits
    )
    try:
        outcome = run_tasks(lm, {task.config.task: task})
    except UsageError as error:  # a choice too long with the white space behind its question
        raise ModtokError(error.what, where=label, remedy=error.remedy) from error
    samples = sorted(outcome.samples[task.config.task], key=lambda row: row["doc"]["place"])
    rows = [_example(sheet, row) for row in samples]
    facts = _facts(sheet, rows, lm, task)
    if facts["truncated"]:
        progress.warn(
            f"{label}: {facts['truncated']:,} contexts do not fit and lost their beginning"
        )
    signed = {
        "data": data_digest(_texts(sheet)),
        "infer": f"{mode}:{infer}",
        "checkpoint": checkpoint_digest(model),
        "packages": PACKAGES,
    }
    results = ResultBuilder(
        suite.task, language, len(rows), task.shots, mode, signed=signed, facts=facts
    )
    results.add_mean(
        suite.metric,
        [row["scores"][suite.metric] for row in rows],
        normalization=suite.normalization,
    )
    evaluation.results += results.results
    evaluation.examples += rows


def _facts(
    sheet: _Sheet, rows: Sequence[Mapping[str, Any]], lm: ModtokLM, task: ClozeTask
) -> dict[str, Any]:
    """What else is known of a result: chance, other metrics, what did not fit."""
    others = {
        name: 100 * sum(row["scores"][name] for row in rows) / len(rows)
        for name in rows[0]["scores"]
        if name != sheet.suite.metric
    }
    chance = sum(1 / len(row.choices) for row in sheet.questions) / len(sheet.questions)
    return {
        "chance": 100 * chance,
        **others,
        "shortened": task.shortened,
        "truncated": lm.truncated,
    }


def _example(sheet: _Sheet, sample: Mapping[str, Any]) -> dict[str, Any]:
    from modtok_cli.evaluate.cloze import choose

    question = sheet.questions[sample["doc"]["place"]]
    nats = [float(answer[0]) for answer in sample["filtered_resps"]]
    count = len(question.choices)
    chosen = choose(nats, question.choices)
    main = sheet.suite.metric
    scores = {name: float(sample[name]) for name in (main, *chosen) if name in sample}
    return example(
        sheet.suite.task,
        sheet.language,
        question.name,
        scores,
        question=question.question,
        choices=question.choices,
        answer=question.answer,
        chosen=chosen[main],
        nats=nats[:count],
        **({"nats_bare": nats[count:]} if len(nats) > count else {}),
    )


def _texts(sheet: _Sheet) -> list[str]:
    """All that decides the numbers but for the model."""
    suite = sheet.suite
    texts = [suite.render("", "", sheet.language), suite.unconditional(sheet.language)]
    for row in (*sheet.shown, *sheet.questions):
        texts += [row.context, row.question, *row.choices, str(row.answer), row.group]
    return texts


def _add_mean(evaluation: Evaluation, language: str, mode: str, tasks: Sequence[str]) -> None:
    """The mean over the tasks of a language, each counting once: the paper's MCQ."""
    parts = [
        result
        for result in evaluation.results
        if result.language == language and result.task in tasks
    ]
    if len(parts) < 2:
        return
    sign = digest(*(part.signature.encode() for part in parts))
    evaluation.results.append(
        Result(
            task=MEAN,
            language=language,
            metric="accuracy",
            value=sum(part.value for part in parts) / len(parts),
            low=None,
            high=None,
            n=sum(part.n for part in parts),
            shots=max(part.shots for part in parts),
            normalization="per task",
            infer=mode,
            signature=signature(MEAN, [("tasks", "+".join(tasks)), ("of", sign)]),
            facts={"chance": sum(part.facts["chance"] for part in parts) / len(parts)},
        )
    )
