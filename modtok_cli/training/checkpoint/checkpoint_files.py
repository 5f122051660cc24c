"""Names, integrity and writing of checkpoint files."""

import os
import re
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.base.read_file import read_bounded
from modtok_cli.training.distributed.ranks import Ranks, gather_json

STATE = "state.json"
KEEP = 2
WEIGHTS_ONLY = "weights_only"
"""Field of the state of a checkpoint without moments."""
_DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int32: "I32",
    torch.int64: "I64",
}
# Written and checked at a time; zlib and write release Python's lock.
_CHUNK = 1 << 24


def step_directory(directory: Path, step: int) -> Path:
    """Where the checkpoint of `step` is stored."""
    return directory / f"step-{step:08d}"


def shard_name(shard: int, shards: int, part: int = 0, parts: int = 1) -> str:
    """File name of a part of a shard.

    >>> shard_name(0, 2), shard_name(1, 2, 3, 4)
    ('shard-0-of-2.safetensors', 'shard-1-of-2-part-3-of-4.safetensors')
    """
    of_part = f"-part-{part}-of-{parts}" if parts > 1 else ""
    return f"shard-{shard}-of-{shards}{of_part}.safetensors"


def steps_in(directory: Path) -> list[Path]:
    """Checkpoint directories in ascending order of steps, sound or not."""
    found = (path for path in directory.glob("step-*") if re.fullmatch(r"step-\d{8,}", path.name))
    return sorted(found, key=_step_of)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def prune(directory: Path, latest: Path, keep: int, every: int | None = None) -> None:
    """Remove old checkpoints: keep the last `keep` up to `latest`, and steps divisible by `every`.

    Later directories than `latest` may be damaged ones; they do not count among those kept.
    """
    steps = steps_in(directory)
    for old in steps[: steps.index(latest) + 1][:-keep]:
        if every is None or _step_of(old) % every:
            shutil.rmtree(old, ignore_errors=True)


def newest(
    directory: Path, progress: Progress, ranks: Ranks | None = None
) -> tuple[Path, dict[str, Any]] | None:
    """The last sound checkpoint and its state; None if `directory` has no checkpoint.

    All `ranks` call it together, and each reads its share of the files: all are read once.
    """
    damaged: list[str] = []
    names = [path.name for path in steps_in(directory)]
    if ranks is not None:
        names = gather_json(ranks, names)[0]
    for path in (directory / name for name in reversed(names)):
        wrong, state = check(path, *((ranks.rank, ranks.world) if ranks is not None else (0, 1)))
        if ranks is not None:
            wrong = next(filter(None, gather_json(ranks, wrong)), "")
        if not wrong and state is not None:
            for line in damaged:
                progress.warn(f"{line}; using {path.name} instead")
            return path, state
        damaged.append(wrong)
    if damaged:
        raise ModtokError(
            f"no sound checkpoint: {'; '.join(damaged)}",
            remedy="start the run again under another --name",
        )
    return None


def last_step(directory: Path) -> int | None:
    """Step of the last checkpoint, which is not read; None without one."""
    steps = steps_in(directory)
    return _step_of(steps[-1]) if steps else None


def check(path: Path, share: int = 0, shares: int = 1) -> tuple[str, dict[str, Any] | None]:
    """("", state) of a sound checkpoint, (description of the damage, None) of a damaged one.

    Reads the files `share`, `share` + `shares`, … of it.
    """
    try:
        state = orjson.loads(read_bounded(path / STATE))
        files = _files(state)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return f"{path / STATE}: damaged or missing", None
    for name, facts in [*files.items()][share::shares]:
        file = path / name
        try:
            sound = file.stat().st_size == facts["bytes"] and _crc(file) == facts["crc"]
        except OSError:
            sound = False
        if not sound:
            return f"{file}: damaged or missing", None
    return "", state


def _files(state: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Name → size and CRC of every file of a valid state.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: the state is not valid.
    """
    # A wrong stream position would be noticed by nothing else.
    if state["crc"] != state_crc(state):
        raise ValueError("changed after it was written")
    step, shards, parts, files = state["step"], state["shards"], state["parts"], state["files"]
    if type(step) is not int or step < 0 or type(shards) is not int or type(parts) is not int:
        raise TypeError
    # Only these names are allowed: no file outside of the directory is ever opened.
    if len(files) != shards * parts or any(
        shard_name(n // parts, shards, n % parts, parts) not in files for n in range(len(files))
    ):
        raise ValueError("names of files")
    for facts in files.values():
        if type(facts["bytes"]) is not int or type(facts["crc"]) is not int:
            raise TypeError
    for slot, positions in state.get("positions", {}).items():
        int(slot)
        for position in positions.values():
            if len(position) != 2 or not all(type(n) is int and n >= 0 for n in position):
                raise ValueError
    result: dict[str, dict[str, int]] = files
    return result


def state_crc(state: Mapping[str, Any]) -> int:
    """CRC-32 of a state without its own field `crc`."""
    body = {name: value for name, value in state.items() if name != "crc"}
    return zlib.crc32(orjson.dumps(body, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))


def _crc(path: Path) -> int:
    crc = 0
    with open(path, "rb") as handle:
        while chunk := handle.read(1 << 22):
            crc = zlib.crc32(chunk, crc)
    return crc


def write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Write tensors to `path` durably; returns {"bytes": size, "crc": CRC-32 of the file}.

    As a stream: the CRC on the way, and no copy of the tensors; those on a GPU are copied to the
    host one at a time. The library's `save_file` holds Python's lock while it writes, so that
    training could not go on meanwhile, and reading gigabytes again for the CRC would double the
    traffic.

    Raises:
        OSError: the file system refused.
    """
    header, at = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    head = orjson.dumps(header)
    head += b" " * (-len(head) % 8)  # data is aligned
    head = len(head).to_bytes(8, "little") + head
    crc = zlib.crc32(head)
    with open(path, "wb", buffering=0) as handle:
        _write(handle.fileno(), memoryview(head))
        for tensor in tensors.values():
            if not tensor.numel():
                continue
            data = tensor.cpu().contiguous().view(torch.uint8).numpy().data.cast("B")
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK]
                crc = zlib.crc32(chunk, crc)
                _write(handle.fileno(), chunk)
        os.fsync(handle.fileno())
    return {"bytes": len(head) + at, "crc": crc}


def _write(handle: int, data: memoryview) -> None:
    while data:
        data = data[os.write(handle, data) :]
