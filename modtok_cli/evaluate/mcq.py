"""`modtok eval mcq`: multiple-choice questions under any inference vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate import hub
from modtok_cli.evaluate.external import PACKAGES, run_external_tasks
from modtok_cli.evaluate.generation import (
    Models,
    languages_to_evaluate,
    mode_name,
    open_models,
    vocabulary_of,
)
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
from modtok_cli.evaluate.suite import TASK_FILE, Suite, read_suite
from modtok_cli.evaluate.suites import suites
from modtok_cli.inference.load import Source
from modtok_cli.inference.run.processes import ALONE, Processes

if TYPE_CHECKING:
    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.lm import ModtokLM

MEAN = "mean"
NO_HUB = "the hub cannot be reached"
LAYOUT = (
    "provide questions as DIR/mcq/<task>/<lang>.jsonl and few-shot examples as "
    '<lang>.train.jsonl: {"question": "…", "choices": ["…", "…"], "answer": 0} per line'
)


@dataclass(frozen=True)
class Settings:
    """Settings of multiple choice.

    Attributes:
        infer: inference mode, see `modes`. None: `lang`, or for a slice its own vocabularies.
        tasks: names of suites or of lm-eval's tasks. None: all that have data.
        shots: number of few-shot examples. None: the suite's default.
        batch_size: number of choices that run together.
        limit: maximum number of questions of each task and language.
        allow_code: load tasks of lm-eval that contain code (`!function`, or a Python class).
    """

    infer: str | None = None
    tasks: tuple[str, ...] | None = None
    shots: int | None = None
    batch_size: int = 32
    limit: int | None = None
    allow_code: bool = False


@dataclass(frozen=True)
class _Job:
    """One task in one language."""

    suite: Suite
    language: str
    questions: list[Question]
    shown: list[Question]


def evaluate_mcq(
    run: Path | Models,
    langs: Sequence[str] | None = None,
    *,
    data: Path | None = None,
    include: Path | None = None,
    settings: Settings | None = None,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    processes: Processes = ALONE,
    progress: Progress = SILENT,
) -> Evaluation:
    """Score the model of a run or slice on multiple-choice questions.

    Args:
        run: its directory, or models that are open already.
        langs: languages to evaluate, by default all of the run.
        data: directory with questions, see `questions`; None to download the suites.
        include: directory with tasks of lm-eval.
        processes: those that share the work.

    Returns:
        Accuracy of each task and language under the task's normalization, and the mean of each
        language. What has no questions is in `skipped`.

    Raises:
        UsageError: the run does not support a task, language or mode.
        ModtokError: there are no questions at all, or a row is invalid.
    """
    settings = settings or Settings()
    models = open_models(
        run,
        tokenizer=tokenizer,
        step=step,
        dtype=dtype,
        device=device or processes.device,
        progress=progress,
    )
    source = models.source
    languages = languages_to_evaluate(source, langs)
    vocabularies = {
        language: vocabulary_of(source, settings.infer, language=language) for language in languages
    }
    evaluation = Evaluation()
    own, external = tasks_of(settings.tasks, data)
    jobs = _collect_jobs(own, languages, data, settings, evaluation, progress)
    if external and len(set(vocabularies.values())) > 1:
        raise UsageError(
            f"the language of the task {external[0]!r} is unknown",
            where="--langs",
            remedy="pass one language with --langs, or --infer full",
        )
    if not jobs and not external:
        raise _no_questions(evaluation, data)
    by_language = {
        language: [job for job in jobs if job.language == language] for language in vocabularies
    }
    for language, infer in vocabularies.items():
        if by_language[language]:
            _require_choices_fit(source, infer, by_language[language])
    mode = mode_name(source, settings.infer)
    for language, infer in vocabularies.items():
        for job in by_language[language]:
            _run_job(models, infer, mode, job, settings, evaluation, processes, progress)
        tasks = [job.suite.task for job in by_language[language] if job.suite.in_mean]
        _add_mean(evaluation, language, mode, tasks)
    if external:
        language, infer = next(iter(vocabularies.items()))
        name = language if len(vocabularies) == 1 else str(infer)
        found = run_external_tasks(
            models.of(infer),
            f"{mode}:{infer}",
            mode,
            name,
            external,
            include=include,
            allow_code=settings.allow_code,
            shots=settings.shots,
            batch_size=settings.batch_size,
            limit=settings.limit,
            processes=processes,
            progress=progress,
        )
        evaluation.results += found.results
        evaluation.examples += found.examples
    return evaluation


def check_local(data: Path, languages: Sequence[str], settings: Settings) -> list[str]:
    """Check that local files have questions; returns what is missing, in sentences.

    Raises:
        UsageError: a task is neither a suite nor in the files.
        ModtokError: there are no questions, or a row is invalid.
    """
    own, external = tasks_of(settings.tasks, data)
    if external:
        raise UsageError(f"no local task '{external[0]}' in {Folder(data).path}", remedy=LAYOUT)
    evaluation = Evaluation()
    if not _collect_jobs(own, languages, data, settings, evaluation, SILENT):
        raise _no_questions(evaluation, data)
    return evaluation.skipped


def languages_with_questions(data: Path, languages: Sequence[str], settings: Settings) -> list[str]:
    """The languages that local files have questions in."""
    own, _ = tasks_of(settings.tasks, data)
    jobs = _collect_jobs(own, languages, data, settings, Evaluation(), SILENT)
    found = {job.language for job in jobs}
    return [language for language in languages if language in found]


def tasks_of(names: Sequence[str] | None, data: Path | None) -> tuple[list[Suite], list[str]]:
    """Suites, and names that are not suites. `names` None is all that have local files, or all.

    Raises:
        ModtokError: a local task has no valid description.
    """
    known = dict(suites())
    folder = Folder(data) if data is not None else None
    present = folder.tasks if folder is not None else []
    for name in present:
        own = folder.path / name / TASK_FILE if folder is not None else Path()
        if own.is_file():
            suite = read_suite(own)
            if suite.task != name:
                raise ModtokError(
                    f"describes the task {suite.task!r}", where=str(own), remedy=f"name it {name!r}"
                )
            known[name] = suite
    if names is not None:
        chosen = [known[name] for name in names if name in known]
        return chosen, [name for name in names if name not in known]
    if folder is None:
        return list(known.values()), []
    unknown = [name for name in present if name not in known]
    if unknown:
        raise ModtokError(
            "unknown task without a description",
            where=str(folder.path / unknown[0]),
            remedy=f"add a {TASK_FILE}, see docs/evaluation.md",
        )
    return [suite for name, suite in known.items() if name in present], []


def _collect_jobs(
    own: Sequence[Suite],
    languages: Sequence[str],
    data: Path | None,
    settings: Settings,
    evaluation: Evaluation,
    progress: Progress,
) -> list[_Job]:
    """All tasks and languages with questions; the others are added to `evaluation.skipped`."""
    found: list[_Job] = []
    missing: dict[str, list[str]] = {}
    with progress.task("loading questions", len(own) * len(languages), "files") as task:
        for suite, language in product(own, languages):
            task.advance(1)
            if (
                suite.hub
                and suite.source(language) is None
                and not _has_local(data, suite, language)
            ):
                if settings.tasks is not None:
                    missing.setdefault(f"{suite.task} does not exist", []).append(language)
                continue
            questions = _questions(suite, language, data, missing, progress)
            if questions is None:
                continue
            job = _Job(suite, language, questions[0][: settings.limit], questions[1])
            lacking = _lacks_examples(job, settings)
            if lacking:
                missing.setdefault(f"{suite.task} {lacking}", []).append(language)
            else:
                found.append(job)
    evaluation.skipped += [f"{what} in {','.join(langs)}" for what, langs in missing.items()]
    covered = {name for names in missing.values() for name in names}
    covered.update(job.language for job in found)
    bare = [name for name in languages if name not in covered]
    if bare and own:
        evaluation.skipped.append(f"no questions in {','.join(bare)}")
    return found


def _has_local(data: Path | None, suite: Suite, language: str) -> bool:
    """Whether local files have a language that the suite's datasets lack."""
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
            missing.setdefault(f"no questions in {folder.path / suite.task}", []).append(language)
        return local
    source = suite.source(language)
    assert source is not None  # without local files
    if NO_HUB not in missing and hub.reachable():
        try:
            return hub.fetch(source, language, progress=progress)
        except hub.Unreachable:
            pass
        except ModtokError as error:
            missing.setdefault(f"{suite.task} ({error})", []).append(language)
            return None
    named = missing.setdefault(NO_HUB, [])  # the same for all other tasks
    if language not in named:
        named.append(language)
    return None


