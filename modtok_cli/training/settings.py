"""Every option of a training run, declared once.

To add one, add a field here: to `ModelSettings` if it determines what is trained, else to
`RunSettings`. The command line (`modtok pretrain --help`), modtok.toml,
recipe files, `config.json`, the check on `--resume` and the error messages all come from the
declaration. Fields follow the order of the help. What people change from run to run has a flag; the
others are `recipe_only`: keys of a recipe, which --set also sets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any, Literal

from modtok_cli.base.files import path_text
from modtok_cli.base.memory import parse_bytes
from modtok_cli.base.option import Declared, option, options_of
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.text.reading import PANEL, Reading
from modtok_cli.training import option_values as values
from modtok_cli.training.data.sampling import parse_mix, parse_sources
from modtok_cli.training.schedule import tenth
from modtok_cli.training.stages import Stage, read_stages

# The tables of a recipe.
_data = partial(option, section="data")
_text = partial(_data, staged=True)
_architecture = partial(option, section="architecture")
_shape = partial(_architecture, of_shape=True, recipe_only=True)
_schedule = partial(option, section="schedule")
_rate = partial(_schedule, staged=True)
_optimizer = partial(option, section="optimizer")
_optimizer_key = partial(_optimizer, recipe_only=True)
_init = partial(option, section="init")
_parallelism = partial(option, section="parallelism")
_precision = partial(option, section="precision")
_execution = partial(_parallelism, changeable=True)
_evaluation = partial(option, section="evaluation", changeable=True)
_evaluation_key = partial(_evaluation, recipe_only=True)
# Numbers of steps, sequences, processes, sizes of layers: at least 1, and within 64 bits.
_steps = {"metavar": "N", "low": 1, "high": 1 << 48}
_count = {"metavar": "N", "low": 1, "high": 1 << 31}
_size = {"metavar": "N", "low": 1, "high": 1 << 24}
_share = {"metavar": "P", "low": 0, "high": 1}
_processes = {"metavar": "N", "low": 1, "high": 1 << 20}
_layers = {"metavar": "N", "low": 1, "high": 1 << 16}


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Declared):
    """Options of the model and its training; see `RunSettings`."""

    sampling: str = _text(
        "Subtokenizer of a batch: none (its language only), full (all of T), sub:N (N more "
        "languages) or joint (T always). Default: sub:2; sub:1 of two languages, none of one.",
        default=lambda run: "sub:2",
        metavar="REGIME",
        parse=values.sampling,
    )
    p: float = _text(
        "Probability that a batch also uses the languages drawn by --sampling.",
        default=0.5,
        **_share,
    )
    draw: Literal["step", "micro"] = _data(
        "Sequences that share a language and a subtokenizer: of an optimizer step or of a "
        "microbatch.",
        default="micro",
        recipe_only=True,
    )
    mix: dict[str, float] | None = _text(
        "Share of some languages in the mixture. Default: en=0.7 if there is English.",
        metavar="LANG=SHARE,...",
        parse=parse_mix,
    )
    mix_rest: str = _text(
        "Shares of the other languages: data (in proportion to the size of their text), data^A (to "
        "a power of it, such as data^0.3) or uniform.",
        default="data",
        metavar="SHARES",
        parse=values.mix_rest,
        recipe_only=True,
    )
    max_epochs: float | None = _text(
        "Most times that a stage reads a text, except for shares of --mix.",
        metavar="N",
        above=0,
        recipe_only=True,
    )
    sources: dict[str, float] | None = _text(
        "Weights of sources as fi = { web = 0.7, wiki = 0.3 }: files or directories of a language.",
        metavar="LANG/SOURCE=WEIGHT,...",
        parse=parse_sources,
        recipe_only=True,
    )
    dropout: float = _text(
        "Chance that a merge or piece is left out of training text.",
        **_share,
        default=0.0,
        recipe_only=True,
    )
    source_field: str | None = _data("Field with the source.", metavar="NAME", recipe_only=True)
    langs: tuple[str, ...] | None = _text(
        "Languages, separated by commas.",
        metavar="LANG,...",
        parse=values.languages,
        complete="languages",
    )
    model: str = _architecture(
        "Preset, a recipe of the package: tiny, small, 0.5b, 1b, 2.5b, 7b-32, 7b, 12b, 30b. "
        "Default: tiny; 0.5b on a GPU.",
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
    gpus: int = _execution(
        "Number of processes, one per GPU; without GPUs, on the CPU.", **_processes, default=1
    )
    tp: int = _execution("Tensor-parallel size.", **_processes, default=1)
    steps: int = _schedule(
        "Number of optimizer steps. Default: by preset; 300 for tiny.", **_steps, changeable=True
    )
    batch_size: int = _text("Sequences per step. Default: by preset; 8 for tiny.", **_count)
    micro_batch: int = _text(
        "Sequences per forward pass; less on a rank with a smaller share. Default: by preset.",
        **_count,
        adapt=lambda run, value: min(value, run.batch_size),
    )
    seq_length: int = _text(
        "Tokens per sequence. Default: by preset; 256 for tiny.", metavar="N", low=8, high=1 << 31
    )
    lr: float = _rate("Peak learning rate. Default: by preset.", metavar="RATE", above=0)
    final_lr: float = _rate(
        "Final learning rate. Default: a tenth of --lr.",
        default=lambda run: tenth(run.lr),
        metavar="RATE",
        low=0,
        recipe_only=True,
    )
    schedule: Literal["cosine", "linear", "wsd", "constant"] = _rate(
        "Learning-rate schedule after the warm-up; wsd: stable, then linear decay.",
        default="cosine",
    )
    lr_steps: int = _schedule(
        "Length of the learning-rate schedule; then the final rate holds. Default: --steps.",
        **_steps,
        default=lambda run: run.steps,
        recipe_only=True,
    )
    decay_steps: int = _rate(
        "Steps of the decay of wsd. Default: a fifth of lr_steps.",
        **_steps,
        default=lambda run: max(1, run.lr_steps // 5),
        recipe_only=True,
    )
    warmup: int = _rate(
        "Number of warm-up steps. Default: by preset.",
        default=lambda run: values.tenth_of(run.steps),
        adapt=lambda run, value: min(value, values.tenth_of(run.steps)),
        metavar="N",
        low=0,
        high=1 << 48,
    )
    seed: int = _init("Random seed.", default=0, metavar="N", low=0, high=values.SEEDS - 1)
    init_from: Path | None = _init(
        "Run, or Llama, Mistral, Qwen2 or Qwen3 of Hugging Face (directory or name on the hub), to "
        "take the initial weights from; -t may be another tokenizer.",
        metavar="MODEL",
        hub="model",
    )
    init_rows: Literal["spelling", "random"] = _init(
        "Initial rows of new tokens: mean of the old tokens that spell them, or random.",
        default=lambda run: "spelling",
        needs="init_from",
        recipe_only=True,
    )
    train: Literal["all", "rows"] = _init(
        "Train all parameters, or only rows of tokens that --init-from lacks.",
        default=lambda run: "all",
        needs="init_from",
    )
    update: Literal["sparse", "dense"] = _optimizer_key(
        "Embedding rows to update: active rows, or all (equals a full softmax).", default="sparse"
    )
    beta1: float = _optimizer_key(
        "Decay rate of the first moment of AdamW.", default=0.9, metavar="B", low=0, below=1
    )
    beta2: float = _optimizer_key(
        "Decay rate of the second moment of AdamW.", default=0.95, metavar="B", low=0, below=1
    )
    eps: float = _optimizer_key("Epsilon of AdamW.", default=1e-8, metavar="EPS", low=1e-30)
    weight_decay: float = _optimizer(
        "Weight decay, multiplied by the learning rate.", default=0.1, metavar="RATE", low=0
    )
    decay_params: tuple[str, ...] = _optimizer_key(
        "Parameters with weight decay: matrices, embeddings, norms (with biases).",
        default="matrices,embeddings",
        metavar="KIND,...",
        parse=values.decayed,
    )
    clip: float = _optimizer_key(
        "Maximum norm of the gradient of all parameters; 0: no clipping.",
        default=1.0,
        metavar="NORM",
        low=0,
    )
    z_loss: float = _optimizer_key(
        "Coefficient of the z-loss, the squared logarithm of the softmax denominator.",
        default=0.0,
        metavar="C",
        low=0,
    )
    init_std: float = _init(
        "Standard deviation of initial weights.",
        default=0.02,
        metavar="STD",
        above=0,
        recipe_only=True,
    )
    init_projection_std: float = _init(
        "Same for the output projections of attention and feed-forward layers. Default: "
        "init_std divided by the root of twice the layers.",
        default=lambda run: run.init_std / sqrt(2 * run.layers),
        metavar="STD",
        above=0,
        recipe_only=True,
    )
    init_embedding_std: float = _init(
        "Same for embedding rows. Default: init_std.",
        default=lambda run: run.init_std,
        metavar="STD",
        above=0,
        recipe_only=True,
    )
    qk_norm: bool = _shape(
        "Normalize queries and keys per head; the model is a Qwen3.", default=lambda run: False
    )
    tied: bool = _shape("Tie input and output embeddings.", default=lambda run: False)
    attention: Literal["packed", "document"] = _data(
        "Attention in packed sequences: all preceding tokens, or tokens of the same document.",
        default="packed",
        recipe_only=True,
    )


@dataclass(frozen=True, kw_only=True)
class RunSettings(ModelSettings):
    """Options of a run. Options that are not given are None until `config.resolve`.

    `batch_size` counts sequences per step over all ranks; sequence s of a step is slot s.
    `micro_batch` counts sequences in one forward pass. With `draw` = "micro" they share a
    language and a subtokenizer; else more sequences share them. `stages` follow the `steps` that
    all other options are for, in tables such as {"steps": 100, "lr": 1e-4}; None keeps a run's.
    """

    stages: Sequence[Stage | Mapping[str, Any]] | None = None

    recompute: int | None = _execution(
        "Layers whose activations are recomputed in the backward pass. Default: as few as fit the "
        "device's memory.",
        metavar="N",
        low=0,
        high=1 << 16,
        recipe_only=True,
    )
    offload: bool = _parallelism(
        "Keep embedding tables in host memory; active rows are on the GPU.", default=False
    )
    offload_delay: int = _parallelism(
        "Delay of offloaded updates in steps: 1 overlaps updates with compute. Default: 1.",
        default=lambda run: 1 if run.offload else 0,
        metavar="N",
        low=0,
        high=1,
        needs="offload",
        recipe_only=True,
    )
    offload_moments: Literal["bfloat16", "float32"] = _parallelism(
        "Dtype of offloaded optimizer moments. Default: float32.",
        default=lambda run: "float32",
        needs="offload",
        recipe_only=True,
    )
    offload_file: Path | None = _execution(
        "Store offloaded tables as files in DIR, on a fast disk.",
        metavar="DIR",
        needs="offload",
        recipe_only=True,
    )
    distributed_optimizer: bool = _execution(
        "Shard optimizer state across GPUs. Default: with --gpus larger than --tp and --train all.",
        default=lambda run: run.gpu and run.gpus > run.tp and run.train == "all",
        recipe_only=True,
    )
    transformer_engine: bool = _execution(
        "Layers of Transformer Engine, if it is installed; untested.",
        default=False,
        recipe_only=True,
    )
    attention_kernel: Literal["flash", "cudnn"] = _execution(
        "Kernel of causal attention on a GPU; cudnn where it has the heads, else flash.",
        default="flash",
        recipe_only=True,
    )
    deterministic: bool = _execution(
        "On GPUs, add in one order, so that a repeated run has the same bits; slower.",
        default=False,
    )
    device_memory: int | None = _execution(
        "Memory of a device, such as 80GB, that the run must fit. Default: the device's own.",
        metavar="SIZE",
        parse=parse_bytes,
        recipe_only=True,
    )
    device_flops: float | None = _execution(
        "Peak FLOP/s of a device, such as 989e12, for model FLOP utilization. Default: by GPU.",
        metavar="N",
        above=0,
        recipe_only=True,
    )
    hang_timeout: float = _execution(
        "Minutes without progress on any rank after which a run ends.",
        default=30.0,
        metavar="MINUTES",
        above=0,
        recipe_only=True,
    )
    dtype: Literal["bfloat16", "float32"] = _precision(
        "Backbone dtype. Default: float32; bfloat16 on a GPU.",
        default=lambda run: "bfloat16" if run.gpu else "float32",
    )
    eval_every: int = _evaluation(
        "Steps between evaluations. Default: a tenth of --steps, 1000 at most; more if evaluation "
        "takes over a tenth of the time.",
        **_steps,
        default=lambda run: min(1000, values.tenth_of(run.steps)),
    )
    save_every: int = _evaluation(
        "Steps between checkpoints. Default: a tenth of --steps, 1000 at most.",
        **_steps,
        default=lambda run: min(1000, values.tenth_of(run.steps)),
    )
    keep: int = _evaluation(
        "Number of latest checkpoints to keep.", **_count, default=2, recipe_only=True
    )
    keep_every: int | None = _evaluation(
        "Also keep every checkpoint whose step is divisible by N.", **_steps, recipe_only=True
    )
    workers: int = _data(
        "Tokenization processes per rank.",
        default=1,
        metavar="N",
        low=0,
        high=1 << 12,
        changeable=True,
    )
    valid: dict[str, Path] | None = _evaluation(
        "Directories of further text to evaluate on, in files by language; or none.",
        metavar="[NAME=]DIR,...",
        parse=values.directories,
    )
    eval_bytes: int = _evaluation_key(
        "Bytes of text per language of an evaluation. Default: 64KiB, or as many as take a tenth "
        "of training's time.",
        default=lambda run: 1 << 16,
        metavar="SIZE",
        parse=parse_bytes,
    )
    eval_tasks: tuple[str, ...] | None = _evaluation(
        "Multiple-choice tasks to evaluate checkpoints on, from local files: names, all or none.",
        metavar="TASK,...",
        parse=values.names,
    )
    eval_tasks_every: int = _evaluation_key(
        "Steps between evaluations of tasks. Default: --save-every.",
        **_steps,
        default=lambda run: run.save_every,
        needs="eval_tasks",
    )
    eval_tasks_data: Path = _evaluation_key(
        "Directory with the questions, as --data of modtok eval mcq. Default: tasks.",
        default=lambda run: Path("tasks"),
        metavar="DIR",
        needs="eval_tasks",
    )
    eval_tasks_langs: tuple[str, ...] | None = _evaluation_key(
        "Languages of the tasks. Default: languages of the run.",
        metavar="LANG,...",
        parse=values.languages,
        needs="eval_tasks",
    )
    eval_tasks_limit: int | None = _evaluation_key(
        "Maximum number of questions of a task and language.",
        **_count,
        needs="eval_tasks",
    )
    log: tuple[str, ...] | None = _evaluation(
        "Also log metrics to tensorboard, wandb (comma-separated); or none.",
        metavar="NAME,...",
        parse=values.loggers,
    )
    log_every: int = _evaluation_key(
        "Steps between status lines, outside a terminal. Default: a tenth of --steps, 100 at most.",
        **_steps,
        default=lambda run: min(100, values.tenth_of(run.steps)),
    )
    profile: int | None = option(
        "Write a torch profiler trace of N steps, profile.json.gz of the run.", **_steps
    )
    name: str | None = option(
        "Directory below --runs. Default: named after sampling and preset.",
        metavar="NAME",
        parse=values.run_name,
    )
    data: Path = _text(
        "Directory with the text of each language, or one file with --lang-field.",
        default=Path("data"),
        metavar="PATH",
        changeable=True,
    )
    tokenizer: Path = _data(
        "Modular tokenizer directory.",
        default=Path("tokenizer"),
        metavar="TOKENIZER",
        hub="tokenizer",
        flags="-t --tokenizer",
        complete="tokenizers",
        changeable=True,
    )
    runs: Path = option("Directory of all runs.", default=Path("runs"), metavar="DIR")
    errors: Literal["strict", "replace", "skip"] = _data(
        "Text that is not UTF-8: stop, insert U+FFFD, or skip the document.",
        default="strict",
        panel=PANEL,
    )
    field: str = _data(
        "Field or column of the text in JSON, Parquet, CSV and Arrow files; a.b if nested.",
        default="text",
        metavar="NAME",
        panel=PANEL,
    )
    chat_template: str | None = _data(
        "Train on conversations, field messages of JSON lines, with the loss on answers: chatml, "
        "headers, a Jinja file, or model (the template of --init-from).",
        metavar="TEMPLATE",
    )
    lang_field: str | None = _data(
        "Field of each document's language, for files of several languages.",
        panel=PANEL,
        metavar="NAME",
    )

    def __post_init__(self) -> None:
        """Check every value that is given, and the stages."""
        super().__post_init__()
        object.__setattr__(self, "stages", self.stages and read_stages(self.stages, OPTIONS))

    @property
    def reading(self) -> Reading:
        """How text is read."""
        return Reading(self.errors, self.field, self.lang_field)


OPTIONS = options_of(RunSettings)
"""The options by name, in order."""

DTYPES = OPTIONS["dtype"].choices
"""Dtypes that a run computes with."""


def plain(value: Any) -> Any:
    """A value as JSON; paths that are not UTF-8 with escapes."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Path):
        return path_text(value)
    return value


def values_of_shape(shape: Shape) -> dict[str, Any]:
    """The options of the model, by name, as the shape has them."""
    return {name: getattr(shape, name) for name, option in OPTIONS.items() if option.of_shape}
