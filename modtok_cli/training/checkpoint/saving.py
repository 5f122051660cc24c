"""Save checkpoints in the background, every rank its own part.

What the ranks write is copied beside the next step, which waits for it before its update. A thread
of each rank then writes its file; the thread of rank 0 waits for all files, adds `state.json` and
gives the directory its name. The ranks meet on the file system they share, so that no message of a
save can cross calls of training.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.memory import available
from modtok_cli.training.checkpoint.checkpoint_files import (
    KEEP,
    STATE,
    WEIGHTS_ONLY,
    prune,
    shard_name,
    state_crc,
    step_directory,
    write_safetensors,
)
from modtok_cli.training.checkpoint.read import BACKBONE_PARTS, rows_of, table_tensors
from modtok_cli.training.distributed.ranks import Ranks, gather_json, raise_together
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.copies import Transfer

_FULL = "the previous checkpoint is complete; free space, then continue with --resume"
_WRITTEN = ".written.json"
# Host memory that must stay free beside a copy of what is saved.
_MARGIN = 1 << 30
_POLL_SECONDS = 0.02


class NotFinite(Exception):
    """Weights or moments of a model to be saved are infinite or NaN; names one tensor."""


class Checkpointer:
    """Saves the checkpoints of a run; every rank has one and makes the same calls.

    Args:
        directory: where checkpoints are stored, on a file system that all ranks share.
        keep: number of latest checkpoints to keep.
        keep_every: steps divisible by it are kept as well; None for no further ones.
    """

    def __init__(
        self,
        directory: Path,
        ranks: Ranks,
        *,
        keep: int = KEEP,
        keep_every: int | None = None,
    ) -> None:
        self._directory, self._ranks = directory, ranks
        self._keep, self._keep_every = keep, keep_every
        self._pinned = False
        self._thread: Thread | None = None
        self._error: ModtokError | None = None

    def save(self, model: Model, step: int, notes: Mapping[str, Any]) -> None:
        """Save `model` after `step`; `notes` are further fields of `state.json`.

        It is written while training continues. Without host memory for a copy, `save` returns when
        the checkpoint is complete.

        Raises:
            ModtokError: the file system refused this checkpoint or the previous one, whose
                writing had not ended. Older checkpoints are unchanged.
            NotFinite: nothing worth keeping; older checkpoints are unchanged.
        """
        self.wait()
        ranks = self._ranks
        error: ModtokError | None = None
        try:
            model.drain()
        except ModtokError as caught:
            error = caught
        raise_together(ranks, error)
        background = all(gather_json(ranks, self._pinned or _fits(model)))
        # Pinned memory stays with its allocator: the next copy has room too.
        self._pinned = background and ranks.device.type == "cuda"
        copies: dict[str, Transfer] = {}
        finite: dict[str, torch.Tensor] = {}
        for name, tensor in _own_rows(model):
            finite[name] = _is_finite(tensor)
            copies[name] = model.copies.keep(tensor) if background else Transfer(tensor)
            if model.optimizer.distributed:  # made for this: one at a time on the device
                copies[name].wait()
        odd = next((name for name, flag in finite.items() if not flag), None)
        wrong = [name for name in gather_json(ranks, odd) if name is not None]
        if wrong:
            raise NotFinite(f"'{wrong[0]}' is not finite")
        state = {
            "step": step,
            "shards": ranks.shards,
            "parts": ranks.replicas,
            **notes,
        }
        final = step_directory(self._directory, step)
        beside, renaming = self._create(final)
        work = (final, beside, renaming, copies, state, model.copies.enter_thread)
        self._thread = Thread(target=self._write, args=work, name=f"checkpoint {step}")
        self._thread.daemon = True  # a second Ctrl-C does not wait for it
        self._thread.start()
        if not background:
            self.wait()

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is complete."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            error, self._error = self._error, None
            raise_together(self._ranks, error)

    def close(self) -> None:
        """Wait; ignore errors. For the end of a run that failed otherwise."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _create(self, final: Path) -> tuple[Path, ExitStack]:
        """The directory to fill, and what renames it. Rank 0 creates it, the others learn its name.

        Collective. After it, the ranks meet on the file system only.
        """
        renaming, error, name = ExitStack(), None, None
        if self._ranks.first:
            try:
                name = str(renaming.enter_context(atomic_directory(final)))
            except ModtokError as caught:
                error = ModtokError(caught.what, where=caught.where, remedy=_FULL)
        name = gather_json(self._ranks, name)[0]
        if error is not None:
            raise error
        if name is None:
            raise ModtokError("rank 0 could not create the checkpoint", where=final)
        return Path(name), renaming

    def _write(
        self,
        final: Path,
        beside: Path,
        renaming: ExitStack,
        copies: dict[str, Transfer],
        state: dict[str, Any],
        enter: Callable[[], None],
    ) -> None:
        """In a thread: fill the directory, and complete it on rank 0."""
        first = self._ranks.first
        try:
            with renaming:
                enter()
                tensors = {name: copy.wait() for name, copy in copies.items()}
                copies.clear()
                self._write_part(beside, tensors)
                if first:
                    state |= {"files": self._collect(beside)}
                    state |= {"crc": state_crc(state)}
                    (beside / STATE).write_bytes(orjson.dumps(state, option=orjson.OPT_INDENT_2))
            if first:
                prune(self._directory, final, self._keep, self._keep_every)
        except ModtokError as error:
            remedy = _FULL if first else error.remedy
            self._error = ModtokError(error.what, where=error.where, remedy=remedy)
        except OSError as error:
            self._error = ModtokError(f"cannot write: {error.strerror}", where=final)
        except Exception as error:  # an error of ours must not pass in silence
            self._error = ModtokError(f"the checkpoint failed ({type(error).__name__}: {error})")

    def _write_part(self, beside: Path, tensors: dict[str, torch.Tensor]) -> None:
        ranks = self._ranks
        name = shard_name(ranks.shard, ranks.shards, ranks.replica, ranks.replicas)
        try:
            facts: dict[str, Any] = write_safetensors(beside / name, tensors)
        except OSError as error:
            facts = {"error": [error.errno or 0, error.strerror or str(error)]}
            if ranks.first:
                raise
        tensors.clear()  # the copy is no longer needed
        written = beside / f"{name}{_WRITTEN}"
        part = written.with_suffix(".part")
        part.write_bytes(orjson.dumps(facts))
        part.replace(written)  # from here on, the first rank may rename the directory

    def _collect(self, beside: Path) -> dict[str, Any]:
        """Facts of every rank's file, as they come."""
        shards, parts = self._ranks.shards, self._ranks.replicas
        missing = [shard_name(n // parts, shards, n % parts, parts) for n in range(shards * parts)]
        files: dict[str, Any] = {}
        while missing:
            for name in list(missing):
                file = beside / f"{name}{_WRITTEN}"
                try:
                    facts = orjson.loads(file.read_bytes())
                except FileNotFoundError:
                    continue
                if "error" in facts:
                    raise OSError(*facts["error"])
                file.unlink()
                files[name] = facts
                missing.remove(name)
            if missing:
                time.sleep(_POLL_SECONDS)
        return files


def save_weights(directory: Path, step: int, tensors: dict[str, torch.Tensor]) -> None:
    """Save a checkpoint of weights alone, (name in a checkpoint) → float32, in one file.

    Other runs start from it (`--init-from`); it cannot be resumed.
    """
    final, name = step_directory(directory, step), shard_name(0, 1)
    directory.mkdir(parents=True, exist_ok=True)
    with atomic_directory(final) as beside:
        state: dict[str, Any] = {"step": step, "shards": 1, "parts": 1}
        state |= {WEIGHTS_ONLY: True, "files": {name: write_safetensors(beside / name, tensors)}}
        state |= {"crc": state_crc(state)}
        (beside / STATE).write_bytes(orjson.dumps(state, option=orjson.OPT_INDENT_2))


def _own_rows(model: Model) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that this rank writes, by name: its rows of the tables, and of each tensor of the
    backbone an equal range of rows.

    Views, or, where replicas have shares of the optimizer's state and send them to each other,
    copies: so no rank ever holds more than one whole tensor of the backbone.
    """
    ranks = model.ranks
    for name in model.backbone.parameters:
        parts = model.optimizer.state(name)  # a collective if replicas have shares of it
        for part in BACKBONE_PARTS:
            rows = parts.pop(part)[rows_of(len(model.backbone.parameters[name]), ranks)].detach()
            yield f"backbone.{part}/{name}", rows.clone() if model.optimizer.distributed else rows
    for name, tensor in table_tensors(model).items():
        yield name, tensor.detach()


def _is_finite(tensor: torch.Tensor) -> torch.Tensor:
    """Whether all numbers are, a bool where they are."""
    if not tensor.is_floating_point() or not tensor.numel():
        return torch.ones((), dtype=torch.bool)
    lowest, highest = torch.aminmax(tensor)  # takes no memory; NaN wins over all
    return torch.isfinite(lowest) & torch.isfinite(highest)


def _fits(model: Model) -> bool:
    """Whether this node has memory for copies of what its ranks write."""
    free, ranks = available(), model.ranks
    sizes = [t.numel() * t.element_size() for t in table_tensors(model).values()]
    for parameter in model.backbone.parameters.values():
        rows = rows_of(len(parameter), ranks)
        of_row = parameter.numel() // max(1, len(parameter))
        sizes += len(BACKBONE_PARTS) * [4 * of_row * (rows.stop - rows.start)]
    if ranks.device.type == "cuda":  # the allocator of pinned memory takes powers of two
        sizes = [1 << (size - 1).bit_length() for size in sizes if size]
    nodes = gather_json(ranks, [platform.node(), sum(sizes)])
    here = sum(one for node, one in nodes if node == platform.node())
    return free is None or here + _MARGIN < free
