"""Prepare a run: ranks, tokenizer, text, mixture, directory."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.memory import check_memory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.parallel import cores
from modtok_cli.training.checkpoint import Checkpointer, last_step
from modtok_cli.training.command_line import command_line
from modtok_cli.training.config import Config, check_ranks
from modtok_cli.training.data.conversation import FILE, ChatFormat
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore, text_stores
from modtok_cli.training.distributed.ranks import (
    Ranks,
    gather_json,
    has_gpu,
    raise_together,
    ranks_here,
    start_ranks,
    versions,
)
from modtok_cli.training.heldout import check_validation, lost_texts
from modtok_cli.training.initial import open_initial, trained_rows
from modtok_cli.training.model.loss import CHUNK
from modtok_cli.training.opening import (
    TEXTS,
    TOKENIZER,
    by_source,
    check_text,
    check_tokenizer,
    choose_run,
    create,
    places_of_texts,
    sources_of,
    texts_by_stage,
)
from modtok_cli.training.plan import row_counts
from modtok_cli.training.reads import (
    chat_of,
    check_answers,
    limited,
    reading_of,
    reads_of,
    samples_of,
)
from modtok_cli.training.reporting import require_loggers
from modtok_cli.training.run import Run, RunPlace, RunTexts, TaskEvaluation
from modtok_cli.training.run_memory import (
    capacity,
    check_disk,
    check_fits,
    check_host,
    check_step_memory,
    host_need,
    loss_chunk,
    recomputed,
)
from modtok_cli.training.rundir import RunDirectory, point_latest
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.stored_config import config_as_json
from modtok_cli.training.task_scores import check_tasks


def prepare(
    settings: RunSettings,
    *,
    resume: bool,
    force: bool,
    progress: Progress,
    tasks: TaskEvaluation | None = None,
) -> list[Run]:
    """Join the ranks, read tokenizer and text, open the run's directory: the stages of the run."""
    # Without memory for its threads, the process group waits forever.
    check_memory(1 << 30, "training", "end other processes, or use a larger machine")
    gpu = has_gpu()
    directory, config, notes = choose_run(settings, resume=resume, gpu=gpu)
    ranks = start_ranks(config.parallelism.tp)
    if config.parallelism.distributed_optimizer and not gpu:
        raise UsageError(
            "requires GPUs", where="--set parallelism.distributed_optimizer", remedy="leave it out"
        )
    require_loggers(config.evaluation.log or ())
    progress = progress if ranks.first else SILENT
    for period in config.periods:
        with period.locating():
            check_ranks(period.config, ranks.world)
            check_step_memory(period.config)
    if resume and ranks.device.type == "cpu":  # sums on a CPU depend on the number of threads
        torch.set_num_threads(directory.read_config()["ranks"]["threads"])
    subtokenizers = SubtokenizerCache.load(config.data.tokenizer)
    if resume:
        notes.append(check_tokenizer(directory, subtokenizers.tokenizer, settings.data.tokenizer))
    for note in filter(None, notes):
        progress.note(note)
    chat = chat_of(config, subtokenizers, directory.path if resume else None)
    texts = _open_texts(config, chat, subtokenizers, ranks, progress)
    recompute, chunk = _check_resources(config, texts, ranks, directory)
    checkpoints = Checkpointer(
        directory.checkpoints,
        ranks,
        keep=config.evaluation.keep,
        keep_every=config.evaluation.keep_every,
    )
    run = Run(
        config,
        texts[0],
        RunPlace(directory, ranks, checkpoints, progress, tasks),
        config.data.tokenizer.resolve(),
        recompute=recompute,
        chunk=chunk,
    )
    if config.init.init_from is not None:
        _use_initial(run, resume=resume)
    runs = _stages(run, texts)
    check_tasks(runs[0])
    _open_directory(runs, resume=resume, force=force)
    own = directory.path / TOKENIZER
    lost: dict[bool, Any] = {}
    for run in runs:
        if own.is_dir():  # what happens to the tokenizer elsewhere does not affect the run
            run.tokenizer = own.resolve()
        # What splits evaluated text depends on this of all that a stage may change.
        joint = run.config.sampling.regime.kind == "joint"
        lost[joint] = run.lost = lost[joint] if joint in lost else lost_texts(run)
    return runs


