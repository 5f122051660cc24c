"""Every option of a training run, declared once, in a dataclass for each table of a recipe.

To add one, add a field here. The command line (`modtok pretrain --help`), modtok.toml, recipe
files, `config.json`, the check on `--resume` and the error messages all come from the declaration.
Fields follow the order of the help. What people change from run to run has a flag; the others are
`recipe_only`: keys of a recipe, which --set also sets.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from modtok_cli.base.memory import parse_bytes
from modtok_cli.base.option import Declared, option
from modtok_cli.text.reading import PANEL, Reading
from modtok_cli.training import option_values as values
from modtok_cli.training.data.sampling import Regime, parse_mix, parse_sources
from modtok_cli.training.schedule import tenth

if TYPE_CHECKING:  # they import torch
    from modtok_cli.training.model.execution import InitStd
    from modtok_cli.training.rows.table import AdamW

_key = partial(option, recipe_only=True)
_staged = partial(option, staged=True)
_changeable = partial(option, changeable=True)
_staged_key = partial(_key, staged=True)
_changeable_key = partial(_key, changeable=True)
_shape = partial(_key, of_shape=True)
# Numbers of steps, sequences, processes, sizes of layers: at least 1, and within 64 bits.
_steps = {"metavar": "N", "low": 1, "high": 1 << 48}
_count = {"metavar": "N", "low": 1, "high": 1 << 31}
_size = {"metavar": "N", "low": 1, "high": 1 << 24}
_share = {"metavar": "P", "low": 0, "high": 1}
_processes = {"metavar": "N", "low": 1, "high": 1 << 20}
_layers = {"metavar": "N", "low": 1, "high": 1 << 16}


@dataclass(frozen=True, kw_only=True)
class SamplingSettings(Declared, section="data"):
    """Shares of text, and the subtokenizer of a batch: the first keys of `[data]`."""

    sampling: str = _staged(
        "Subtokenizer of a batch: none (its language), full (all of T), sub:N (N more languages), "
        "joint (T always). Default: sub:2; sub:1 of two languages, none of one.",
        default=lambda run: "sub:2",
        metavar="REGIME",
        parse=values.sampling,
    )
    p: float = _staged(
        "Probability that a batch also uses the languages drawn by --sampling.",
        default=0.5,
        **_share,
    )
    draw: Literal["step", "micro"] = _key(
        "Sequences that share a language and a subtokenizer: of an optimizer step or of a "
        "microbatch.",
        default="micro",
    )
    mix: dict[str, float] | None = _staged(
        "Share of some languages in the mixture of text. Default: en=0.7 if there is English.",
        metavar="LANG=SHARE,...",
        parse=parse_mix,
    )
    mix_rest: str = _staged_key(
        "Shares of the other languages: data (in proportion to the size of their text), data^A (to "
        "a power of it, such as data^0.3) or uniform.",
        default="data",
        metavar="SHARES",
        parse=values.mix_rest,
    )
    max_epochs: float | None = _staged_key(
        "Most times that a stage reads a text, except for shares of --mix.",
        metavar="N",
        above=0,
    )
    sources: dict[str, float] | None = _staged_key(
        "Weights of sources as fi = { web = 0.7, wiki = 0.3 }: files or directories of a language.",
        metavar="LANG/SOURCE=WEIGHT,...",
        parse=parse_sources,
    )
    dropout: float = _staged_key(
        "Chance that a merge or piece is left out of training text.",
        **_share,
        default=0.0,
    )

    @property
    def regime(self) -> Regime:
        """The sampling regime."""
        return Regime.parse(self.sampling)


@dataclass(frozen=True, kw_only=True)
class DataSettings(Declared, section="data"):
    """Text and its division into sequences: the other keys of `[data]`.

    `batch_size` counts sequences per step over all ranks, `micro_batch` those of a forward pass.
    """

    source_field: str | None = _key("Field with the source.", metavar="NAME")
    langs: tuple[str, ...] | None = _staged(
        "Languages, separated by commas.",
        metavar="LANG,...",
        parse=values.languages,
        complete="languages",
    )
    batch_size: int = _staged(
        "Number of sequences per batch. A step is one; default: by preset, 8 for tiny.", **_count
    )
    micro_batch: int = _staged(
        "Sequences per forward pass. Less on a rank with a smaller share; default: by preset.",
        **_count,
        adapt=lambda run, value: min(value, run.batch_size),
    )
    seq_length: int = _staged(
        "Tokens per sequence. Default: by preset; 256 for tiny.", metavar="N", low=8, high=1 << 31
    )
    attention: Literal["packed", "document"] = _key(
        "Attention in packed sequences: all preceding tokens, or tokens of the same document.",
        default="packed",
    )
    workers: int = option(
        "Number of parallel tasks. They tokenize, for each rank.",
        default=1,
        metavar="N",
        low=0,
        high=1 << 12,
        changeable=True,
    )
    data: Path = _staged(
        "Directory with the text of each language, or one file with --lang-field.",
        default=Path("data"),
        metavar="PATH",
        changeable=True,
    )
    tokenizer: Path = option(
        "Modular tokenizer directory.",
        default=Path("tokenizer"),
        metavar="TOKENIZER",
        hub="tokenizer",
        flags="-t --tokenizer",
        complete="tokenizers",
        changeable=True,
    )
    errors: Literal["strict", "replace", "skip"] = option(
        "Invalid UTF-8: fail, replace with U+FFFD, or skip the document.",
        default="strict",
        panel=PANEL,
    )
    field: str = option(
        "Field or column of the text. In JSON, Parquet, CSV and Arrow files; a.b if nested.",
        default="text",
        metavar="NAME",
        panel=PANEL,
    )
    chat_template: str | None = option(
        "Chat template: chatml, headers, or a Jinja file. Also model, that of --init-from. Text is "
        "conversations, field messages of JSON lines, with the loss on answers.",
        metavar="TEMPLATE",
    )
    lang_field: str | None = option(
        "Field with the language of each document. For files of several languages.",
        panel=PANEL,
        metavar="NAME",
    )

    @property
    def reading(self) -> Reading:
        """How text is read."""
        return Reading(self.errors, self.field, self.lang_field)


@dataclass(frozen=True, kw_only=True)
class ArchitectureSettings(Declared, section="architecture"):
    """`[architecture]`: a preset, and the sizes that differ from it."""

    model: str = option(
        "Size of the model: tiny, small, 0.5b, 1b, 2.5b, 7b, 12b, 30b. Also 7b-32. Default: tiny; "
        "0.5b on a GPU.",
        default=lambda run: "0.5b" if run.gpu else "tiny",
        metavar="NAME",
        parse=values.model,
    )
    layers: int = _shape("Number of layers. Default: by preset.", **_layers)
    hidden_size: int = _shape("Hidden size. Default: by preset.", **_size)
    ffn: int = _shape("Hidden size of the feed-forward layers. Default: by preset.", **_size)
    heads: int = _shape("Number of query heads. Default: by preset.", **_layers)
    kv_heads: int = _shape("Number of key-value heads. Default: by preset.", **_layers)
    head_width: int = _shape(
        "Size of a head. Default: by preset.", metavar="N", low=2, high=1 << 16
    )
    rope_theta: float = _shape(
        "Base of the rotary position embedding. Default: by preset.",
        staged=True,
        default=lambda run: 1e5,
        metavar="BASE",
        above=0,
    )
    qk_norm: bool = _shape(
        "Normalize queries and keys per head; the model is a Qwen3.", default=lambda run: False
    )
    tied: bool = _shape("Tie input and output embeddings.", default=lambda run: False)


@dataclass(frozen=True, kw_only=True)
class ParallelismSettings(Declared, section="parallelism"):
    """`[parallelism]`: division of the work over processes, offload, and kernels."""

    gpus: int = _changeable(
        "Number of processes, one per GPU; without GPUs, on the CPU.", **_processes, default=1
    )
    tp: int = _changeable("Tensor-parallel size.", **_processes, default=1)
    recompute: int | None = _changeable_key(
        "Layers whose activations are recomputed in the backward pass. Default: as few as fit the "
        "device's memory.",
        metavar="N",
        low=0,
        high=1 << 16,
    )
    offload: bool = option(
        "Keep embedding tables in host memory. Active rows are on the GPU.", default=False
    )
    offload_delay: int = _key(
        "Delay of offloaded updates in steps: 1 overlaps updates with compute. Default: 1.",
        default=lambda run: 1 if run.offload else 0,
        metavar="N",
        low=0,
        high=1,
        needs="offload",
    )
    offload_moments: Literal["bfloat16", "float32"] = _key(
        "Dtype of offloaded optimizer moments. Default: float32.",
        default=lambda run: "float32",
        needs="offload",
    )
    offload_file: Path | None = _changeable_key(
        "Store offloaded tables as files in DIR, on a fast disk.",
        metavar="DIR",
        needs="offload",
    )
    distributed_optimizer: bool = _changeable_key(
        "Shard optimizer state across GPUs. Default: with --gpus larger than --tp and --train all.",
        default=lambda run: run.gpu and run.gpus > run.tp and run.train == "all",
    )
    transformer_engine: bool = _changeable_key(
        "Layers of Transformer Engine, if it is installed; untested.",
        default=False,
    )
    attention_kernel: Literal["flash", "cudnn"] = _changeable_key(
        "Kernel of causal attention on a GPU; cudnn where it has the heads, else flash.",
        default="flash",
    )
    deterministic: bool = _changeable(
        "On GPUs, add in one order. A repeated run has the same bits; slower.",
        default=False,
    )
    device_memory: int | None = _changeable_key(
        "Memory of a device, such as 80GB, that the run must fit. Default: the device's own.",
        metavar="SIZE",
        parse=parse_bytes,
    )
    device_flops: float | None = _changeable_key(
        "Peak FLOP/s of a device, such as 989e12, for model FLOP utilization. Default: by GPU.",
        metavar="N",
        above=0,
    )
    hang_timeout: float = _changeable_key(
        "Minutes without progress on any rank after which a run ends.",
        default=30.0,
        metavar="MINUTES",
        above=0,
    )


@dataclass(frozen=True, kw_only=True)
class ScheduleSettings(Declared, section="schedule"):
    """`[schedule]`: steps and learning rate."""

    steps: int = option(
        "Number of optimizer steps. Default: by preset; 300 for tiny.", **_steps, changeable=True
    )
    lr: float = _staged("Peak learning rate. Default: by preset.", metavar="RATE", above=0)
    final_lr: float = _staged_key(
        "Final learning rate. Default: a tenth of --lr.",
        default=lambda run: tenth(run.lr),
        metavar="RATE",
        low=0,
    )
    schedule: Literal["cosine", "linear", "wsd", "constant"] = _staged(
        "Learning-rate schedule after the warm-up. wsd: stable, then linear decay.",
        default="cosine",
    )
    lr_steps: int = _key(
        "Length of the learning-rate schedule; then the final rate holds. Default: --steps.",
        **_steps,
        default=lambda run: run.steps,
    )
    decay_steps: int = _staged_key(
        "Steps of the decay of wsd. Default: a fifth of lr_steps.",
        **_steps,
        default=lambda run: max(1, run.lr_steps // 5),
    )
    warmup: int = _staged(
        "Number of warm-up steps. Default: by preset.",
        default=lambda run: values.tenth_of(run.steps),
        adapt=lambda run, value: min(value, values.tenth_of(run.steps)),
        metavar="N",
        low=0,
        high=1 << 48,
    )


@dataclass(frozen=True, kw_only=True)
class InitSettings(Declared, section="init"):
    """`[init]`: initial weights."""

    seed: int = option("Random seed.", default=0, metavar="N", low=0, high=values.SEEDS - 1)
    init_from: Path | None = option(
        "Run, or Llama, Mistral, Qwen2 or Qwen3 of Hugging Face, with the initial weights. -t may "
        "be another tokenizer.",
        metavar="MODEL",
        hub="model",
    )
    init_rows: Literal["spelling", "random"] = _key(
        "Initial rows of new tokens: mean of the old tokens that spell them, or random.",
        default=lambda run: "spelling",
        needs="init_from",
    )
    train: Literal["all", "rows"] = option(
        "Train all parameters, or the rows that --init-from lacks.",
        default=lambda run: "all",
        needs="init_from",
    )
    init_std: float = _key(
        "Standard deviation of initial weights.",
        default=0.02,
        metavar="STD",
        above=0,
    )
    init_projection_std: float = _key(
        "Same for the output projections of attention and feed-forward layers. Default: "
        "init_std divided by the root of twice the layers.",
        default=lambda run: run.init_std / sqrt(2 * run.layers),
        metavar="STD",
        above=0,
    )
    init_embedding_std: float = _key(
        "Same for embedding rows. Default: init_std.",
        default=lambda run: run.init_std,
        metavar="STD",
        above=0,
    )

    @property
    def scales(self) -> "InitStd":
        """Scales of the initial weights."""
        from modtok_cli.training.model.execution import InitStd

        return InitStd(self.init_std, self.init_projection_std, self.init_embedding_std)


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings(Declared, section="optimizer"):
    """`[optimizer]`: the loss besides cross-entropy, and AdamW."""

    update: Literal["sparse", "dense"] = _key(
        "Embedding rows to update: active rows, or all (equals a full softmax).", default="sparse"
    )
    beta1: float = _key(
        "Decay rate of the first moment of AdamW.", default=0.9, metavar="B", low=0, below=1
    )
    beta2: float = _key(
        "Decay rate of the second moment of AdamW. Default: 0.95; 0.999 with --train rows, whose "
        "moments then span the steps between two occurrences of a token.",
        default=lambda run: 0.999 if run.train == "rows" else 0.95,
        metavar="B",
        low=0,
        below=1,
    )
    eps: float = _key("Epsilon of AdamW.", default=1e-8, metavar="EPS", low=1e-30)
    weight_decay: float = option(
        "Weight decay, multiplied by the learning rate.", default=0.1, metavar="RATE", low=0
    )
    decay_params: tuple[str, ...] = _key(
        "Parameters with weight decay: matrices, embeddings, norms (with biases).",
        default="matrices,embeddings",
        metavar="KIND,...",
        parse=values.decayed,
    )
    clip: float = _key(
        "Maximum norm of the gradient of all parameters; 0: no clipping.",
        default=1.0,
        metavar="NORM",
        low=0,
    )
    z_loss: float = _key(
        "Coefficient of the z-loss, the squared logarithm of the softmax denominator.",
        default=0.0,
        metavar="C",
        low=0,
    )

    @property
    def adamw(self) -> "AdamW":
        """Hyperparameters of the optimizer."""
        from modtok_cli.training.rows.table import AdamW

        return AdamW(self.beta1, self.beta2, self.eps, self.weight_decay, self.decay_params)


@dataclass(frozen=True, kw_only=True)
class PrecisionSettings(Declared, section="precision"):
    """`[precision]`."""

    dtype: Literal["bfloat16", "float32"] = option(
        "Dtype of the weights. Of the backbone; default: float32, bfloat16 on a GPU.",
        default=lambda run: "bfloat16" if run.gpu else "float32",
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(Declared, section="evaluation"):
    """`[evaluation]`: evaluations, checkpoints and logs."""

    eval_every: int = _changeable(
        "Steps between evaluations. Default: a tenth of --steps, 1000 at most; more if they take "
        "over a tenth of the time.",
        **_steps,
        default=lambda run: min(1000, values.tenth_of(run.steps)),
    )
    save_every: int = _changeable(
        "Steps between checkpoints. Default: a tenth of --steps, 1000 at most.",
        **_steps,
        default=lambda run: min(1000, values.tenth_of(run.steps)),
    )
    keep: int = _changeable_key("Number of latest checkpoints to keep.", **_count, default=2)
    keep_every: int | None = _changeable_key(
        "Also keep every checkpoint whose step is divisible by N.", **_steps
    )
    valid: dict[str, Path] | None = _changeable(
        "Directories of further text to evaluate on, in files by language; or none.",
        metavar="[NAME=]DIR,...",
        parse=values.directories,
    )
    eval_bytes: int = _changeable_key(
        "Bytes of text per language of an evaluation. Default: 64KiB, or as many as take a tenth "
        "of training's time.",
        default=lambda run: 1 << 16,
        metavar="SIZE",
        parse=parse_bytes,
    )
    eval_tasks: tuple[str, ...] | None = _changeable(
        "Multiple-choice tasks to evaluate on. Names, all or none, from local files.",
        metavar="TASK,...",
        parse=values.names,
    )
    eval_tasks_every: int = _changeable_key(
        "Steps between evaluations of tasks. Default: --save-every.",
        **_steps,
        default=lambda run: run.save_every,
        needs="eval_tasks",
    )
    eval_tasks_data: Path = _changeable_key(
        "Directory with the questions, as --eval-data of modtok eval mcq. Default: tasks.",
        default=lambda run: Path("tasks"),
        metavar="DIR",
        needs="eval_tasks",
    )
    eval_tasks_langs: tuple[str, ...] | None = _changeable_key(
        "Languages of the tasks. Default: languages of the run.",
        metavar="LANG,...",
        parse=values.languages,
        needs="eval_tasks",
    )
    eval_tasks_limit: int | None = _changeable_key(
        "Maximum number of questions of a task and language.",
        **_count,
        needs="eval_tasks",
    )
    log: tuple[str, ...] | None = _changeable(
        "Also log metrics to tensorboard, wandb. Comma-separated; or none.",
        metavar="NAME,...",
        parse=values.loggers,
    )
    log_every: int = _changeable_key(
        "Steps between status lines, outside a terminal. Default: a tenth of --steps, 100 at most.",
        **_steps,
        default=lambda run: min(100, values.tenth_of(run.steps)),
    )
