"""What stands before a run can start: ranks, tokenizer, text, mixture, directory."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import remove_directory
from modtok_cli.base.memory import check_memory
from modtok_cli.base.option import options_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.pretrain import checkpoint
from modtok_cli.pretrain.checkpoint import Checkpointer
from modtok_cli.pretrain.config import Config, Settings, check_ranks, resolve, resumed, run_name
from modtok_cli.pretrain.data.sampling import Mixture
from modtok_cli.pretrain.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.pretrain.data.text_store import TextStore, text_store
from modtok_cli.pretrain.device_memory import capacity, check_disk, check_fits
from modtok_cli.pretrain.distributed.ranks import (
    Ranks,
    gather_json,
    pick_device,
    raise_together,
    start_ranks,
    versions,
)
from modtok_cli.pretrain.initial import InitialRun, config_of_initial, new_rows
from modtok_cli.pretrain.plan import node_need, row_counts
from modtok_cli.pretrain.rows.host_need import check_host
from modtok_cli.pretrain.rundir import CONFIG, LATEST, RunDirectory, point_latest
from modtok_cli.pretrain.tensorboard import TensorBoard, require_tensorboard
from modtok_cli.text.workspace import language_files

TEXTS = ".text"


@dataclass
class Run:
    """All that the steps below share."""

    config: Config
    directory: RunDirectory
    ranks: Ranks
    subtokenizers: SubtokenizerCache
    stores: dict[str, TextStore]
    mixture: Mixture
    progress: Progress
    tokenizer: Path
    checkpointer: Checkpointer
    initial: InitialRun | None = None
    only_rows: torch.Tensor | None = None
    board: TensorBoard | None = None

    @property
    def device(self) -> torch.device:
        """This rank's."""
        return self.ranks.device

    @property
    def texts(self) -> dict[str, int]:
        """Language → checksum of its text."""
        return {language: store.checksum for language, store in self.stores.items()}


def prepare(settings: Settings, *, resume: bool, force: bool, progress: Progress) -> Run:
    """Join the ranks, read tokenizer and text, open the run's directory.

    Raises:
        ModtokError, UsageError: settings, tokenizer, text or directory are not usable.
    """
    # Without memory for its threads the process group waits for ever.
    check_memory(1 << 30, "training", "close what else runs, or use a larger machine")
    gpu = pick_device().type == "cuda"
    directory, config, notes = choose_run(settings, resume=resume, gpu=gpu)
    ranks = start_ranks(config.tp)
    if config.distributed_optimizer and not gpu:
        raise UsageError("needs GPUs", where="--distributed-optimizer", remedy="leave it out")
    if config.tensorboard:
        require_tensorboard()
    progress = progress if ranks.first else SILENT
    check_ranks(config, ranks.world)
    _check_path(directory.path)
    for note in notes:
        progress.note(note)
    if resume and ranks.device.type == "cpu":  # sums on a CPU depend on the number of threads
        torch.set_num_threads(directory.read_config()["ranks"]["threads"])
    subtokenizers = SubtokenizerCache.load(config.tokenizer)
    files = language_files(config.data, config.langs)
    strangers = sorted(set(files) - set(subtokenizers.tokenizer.languages))
    if strangers:
        raise UsageError(
            f"the tokenizer has no language '{strangers[0]}', which {config.data} has",
            where=str(config.tokenizer),
            remedy="leave it out with --langs, or add it with modtok bpe-seq --append",
        )
    error: ModtokError | None = None
    stores: dict[str, TextStore] = {}
    if ranks.first:  # the others read what rank 0 unpacked, on the file system they share
        try:
            stores = _stores(files, config.runs, config.errors, progress)
        except ModtokError as caught:
            error = caught
    raise_together(ranks, error)
    stores = stores or _stores(files, config.runs, config.errors, SILENT)
    sizes = {language: store.text_bytes for language, store in stores.items()}
    mixture = Mixture.of(sizes, config.mix, config.mix_rest)
    config.regime.check(mixture.languages)
    _check_resources(config, mixture, subtokenizers, ranks, directory)
    run = Run(
        config,
        directory,
        ranks,
        subtokenizers,
        stores,
        mixture,
        progress,
        config.tokenizer.resolve(),
        Checkpointer(directory.checkpoints, ranks, keep=config.keep, keep_every=config.keep_every),
    )
    if config.init_from is not None:
        _use_initial(run, resume=resume)
    error = None
    if ranks.first:
        try:
            _open_directory(run, resume=resume, force=force)
        except ModtokError as caught:
            directory.close()
            error = caught
    raise_together(ranks, error)
    return run


def _use_initial(run: Run, *, resume: bool) -> None:
    """Open the run of --init-from; a resumed run only needs its languages."""
    config, tokenizer = run.config, run.subtokenizers.tokenizer
    if resume:
        languages = run.directory.read_config()["initial"]["languages"]
    else:
        assert config.init_from is not None
        run.initial = InitialRun.open(config.init_from)
        run.initial.check(tokenizer, train=config.train)
        languages = run.initial.languages
    if config.train == "rows":
        run.only_rows = new_rows(tokenizer, languages)