def _stages(run: Run, texts: Sequence[RunTexts]) -> list[Run]:
    """The stages of a run, by its configuration and the texts of each."""
    runs: list[Run] = []
    tokens = 0
    for period, own in zip(run.config.periods, texts, strict=True):
        runs.append(
            replace(
                run,
                config=period.config,
                texts=own,
                number=period.number,
                steps=period.steps,
                tokens_before=tokens,
            )
        )
        tokens += len(period.steps) * period.config.step_tokens
    return runs


def prepare_text(
    settings: RunSettings, *, resume: bool, progress: Progress
) -> list[dict[str, Any]]:
    """Unpack the text of a run, without joining ranks: a row per language.

    Ranks that start later find it. What is unpacked already is not read again.
    """
    gpu = has_gpu()
    directory, config, _ = choose_run(settings, resume=resume, gpu=gpu)
    files = texts_by_stage(config, progress)
    chat = None
    if config.data.chat_template is not None:
        subsets = SubtokenizerCache.load(config.data.tokenizer)
        chat = chat_of(config, subsets, directory.path if resume else None)
    stores = _unpacked(config, files, chat, progress)
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


def _unpacked(
    config: Config,
    files: Sequence[Mapping[str, Sequence[Path]]],
    chat: ChatFormat | None,
    progress: Progress,
    threads: int | None = None,
) -> list[dict[str, TextStore]]:
    """The text of each stage, from its files by language; stages with the same files share it."""
    stores: list[dict[str, TextStore]] = []
    for number, (period, own) in enumerate(zip(config.periods, files, strict=True)):
        if own in files[:number]:
            stores.append(stores[files.index(own)])
            continue
        with period.locating():
            stores.append(
                text_stores(
                    own,
                    config.runs / TEXTS,
                    reading=reading_of(config, chat),
                    sources=sources_of(config, period.config, own),
                    threads=threads,
                    progress=progress,
                )
            )
            if chat is not None:
                check_answers(period.config, stores[-1], progress)
    return stores


def _open_texts(
    config: Config,
    chat: ChatFormat | None,
    subtokenizers: SubtokenizerCache,
    ranks: Ranks,
    progress: Progress,
) -> list[RunTexts]:
    """Open the stores of each stage's text and of --valid."""
    files = texts_by_stage(config, progress)
    languages = subtokenizers.tokenizer.languages
    valid_files = check_validation(config, languages, progress)
    cache, reading = config.runs / TEXTS, reading_of(config, chat)
    error: ModtokError | None = None
    stores: list[dict[str, TextStore]] = []
    valid: dict[str, dict[str, TextStore]] = {}
    threads = max(1, cores() // ranks_here(ranks))
    try:
        # The ranks share the files, and wait for each other outside of collectives.
        stores = _unpacked(config, files, chat, progress, threads)
        valid = {
            name: text_stores(by_language, cache, reading=reading, least=1, progress=progress)
            for name, by_language in valid_files.items()
        }
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)
    held_out = {name: store for one in reversed(stores) for name, store in one.items()}
    texts = []
    for period, own in zip(config.periods, stores, strict=True):
        with period.locating():
            sizes = {language: store.text_bytes for language, store in own.items()}
            mixture = Mixture.of(sizes, period.config.sampling.mix, period.config.sampling.mix_rest)
            period.config.sampling.regime.check(mixture.languages)
            if period.config.sampling.dropout:
                subtokenizers.check_dropout()
            mixture, by_name = by_source(period.config, mixture, own, progress)
            if period.config.sampling.max_epochs is not None:
                what = mixture, subtokenizers, samples_of(by_name)
                reads = reads_of(period.config, len(period.steps), *what)
                mixture = limited(period.config, mixture, reads)
        texts.append(RunTexts(subtokenizers, by_name, held_out, mixture, valid, chat))
    return texts


def _use_initial(run: Run, *, resume: bool) -> None:
    """Open the model of --init-from; a resumed run needs only what it stored of it."""
    config, tokenizer = run.config, run.texts.subtokenizers.tokenizer
    if not resume:
        assert config.init.init_from is not None
        run.initial = open_initial(config.init.init_from)
        run.initial.check(tokenizer, train=config.init.train)
    if config.init.train == "rows":
        run.only_rows = (
            run.initial.new_rows(tokenizer)
            if run.initial is not None
            else trained_rows(run.place.directory.read_config()["initial"], tokenizer)
        )


