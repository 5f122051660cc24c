"""Every option of a training run, declared once.

To add one, add a field here. The command line (`modtok pretrain --help`), modtok.toml and
MODTOK_* variables, recipe files, `config.json`, the check on `--resume` and the error messages
all come from the declaration. Fields follow the order of the help.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Literal

from modtok_cli.base.files import path_text
from modtok_cli.base.option import Declared, option, options_of

SEEDS = 1 << 62
"""Seeds are smaller than this: seeds of the tables are derived from them, and fit 64 bits."""

KINDS = ("matrices", "embeddings", "norms")
"""Kinds of parameters: matrices of the backbone, embedding rows, and norms with biases."""

NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
"""Pattern of the names of runs."""


def _sampling(value: str) -> str:
    from modtok_cli.training.data.sampling import Regime

    return str(Regime.parse(value))


def _mix(value: str | Mapping[str, float]) -> dict[str, float]:
    from modtok_cli.training.data.sampling import parse_mix

    return parse_mix(value)


def _languages(value: str | Sequence[str]) -> tuple[str, ...]:
    """Sorted codes of `en,fi` or of a list."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"expected a list of languages, got {value!r}")
    names = [part.strip() for part in parts]
    if not names or not all(names):
        raise ValueError(f"{value!r} has an empty entry; write it as en,fi,fr")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"{repeated!r} is given twice")
    return tuple(sorted(names))


