"""Every option of a training run, declared once.

To add one, add a field here, or to `ModelSettings` if it determines what is trained. The command
line (`modtok pretrain --help`), modtok.toml and MODTOK_* variables, recipe files, `config.json`,
the check on `--resume` and the error messages all come from the declaration. Fields follow the
order of the help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from modtok_cli.base.files import path_text
from modtok_cli.base.option import option, options_of
from modtok_cli.text.reading import Reading
from modtok_cli.training import option_values as values
from modtok_cli.training.model.execution import has_kernels
from modtok_cli.training.model_settings import ModelSettings


@dataclass(frozen=True, kw_only=True)
class RunSettings(ModelSettings):
    """Options of a run. Those that are not given are None until `config.resolve`.

    `batch_size` counts sequences per step over all ranks; sequence s of a step is slot s.
    `micro_batch` counts sequences in one forward pass. With `draw` = "micro" they share a
    language and a subtokenizer; else more sequences share them.
    """

    recompute: bool = option(
        "Recompute activations in the backward pass. Default: by preset.",
        default=lambda run: False,
        section="parallelism",
        changeable=True,
    )
    offload: bool = option(
        "Keep embedding tables in host memory; active rows are on the GPU.",
        default=False,
        section="parallelism",
    )
    offload_delay: int = option(
        "Delay of offloaded updates in steps: 1 overlaps updates with compute. Default: 1.",
        default=lambda run: 1 if run.offload else 0,
        section="parallelism",
        metavar="N",
        low=0,
        high=1,
        needs="offload",
    )
    offload_moments: Literal["bfloat16", "float32"] = option(
        "Dtype of offloaded optimizer moments. Default: float32.",
        default=lambda run: "float32",
        section="parallelism",
        needs="offload",
    )
    offload_file: Path | None = option(
        "Store offloaded tables as files in DIR, on a fast disk.",
        section="parallelism",
        metavar="DIR",
        changeable=True,
        needs="offload",
    )
    distributed_optimizer: bool = option(
        "Shard optimizer state across GPUs. Default: if --gpus is larger than --tp.",
        default=lambda run: run.gpu and run.gpus > run.tp,
        section="parallelism",
        changeable=True,
    )
    overlap_grad_reduce: bool = option(
        "Overlap the reduction of gradients with the backward pass. Default: on GPUs.",
        default=lambda run: run.gpu,
        section="parallelism",
        changeable=True,
    )
    overlap_param_gather: bool = option(
        "Overlap the gathering of weights with the forward pass. Default: with "
        "--distributed-optimizer.",
        default=lambda run: run.distributed_optimizer and run.overlap_grad_reduce,
        section="parallelism",
        changeable=True,
    )
    sequence_parallel: bool = option(
        "Divide sequences among tensor-parallel GPUs between their layers. Default: with --tp.",
        default=lambda run: run.gpu and run.tp > 1 and run.seq_length % run.tp == 0,
        section="parallelism",
        changeable=True,
    )
    fuse_swiglu: bool = option(
        "Fused kernel for SwiGLU. Default: on GPUs.",
        default=lambda run: run.gpu,
        section="parallelism",
        changeable=True,
    )
    fuse_rope: bool = option(
        "Fused kernel for rotary embeddings. Default: on GPUs with Transformer Engine.",
        default=lambda run: run.gpu and has_kernels(),
        section="parallelism",
        changeable=True,
    )
    fuse_grad_accumulation: bool = option(
        "Fused kernel that adds weight gradients to their sum. Default: on GPUs with Transformer "
        "Engine.",
        default=lambda run: run.gpu and has_kernels(),
        section="parallelism",
        changeable=True,
    )
    device_memory: int | None = option(
        "Memory of a device, such as 80GB, that the run must fit. Default: the device's own.",
        section="parallelism",
        metavar="SIZE",
        parse=values.size,
        changeable=True,
    )
    device_flops: float | None = option(
        "Peak FLOP/s of a device, such as 989e12, for model FLOP utilization. Default: by GPU.",
        section="parallelism",
        metavar="N",
        above=0,
        changeable=True,
    )
    hang_timeout: float = option(
        "Minutes without progress on any rank after which a run ends.",
        default=30.0,
        section="parallelism",
        metavar="MINUTES",
        above=0,
        changeable=True,
    )
    dtype: Literal["bfloat16", "float32"] = option(
        "Backbone dtype. Default: float32; bfloat16 on a GPU.",
        default=lambda run: "bfloat16" if run.gpu else "float32",
        section="precision",
    )
    fp8: Literal["none", "hybrid", "e4m3"] = option(
        "FP8 matrix products of the backbone: hybrid (E5M2 for gradients) or e4m3.",
        default="none",
        section="precision",
    )
    eval_every: int = option(
        "Steps between evaluations. Default: a tenth of --steps, 1000 at most; more where "
        "evaluation would take over a tenth of training's time.",
        default=lambda run: min(1000, values.tenth_of(run.steps)),
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    save_every: int = option(
        "Steps between checkpoints. Default: a tenth of --steps, 1000 at most.",
        default=lambda run: min(1000, values.tenth_of(run.steps)),
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    keep: int = option(
        "Number of latest checkpoints to keep.",
        default=2,
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 31,
        changeable=True,
    )
    keep_every: int | None = option(
        "Also keep every checkpoint whose step is divisible by N.",
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    workers: int = option(
        "Tokenization processes per rank.",
        default=1,
        section="data",
        metavar="N",
        low=0,
        high=1 << 12,
        changeable=True,
    )
    valid: dict[str, Path] | None = option(
        "Directories of further text to evaluate on, in files by language; or none.",
        section="evaluation",
        metavar="[NAME=]DIR,...",
        parse=values.directories,
        changeable=True,
    )
    eval_bytes: int = option(
        "Bytes of text per language of an evaluation. Default: 64KiB, or as many as take a tenth "
        "of training's time.",
        default=lambda run: 1 << 16,
        section="evaluation",
        metavar="SIZE",
        parse=values.size,
        changeable=True,
    )
    eval_tasks: tuple[str, ...] | None = option(
        "Multiple-choice tasks to evaluate checkpoints on, from local files: names, all or none.",
        section="evaluation",
        metavar="TASK,...",
        parse=values.names,
        changeable=True,
    )
    eval_tasks_every: int = option(
        "Steps between evaluations of tasks. Default: --save-every.",
        default=lambda run: run.save_every,
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
        needs="eval_tasks",
    )
    eval_tasks_data: Path = option(
        "Directory with the questions, as --data of modtok eval mcq. Default: tasks.",
        default=lambda run: Path("tasks"),
        section="evaluation",
        metavar="DIR",
        changeable=True,
        needs="eval_tasks",
    )
    eval_tasks_langs: tuple[str, ...] | None = option(
        "Languages of the tasks. Default: those of the run.",
        section="evaluation",
        metavar="LANG,...",
        parse=values.languages,
        changeable=True,
        needs="eval_tasks",
    )
    eval_tasks_limit: int | None = option(
        "Maximum number of questions of a task and language.",
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 31,
        changeable=True,
        needs="eval_tasks",
    )
    log: tuple[str, ...] | None = option(
        "Also log metrics to tensorboard, wandb (comma-separated); or none.",
        section="evaluation",
        metavar="NAME,...",
        parse=values.loggers,
        changeable=True,
    )
    log_every: int = option(
        "Steps between status lines, outside a terminal. Default: a tenth of --steps, 100 at most.",
        default=lambda run: min(100, values.tenth_of(run.steps)),
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    name: str | None = option(
        "Directory below --runs. Default: named after sampling and preset.",
        metavar="NAME",
        parse=values.run_name,
    )
    data: Path = option(
        "Directory with the text of each language, or one file (of several: --lang-field).",
        default=Path("data"),
        section="data",
        metavar="PATH",
        changeable=True,
    )
    tokenizer: Path = option(
        "Modular tokenizer directory.",
        default=Path("tokenizer"),
        section="data",
        metavar="TOKENIZER",
        short="-t",
        changeable=True,
    )
    runs: Path = option("Directory of all runs.", default=Path("runs"), metavar="DIR")
    errors: Literal["strict", "replace", "skip"] = option(
        "Text that is not UTF-8: stop, insert U+FFFD, or skip the document.",
        default="strict",
        section="data",
    )
    field: str = option(
        "Field or column of the text in JSON, Parquet, CSV and Arrow files; a.b if nested.",
        default="text",
        section="data",
        metavar="NAME",
    )
    lang_field: str | None = option(
        "Field of each document's language, for files of several languages.",
        section="data",
        metavar="NAME",
    )

    @property
    def reading(self) -> Reading:
        """How text is read."""
        return Reading(self.errors, self.field, self.lang_field)


OPTIONS = options_of(RunSettings)
"""The options by name, in order."""


def plain(value: Any) -> Any:
    """A value as JSON; paths that are not UTF-8 with escapes."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Path):
        return path_text(value)
    return value
