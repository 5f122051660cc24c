"""Checkpoints: safetensors and JSON, whole or not at all, for any number of shards.

    checkpoints/step-00000100/
        state.json               step, places of the lanes, sizes and CRCs of the files
        shard-0-of-2.safetensors weights and moments of one tensor-parallel shard, float32

Shards write their own files side by side; the directory gets its name when all are on the
disk. Reading puts the parts of the shards there were together and takes those of the
shards there are. The last two are kept: if one is damaged, the one before it is used.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import Progress
from modtok_cli.pretrain.distributed.ranks import Ranks, gather_json, raise_together
from modtok_cli.pretrain.model import megatron
from modtok_cli.pretrain.model.model import Model
from modtok_cli.pretrain.table_file import load_tables, table_tensors

KEEP = 2
_STATE = "state.json"
_BACKBONE_PARTS = ("weight", "m", "v")


class NotFinite(Exception):
    """Weights or moments of a model to be saved are not numbers any more; names one tensor."""


def save(directory: Path, model: Model, step: int, notes: Mapping[str, Any]) -> None:
    """Write the checkpoint of `step`; every rank calls it.

    Raises:
        ModtokError: the file system refused; older checkpoints are as they were.
        NotFinite: there is nothing worth keeping; older checkpoints are as they were.
    """
    ranks = model.ranks
    final = directory / f"step-{step:08d}"
    error: ModtokError | None = None
    try:
        model.drain()
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)
    try:
        with _opened(final, ranks) as beside:
            name = _shard_name(ranks.shard, ranks.shards)
            told: dict[str, Any] = {}
            backbone = _backbone(model)
            if ranks.replica == 0:
                told = _write(beside / name, model, backbone)
            everyone = gather_json(ranks, told)
            wrong = [one["not_finite"] for one in everyone if "not_finite" in one]
            if wrong:  # all ranks see the same, and leave together
                raise NotFinite(f"'{wrong[0]}' is not finite")
            failed = [one["error"] for one in everyone if "error" in one]
            if failed:
                raise OSError(failed[0][0], failed[0][1])
            if ranks.first:
                files = {one["name"]: one["file"] for one in everyone if one}
                state = {"step": step, "shards": ranks.shards, "files": files, **notes}
                state["crc"] = _state_crc(state)
                (beside / _STATE).write_bytes(orjson.dumps(state, option=orjson.OPT_INDENT_2))
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)
    if ranks.first:
        # Behind this one there may be damaged ones, which do not count among those kept.
        for old in [path for path in _all(directory) if path.name <= final.name][:-KEEP]:
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _opened(final: Path, ranks: Ranks) -> Iterator[Path]:
    """The directory to fill: rank 0 makes and finishes it, the others are told where."""
    if not ranks.first:
        told = gather_json(ranks, None)[0]
        if told is None:
            raise ModtokError("rank 0 could not begin the checkpoint", where=str(final))
        try:
            yield Path(told)
        except OSError as error:
            raise ModtokError(f"cannot write: {error.strerror}", where=str(final)) from error
        return
    begun = False
    try:
        with atomic_directory(final) as beside:
            gather_json(ranks, str(beside))
            begun = True
            yield beside
    except ModtokError as error:
        if not begun:
            gather_json(ranks, None)
        raise ModtokError(error.what, where=error.where, remedy=_FULL) from error


_FULL = "the checkpoint before it is whole; free space, then go on with --resume"


def _backbone(model: Model) -> dict[str, torch.Tensor]:
    """Masters and moments in host memory, on the replica that writes.

    If they are dealt to the replicas, those put each together as it comes.
    """
    tensors: dict[str, torch.Tensor] = {}
    first = model.ranks.replica == 0
    if first or model.optimizer.distributed:
        for name in model.backbone.parameters:
            parts = model.optimizer.state(name)
            if first:
                for part in _BACKBONE_PARTS:
                    tensors[f"backbone.{part}/{name}"] = parts[part].cpu().contiguous()
    return tensors


def _write(path: Path, model: Model, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    tensors.update(table_tensors(model))
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel():
            least, most = torch.aminmax(tensor)  # no memory beside; not a number wins over all
            if not bool(torch.isfinite(least) & torch.isfinite(most)):
                return {"not_finite": name}
    try:
        save_file(tensors, path)
        with open(path, "rb") as handle:
            os.fsync(handle.fileno())
        return {"name": path.name, "file": {"bytes": path.stat().st_size, "crc": _crc(path)}}
    except OSError as error:
        return {"error": [error.errno or 0, error.strerror or str(error)]}
    except SafetensorError as error:  # how it tells of a full disk
        text = str(error)
        found = re.search(r"os error (\d+)", text)
        number = int(found[1]) if found else 5
        return {"error": [number, os.strerror(number) if found else text]}


def _crc(path: Path) -> int:
    crc = 0
    with open(path, "rb") as handle:
        while chunk := handle.read(1 << 22):
            crc = zlib.crc32(chunk, crc)
    return crc


def _all(directory: Path) -> list[Path]:
    return sorted(p for p in directory.glob("step-*") if re.fullmatch(r"step-\d{8,}", p.name))


def has_any(directory: Path) -> bool:
    """Whether there is a checkpoint, sound or not."""
    return bool(_all(directory))


def newest(directory: Path, progress: Progress) -> tuple[Path, dict[str, Any]] | None:
    """The last sound checkpoint and its state, None if there is none at all.

    Raises:
        ModtokError: there are checkpoints, and all are damaged.
    """
    damaged: list[str] = []
    for path in reversed(_all(directory)):
        wrong, state = check(path)
        if state is not None:
            for line in damaged:
                progress.warn(f"{line}; using {path.name} in its place")
            return path, state
        damaged.append(wrong)
    if damaged:
        raise ModtokError(
            f"no sound checkpoint: {'; '.join(damaged)}",
            remedy="start the run again under another --name",
        )
    return None


def check(path: Path) -> tuple[str, dict[str, Any] | None]:
    """(what is wrong, None) of a damaged checkpoint, ("", its state) of a sound one."""
    try:
        state = orjson.loads((path / _STATE).read_bytes())
        files = _files(state)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return f"{path / _STATE}: damaged or missing", None
    for name, facts in files.items():
        file = path / name
        try:
            sound = file.stat().st_size == facts["bytes"] and _crc(file) == facts["crc"]
        except OSError:
            sound = False
        if not sound:
            return f"{file}: damaged or missing", None
    return "", state


def _files(state: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Name → size and CRC of every shard, of a state that is as `save` writes it.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: it is not.
    """
    # Lanes say where the text goes on: a wrong place would not be noticed by anything else.
    if state.get("crc", (crc := _state_crc(state))) != crc:
        raise ValueError("changed after it was written")
    step, shards, files = state["step"], state["shards"], state["files"]
    if type(step) is not int or step < 0 or type(shards) is not int:
        raise TypeError
    # By these names alone: no file outside of the directory is ever opened.
    if len(files) != shards or set(files) != {_shard_name(n, shards) for n in range(len(files))}:
        raise ValueError("other files than the shards")
    for facts in files.values():
        if type(facts["bytes"]) is not int or type(facts["crc"]) is not int:
            raise TypeError
    for slot, lane in state.get("lanes", {}).items():
        int(slot)
        for place in lane.values():
            if len(place) != 2 or not all(type(n) is int and n >= 0 for n in place):
                raise ValueError
    found: dict[str, dict[str, int]] = files
    return found


