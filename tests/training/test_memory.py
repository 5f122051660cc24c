"""Planned memory against counted bytes, what does not fit, and what is shipped and must."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from helpers.documented import joined
from helpers.python_processes import run_python
from helpers.sample import ROOT
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import parse_bytes
from modtok_cli.model.architecture.arithmetic import activation_bytes, scoring_bytes, working_bytes
from modtok_cli.model.architecture.families.llama import Llama
from modtok_cli.model.architecture.sizes import PAPER, SIZES
from modtok_cli.training import run_memory as memory
from modtok_cli.training.config import Config, check_ranks
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.recipe import PRESETS, read_assignments, read_recipe
from modtok_cli.training.resolve import resolve
from modtok_cli.training.run_memory import (
    StepRows,
    capacity,
    check_disk,
    check_fits,
    checkpoint_bytes,
    host_need,
    memory_parts,
    recomputed,
    total,
)  # fmt: skip
from modtok_cli.training.settings import RunSettings

GIB = 2**30
# Sequential BPE, 21 languages, k = 24,000: T, an output vocabulary of three languages, and the
# union of a step's 32 draws (docs/results-pretraining.md).
SIZE, ROWS = 340_147, StepRows(72_000, 289_412, 289_412)


def saved_bytes(shape: Llama, sequences: int, length: int, **options: object) -> int:
    """Bytes that autograd keeps for the backward pass, weights and rows aside."""
    model = Model(shape, 50, start_ranks(), **options)  # type: ignore[arg-type]
    ids = torch.randint(0, 50, (sequences, length))
    count = ids.numel()
    batch = MicroBatch(ids, ids.flatten(), torch.arange(2), torch.full((count,), 1 / count))
    batch = replace(batch, targets=batch.targets % 2)
    active = model.activate([batch])
    weights = {p.untyped_storage().data_ptr() for p in model.backbone.parameters.values()}
    found: dict[int, int] = {}
    kept = []  # alive, so that no address is used twice

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.loss(batch, active)
    return sum(found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("document", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        Llama(layers=2, hidden_size=64, ffn=176, heads=4, kv_heads=2, head_width=16),
        Llama(layers=3, hidden_size=100, ffn=330, heads=6, kv_heads=2, head_width=20),
        Llama(layers=1, hidden_size=48, ffn=64, heads=4, kv_heads=4, head_width=32),
    ],
)
def test_activations_are_what_autograd_keeps(
    shape: Llama, dtype: torch.dtype, document: bool
) -> None:
    found = saved_bytes(shape, 3, 64, dtype=dtype, end_of_text=0 if document else None)
    planned = activation_bytes(shape, 3, 64, dtype.itemsize, masked=document)
    assert planned == pytest.approx(found, rel=0.02)


def test_shards_divide_what_is_inside_a_layer() -> None:
    shape = Llama(layers=2, hidden_size=64, ffn=176, heads=4, kv_heads=2, head_width=16)
    one, two = (activation_bytes(shape, 2, 64, 2, shards=n) for n in (1, 2))
    inside = 2 * 128 * (2 * (3 * 96 + 5 * 176) + 4 * 4)
    assert one - two == inside // 2
    parts = activation_bytes(shape, 2, 64, 2, shards=2, sequence_parallel=True)
    norms = 2 * 2 * 128 * (64 * 10 + 4) + 128 * (64 * 12 + 4)  # between layers
    assert two - parts == norms // 2 - 128 * 64 * 2  # the result is gathered for the loss
    assert activation_bytes(shape, 2, 64, 2, recompute=2) < one


def test_an_evaluation_of_tasks_counts_where_a_step_needs_less() -> None:
    config = large(recompute=24, eval_tasks=("all",), micro_batch=1)
    without = memory_parts(config.changed(eval_tasks=None), SIZE, ROWS, 8)
    parts = memory_parts(config, SIZE, ROWS, 8)
    count, beyond = parts.pop("tasks, beyond a step")
    assert parts == without
    shape, step = config.shape, ("active rows", "activations", "working memory")
    assert count == shape.parameters + shape.table_parameters(int(ROWS.active))
    need = 2 * count + scoring_bytes(shape, 32, config.data.seq_length, 2)
    assert beyond == max(0, need - sum(without[name][1] for name in step))
    more = config.changed(tp=8, distributed_optimizer=False)
    assert memory_parts(more, SIZE, ROWS, 8)["tasks, beyond a step"][1] > 2 * 10**9


def test_sizes() -> None:
    for text, size in (("1.5 MiB", 1572864), ("7", 7), (123, 123), ("2T", 2 * 10**12)):
        assert parse_bytes(text) == size
    for text in ("", "GB", "-1", "1e3", "80 XB", "0", "9" * 20, "1\n2"):
        with pytest.raises(ValueError, match="expected a size such as 80GB"):
            parse_bytes(text)


def large(**options: object) -> Config:
    return resolve(RunSettings(model="2.5b", gpus=8, **options), gpu=True)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    config = large(recompute=0, device_memory="60GB")
    room, owner = capacity(config, gpu=True)
    assert room == int(60e9 * 0.94)
    with pytest.raises(ModtokError) as caught:
        check_fits(config, SIZE, ROWS, 8, room, owner)
    message = str(caught.value)
    assert re.match(
        r"memory: the run needs \d+\.\d GiB per device \(activations 19\.0 GiB", message
    )
    assert (
        "it fits with --set parallelism.recompute=24; or --micro-batch 1; or --offload" in message
    )
    check_fits(config.changed(recompute=24), SIZE, ROWS, 8, room, owner)


def test_as_few_layers_as_needed_are_recomputed() -> None:
    """Also with a number that is given, and where nothing fits."""
    config = large()
    none = total(memory_parts(config, SIZE, ROWS, 8))
    every = total(memory_parts(config.changed(recompute=24), SIZE, ROWS, 8))
    between = int((none + every) / 2 / memory._MARGIN)
    chosen = [
        recomputed(config, SIZE, ROWS, 8, room).parallelism.recompute
        for room in (none * 2, between, every // 2)
    ]
    assert chosen[0] == 0 < chosen[1] < 24 == chosen[2]
    for layers in (chosen[1] - 1, chosen[1]):
        need = total(memory_parts(config.changed(recompute=layers), SIZE, ROWS, 8))
        assert (need <= memory._MARGIN * between) == (layers == chosen[1])
    assert recomputed(config, SIZE, ROWS, 8, None).parallelism.recompute == 0  # 80 GB of an H100
    assert recomputed(config.changed(recompute=3), SIZE, ROWS, 8, every).parallelism.recompute == 3


@pytest.mark.parametrize("recompute", [0, 24])
@pytest.mark.parametrize("micro", [1, 4])
@pytest.mark.parametrize(("tp", "offload"), [(1, False), (2, True), (4, False)])
def test_a_remedy_changes_the_run_and_fits(
    recompute: int, micro: int, tp: int, offload: bool
) -> None:
    """Where none is told, no change of one option or of all would fit."""
    config = large(recompute=recompute, micro_batch=micro, distributed_optimizer=False, tp=tp,
                   offload=offload)  # fmt: skip
    need = total(memory_parts(config, SIZE, ROWS, 8))
    check_fits(config, SIZE, ROWS, 8, None, "x")  # unknown: not checked
    check_fits(config, SIZE, ROWS, 8, need, "x")
    every: dict[str, list[Any]] = {
        "recompute": [24], "micro_batch": [2, 1], "offload": [True], "tp": [2, 4],
        "distributed_optimizer": [True],
    }  # fmt: skip
    now = {"recompute": recompute, "micro_batch": micro, "offload": offload, "tp": tp}
    told = set()
    for share in (0.9, 0.6, 0.4, 0.2, 0.05):
        room = int(share * need)
        with pytest.raises(ModtokError) as caught:
            check_fits(config, SIZE, ROWS, 8, room, "x")
        message = str(caught.value)
        told.add("it fits with" in message)
        if "it fits with" not in message:
            assert "use more devices" in message
            for name, values in every.items():
                for value in values:
                    if name == "offload" or value > now.get(name, 0) or name == "micro_batch":
                        less = config.changed(**{name: value})
                        assert total(memory_parts(less, SIZE, ROWS, 8)) > room
        for words in filter(None, message.partition("it fits with ")[2].split("; or ")):
            options = re.findall(r"--(?:set parallelism\.)?([a-z_-]+)(?:[= ]([a-z0-9]+))?", words)
            changes = {
                name.replace("-", "_"): int(value) if value.isdigit() else True
                for name, value in options
            }
            assert not changes.items() & now.items(), message
            check_fits(config.changed(**changes), SIZE, ROWS, 8, room, "x")
    assert told == {True, False}


def test_checkpoints_must_fit_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = large()
    one = checkpoint_bytes(config, SIZE)
    assert one == 12 * (config.shape.parameters + 2 * SIZE * 3072) + 4 * 2 * SIZE
    free = type("Usage", (), {"free": 3 * one})
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda path: free)
    check_disk(config, SIZE, tmp_path / "runs" / "it")
    with pytest.raises(ModtokError, match=r"4 checkpoints of .* GiB do not fit.*evaluation.keep"):
        check_disk(config.changed(keep=3), SIZE, tmp_path)
    with pytest.raises(ModtokError, match="303 checkpoints"):
        check_disk(config.changed(keep_every=1000), SIZE, tmp_path)


def test_batches_of_all_shards_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    needed: list[int] = []
    monkeypatch.setattr(memory, "check_memory", lambda need, *words: needed.append(need))
    for tp in (1, 2):
        memory.check_step_memory(large(tp=tp, batch_size=8, micro_batch=1, seq_length=100))
    # int32 inputs and targets of 4 steps ahead, this and the next one; 2 steps on the device.
    token = 2 * 4 * (4 + 2) + 2 * (8 + 8 + 4)
    assert needed == [8 * 100 * token + 8 * 4096, 2 * 8 * 100 * token + 8 * 4096]


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_on_the_host_must_fit_with_their_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool
) -> None:
    config = large(offload=True, offload_file=tmp_path if on_disk else None)
    need = memory.host_need(config, SIZE, 1000.0, 8, 4)
    # Half of the ranks are here. Weight, two moments, count; rows up and gradients down.
    assert need.tables == 2 * SIZE * (3 * 4 * 3072 + 4) * 4 // 8
    assert need.buffers == int(2.5 * 2 * 1000 * 3072 * (2 + 4) * 4 / 8)
    room = need.buffers + (0 if on_disk else need.tables)
    monkeypatch.setattr(memory, "available", lambda: room)
    usage = type("Usage", (), {"free": need.tables})
    monkeypatch.setattr(memory.shutil, "disk_usage", lambda path: usage)
    memory.check_host(config, need)
    monkeypatch.setattr(memory, "available", lambda: room - 1)
    with pytest.raises(ModtokError, match="of this machine's memory"):
        memory.check_host(config, need)
    if on_disk:
        monkeypatch.setattr(memory, "available", lambda: room)
        usage.free -= 1
        with pytest.raises(ModtokError, match="of disk"):
            memory.check_host(config, need)


def shipped() -> list[str]:
    """Commands of examples, pages and help that train on GPUs."""
    files = [*(ROOT / "examples").rglob("*.sh"), *(ROOT / "examples").rglob("*.sbatch")]
    files += [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    files += (ROOT / "modtok_cli" / "cli" / "commands").glob("pretrain.py")
    found = []
    for file in files:
        for line in joined(file).splitlines():
            if re.search(r"(modtok pretrain|options=).*--model [0-9.]+b", line):
                found.append(line.split("pretrain", 1)[-1].split("options=", 1)[-1].strip('" '))
    return sorted(set(found))


@pytest.mark.parametrize("command", shipped())
def test_every_recipe_that_is_shipped_fits_80_gb(command: str) -> None:
    values: dict[str, object] = {}
    words = re.sub(r"#.*|`.*", "", command).split()
    for at, word in enumerate(words):
        if word == "--set":
            values |= read_assignments([words[at + 1]])
        elif word.startswith("--") and word not in ("--dry-run", "--prepare", "--resume"):
            following = words[at + 1] if at + 1 < len(words) else "--"
            value: object = True if following.startswith("--") else following
            if isinstance(value, str) and value.isdigit():
                value = int(value)
            values[word[2:].replace("-", "_")] = value
    values.setdefault("gpus", 8)
    config = resolve(RunSettings(**values), gpu=True)  # type: ignore[arg-type]
    config = recomputed(config, SIZE, ROWS, config.parallelism.gpus, None)
    need = total(memory_parts(config, SIZE, ROWS, config.parallelism.gpus))
    assert need < 80e9 * 0.94, f"{need / GIB:.1f} GiB"


RECIPES = sorted((ROOT / "examples" / "recipes").glob("*.toml"))
HOST = 64e9  # examples/recipes/7b-32.toml


def measured(config: Config) -> tuple[int, StepRows]:
    """|T| and the rows of a step, sequential BPE of 21 languages."""
    file = ROOT / "benchmarks" / "results" / "active-rows-2026-11-22.jsonl"
    for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
        if (row["sampling"], row["draw"]) == (config.sampling.sampling, config.sampling.draw):
            rows = StepRows(row["draw_rows"], row["rank_rows"], row["step_rows"])
            return row["vocabulary"], rows
    raise AssertionError(f"no rows of {config.sampling.sampling}, {config.sampling.draw}")


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_example_recipes_fit_their_machine(file: Path) -> None:
    given: dict[str, Any] = read_recipe(file)
    config = resolve(RunSettings(**given), gpu=True)
    assert {"gpus", "device_memory"} <= given.keys()  # the machine
    check_ranks(config, config.parallelism.gpus)
    size, rows = measured(config)
    room, owner = capacity(config, gpu=True)
    chosen = recomputed(config, size, rows, config.parallelism.gpus, room)
    check_fits(chosen, size, rows, config.parallelism.gpus, room, owner)
    if config.parallelism.offload:
        need = host_need(config, size, rows.union, config.parallelism.gpus, 8)
        assert need.tables + need.buffers < HOST


def test_every_paper_preset_has_a_recipe() -> None:
    models = {read_recipe(file)["model"] for file in RECIPES}
    assert models == {*PAPER, "7b-32"}
    assert models <= PRESETS.keys()


def test_the_page_is_what_the_script_writes() -> None:
    run_python(["-m", "benchmarks", "scale", "--check"], cwd=ROOT, check=True)


# A preset has 52; the rest of the time goes into making them.
LAYERS = 6


class FusedNorm(torch.autograd.Function):
    """What the kernel of a GPU keeps: input, weight, and a scale of each token in float32."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight, x.new_empty((*x.shape[:-1], 1), dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class Peak(TorchDispatchMode):
    """The most bytes that tensors made in it took at a time; without `others`, from before it."""

    def __init__(self, others: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.others = {tensor.untyped_storage()._cdata for tensor in others}
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.size = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
            if storage is not None and storage._cdata not in self.others:
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
                self.size += storage.nbytes()
        if self.size > self.most:  # perhaps: some may be gone, or counted twice
            self.alive = {key: one for key, one in self.alive.items() if not one[0].expired()}
            self.size = sum(size for _, size in self.alive.values())
            self.most = max(self.most, self.size)
        return result


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fused(x: torch.Tensor, shape: object, weight: torch.Tensor, eps: float) -> torch.Tensor:
        result: torch.Tensor = FusedNorm.apply(x, weight)  # type: ignore[no-untyped-call]
        return result

    monkeypatch.setattr(torch.nn.functional, "rms_norm", fused)
    swiglu = import_module("megatron.core.fusions.fused_bias_swiglu")
    monkeypatch.setattr(swiglu, "swiglu", lambda x: x.new_empty(*x.shape[:-1], x.shape[-1] // 2))
    monkeypatch.setattr(swiglu, "swiglu_back", lambda gradient, x: torch.empty_like(x))
    # Fake parameters cannot be converted: they are made in the dtype of the backbone.
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, **_: self)
    torch.set_default_dtype(torch.bfloat16)
    start_ranks()
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("preset", "recompute", "starts"),
    [*product(("tiny", "30b"), [0, LAYERS], [None]), ("1b", 0, [0, 9, 4000]), ("1b", 1, [0, 9])],
)
def test_plan_agrees_with_fake_tensors(
    preset: str, recompute: int, starts: list[int] | None, as_on_a_gpu: None
) -> None:
    options, shape = PRESETS[preset], replace(SIZES[preset], layers=LAYERS)
    length, sequences = options["seq_length"], options["micro_batch"]
    backbone = megatron.build_backbone(
        shape, shards=1, device=torch.device("cpu"), dtype=torch.bfloat16, seed=0,
        recompute=recompute, masked=starts is not None, execution=Execution(fused=True),
    )  # fmt: skip
    size = (length, sequences, shape.hidden_size)
    weights = list(backbone.parameters.values())
    with Peak([*weights, *(weight.main_grad for weight in weights)]) as peak:
        bounds = None if starts is None else torch.tensor([*starts, length * sequences]).int()
        result = backbone(torch.empty(size, dtype=torch.bfloat16, requires_grad=True), bounds)
        # The loss has the gradient of its input, in float32, and returns it converted.
        gradients = [torch.empty(size, dtype=torch.float32).to(torch.bfloat16)]
        with backbone.accumulating(more=False):
            result.backward(gradients.pop())
    planned = activation_bytes(shape, sequences, length, 2, recompute=recompute, fused=True)
    planned += working_bytes(shape, sequences * length, 2)
    assert planned == pytest.approx(peak.most, rel=0.1)
