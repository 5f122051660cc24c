"""Options that determine what a run trains: data, architecture, schedule, optimizer.

The other options are in `settings`, which also describes how to add one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Literal

from modtok_cli.base.option import Declared, option
from modtok_cli.training import option_values as values


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Declared):
    """Options of the model and its training; see `RunSettings`."""

    sampling: str = option(
        "Subtokenizer of a batch: none (its language only), full (all of T), sub:N (N more "
        "languages), joint (T always). Default: sub:2; sub:1 of two languages, none of one.",
        default=lambda run: "sub:2",
        section="data",
        metavar="REGIME",
        parse=values.sampling,
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
        parse=values.mix,
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
        parse=values.languages,
    )
    model: str = option(
        "Preset, a recipe of the package: tiny, small, 0.5b, 1b, 2.5b, 7b-32, 7b, 12b, 30b. "
        "Default: tiny; 0.5b on a GPU.",
        default=lambda run: "0.5b" if run.gpu else "tiny",
        section="architecture",
        metavar="NAME",
        parse=values.model,
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
        default=lambda run: values.tenth_of(run.steps),
        adapt=lambda run, value: min(value, values.tenth_of(run.steps)),
        section="schedule",
        metavar="N",
        low=0,
        high=1 << 48,
    )
    seed: int = option(
        "Random seed.", default=0, section="init", metavar="N", low=0, high=values.SEEDS - 1
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
        parse=values.decayed,
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