def _model(value: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(NAME, value):
        raise ValueError(f"expected the name of a preset, got {value!r}")
    return value


def _run_name(value: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(NAME, value) or value == "latest":
        raise ValueError(
            f"{value!r} cannot be the name of a run; use letters, digits, and . _ + - "
            "(not 'latest')"
        )
    return value


LOGGERS = ("tensorboard", "wandb")
"""Programs that metrics can be logged to, see `loggers`."""


def _loggers(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names in `tensorboard,wandb` or a list; () for `none`.

    >>> _loggers("wandb,tensorboard"), _loggers("none")
    (('tensorboard', 'wandb'), ())
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"expected names such as tensorboard,wandb, got {value!r}")
    names = [name.strip() for name in names if name.strip() != "none"]
    unknown = next((name for name in names if name not in LOGGERS), None)
    if unknown is not None:
        raise ValueError(f"expected {', '.join(LOGGERS)} or none, got {unknown!r}")
    return tuple(sorted(set(names)))


def _names(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names in `arc_easy,hellaswag` or a list; () for `none`."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"expected names separated by commas, got {value!r}")
    names = [name.strip() for name in names]
    if names == ["none"]:
        return ()
    if not all(names):
        raise ValueError(f"{value!r} has an empty entry")
    return tuple(dict.fromkeys(names))


def _directories(value: str | Mapping[str, str | Path]) -> dict[str, Path]:
    """Directories by name; the default name is the directory's own. {} for `none`.

    >>> _directories("news=texts/2026,parallel/"), _directories("none")
    ({'news': PosixPath('texts/2026'), 'parallel': PosixPath('parallel')}, {})
    """
    pairs: list[tuple[str, str | Path]] = [("", "")]
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip() != "none"]
        pairs = []
        for part in parts:
            name, equals, rest = part.partition("=")
            pairs.append((name, rest) if equals else (_name_of(part), part))
    found: dict[str, Path] = {}
    for name, path in pairs:
        if not (isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]+", name) and path):
            raise ValueError(f"expected directories such as news=DIR, got {value!r}")
        if name in found:
            raise ValueError(f"two directories have the name {name!r}; write them as NAME=DIR")
        found[name] = Path(path)
    return found


def _name_of(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(path).absolute().name).strip("-")


def _size(value: str | int) -> int:
    from modtok_cli.base.memory import parse_bytes

    return parse_bytes(value)


def _decayed(value: str | Sequence[str]) -> tuple[str, ...]:
    """Kinds of parameters of `matrices,norms` or of a list, in the order of `KINDS`."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not set(parts) <= set(KINDS):
        raise ValueError(f"expected some of {', '.join(KINDS)}, got {value!r}")
    return tuple(kind for kind in KINDS if kind in parts)


def _tenth_of(steps: int) -> int:
    return max(1, steps // 10)


@dataclass(frozen=True, kw_only=True)
class Settings(Declared):
    """Options of a run. Those that are not given are None until `config.resolve`.

    `batch_size` counts sequences per step over all ranks; sequence s of a step is slot s.
    `micro_batch` counts sequences in one forward pass. With `draw` = "micro" they share a
    language and a subtokenizer; else more sequences share them.
    """

    sampling: str = option(
        "Subtokenizer of a batch: none (its language only), full (all of T), sub:N (N more "
        "languages), joint (T always).",
        default="sub:2",
        section="data",
        metavar="REGIME",
        parse=_sampling,
    )
    p: float = option(
        "Probability of sampling the larger subtokenizer.",
        default=0.5,
        section="data",
        metavar="P",
        low=0,
        high=1,
    )
    draw: Literal["step", "rank", "micro"] = option(
        "Sequences that share a language and a subtokenizer: those of an optimizer step, of a "
        "rank in a step, or of a microbatch.",
        default="micro",
        section="data",
    )
    mix: dict[str, float] | None = option(
        "Share of some languages in the mixture. Default: en=0.7 if there is English.",
        section="data",
        metavar="LANG=SHARE,...",
        parse=_mix,
    )
    mix_rest: Literal["data", "uniform"] = option(
        "Shares of the other languages: by the size of their text, or equal.",
        default="data",
        section="data",
    )
    langs: tuple[str, ...] | None = option(
        "Languages, separated by commas.",
        section="data",
        metavar="LANG,...",
        parse=_languages,
    )
    model: str = option(
        "Preset, a recipe of the package: tiny, small, 0.5b, 1b, 2.5b, 7b-32, 7b, 12b, 30b. "
        "Default: tiny; 0.5b on a GPU.",
        default=lambda run: "0.5b" if run.gpu else "tiny",
        section="architecture",
        metavar="NAME",
        parse=_model,
    )
    layers: int = option(
        "Number of layers. Default: by preset.",
        section="architecture",
        metavar="N",
        low=1,
        high=1 << 16,
        of_shape=True,
    )
    hidden_size: int = option(
        "Hidden size. Default: by preset.",
        section="architecture",
        metavar="N",
        low=1,
        high=1 << 24,
        of_shape=True,
    )
    ffn: int = option(
        "Hidden size of the feed-forward layers. Default: by preset.",
        section="architecture",
        metavar="N",
        low=1,
        high=1 << 24,
        of_shape=True,
    )
    heads: int = option(
        "Number of query heads. Default: by preset.",
        section="architecture",
        metavar="N",
        low=1,
        high=1 << 16,
        of_shape=True,
    )
    kv_heads: int = option(
        "Number of key-value heads. Default: by preset.",
        section="architecture",
        metavar="N",
        low=1,
        high=1 << 16,
        of_shape=True,
    )
    head_width: int = option(
        "Size of a head. Default: by preset.",
        section="architecture",
        metavar="N",
        low=2,
        high=1 << 16,
        of_shape=True,
    )
    rope_theta: float = option(
        "Base of the rotary position embedding. Default: by preset.",
        default=lambda run: 1e5,
        section="architecture",
        metavar="BASE",
        above=0,
        of_shape=True,
    )
    gpus: int = option(
        "Number of processes, one per GPU; on the CPU without GPUs.",
        default=1,
        section="parallelism",
        metavar="N",
        low=1,
        high=1 << 20,
        changeable=True,
    )
    tp: int = option(
        "Tensor-parallel size.",
        default=1,
        section="parallelism",
        metavar="N",
        low=1,
        high=1 << 20,
        changeable=True,
    )
    steps: int = option(
        "Number of optimizer steps. Default: by preset; 300 for tiny.",
        section="schedule",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    batch_size: int = option(
        "Sequences per step. Default: by preset; 8 for tiny.",
        section="data",
        metavar="N",
        low=1,
        high=1 << 31,
    )
    micro_batch: int = option(
        "Sequences per forward pass; less on a rank with a smaller share. Default: by preset.",
        adapt=lambda run, value: min(value, run.batch_size),
        section="data",
        metavar="N",
        low=1,
        high=1 << 31,
    )
    seq_length: int = option(
        "Tokens per sequence. Default: by preset; 256 for tiny.",
        section="data",
        metavar="N",
        low=8,
        high=1 << 31,
    )
    lr: float = option(
        "Peak learning rate. Default: by preset.",
        section="schedule",
        metavar="RATE",
        above=0,
    )
    final_lr: float = option(
        "Final learning rate. Default: a tenth of --lr.",
        default=lambda run: run.lr / 10,
        section="schedule",
        metavar="RATE",
        low=0,
    )
    schedule: Literal["cosine", "wsd", "constant"] = option(
        "Learning-rate schedule after the warm-up; wsd: stable, then linear decay.",
        default="cosine",
        section="schedule",
    )
    lr_steps: int = option(
        "Length of the learning-rate schedule; then the final rate holds. Default: --steps.",
        default=lambda run: run.steps,
        section="schedule",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    decay_steps: int = option(
        "Steps of the decay of wsd. Default: a fifth of --lr-steps.",
        default=lambda run: max(1, run.lr_steps // 5),
        section="schedule",
        metavar="N",
        low=1,
        high=1 << 48,
    )
    warmup: int = option(
        "Number of warm-up steps. Default: by preset.",
        default=lambda run: _tenth_of(run.steps),
        adapt=lambda run, value: min(value, _tenth_of(run.steps)),
        section="schedule",
        metavar="N",
        low=0,
        high=1 << 48,
    )
    seed: int = option(
        "Random seed.", default=0, section="init", metavar="N", low=0, high=SEEDS - 1
    )
    init_from: Path | None = option(
        "Run, or Hugging Face directory of a Llama, Mistral, Qwen2 or Qwen3, to take the initial "
        "weights from; -t may be another tokenizer.",
        section="init",
        metavar="DIR",
    )
    init_rows: Literal["spelling", "random"] = option(
        "Initial rows of new tokens: mean of the old tokens that spell them, or random.",
        default=lambda run: "spelling",
        section="init",
        needs="init_from",
    )
    train: Literal["all", "rows"] = option(
        "What to train: all, or only rows of tokens that --init-from does not have.",
        default=lambda run: "all",
        section="init",
        needs="init_from",
    )
    update: Literal["sparse", "dense"] = option(
        "Embedding rows to update: active rows, or all (equals a full softmax).",
        default="sparse",
        section="optimizer",
    )
    beta1: float = option(
        "Decay rate of the first moment of AdamW.",
        default=0.9,
        section="optimizer",
        metavar="B",
        low=0,
        below=1,
    )
    beta2: float = option(
        "Decay rate of the second moment of AdamW.",
        default=0.95,
        section="optimizer",
        metavar="B",
        low=0,
        below=1,
    )
    eps: float = option(
        "Epsilon of AdamW.",
        default=1e-8,
        section="optimizer",
        metavar="EPS",
        low=1e-30,
    )
    weight_decay: float = option(
        "Weight decay, multiplied by the learning rate.",
        default=0.1,
        section="optimizer",
        metavar="RATE",
        low=0,
    )
    decay_params: tuple[str, ...] = option(
        "Parameters with weight decay: matrices, embeddings, norms (with biases).",
        default="matrices,embeddings",
        section="optimizer",
        metavar="KIND,...",
        parse=_decayed,
    )
    clip: float = option(
        "Maximum norm of the gradient of all parameters; 0: no clipping.",
        default=1.0,
        section="optimizer",
        metavar="NORM",
        low=0,
    )
    z_loss: float = option(
        "Coefficient of the z-loss, the squared logarithm of the softmax denominator.",
        default=0.0,
        section="optimizer",
        metavar="C",
        low=0,
    )
    init_std: float = option(
        "Standard deviation of initial weights.",
        default=0.02,
        section="init",
        metavar="STD",
        above=0,
    )
    init_projection_std: float = option(
        "Same for the output projections of attention and feed-forward layers. Default: "
        "--init-std divided by the root of twice the layers.",
        default=lambda run: run.init_std / sqrt(2 * run.layers),
        section="init",
        metavar="STD",
        above=0,
    )
    init_embedding_std: float = option(
        "Same for embedding rows. Default: --init-std.",
        default=lambda run: run.init_std,
        section="init",
        metavar="STD",
        above=0,
    )
    qk_norm: bool = option(
        "Normalize queries and keys per head; the model is a Qwen3.",
        default=lambda run: False,
        section="architecture",
        of_shape=True,
    )
    tied: bool = option(
        "Tie input and output embeddings.",
        default=lambda run: False,
        section="architecture",
        of_shape=True,
    )
    attention: Literal["packed", "document"] = option(
        "Attention in packed sequences: all preceding tokens, or those of the same document.",
        default="packed",
        section="data",
    )
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
    device_memory: int | None = option(
        "Memory of a device, such as 80GB, that the run must fit. Default: the device's own.",
        section="parallelism",
        metavar="SIZE",
        parse=_size,
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
    eval_every: int = option(
        "Steps between evaluations. Default: a tenth of --steps, 1000 at most.",
        default=lambda run: min(1000, _tenth_of(run.steps)),
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    save_every: int = option(
        "Steps between checkpoints. Default: a tenth of --steps, 1000 at most.",
        default=lambda run: min(1000, _tenth_of(run.steps)),
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
        parse=_directories,
        changeable=True,
    )
    eval_bytes: int = option(
        "Bytes of text per language of an evaluation. Default: 64KiB.",
        default=lambda run: 1 << 16,
        section="evaluation",
        metavar="SIZE",
        parse=_size,
        changeable=True,
    )
    eval_tasks: tuple[str, ...] | None = option(
        "Multiple-choice tasks to evaluate checkpoints on, from local files: names, all or none.",
        section="evaluation",
        metavar="TASK,...",
        parse=_names,
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
        parse=_languages,
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
        parse=_loggers,
        changeable=True,
    )
    log_every: int = option(
        "Steps between status lines, outside a terminal. Default: a tenth of --steps, 100 at most.",
        default=lambda run: min(100, _tenth_of(run.steps)),
        section="evaluation",
        metavar="N",
        low=1,
        high=1 << 48,
        changeable=True,
    )
    name: str | None = option(
        "Directory below --runs. Default: named after sampling and preset.",
        metavar="NAME",
        parse=_run_name,
    )
    data: Path = option(
        "Directory with the text of each language.",
        default=Path("data"),
        section="data",
        metavar="DIR",
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
        "Text that is not UTF-8: stop, insert U+FFFD, or skip the line.",
        default="strict",
        section="data",
    )


OPTIONS = options_of(Settings)
"""The options by name, in order."""


def plain(value: Any) -> Any:
    """A value as JSON; paths that are not UTF-8 with escapes."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Path):
        return path_text(value)
    return value