def _check_resources(
    config: Config,
    texts: Sequence[RunTexts],
    ranks: Ranks,
    directory: RunDirectory,
) -> tuple[int, int]:
    """Check, before anything is allocated, that devices, nodes and the disk have room.

    Returns the number of layers that are recomputed, and the chunk of the loss, the same on all
    ranks and in all stages.
    """
    subtokenizers = texts[0].subtokenizers
    size, gpu, here = subtokenizers.size, ranks.device.type == "cuda", ranks_here(ranks)
    error, chosen = None, [(0, CHUNK)]
    try:
        for period, own in zip(config.periods, texts, strict=True):
            with period.locating():
                step_rows = row_counts(period.config, own.mixture, subtokenizers, ranks.replicas)
                room, owner = capacity(config, gpu=gpu, here=here)
                fitting = recomputed(period.config, size, step_rows, ranks.world, room)
                check_fits(fitting, size, step_rows, ranks.world, room, owner)
                rest = size, step_rows, ranks.world, room
                layers = fitting.parallelism.recompute or 0
                chosen.append((layers, loss_chunk(fitting, *rest) if gpu else CHUNK))
                if config.parallelism.offload:
                    check_host(config, host_need(config, size, step_rows.union, ranks.world, here))
        if ranks.first:
            check_disk(config, size, directory.checkpoints)
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)
    every = gather_json(ranks, chosen[1:])
    chunk = min(chunk for one in every for _, chunk in one)
    return max(layers for one in every for layers, _ in one), chunk


def _open_directory(runs: Sequence[Run], *, resume: bool, force: bool) -> None:
    """Rank 0 locks the directory of a resumed run, or creates a new one."""
    run = runs[0]
    directory, error = run.place.directory, None
    try:
        if run.place.ranks.first and resume:
            directory.lock()
            step = last_step(directory.checkpoints) or 0
            begun = sum(one.steps.start <= step for one in runs)
            check_text(directory, [_text(one) for one in runs], max(1, begun))
            point_latest(directory.path)
        elif run.place.ranks.first:
            create(directory, _content(runs), run.tokenizer, force=force)
            if run.texts.chat is not None:
                write_bytes(directory.path / FILE, run.texts.chat.to_json())
    except ModtokError as caught:
        directory.close()
        error = caught
    raise_together(run.place.ranks, error)


def _text(run: Run) -> dict[str, Any]:
    """The record of a stage's text in config.json."""
    return {"mixture": run.texts.mixture.as_dict(), "text": run.texts.checksums}


def _content(runs: Sequence[Run]) -> dict[str, Any]:
    """config.json of a new run."""
    run = runs[0]
    tokenizer = run.texts.subtokenizers.tokenizer
    return {
        **_changeable(runs),
        **_text(run),
        "tokenizer": {
            "path": TOKENIZER,
            "signature": tokenizer.signature,
            "size": tokenizer.size,
            "languages": tokenizer.languages,
        },
        "ranks": {
            "world": run.place.ranks.world,
            "shards": run.place.ranks.shards,
            "threads": torch.get_num_threads(),
        },
        "versions": versions(),
        **({"initial": run.initial.as_json(tokenizer)} if run.initial else {}),
    }


def update_config(runs: Sequence[Run]) -> None:
    """Store the options and stages that a resumed run changes; rank 0 calls it."""
    directory = runs[0].place.directory
    content = directory.read_config()
    changed = {**content, **_changeable(runs)}
    if orjson.dumps(changed) != orjson.dumps(content):
        directory.write_config(changed)


def _changeable(runs: Sequence[Run]) -> Mapping[str, Any]:
    """The fields of config.json that a resumed run may change."""
    run = runs[0]
    path = run.place.directory.path
    return {
        "command": command_line(run.config, path.name, gpu=run.place.ranks.device.type == "cuda"),
        "config": config_as_json(run.config),
        "stages": [_text(one) for one in runs[1:]],
        "places": places_of_texts(run.config, path),
    }
