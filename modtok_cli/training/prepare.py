"""Prepare a run: ranks, tokenizer, text, memory, directory."""

from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.measure.lost import Lost
from modtok_cli.training.checkpoint import Checkpointer
from modtok_cli.training.config import Config, check_ranks
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import Ranks, has_gpu, start_ranks
from modtok_cli.training.heldout import lost_texts
from modtok_cli.training.initial import open_initial, trained_rows
from modtok_cli.training.opening import TOKENIZER, check_tokenizer, choose_run, open_directory
from modtok_cli.training.reads import chat_of
from modtok_cli.training.reporting import require_loggers
from modtok_cli.training.run import Run, TaskEvaluation
from modtok_cli.training.run_memory import check_step_memory, fit_memory
from modtok_cli.training.run_texts import open_texts, texts_by_stage, unpacked
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.task_scores import check_tasks


def prepare(
    settings: RunSettings,
    *,
    resume: bool,
    force: bool,
    progress: Progress,
    tasks: TaskEvaluation | None = None,
) -> Run:
    """Join the ranks, read tokenizer and text, and open the run's directory."""
    # Without memory for its threads, the process group waits forever.
    check_memory(1 << 30, "training", "end other processes, or use a larger machine")
    directory, config, notes = choose_run(settings, resume=resume, gpu=has_gpu())
    ranks = _join(config)
    progress = progress if ranks.first else SILENT
    if resume and ranks.device.type == "cpu":  # sums on a CPU depend on the number of threads
        torch.set_num_threads(directory.read_config()["ranks"]["threads"])
    subtokenizers = SubtokenizerCache.load(config.data.tokenizer)
    if resume:
        notes.append(check_tokenizer(directory, subtokenizers.tokenizer, settings.data.tokenizer))
    for note in filter(None, notes):
        progress.note(note)
    run = Run(
        config,
        directory,
        Checkpointer(
            directory.checkpoints,
            ranks,
            keep=config.evaluation.keep,
            keep_every=config.evaluation.keep_every,
        ),
        ranks,
        progress,
        tasks,
        config.data.tokenizer.resolve(),
        subtokenizers,
        chat=chat_of(config, subtokenizers, directory.path if resume else None),
    )
    open_texts(run)
    fit_memory(run)
    if config.init.init_from is not None:
        _use_initial(run, config.init.init_from, resume=resume)
    check_tasks(run)
    open_directory(run, resume=resume, force=force)
    if (own := directory.path / TOKENIZER).is_dir():
        run.tokenizer = own.resolve()  # what happens to the tokenizer elsewhere does not matter
    lost: dict[bool, dict[str, dict[str, Lost]]] = {}
    for stage in run.stages:
        # What splits evaluated text depends on this of all that a stage may change.
        joint = stage.config.sampling.regime.kind == "joint"
        stage.lost = lost[joint] = lost[joint] if joint in lost else lost_texts(stage)
    return run


def _join(config: Config) -> Ranks:
    """The ranks, among which model and steps of all stages divide evenly."""
    ranks = start_ranks(config.parallelism.tp)
    if config.parallelism.distributed_optimizer and not has_gpu():
        raise UsageError(
            "requires GPUs", where="--set parallelism.distributed_optimizer", remedy="leave it out"
        )
    require_loggers(config.evaluation.log or ())
    for period in config.periods:
        with period.locating():
            check_ranks(period.config, ranks.world)
            check_step_memory(period.config)
    return ranks


def _use_initial(run: Run, model: Path, *, resume: bool) -> None:
    """Open the model of --init-from; a resumed run needs only what it stored of it."""
    tokenizer, train = run.subtokenizers.tokenizer, run.config.init.train
    if not resume:
        run.initial = open_initial(model)
        run.initial.check(tokenizer, train=train)
    if train == "rows":
        run.only_rows = (
            run.initial.new_rows(tokenizer)
            if run.initial is not None
            else trained_rows(run.directory.read_config()["initial"], tokenizer)
        )


def prepare_text(
    settings: RunSettings, *, resume: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Unpack the text of a run, without joining ranks: a row per language.

    Ranks that start later find it. What is unpacked already is not read again.
    """
    directory, config, _ = choose_run(settings, resume=resume, gpu=has_gpu())
    files = texts_by_stage(config, progress)
    chat = None
    if config.data.chat_template is not None:
        subsets = SubtokenizerCache.load(config.data.tokenizer)
        chat = chat_of(config, subsets, directory.path if resume else None)
    stores = unpacked(config, files, chat, progress)
    return [
        {
            "language": language,
            "documents": len(store),
            "bytes": store.text_bytes,
            "store": str(store.directory),
        }
        for number, own in enumerate(stores)
        if own not in stores[:number]
        for language, store in own.items()
    ]