def _lacks_examples(job: _Job, settings: Settings) -> str | None:
    """Reason why few-shot examples are missing; None if there are enough."""
    shots = job.suite.shots if settings.shots is None else settings.shots
    if not shots:
        return None
    groups: dict[str, int] = {}
    for row in job.shown:
        groups[row.group] = groups.get(row.group, 0) + 1
    fewest = min(groups.get(row.group, 0) for row in job.questions)
    if fewest < shots:
        return f"has {fewest} few-shot examples, expected {shots} (<lang>.train.jsonl)"
    return None


def _require_choices_fit(source: Source, infer: Infer, jobs: Sequence[_Job]) -> None:
    """Check that every choice fits the context, before hours of other tasks.

    Raises:
        ModtokError: a choice alone is too long.
    """
    encode = source.vocabularies(infer.inputs, infer.outputs).encode_out
    for job in jobs:
        for question in job.questions:
            longest = max(len(encode(f" {choice}")) for choice in question.choices)
            if longest > source.context:
                raise ModtokError(
                    f"question {question.name} has a choice of {longest:,} tokens; the context has "
                    f"{source.context:,}",
                    where=f"{job.language} {job.suite.task}",
                    remedy="remove it",
                )


def _no_questions(evaluation: Evaluation, data: Path | None) -> ModtokError:
    where = str(Folder(data).path) if data is not None else "tasks/"
    what = "no questions: " + "; ".join(evaluation.skipped or ["no task"])
    remedy = f"{LAYOUT}; then pass DIR with --data"
    if NO_HUB in what:
        remedy = f"where it can, download them with modtok eval fetch mcq -o DIR; or {remedy}"
    return ModtokError(what, where=where, remedy=remedy)


