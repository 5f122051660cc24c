"""Memory of a run per device: its parts, what the device has, and what would make it fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import available
from modtok_cli.training.config import Config
from modtok_cli.training.rows.exchange import BLOCK_BYTES

# Parameters and bytes.
Part = tuple[int, int]
# Tokens whose logits exist at a time, see `model.loss`.
_CHUNK = 2048
# Choices that an evaluation of tasks scores together.
_CHOICES = 32
# What CUDA, NCCL and fragmentation take of a device.
_RESERVED = 0.06


@dataclass(frozen=True)
class StepRows:
    """Mean numbers of rows of a table in a step.

    Attributes:
        active: output vocabulary of a microbatch.
        gathered: union over the microbatches of a replica.
        union: union over all replicas.
    """

    active: float
    gathered: float
    union: float


def memory_parts(config: Config, size: int, step: StepRows, ranks: int) -> dict[str, Part]:
    """Part → (parameters, bytes) on one of `ranks` devices; `size` is |T|."""
    shape, shards = config.shape, config.tp
    replicas = ranks // shards
    half = 2 if config.dtype == "bfloat16" else 4
    sequences = config.sequences(replicas)
    tokens = sequences * config.seq_length
    backbone = shape.parameters // shards
    rows = shape.table_parameters(-(-size // ranks))  # every rank owns a share
    gathered = shape.table_parameters(int(step.gathered / shards))
    own = shape.table_parameters(int(step.union / ranks))
    # Moments, and master weights where weights are half as wide.
    state = 8.0 + (4 if half == 2 else 0)
    if config.distributed_optimizer:
        state /= replicas
    # Of a gathered number: the row itself and the float32 sum of its gradients; then, at different
    # times, the gradient of a microbatch, or a block of gradients that is reduced to the owners.
    # Offloaded rows of the next step are there too.
    several = config.batch_size // replicas > sequences or half == 2
    block = min(BLOCK_BYTES, int(4 * step.union / shards * shape.hidden_size))
    exchanged = 4 * own + block if replicas > 1 else 0
    row_bytes = gathered * (half + 4) + max(gathered * half if several else 0, exchanged)
    row_bytes += own * half if config.offload else 0
    # The head copies its rows out of those gathered for other microbatches too.
    copied = half if step.gathered > step.active else 0
    output_gradients = (4 + copied) * step.active / shards * shape.hidden_size
    logits = int(min(_CHUNK, tokens) * step.active / shards) * (4 if half == 4 else 4 + half)
    parts: dict[str, Part] = {
        "backbone": (backbone, int(backbone * (half + 4 + state))),  # 4: float32 gradients
        "tables": (rows, rows * 12),
        "active rows": (gathered, int(row_bytes + output_gradients)),
        "activations": (
            0,
            shape.activation_bytes(
                sequences,
                config.seq_length,
                half,
                recompute=config.recompute,
                shards=shards,
                sequence_parallel=config.execution(replicas).sequence_parallel,
                masked=config.attention == "document",
            ),
        ),
        # Logits and gradients of a layer do not exist at the same time.
        "working memory": (0, max(logits, shape.working_bytes(tokens, half, shards=shards))),
    }
    if config.offload:
        del parts["tables"]
    if config.eval_tasks:
        # A checkpoint is evaluated between steps, when the step's own memory is free.
        free = sum(parts[name][1] for name in ("active rows", "activations", "working memory"))
        count = shape.parameters + shape.table_parameters(int(step.active))
        need = count * half + shape.scoring_bytes(_CHOICES, config.seq_length, half)
        parts["tasks, beyond a step"] = (count, max(0, need - free))
    return parts


def stored_scores(config: Config, ranks: int, *, gpu: bool) -> str | None:
    """A sentence about the attention scores of float32 on a GPU, which has no flash attention.

    One float32 number for each pair of tokens and head is kept for the backward pass, of all
    layers, or of one with recomputation. Not part of `memory_parts`: kernels differ in what they
    keep beside it.
    """
    if not gpu or config.dtype != "float32":
        return None
    shape, length = config.shape, config.seq_length
    layers = 1 if config.recompute else shape.layers
    heads = shape.heads // config.tp
    size = 4 * layers * config.sequences(ranks // config.tp) * heads * length * length
    return (
        "--dtype float32: attention on a GPU stores all scores, "
        f"{_gib(size)} or more per device beside the plan; bfloat16 stores none"
    )


def total(parts: dict[str, Part]) -> int:
    """Bytes of all parts."""
    return sum(size for _, size in parts.values())


def capacity(config: Config, *, gpu: bool, here: int = 1) -> tuple[int | None, str]:
    """(bytes that a device has for a run, its name); None if unknown.

    `here` processes share the memory of a CPU.
    """
    if config.device_memory is not None:
        return int(config.device_memory * (1 - _RESERVED)), "the device"
    if gpu:
        import torch

        if not torch.cuda.is_available():
            return None, "the GPU"
        found = torch.cuda.get_device_properties(torch.cuda.current_device())
        return int(found.total_memory * (1 - _RESERVED)), found.name
    free = available()
    return (None if free is None else free // here), "this machine"


def check_fits(
    config: Config,
    size: int,
    step: StepRows,
    ranks: int,
    available: int | None,
    device: str,
) -> None:
    """Refuse a run that does not fit its device, before anything is allocated.

    Raises:
        ModtokError: it does not fit; says by how much, and names options with which it would.
    """
    parts = memory_parts(config, size, step, ranks)
    if available is None or total(parts) <= available:
        return
    largest = sorted(parts.items(), key=lambda part: -part[1][1])[:2]
    where = ", ".join(f"{name} {_gib(need)}" for name, (_, need) in largest)
    fitting = [
        words
        for words, changed in _alternatives(config, ranks)
        if total(memory_parts(changed, size, step, ranks)) <= available
    ]
    remedy = (
        f"it fits with {'; or '.join(fitting[:3])}"
        if fitting
        else ("use more devices with --tp, a smaller --model or fewer --langs")
    )
    raise ModtokError(
        f"the run needs {_gib(total(parts))} per device ({where}), {device} has {_gib(available)}",
        where="memory",
        remedy=remedy,
    )


def _alternatives(config: Config, ranks: int) -> Iterator[tuple[str, Config]]:
    """Changes that take less memory, the cheapest in speed first: (options, configuration)."""
    single: list[tuple[str, Config]] = []
    replicas = ranks // config.tp
    if not config.distributed_optimizer and replicas > 1:
        single.append(("--distributed-optimizer", replace(config, distributed_optimizer=True)))
    if not config.recompute:
        single.append(("--recompute", replace(config, recompute=True)))
    for micro in (2, 1):
        if config.micro_batch > micro and config.batch_size % micro == 0:
            single.append((f"--micro-batch {micro}", replace(config, micro_batch=micro)))
    if not config.offload and config.update == "sparse":
        single.append(("--offload", replace(config, offload=True)))
    for tp in (2, 4, 8):
        fits = config.shape.kv_heads % tp == 0 and config.shape.ffn % tp == 0
        if tp > config.tp and ranks % tp == 0 and fits:
            single.append((f"--tp {tp}", replace(config, tp=tp)))
    yield from single
    for index, (words, first) in enumerate(single):
        for more, second in single[index + 1 :]:
            if words.split()[0] != more.split()[0]:
                yield f"{words} {more}", _both(config, first, second)
    if single:
        together = config
        for _, changed in single:
            together = _both(config, together, changed)
        yield " ".join(words for words, _ in single), together


def _both(config: Config, first: Config, second: Config) -> Config:
    """`config` with what differs from it in `first` and in `second`."""
    changes = {}
    for one in (first, second):
        for name in ("distributed_optimizer", "recompute", "micro_batch", "offload", "tp"):
            if getattr(one, name) != getattr(config, name):
                changes[name] = getattr(one, name)
    return replace(config, **changes)


def checkpoint_bytes(config: Config, size: int) -> int:
    """Bytes of a checkpoint: weights and moments in float32, and step counts of rows."""
    rows = config.shape.table_parameters(size)
    return 12 * (config.shape.parameters + rows) + 4 * config.shape.tables * size


def check_disk(config: Config, size: int, directory: Path) -> None:
    """Refuse a run whose checkpoints do not fit the disk.

    Raises:
        ModtokError: free space is less than the checkpoints to keep and the next one.
    """
    parent = directory
    while not parent.exists():
        parent = parent.parent
    need = checkpoint_bytes(config, size)
    if config.keep_every is None:
        count = config.keep + 1
    else:
        count = config.keep + 1 + config.steps // config.keep_every
    free = shutil.disk_usage(parent).free
    if count * need > free:
        raise ModtokError(
            f"{count} checkpoints of {_gib(need)} do not fit, {_gib(free)} are free",
            where=str(directory),
            remedy="free space, choose another disk with --runs, or keep fewer with --keep",
        )


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
