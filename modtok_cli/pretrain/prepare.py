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
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.pretrain import checkpoint
from modtok_cli.pretrain.checkpoint import Checkpointer
from modtok_cli.pretrain.config import Config, Settings, check_ranks, resolve, resumed, run_name
from modtok_cli.pretrain.data.sampling import Mixture
from modtok_cli.pretrain.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.pretrain.data.text_store import TextStore, text_store
from modtok_cli.pretrain.distributed.ranks import (
    Ranks,
    gather_json,
    raise_together,
    start_ranks,
    versions,
)
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
    subsets: SubtokenizerCache
    stores: dict[str, TextStore]
    mixture: Mixture
    progress: Progress
    tokenizer: Path
    checkpointer: Checkpointer
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
    ranks = start_ranks(settings.tp)
    if settings.distributed_optimizer and ranks.device.type != "cuda":
        raise UsageError("needs GPUs", where="--distributed-optimizer", remedy="leave it out")
    if settings.tensorboard:
        require_tensorboard()
    progress = progress if ranks.first else SILENT
    directory, config = choose_run(settings, resume=resume, gpu=ranks.device.type == "cuda")
    check_ranks(config, ranks.world, settings.tp)
    _check_place(directory.path)
    if resume and ranks.device.type == "cpu":  # sums on a CPU depend on the number of threads
        torch.set_num_threads(directory.read_config()["ranks"]["threads"])
    subsets = SubtokenizerCache.load(settings.tokenizer)
    files = language_files(settings.data, config.langs)
    strangers = sorted(set(files) - set(subsets.tokenizer.languages))
    if strangers:
        raise UsageError(
            f"the tokenizer has no language '{strangers[0]}', which {settings.data} holds",
            where=str(settings.tokenizer),
            remedy="leave it out with --langs, or add it with modtok bpe-seq --append",
        )
    error: ModtokError | None = None
    stores: dict[str, TextStore] = {}
    if ranks.first:  # the others read what rank 0 unpacked, on the file system they share
        try:
            stores = _stores(files, settings.runs, config.errors, progress)
        except ModtokError as caught:
            error = caught
    raise_together(ranks, error)
    stores = stores or _stores(files, settings.runs, config.errors, SILENT)
    sizes = {language: store.text_bytes for language, store in stores.items()}
    mixture = Mixture.of(sizes, config.mix, config.mix_rest)
    config.regime.check(mixture.languages)
    if config.offload:
        _check_host(config, mixture, subsets, ranks, settings.offload_file)
    run = Run(
        config,
        directory,
        ranks,
        subsets,
        stores,
        mixture,
        progress,
        settings.tokenizer.resolve(),
        Checkpointer(directory.checkpoints, ranks),
    )
    error = None
    if ranks.first:
        try:
            _open_directory(run, resume=resume, force=force)
        except ModtokError as caught:
            directory.close()
            error = caught
    raise_together(ranks, error)
    return run


def _stores(
    files: dict[str, list[Path]], runs: Path, errors: str, progress: Progress
) -> dict[str, TextStore]:
    return {
        language: text_store(language, paths, runs / TEXTS, errors=errors, progress=progress)
        for language, paths in files.items()
    }


def _check_host(
    config: Config,
    mixture: Mixture,
    subsets: SubtokenizerCache,
    ranks: Ranks,
    directory: Path | None,
) -> None:
    """Before anything is taken: has every node the memory that its ranks will need?"""
    union = row_counts(config, mixture, subsets, ranks.replicas)[1]
    here = gather_json(ranks, platform.node()).count(platform.node())
    need = node_need(config, subsets.size, union, ranks.shards, ranks.world, here)
    error = None
    try:
        check_host(need, moments=getattr(torch, config.offload_moments), directory=directory)
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)


def choose_run(settings: Settings, *, resume: bool, gpu: bool) -> tuple[RunDirectory, Config]:
    """The run's directory and its settings: as told now, or on `resume` as told then.

    Raises:
        UsageError: nothing to resume, or a setting that the run was not started with.
    """
    if not resume:
        config = resolve(settings, gpu=gpu)
        return RunDirectory(settings.runs / run_name(settings, config)), config
    path = settings.runs / (settings.name or LATEST)
    if settings.name is None and path.is_symlink():  # the run it names, which may be a link too
        path = path.parent / path.readlink()
    directory = RunDirectory(path)
    then = Config.from_json(directory.read_config()["config"], str(directory.path / CONFIG))
    return directory, resumed(then, settings, str(directory.path))


def _check_place(path: Path) -> None:
    """Checkpoints can be written anywhere, and read by their library under UTF-8 names only.

    Raises:
        UsageError: what a run would leave there could not be opened again.
    """
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "is no UTF-8 path, and safetensors cannot open files below it",
            where=str(path),
            remedy="put the run elsewhere with --runs",
        ) from error


def _begun(path: Path) -> bool:
    """Whether there is something; a run that was killed before its first file is nothing."""
    if path.is_symlink() or not path.is_dir():
        return path.exists()
    return any(not entry.name.startswith(".") for entry in path.iterdir())


def _open_directory(run: Run, *, resume: bool, force: bool) -> None:
    """Check what is there; write config.json of a new run."""
    signature = run.subsets.tokenizer.signature
    directory = run.directory
    if resume:
        directory.hold()
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
    if _begun(directory.path):
        if not force:
            there = "is there already" if checkpoint.has_any(directory.checkpoints) else "is there"
            raise UsageError(
                there,
                where=str(directory.path),
                remedy="--resume goes on with it, --force begins anew, --name chooses another",
            )
        if not (directory.path / "config.json").is_file():
            raise UsageError("is no run of ours", where=str(directory.path), remedy="use --name")
        directory.hold()
        remove_directory(directory.path)
    directory.start(
        {
            "config": run.config.as_json(),
            "mixture": run.mixture.as_dict(),
            "text": run.texts,
            "tokenizer": {
                "path": os.fsencode(run.tokenizer.name).decode(errors="replace"),
                "signature": signature,
                "size": run.subsets.size,
                "languages": run.subsets.tokenizer.languages,
            },
            "ranks": {
                "world": run.ranks.world,
                "shards": run.ranks.shards,
                "threads": torch.get_num_threads(),
            },
            "versions": versions(),
        }
    )