def _run_job(
    models: Models,
    infer: Infer,
    mode: str,
    job: _Job,
    settings: Settings,
    evaluation: Evaluation,
    processes: Processes,
    progress: Progress,
) -> None:
    """Score one task in one language."""
    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.harness import run_tasks
    from modtok_cli.evaluate.lm import ModtokLM

    model = models.of(infer)
    suite, language = job.suite, job.language
    label = f"{language} {suite.task}"
    lm = ModtokLM(
        model,
        batch_size=settings.batch_size,
        processes=processes,
        progress=progress,
        label=label,
    )
    task = ClozeTask(suite, language, job.questions, job.shown, shots=settings.shots, fits=lm.fits)
    try:
        outcome = run_tasks(lm, {task.config.task: task})
    except UsageError as error:  # too long with the white space moved from the prompt
        raise ModtokError(error.what, where=label, remedy=error.remedy) from error
    samples = sorted(outcome.samples[task.config.task], key=lambda row: row["doc"]["place"])
    rows = [_example(job, row) for row in samples]
    facts = _facts(job, rows, lm, task)
    if facts["truncated"]:
        progress.warn(f"{label}: {facts['truncated']:,} contexts were truncated on the left")
    signed = {
        "data": data_digest(_texts(job)),
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
    job: _Job, rows: Sequence[Mapping[str, Any]], lm: ModtokLM, task: ClozeTask
) -> dict[str, Any]:
    """Further fields of a result: chance, other metrics, truncation."""
    others = {
        name: 100 * sum(row["scores"][name] for row in rows) / len(rows)
        for name in rows[0]["scores"]
        if name != job.suite.metric
    }
    chance = sum(1 / len(row.choices) for row in job.questions) / len(job.questions)
    return {
        "chance": 100 * chance,
        **others,
        "shortened": task.shortened,
        "truncated": lm.truncated,
    }


def _example(job: _Job, sample: Mapping[str, Any]) -> dict[str, Any]:
    from modtok_cli.evaluate.cloze import choose

    question = job.questions[sample["doc"]["place"]]
    nats = [float(answer[0]) for answer in sample["filtered_resps"]]
    count = len(question.choices)
    chosen = choose(nats, question.choices)
    main = job.suite.metric
    scores = {name: float(sample[name]) for name in (main, *chosen) if name in sample}
    return example(
        job.suite.task,
        job.language,
        question.name,
        scores,
        question=question.question,
        choices=question.choices,
        answer=question.answer,
        chosen=chosen[main],
        nats=nats[:count],
        **({"nats_bare": nats[count:]} if len(nats) > count else {}),
    )


def _texts(job: _Job) -> list[str]:
    """All texts that determine the scores."""
    suite = job.suite
    texts = [suite.render("", "", job.language), suite.unconditional(job.language)]
    for row in (*job.shown, *job.questions):
        texts += [row.context, row.question, *row.choices, str(row.answer), row.group]
    return texts


def _add_mean(evaluation: Evaluation, language: str, mode: str, tasks: Sequence[str]) -> None:
    """Add the unweighted mean over these tasks of a language: the paper's MCQ."""
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
            checkpoint=parts[0].checkpoint,
            facts={"chance": sum(part.facts["chance"] for part in parts) / len(parts)},
        )
    )