def _state_crc(state: Mapping[str, Any]) -> int:
    body = {name: value for name, value in state.items() if name != "crc"}
    return zlib.crc32(orjson.dumps(body, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))


def _shard_name(shard: int, shards: int) -> str:
    return f"shard-{shard}-of-{shards}.safetensors"


def load(path: Path, state: Mapping[str, Any], model: Model) -> None:
    """Fill `model` from a checkpoint written on any number of shards.

    Raises:
        ModtokError: it is of another model.
    """
    old = int(state["shards"])
    opened: list[Any] = [
        safe_open(path / _shard_name(shard, old), framework="pt") for shard in range(old)
    ]
    try:
        with torch.no_grad():
            for name, parameter in model.backbone.parameters.items():
                parts = {}
                for part in _BACKBONE_PARTS:
                    shards = [file.get_tensor(f"backbone.{part}/{name}") for file in opened]
                    parts[part] = _reshard(shards, megatron.partition(parameter), model.ranks)
                model.optimizer.load(name, parts)
            model.optimizer.set_steps(int(state["step"]))
            load_tables(model, opened)
    except (SafetensorError, RuntimeError) as error:
        raise ModtokError(
            f"is of another model ({error})",
            where=str(path),
            remedy=f"put {path.parent.parent / 'config.json'} back, or start another run",
        ) from error


def _reshard(
    shards: list[torch.Tensor], partition: tuple[int, int] | None, ranks: Ranks
) -> torch.Tensor:
    """This rank's part of a parameter, from the parts of all shards there were."""
    if partition is None:
        return shards[0]
    dim, parts = partition
    if len(shards) == ranks.shards:
        return shards[ranks.shard]
    cut = [shard.chunk(parts, dim) for shard in shards]
    mine = []
    for part in range(parts):
        whole = torch.cat([pieces[part] for pieces in cut], dim)
        mine.append(whole.chunk(ranks.shards, dim)[ranks.shard])
    return torch.cat(mine, dim)
