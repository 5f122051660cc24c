"""Pretraining with a subtokenizer for each batch, in plain torch: section 5 of the paper, to read.

T is the whole vocabulary, T_i the tokens of language i. A step draws a language, and with
probability p a larger subtokenizer than T_i: T_i with N further languages (`sub:N`), or T (`full`).
Only rows of tokens that the batch may contain take part: `Pretraining.step` gathers them from two
tables, predicts over them alone, and updates them by moments of their own. A slice for some
languages is the decoder with their rows.

The engine (`training/`) adds processes, offload, bfloat16, packing and checkpoints to this file;
its losses must equal the ones here.

    modtok sample try && modtok bpe-seq --data try/stories -k 600 -o try/tokenizer
    python -m modtok_cli.reference.pretrain try/tokenizer try/stories try/unseen --sampling sub:1

trains a model of 0.2 million parameters on short stories in a minute, and prints its bits per
byte of other stories under three subtokenizers.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import cos, log, pi
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# --- the decoder: a Llama, by the names of its weights in transformers ---


@dataclass(frozen=True)
class Llama:
    """Sizes of a decoder; `tied`: one table for input and output rows."""

    layers: int = 2
    hidden_size: int = 96
    ffn: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 24
    rope_theta: float = 100_000.0
    norm_epsilon: float = 1e-5
    tied: bool = False

    def initial(self, vocabulary: int, seed: int) -> dict[str, Tensor]:
        """Weights from a normal distribution of 0.02, norms of ones; rows of |T| tokens."""
        d, width = self.hidden_size, self.head_width
        sizes = {
            "self_attn.q_proj": (self.heads * width, d),
            "self_attn.k_proj": (self.kv_heads * width, d),
            "self_attn.v_proj": (self.kv_heads * width, d),
            "self_attn.o_proj": (d, self.heads * width),
            "mlp.gate_proj": (self.ffn, d),
            "mlp.up_proj": (self.ffn, d),
            "mlp.down_proj": (d, self.ffn),
            "input_layernorm": (d,),
            "post_attention_layernorm": (d,),
        }
        shapes: dict[str, tuple[int, ...]] = {
            f"layers.{layer}.{name}.weight": size
            for layer in range(self.layers)
            for name, size in sizes.items()
        }
        shapes |= {"norm.weight": (d,), "input": (vocabulary, d)}
        shapes |= {} if self.tied else {"output": (vocabulary, d)}
        generator = torch.Generator().manual_seed(seed)
        return {
            name: torch.ones(size)
            if len(size) == 1
            else torch.empty(size).normal_(0, 0.02, generator=generator)
            for name, size in shapes.items()
        }


def decode(size: Llama, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Hidden states (B, S, d) of input rows (B, S, d); each position sees the ones before it."""
    batch, length, _ = x.shape
    width, groups = size.head_width, size.heads // size.kv_heads
    frequencies = size.rope_theta ** (-torch.arange(0, width, 2, dtype=x.dtype) / width)
    angles = torch.arange(length, dtype=x.dtype).outer(frequencies).repeat(1, 2)

    def norm(x: Tensor, name: str) -> Tensor:
        mean = x.square().mean(-1, keepdim=True)
        return x * (mean + size.norm_epsilon).rsqrt() * weights[name]

    def rotated(x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()

    for layer in range(size.layers):
        own = f"layers.{layer}."
        h = norm(x, own + "input_layernorm.weight")
        q, k, v = (
            (h @ weights[f"{own}self_attn.{name}_proj.weight"].t())
            .view(batch, length, -1, width)
            .transpose(1, 2)
            for name in "qkv"
        )
        if f"{own}self_attn.q_norm.weight" in weights:  # Qwen 3
            q = norm(q, own + "self_attn.q_norm.weight")
            k = norm(k, own + "self_attn.k_norm.weight")
        k, v = rotated(k).repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        heads = F.scaled_dot_product_attention(rotated(q), k, v, is_causal=True)
        x = x + heads.transpose(1, 2).flatten(2) @ weights[own + "self_attn.o_proj.weight"].t()
        h = norm(x, own + "post_attention_layernorm.weight")
        gate, up = (h @ weights[f"{own}mlp.{name}_proj.weight"].t() for name in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ weights[own + "mlp.down_proj.weight"].t()
    return norm(x, "norm.weight")


# --- a training step over the active vocabulary ---


@dataclass
class Adam:
    """AdamW for a weight whose rows are updated at different times.

    Moments, bias correction and weight decay of a row advance only in steps that it is part of.
    """

    decay: float
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    state: dict[str, Tensor] = field(default_factory=dict)

    def update(self, weight: Tensor, rows: Tensor, gradient: Tensor, lr: float) -> None:
        """One step of the rows (n,) of a weight by their gradients (n, …); others stay."""
        if not self.state:
            self.state = {"m": torch.zeros_like(weight), "v": torch.zeros_like(weight)}
            self.state["steps"] = torch.zeros(len(weight), *[1] * (weight.dim() - 1))
        m, v, steps = (self.state[name] for name in ("m", "v", "steps"))
        steps[rows] += 1
        m[rows] = self.beta1 * m[rows] + (1 - self.beta1) * gradient
        v[rows] = self.beta2 * v[rows] + (1 - self.beta2) * gradient.square()
        mean = m[rows] / (1 - self.beta1 ** steps[rows])
        scale = (v[rows] / (1 - self.beta2 ** steps[rows])).sqrt() + self.epsilon
        weight[rows] = weight[rows] * (1 - lr * self.decay) - lr * mean / scale


class Pretraining:
    """Decoder, tables and their optimizer.

    Attributes:
        weights: "input" and "output" (|T|, d), of a tied model "input" only, and the decoder's.
    """

    def __init__(
        self, size: Llama, weights: Mapping[str, Tensor], *, decay: float = 0.1, clip: float = 1.0
    ) -> None:
        self.size, self.clip = size, clip
        self.weights = {name: weight.detach().clone() for name, weight in weights.items()}
        self.adam = {
            name: Adam(decay if weight.dim() > 1 else 0.0) for name, weight in self.weights.items()
        }

    def step(self, inputs: Tensor, targets: Tensor, active: Tensor, lr: float) -> float:
        """Train on a batch: ids of T (B, S), and the ids of the active vocabulary V_S, ascending.

        Returns the mean loss of a token in nats, before the update.
        """
        tied = self.size.tied
        # Rows that are read and predicted; in a tied table both are V_S.
        read = active if tied else torch.unique(inputs)
        rows = {
            name: torch.arange(len(weight)) if name not in ("input", "output") else active
            for name, weight in self.weights.items()
        } | {"input": read}
        part = {name: self.weights[name][ids].requires_grad_() for name, ids in rows.items()}
        hidden = decode(self.size, part, part["input"][torch.searchsorted(read, inputs)])
        logits = hidden @ part["input" if tied else "output"].t()
        loss = F.cross_entropy(logits.flatten(0, 1), torch.searchsorted(active, targets).flatten())
        gradients = torch.autograd.grad(loss, list(part.values()))
        norm = torch.stack([each.square().sum() for each in gradients]).sum().sqrt()
        scale = min(1.0, self.clip / (float(norm) + 1e-6))
        for (name, ids), gradient in zip(rows.items(), gradients, strict=True):
            self.adam[name].update(self.weights[name], ids, gradient * scale, lr)
        return float(loss.detach())

    def slice(self, active: Tensor) -> dict[str, Tensor]:
        """The weights of a model that has the tokens of V_S only: row j is token active[j]."""
        tables = {n: self.weights[n][active] for n in ("input", "output") if n in self.weights}
        return self.weights | tables

    @torch.no_grad()
    def bits_per_byte(self, sequences: Sequence[tuple[Tensor, int]], active: Tensor) -> float:
        """Bits per byte of texts, by a slice: (ids of V_S after the end of a text, bytes) each."""
        weights = self.slice(active)
        output = weights["input" if self.size.tied else "output"]
        nats = 0.0
        for ids, _ in sequences:
            hidden = decode(self.size, weights, weights["input"][ids[:-1]].unsqueeze(0))[0]
            nats += float(F.cross_entropy(hidden @ output.t(), ids[1:], reduction="sum"))
        return nats / log(2) / sum(size for _, size in sequences)


# --- what a step reads ---


def draw(
    languages: Sequence[str], regime: str, p: float, numbers: random.Random
) -> tuple[str, tuple[str, ...] | None]:
    """The language of a batch, and the languages of its subtokenizer; None is T.

    >>> draw(["en", "fi", "fr"], "none", 0.5, random.Random(0))
    ('fi', ('fi',))
    """
    kind, _, count = regime.partition(":")
    language = numbers.choice(languages)
    more = numbers.random() < p
    if kind == "joint" or (kind == "full" and more):
        return language, None
    others = [name for name in languages if name != language]
    extra = numbers.sample(others, int(count)) if kind == "sub" and more else []
    return language, tuple(sorted([language, *extra]))


@dataclass
class Reader:
    """Batches of a language's documents, one after the other, each after an end of text."""

    documents: Sequence[str]
    next: int = 0

    def batch(self, part: Any, end: int, sequences: int, length: int) -> tuple[Tensor, Tensor]:
        """Ids of T that a subtokenizer gives, (B, S): inputs, and the token after each."""
        ids = [end]
        while len(ids) <= sequences * length:
            text = self.documents[self.next % len(self.documents)]
            ids += [*part.global_ids[part.encode(text)].tolist(), end]
            self.next += 1
        flat = torch.tensor(ids[: sequences * length + 1])
        return flat[:-1].view(sequences, length), flat[1:].view(sequences, length)


def read(directory: Path) -> Iterator[tuple[str, list[str]]]:
    """Language and documents of each <lang>.jsonl, or of the lines of each <lang>.txt."""
    for path in sorted(directory.iterdir()):
        lines = path.read_text("utf-8").splitlines()
        yield path.stem, [json.loads(x)["text"] if path.suffix == ".jsonl" else x for x in lines]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on texts of each language, and measure on others."""
    import modtok_cli as modtok

    parser = argparse.ArgumentParser(usage="%(prog)s TOKENIZER TEXTS UNSEEN [options]")
    for name in ("tokenizer", "texts", "unseen"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--sampling", default="sub:1", help="none, full, joint or sub:N")
    parser.add_argument("--p", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    tokenizer, size, numbers = modtok.load(chosen.tokenizer), Llama(), random.Random(chosen.seed)
    end = tokenizer.get_vocab()["<|endoftext|>"]
    readers = {language: Reader(texts) for language, texts in read(chosen.texts)}
    model = Pretraining(size, size.initial(tokenizer.size, chosen.seed))

    def subtokenizer(languages: Sequence[str] | None) -> tuple[Any, Tensor]:
        part = tokenizer.full() if languages is None else tokenizer.subset(languages)
        return part, torch.from_numpy(part.global_ids.astype("int64"))

    for step in range(1, chosen.steps + 1):
        language, languages = draw(list(readers), chosen.sampling, chosen.p, numbers)
        part, active = subtokenizer(languages)
        inputs, targets = readers[language].batch(part, end, sequences=8, length=64)
        lr = 0.01 * min(step / 20, (1 + cos(pi * step / chosen.steps)) / 2 + 0.01)
        loss = model.step(inputs, targets, active, lr)
        if step % 50 == 0:
            print(
                f"step {step}: {language}, {len(active):,} of {tokenizer.size:,} rows, {loss:.3f}"
            )
    for language, texts in read(chosen.unseen):
        line = []
        pair = [language, next(name for name in readers if name != language)]
        for name, which in {"own": [language], "pair": pair, "full": None}.items():
            part, active = subtokenizer(which)
            first = active.tolist().index(end)
            parts = [
                (torch.tensor([first, *part.encode(text).tolist()]), len(text.encode()))
                for text in texts
            ]
            line.append(f"{name} {model.bits_per_byte(parts, active):.3f} ({len(active):,} rows)")
        print(f"bits per byte of {language}: {', '.join(line)}")


if __name__ == "__main__":
    main()
