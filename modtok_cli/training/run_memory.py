"""Memory of a run: its parts on a device, what fits there, and what the host and the disk need."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.memory import available, check_memory
from modtok_cli.model.architecture.arithmetic import activation_bytes, scoring_bytes, working_bytes
from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import Draw, Mixture
from modtok_cli.training.data.stream import AHEAD
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import gather_json, raise_together, ranks_here
from modtok_cli.training.model.loss import CHUNK
from modtok_cli.training.run import Run

# Parameters and bytes.
Part = tuple[int, int]
# Tokens whose logits exist at a time, see `model.loss`: on a GPU as many as fit.
_CHUNKS = (8192, 4096, CHUNK)
# Choices that an evaluation of tasks scores together.
_CHOICES = 32
# Number of steps from which the mean size of V_S and of a step's union is estimated.
_SAMPLED = 200
_SAMPLED_GROUPS = 4096
# What CUDA, NCCL and fragmentation take of a device.
_RESERVED = 0.06
# Bytes of the device that a plan is for without a GPU, and what layers are recomputed to leave
# free: steps differ in their rows.
_H100, _MARGIN = 80e9, 0.95
DEVICE = "80 GB of an H100"
"""That device, in words."""
# A token of a batch: two int32 ids in each queued batch; int64 ids and a weight in the step.
_QUEUED_TOKEN = 8
_STEP_TOKEN = 20
# A slot: its packer and its positions in every language.
_SLOT = 4096


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


def row_counts(
    config: Config, mixture: Mixture, subtokenizers: SubtokenizerCache, replicas: int
) -> StepRows:
    """Mean numbers of rows in a step, from the draws of the first steps."""
    sizes: list[int] = []
    shares: list[int] = []
    unions: list[int] = []
    groups = config.data.batch_size // config.group_size
    steps = max(1, min(_SAMPLED // groups, config.schedule.steps))
    for step in range(1, steps + 1):
        drawn = config.draws(mixture, step, range(min(groups, _SAMPLED_GROUPS)))
        sizes += [_rows(subtokenizers, one.languages) for one in drawn]
        unions.append(_union(subtokenizers, drawn))
        shares.append(_union(subtokenizers, drawn[: -(-groups // replicas)]))
    return StepRows(fmean(sizes), fmean(shares), fmean(unions))


def _union(subtokenizers: SubtokenizerCache, drawn: Sequence[Draw]) -> int:
    together = {name for one in drawn for name in one.languages or ()}
    everything = any(one.languages is None for one in drawn)
    return _rows(subtokenizers, None if everything else tuple(sorted(together)))


def _rows(subtokenizers: SubtokenizerCache, languages: tuple[str, ...] | None) -> int:
    return (
        subtokenizers.size if languages is None else subtokenizers.tokenizer.subset(languages).size
    )


def memory_parts(
    config: Config, size: int, step: StepRows, ranks: int, chunk: int = CHUNK
) -> dict[str, Part]:
    """Part → (parameters, bytes) on one of `ranks` devices; `size` is |T|, `chunk` the loss's."""
    shape, shards = config.shape, config.parallelism.tp
    replicas = ranks // shards
    switches = config.switches(replicas)
    half = _size(config.precision.dtype)
    sequences = config.sequences(replicas)
    tokens = sequences * config.data.seq_length
    backbone = shape.parameters // shards
    rows = shape.table_parameters(-(-size // ranks))  # every rank owns a share
    gathered = shape.table_parameters(int(step.gathered / shards))
    own = shape.table_parameters(int(step.union / ranks))
    # Moments, and master weights where weights are half as wide.
    state = 8.0 + (4 if half == 2 else 0)
    if config.parallelism.distributed_optimizer:
        state /= replicas
    activations = activation_bytes(
        shape,
        sequences,
        config.data.seq_length,
        half,
        recompute=config.parallelism.recompute or 0,
        shards=shards,
        sequence_parallel=switches.sequence_parallel,
        fused=half == 2,
        masked=config.data.attention == "document" and half != 2,
    )
    logits = int(min(chunk, tokens) * step.active / shards) * (4 if half == 4 else 4 + half)
    # Logits and gradients of a layer do not exist at the same time.
    working = max(logits, working_bytes(shape, tokens, half, shards=shards))
    # Of a gathered number: the row itself and the float32 sum of its gradients; then, at different
    # times, the gradient of a microbatch, or the sums of a table that are sent to their owners and
    # that come from others, when activations are gone. Offloaded rows of the next step are there
    # too.
    several = config.data.batch_size // replicas > sequences or half == 2
    exchanged = 8 * gathered // shape.tables + 4 * own - activations - working
    exchanged = exchanged if replicas > 1 else 0
    row_bytes = gathered * (half + 4) + max(gathered * half if several else 0, exchanged)
    row_bytes += own * half if config.parallelism.offload else 0
    # The head's copy of its rows is gone when the gradient of the microbatch is there.
    output_gradients = 4 * step.active / shards * shape.hidden_size
    parts: dict[str, Part] = {
        "backbone": (backbone, int(backbone * (half + 4 + state))),  # 4: float32 gradients
        "tables": (rows, rows * 12),
        "active rows": (gathered, int(row_bytes + output_gradients)),
        "activations": (0, activations),
        "working memory": (0, working),
    }
    if config.parallelism.offload:
        del parts["tables"]
    if config.evaluation.eval_tasks:
        # A checkpoint is evaluated between steps, when the step's own memory is free.
        free = sum(parts[name][1] for name in ("active rows", "activations", "working memory"))
        count = shape.parameters + shape.table_parameters(int(step.active))
        need = count * half + scoring_bytes(shape, _CHOICES, config.data.seq_length, half)
        parts["tasks, beyond a step"] = (count, max(0, need - free))
    return parts


def total(parts: dict[str, Part]) -> int:
    """Bytes of all parts."""
    return sum(size for _, size in parts.values())


def capacity(config: Config, *, gpu: bool, here: int = 1) -> tuple[int | None, str]:
    """(bytes that a device has for a run, its name); None if unknown.

    `here` processes share the memory of a CPU.
    """
    if config.parallelism.device_memory is not None:
        return int(config.parallelism.device_memory * (1 - _RESERVED)), "the device"
    if gpu:
        import torch

        if not torch.cuda.is_available():
            return None, "the GPU"
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        return int(device.total_memory * (1 - _RESERVED)), device.name
    free = available()
    return (None if free is None else free // here), "this machine"


def recomputed(
    config: Config, size: int, step: StepRows, ranks: int, available: int | None
) -> Config:
    """The configuration with the number of layers that are recomputed.

    As given, else as few as fit `available` bytes; with None, the bytes of an H100.
    """
    if config.parallelism.recompute is not None:
        return config
    for layers in range(config.shape.layers + 1):
        config = config.changed(recompute=layers)
        if total(memory_parts(config, size, step, ranks)) <= _room(available):
            break
    return config


def loss_chunk(config: Config, size: int, step: StepRows, ranks: int, available: int | None) -> int:
    """Tokens whose logits a GPU of `available` bytes computes at a time: the most that fit."""
    for chunk in _CHUNKS:
        if total(memory_parts(config, size, step, ranks, chunk)) <= _room(available):
            return chunk
    return CHUNK


def _room(available: int | None) -> float:
    return _MARGIN * (_H100 * (1 - _RESERVED) if available is None else available)


def check_fits(
    config: Config,
    size: int,
    step: StepRows,
    ranks: int,
    available: int | None,
    device: str,
) -> None:
    """Refuse a run that does not fit its device, before anything is allocated."""
    parts = memory_parts(config, size, step, ranks)
    if available is None or total(parts) <= available:
        return
    largest = sorted(parts.items(), key=lambda part: -part[1][1])[:2]
    where = ", ".join(f"{name} {gib(need)}" for name, (_, need) in largest)
    fitting = [
        words
        for words, changes in _alternatives(config, ranks)
        if total(memory_parts(config.changed(**changes), size, step, ranks)) <= available
    ]
    remedy = (
        f"it fits with {'; or '.join(fitting[:3])}"
        if fitting
        else ("use more devices with --tp, a smaller --model or fewer --langs")
    )
    raise ModtokError(
        f"the run needs {gib(total(parts))} per device ({where}), {device} has {gib(available)}",
        where="memory",
        remedy=remedy,
    )


def _alternatives(config: Config, ranks: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes that take less memory, the cheapest in speed first: (options, values)."""
    single: list[tuple[str, dict[str, Any]]] = []
    if not config.parallelism.distributed_optimizer and ranks > config.parallelism.tp:
        single.append(
            ("--set parallelism.distributed_optimizer=true", {"distributed_optimizer": True})
        )
    if (layers := config.shape.layers) > (config.parallelism.recompute or 0):
        single.append((f"--set parallelism.recompute={layers}", {"recompute": layers}))
    for micro in (2, 1):
        if config.data.micro_batch > micro and config.data.batch_size % micro == 0:
            single.append((f"--micro-batch {micro}", {"micro_batch": micro}))
    if not config.parallelism.offload and config.optimizer.update == "sparse":
        single.append(("--offload", {"offload": True}))
    for tp in (2, 4, 8):
        fits = config.shape.kv_heads % tp == 0 and config.shape.ffn % tp == 0
        if tp > config.parallelism.tp and ranks % tp == 0 and fits:
            single.append((f"--tp {tp}", {"tp": tp}))
    yield from single
    for (words, first), (more, second) in combinations(single, 2):
        if first.keys() != second.keys():
            yield f"{words} {more}", first | second
    if single:
        every = {name: value for _, changes in single for name, value in changes.items()}
        yield " ".join(words for words, _ in single), every


def checkpoint_bytes(config: Config, size: int) -> int:
    """Bytes of a checkpoint: weights and moments in float32, and step counts of rows."""
    rows = config.shape.table_parameters(size)
    return 12 * (config.shape.parameters + rows) + 4 * config.shape.tables * size


def check_disk(config: Config, size: int, directory: Path) -> None:
    """Refuse a run whose checkpoints do not fit the disk."""
    need = checkpoint_bytes(config, size)
    count = (
        config.evaluation.keep
        + 1
        + (config.last_step // config.evaluation.keep_every if config.evaluation.keep_every else 0)
    )
    free = shutil.disk_usage(_existing(directory)).free
    if count * need > free:
        raise ModtokError(
            f"{count} checkpoints of {gib(need)} do not fit, {gib(free)} are free",
            where=directory,
            remedy="free space, choose another disk with --runs, or use --set evaluation.keep=1",
        )


def check_step_memory(config: Config) -> None:
    """Check, before any is made, the batches of all ranks, as if they shared this machine."""
    # The shards of a replica have the same batches, each its copy.
    tokens = config.step_tokens * config.parallelism.tp
    need = tokens * (_QUEUED_TOKEN * (AHEAD + 2) + 2 * _STEP_TOKEN) + config.data.batch_size * _SLOT
    check_memory(
        need,
        f"batches of {config.data.batch_size:,} sequences of {config.data.seq_length:,} tokens",
        "use a smaller --batch-size or --seq-length",
    )


@dataclass(frozen=True)
class HostNeed:
    """Host memory that a node needs for offloaded rows, in bytes.

    Attributes:
        tables: weights, moments and step counts of the rows that ranks of the node own.
        buffers: staging buffers for uploads and downloads.
        words: the calculation of `tables` and `buffers`.
    """

    tables: int
    buffers: int
    words: str


def host_need(config: Config, size: int, union: float, ranks: int, node: int) -> HostNeed:
    """The need of a node with `node` of `ranks` ranks.

    `size` is |T|, `union` the active rows of a step, per table.
    """
    width, tables, moments = (
        config.shape.hidden_size,
        config.shape.tables,
        config.parallelism.offload_moments,
    )
    row = width * (4 + 2 * _size(moments)) + 4
    whole = tables * size * row * node // ranks
    # Two buffers per direction, a quarter larger than needed: rows up, float32 gradients down.
    buffers = int(2.5 * tables * union * width * (_size(config.precision.dtype) + 4) * node / ranks)
    part = f" × {node}/{ranks} ranks" if node < ranks else ""
    words = (
        f"{tables} × {size:,} rows × {width:,} × (4 + 2 × {_size(moments)}) bytes{part} = "
        f"{gib(whole)}, and {gib(buffers)} of buffers"
    )
    return HostNeed(whole, buffers, words)


def check_host(config: Config, need: HostNeed) -> None:
    """Check, before tables are allocated, that they fit this node."""
    free, directory = available(), config.parallelism.offload_file
    wanted = need.buffers + (0 if directory else need.tables)
    smaller = []
    if config.parallelism.offload_moments == "float32":
        smaller.append("use --set parallelism.offload_moments=bfloat16 (a third less)")
    if directory is None:
        smaller.append("store tables on a disk with --set parallelism.offload_file=DIR")
    remedy = ", ".join([*smaller, "or use fewer --langs"])
    if free is not None and wanted > free:
        raise ModtokError(
            f"the vocabulary needs {gib(wanted)} of this machine's memory ({need.words}), "
            f"{gib(free)} are free",
            where="--offload",
            remedy=remedy,
        )
    if directory is None:
        return
    parent = _existing(directory)
    if not parent.is_dir():
        raise UsageError(
            "is not a directory",
            where=parent,
            remedy="choose one with --set parallelism.offload_file",
        )
    room = shutil.disk_usage(parent).free
    if need.tables > room:
        raise ModtokError(
            f"the vocabulary needs {gib(need.tables)} of disk ({need.words}), {gib(room)} are free",
            where=directory,
            remedy=remedy,
        )


def _existing(path: Path) -> Path:
    """A path, or what exists of it."""
    while not path.exists():
        path = path.parent
    return path


def _size(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else 4


def gib(size: float) -> str:
    """Bytes in GiB, in words."""
    return f"{size / 2**30:.1f} GiB"


def fit_memory(run: Run) -> None:
    """Check, before anything is allocated, that devices, nodes and the disk have room.

    Sets the number of layers that are recomputed, and the chunk of the loss, the same on all ranks
    and in all stages.
    """
    config, ranks, size = run.config, run.ranks, run.subtokenizers.size
    gpu, here = ranks.device.type == "cuda", ranks_here(ranks)
    error, chosen = None, []
    try:
        for stage in run.stages:
            with stage.period.locating():
                own = stage.config
                step_rows = row_counts(own, stage.mixture, run.subtokenizers, ranks.replicas)
                room, owner = capacity(config, gpu=gpu, here=here)
                fitting = recomputed(own, size, step_rows, ranks.world, room)
                check_fits(fitting, size, step_rows, ranks.world, room, owner)
                rest = size, step_rows, ranks.world, room
                layers = fitting.parallelism.recompute or 0
                chosen.append((layers, loss_chunk(fitting, *rest) if gpu else CHUNK))
                if config.parallelism.offload:
                    check_host(config, host_need(config, size, step_rows.union, ranks.world, here))
        if ranks.first:
            check_disk(config, size, run.directory.checkpoints)
    except ModtokError as caught:
        error = caught
    raise_together(ranks, error)
    every = gather_json(ranks, chosen)
    run.chunk = min(chunk for one in every for _, chunk in one)
    run.recompute = max(layers for one in every for layers, _ in one)