def _stores(
    files: dict[str, list[Path]], runs: Path, errors: str, progress: Progress
) -> dict[str, TextStore]:
    return {
        language: text_store(language, paths, runs / TEXTS, errors=errors, progress=progress)
        for language, paths in files.items()
    }


def _check_resources(
    config: Config,
    mixture: Mixture,
    subtokenizers: SubtokenizerCache,
    ranks: Ranks,
    directory: RunDirectory,
) -> None:
    """Check, before anything is allocated, that devices, nodes and the disk have room."""
    active, union = row_counts(config, mixture, subtokenizers, ranks.replicas)
    here = gather_json(ranks, platform.node()).count(platform.node())
    error = None
    try:
        room, owner = capacity(config, gpu=ranks.device.type == "cuda", here=here)
        check_fits(config, subtokenizers.size, active, union, ranks.world, room, owner)
        if config.offload:
            need = node_need(config, subtokenizers.size, union, ranks.shards, ranks.world, here)
            check_host(
                need,
                moments=getattr(torch, config.offload_moments),
                directory=config.offload_file,
            )
        if ranks.first:
            check_disk(config, subtokenizers.size, directory.checkpoints)
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)


def choose_run(
    settings: Settings, *, resume: bool, gpu: bool
) -> tuple[RunDirectory, Config, list[str]]:
    """The run's directory, its configuration, and what a resumed run changes, in sentences.

    Raises:
        UsageError: no run to resume, or an option that cannot change.
    """
    if not resume:
        config = resolve(settings, gpu=gpu, source=config_of_initial(settings))
        return RunDirectory(config.runs / run_name(config)), config, []
    directory, then = stored_run(settings)
    return directory, *resumed(then, settings, str(directory.path))


def stored_run(settings: Settings) -> tuple[RunDirectory, Config]:
    """The run that `--resume` continues: the one of `name`, else `latest`.

    Raises:
        UsageError: there is no such run.
        ModtokError: its configuration is not readable.
    """
    runs = settings.runs or options_of(Settings)["runs"].default
    path = runs / (settings.name or LATEST)
    if settings.name is None and path.is_symlink():  # the target, which may be a link too
        path = path.parent / path.readlink()
    directory = RunDirectory(path)
    config = Config.from_json(directory.read_config()["config"], str(directory.path / CONFIG))
    return directory, config


def _check_path(path: Path) -> None:
    """Refuse paths that are not UTF-8: safetensors writes checkpoints there but cannot read them.

    Raises:
        UsageError: the path is not UTF-8.
    """
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "the path is not UTF-8, and safetensors cannot open files below it",
            where=str(path),
            remedy="choose another directory with --runs",
        ) from error


def _has_content(path: Path) -> bool:
    """Whether there is something; a run that was killed before its first file is nothing."""
    if path.is_symlink() or not path.is_dir():
        return path.exists()
    return any(not entry.name.startswith(".") for entry in path.iterdir())


def _open_directory(run: Run, *, resume: bool, force: bool) -> None:
    """Check what is there; write config.json of a new run."""
    signature = run.subtokenizers.tokenizer.signature
    directory = run.directory
    if resume:
        directory.lock()
        then = directory.read_config()
        if then["tokenizer"]["signature"] != signature:
            raise ModtokError(
                f"was trained with tokenizer {then['tokenizer']['signature']}, "
                f"{run.tokenizer.name} is {signature}",
                where=str(directory.path),
                remedy="give the same tokenizer with -t, or start another run with --name",
            )
        same_text = then.get("text", run.texts) == run.texts  # older runs do not say
        if then["mixture"] != run.mixture.as_dict() or not same_text:
            raise ModtokError(
                "the text has changed since the run was started",
                where=str(directory.path),
                remedy="put the text back as it was, or start another run with --name",
            )
        point_latest(directory.path)
        return
    if _has_content(directory.path):
        if not force:
            there = "is there already" if checkpoint.has_any(directory.checkpoints) else "is there"
            raise UsageError(
                there,
                where=str(directory.path),
                remedy="--resume goes on with it, --force begins anew, --name chooses another",
            )
        if not (directory.path / "config.json").is_file():
            raise UsageError("is no run of ours", where=str(directory.path), remedy="use --name")
        directory.lock()
        remove_directory(directory.path)
    directory.start(
        {
            "config": run.config.as_json(),
            "mixture": run.mixture.as_dict(),
            "text": run.texts,
            "tokenizer": {
                "path": os.fsencode(run.tokenizer.name).decode(errors="replace"),
                "signature": signature,
                "size": run.subtokenizers.size,
                "languages": run.subtokenizers.tokenizer.languages,
            },
            "ranks": {
                "world": run.ranks.world,
                "shards": run.ranks.shards,
                "threads": torch.get_num_threads(),
            },
            "versions": versions(),
            **({"initial": run.initial.as_json()} if run.initial else {}),
        }
    )
