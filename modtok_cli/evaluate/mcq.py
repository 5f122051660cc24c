"""`modtok eval mcq`: multiple-choice questions under any inference vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate import hub_tasks as hub
from modtok_cli.evaluate.models import Models, open_models
from modtok_cli.evaluate.modes import Infer, mode_name, vocabularies_of
from modtok_cli.evaluate.questions import LAYOUT, Folder, McqSettings, Question
from modtok_cli.evaluate.results import (
    ACCURACY,
    Evaluation,
    Kept,
    Result,
    ResultBuilder,
    data_digest,
    evaluation_signature,
    example,
)
from modtok_cli.evaluate.suite import LETTERS, TASK_FILE, Suite, read_suite, suites
from modtok_cli.model.source import ModelSource

if TYPE_CHECKING:
    import torch

    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.lm import ModtokLM
    from modtok_cli.training.config import Config

MEAN = "mean"
NO_HUB = "the hub cannot be reached"


@dataclass(frozen=True)
class _Job:
    suite: Suite
    language: str
    questions: list[Question]
    shown: list[Question]


def answer(
    models: Models,
    languages: Sequence[str] | None,
    data: Path | None,
    include: Path | None,
    settings: McqSettings,
    kept: Kept,
) -> Evaluation:
    """Score models on the questions in `data`, None for the hub, see `evaluate.evaluate_mcq`.

    `include` is a directory with tasks of lm-eval.
    """
    vocabularies = vocabularies_of(models.source, settings.infer, languages)
    if include is not None and not include.is_dir():
        raise missing(include, "give a directory with tasks of lm-eval")
    own, external = tasks_of(settings.tasks, data)
    jobs, skipped = _collect_jobs(own, list(vocabularies), data, settings, models.progress)
    if external and len(set(vocabularies.values())) > 1:
        raise UsageError(
            f"the language of the task {external[0]!r} is unknown",
            where="--langs",
            remedy="pass one language with --langs, or --infer full",
        )
    if not jobs and not external:
        raise _no_questions(skipped, data)
    mode = mode_name(models.source, settings.infer)
    signs = [_signature(models, vocabularies[job.language], mode, job, settings) for job in jobs]
    known = [kept.find(sign) for sign in signs]
    for language, infer in vocabularies.items():
        of_language = [
            job
            for job, rows in zip(jobs, known, strict=True)
            if job.language == language and rows is None
        ]
        if of_language:
            _require_choices_fit(models.source, infer, of_language)
    evaluation = Evaluation(skipped=skipped)
    for language, infer in vocabularies.items():
        results = []
        for job, sign, rows in zip(jobs, signs, known, strict=True):
            if job.language == language:
                if rows is not None:
                    result = Result.from_row(rows[0])
                else:
                    result, examples = _run_job(models, infer, mode, sign, job, settings)
                    kept.add([result.as_row()])
                    evaluation.examples += examples
                results.append((job.suite, result))
        evaluation.results += [result for _, result in results]
        evaluation.results += _mean(
            [result for suite, result in results if suite.in_mean], models.labels
        )
    if external:
        from modtok_cli.evaluate.harness import run_external_tasks

        language, infer = next(iter(vocabularies.items()))
        name = language if len(vocabularies) == 1 else str(infer)
        others = run_external_tasks(models, infer, mode, name, external, settings, include)
        evaluation.results += others.results
        evaluation.examples += others.examples
    return evaluation


def check_tasks(config: Config, languages: Sequence[str]) -> list[str]:
    """Check that `modtok pretrain --eval-tasks` has questions; what is missing, in sentences."""
    if find_spec("lm_eval") is None:
        remedy = "pip install 'modtok[eval]'"
        raise UsageError("lm_eval is not installed", where="--eval-tasks", remedy=remedy)
    hub.stay_local()
    data, settings = _in_training(config)
    own, external = tasks_of(settings.tasks, data)
    if external:
        raise UsageError(f"no local task '{external[0]}' in {Folder(data).path}", remedy=LAYOUT)
    jobs, skipped = _collect_jobs(own, languages, data, settings, SILENT)
    if not jobs:
        raise _no_questions(skipped, data)
    return skipped


def evaluate_tasks(
    config: Config,
    run: Path,
    step: int,
    languages: Sequence[str],
    *,
    device: torch.device,
    progress: Progress,
) -> list[Mapping[str, Any]]:
    """Return the rows of `modtok eval mcq` on the checkpoint of a step; [] without questions."""
    data, settings = _in_training(config)
    own, _ = tasks_of(settings.tasks, data)
    jobs, _ = _collect_jobs(own, languages, data, settings, SILENT)
    present = {job.language for job in jobs}
    chosen = [language for language in languages if language in present]
    if not chosen:
        return []
    models = open_models(run, step=step, device=device, progress=progress)
    return [*answer(models, chosen, data, None, settings, Kept()).rows]


def _in_training(config: Config) -> tuple[Path, McqSettings]:
    own = config.evaluation
    tasks = None if own.eval_tasks == ("all",) else own.eval_tasks
    return own.eval_tasks_data, McqSettings(tasks=tasks, limit=own.eval_tasks_limit)


def tasks_of(names: Sequence[str] | None, data: Path | None) -> tuple[list[Suite], list[str]]:
    """Split names into suites and others; None is all suites with local files, else all suites."""
    known = dict(suites())
    folder = Folder(data) if data is not None else None
    present = folder.tasks if folder is not None else []
    for name in present:
        own = folder.path / name / TASK_FILE if folder is not None else Path()
        if own.is_file():
            suite = read_suite(own)
            if suite.task != name:
                raise ModtokError(
                    f"describes the task {suite.task!r}", where=own, remedy=f"name it {name!r}"
                )
            known[name] = suite
    if names is not None:
        for name in names:
            if name.endswith(LETTERS):
                base = name.removesuffix(LETTERS)
                if base not in known:
                    what = f"there is no suite {base!r}, and {LETTERS} is for suites"
                    raise UsageError(what, where=name, remedy=f"use {', '.join(sorted(known))}")
                known[name] = known[base].by_letter()
    if folder is None and names is None:
        return list(known.values()), []
    unknown = [name for name in names or present if name in present and name not in known]
    if unknown and folder is not None:
        raise ModtokError(
            f"has no {TASK_FILE}, which describes a task",
            where=folder.path / unknown[0],
            remedy=f"add a {TASK_FILE}, see docs/evaluation.md",
        )
    if names is not None:
        chosen = [known[name] for name in names if name in known]
        return chosen, [name for name in names if name not in known]
    return [suite for name, suite in known.items() if name in present], []


def _collect_jobs(
    own: Sequence[Suite],
    languages: Sequence[str],
    data: Path | None,
    settings: McqSettings,
    progress: Progress,
) -> tuple[list[_Job], list[str]]:
    """Collect the tasks and languages with questions, and say in sentences what is missing."""
    jobs: list[_Job] = []
    missing: dict[str, list[str]] = {}

    def lacks(what: str, language: str) -> None:
        languages_of = missing.setdefault(what, [])
        if language not in languages_of:
            languages_of.append(language)

    folder = None if data is None else Folder(data)
    with progress.task("loading questions", len(own) * len(languages), "files") as task:
        for suite, language in product(own, languages):
            task.advance(1)
            local = folder is not None and folder.has(suite.questions, language)
            if suite.hub and suite.source(language) is None and not local:
                if settings.tasks is not None:
                    lacks(f"{suite.task} does not exist", language)
                continue
            if folder is None and (NO_HUB in missing or not hub.reachable()):
                lacks(NO_HUB, language)  # the same for all other tasks
                continue
            try:
                questions, shown = _questions(suite, language, folder, progress)
            except (hub.Unreachable, _Missing) as error:
                lacks(NO_HUB if isinstance(error, hub.Unreachable) else str(error), language)
                continue
            job = _Job(suite, language, questions[: settings.limit], shown)
            lacking = _lacks_examples(job, settings)
            if lacking:
                lacks(f"{suite.task} {lacking}", language)
            else:
                jobs.append(job)
    skipped = [
        f"no questions for {', '.join(langs)}: {NO_HUB}"
        if what == NO_HUB
        else f"{what} in {','.join(langs)}"
        for what, langs in missing.items()
    ]
    covered = {job.language for job in jobs}.union(*missing.values())
    bare = [name for name in languages if name not in covered]
    if bare and own:
        skipped.append(f"no questions in {','.join(bare)}")
    return jobs, skipped


class _Missing(Exception):
    """Why there are no questions."""


def _questions(
    suite: Suite, language: str, folder: Folder | None, progress: Progress
) -> tuple[list[Question], list[Question]]:
    asked, shown = _written(suite, language, folder, progress)
    if suite.letters:
        return [one.by_letter() for one in asked], [one.by_letter() for one in shown]
    return asked, shown


def _written(
    suite: Suite, language: str, folder: Folder | None, progress: Progress
) -> tuple[list[Question], list[Question]]:
    """Questions and examples as in the files."""
    if folder is not None:
        local = folder.of(suite.questions, language)
        if local is None:
            raise _Missing(f"no questions in {folder.path / suite.questions}")
        return local
    source = suite.source(language)
    assert source is not None  # without local files
    try:
        return hub.questions(source, language, progress=progress)
    except hub.Unreachable:
        raise
    except ModtokError as error:
        raise _Missing(f"{suite.task} ({error})") from error


def _lacks_examples(job: _Job, settings: McqSettings) -> str | None:
    """Return the reason why few-shot examples are missing; None if there are enough."""
    shots = _shots(job, settings)
    if not shots:
        return None
    groups = Counter(row.group for row in job.shown)
    fewest = min(groups[row.group] for row in job.questions)
    if fewest < shots:
        return f"has {fewest} few-shot examples, expected {shots} (<lang>.train.jsonl)"
    return None


def _require_choices_fit(source: ModelSource, infer: Infer, jobs: Sequence[_Job]) -> None:
    """Check that every choice fits the context, before hours of other tasks."""
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


def _no_questions(skipped: Sequence[str], data: Path | None) -> ModtokError:
    remedy = f"{LAYOUT}; then pass DIR with --eval-data"
    if any(NO_HUB in each for each in skipped):
        fetch = "run `modtok eval fetch mcq` where it can"
        return ModtokError("; ".join(skipped), remedy=f"{fetch}, or {remedy}")
    where = "tasks/" if data is None else Folder(data).path
    what = "no questions: " + "; ".join(skipped or ["no task"])
    return ModtokError(what, where=where, remedy=remedy)


def _shots(job: _Job, settings: McqSettings) -> int:
    return job.suite.shots if settings.shots is None else settings.shots


def _signature(models: Models, infer: Infer, mode: str, job: _Job, settings: McqSettings) -> str:
    return evaluation_signature(
        job.suite.task,
        language=job.language,
        data=data_digest(_texts(job)),
        shots=_shots(job, settings),
        infer=f"{mode}:{infer}",
        model=models.signed,
        packages=("torch", "transformers", "lm-eval"),
    )


def _run_job(
    models: Models, infer: Infer, mode: str, sign: str, job: _Job, settings: McqSettings
) -> tuple[Result, list[dict[str, Any]]]:
    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.harness import run_tasks
    from modtok_cli.evaluate.lm import ModtokLM

    model = models.of(infer)
    suite, language = job.suite, job.language
    label = f"{language} {suite.task}"
    lm = ModtokLM(
        model,
        batch_size=settings.batch_size,
        processes=models.processes,
        progress=models.progress,
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
        models.progress.warn(f"{label}: {facts['truncated']:,} contexts were truncated on the left")
    builder = ResultBuilder(
        suite.task, language, len(rows), task.shots, mode, sign, models.labels, facts
    )
    values = [row["scores"][suite.metric] for row in rows]
    builder.add_mean(suite.metric, values, normalization=suite.normalization)
    return builder.results[0], rows


def _facts(
    job: _Job, rows: Sequence[Mapping[str, Any]], lm: ModtokLM, task: ClozeTask
) -> dict[str, Any]:
    """Return further fields of a result: chance, other metrics, truncation."""
    others = {
        name: 100 * sum(row["scores"][name] for row in rows) / len(rows)
        for name in rows[0]["scores"]
        if name != job.suite.metric
    }
    chance = sum(1 / len(row.choices) for row in job.questions) / len(job.questions)
    return {
        **vars(ACCURACY),
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
    """Return all texts that determine the scores."""
    suite = job.suite
    texts = [suite.render("", "", job.language), suite.unconditional(job.language)]
    for row in (*job.shown, *job.questions):
        texts += [row.context, row.question, *row.choices, str(row.answer), row.group]
    return texts


def _mean(parts: Sequence[Result], model: Mapping[str, Any]) -> list[Result]:
    """The unweighted mean of the tasks of a language, the paper's MCQ, if there are several."""
    if len(parts) < 2:
        return []
    parts = sorted(parts, key=lambda part: part.task)  # whatever their order in --tasks
    tasks = "+".join(part.task for part in parts)
    sign = digest(*(part.signature.encode() for part in parts))
    return [
        Result(
            task=MEAN,
            language=parts[0].language,
            metric="accuracy",
            value=sum(part.value for part in parts) / len(parts),
            low=None,
            high=None,
            n=sum(part.n for part in parts),
            shots=max(part.shots for part in parts),
            normalization="per task",
            infer=parts[0].infer,
            signature=signature(MEAN, tasks=tasks, of=sign),
            checkpoint=parts[0].checkpoint,
            facts={
                **model,
                **vars(ACCURACY),
                "chance": sum(part.facts["chance"] for part in parts) / len(parts),
            },
        )
    ]
