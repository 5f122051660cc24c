"""Rows of new tokens, distilled from the model itself, which stays as it is.

The model reads a text in two spellings: in its own tokens, and in new ones. After each new token it
is to have the hidden state that it has after the old tokens of the same text (Token Distillation,
arXiv 2505.20133): input rows are trained to this. Output rows are fitted by logistic regression of
the next token on the hidden states of the own spelling. Tied rows take both steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import path_of
from modtok_cli.construct.journal import JournalDir, JournalState
from modtok_cli.model.architecture.logit_scales import logit_scales
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.text.readers import texts_in_turn
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.spelling import Spelling
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training.rows.growth import spelled_rows

_WINDOW, _BATCH = 64, 16
"""New tokens of a sequence, and sequences of a step."""
_POOL = 16
"""Windows are drawn from as many times the text that is read."""


@dataclass(frozen=True)
class Recipe:
    """How rows are distilled (docs/results-pretraining.md has measurements).

    Attributes:
        depth: share of the layers after which hidden states are compared.
        rate: largest step of a coordinate of an input row, relative to the root mean square of all
            old rows; it rises for ten steps, then falls to 0.
        prior: weight of the first output row, in occurrences of its token.
        damping: of tied rows, share of the squared length of a hidden state that is added to the
            curvature in each direction: a row moves where logits depend on it most.
        dtype: of the frozen model; None: its own on a GPU, else float32.
    """

    steps: int
    seed: int = 0
    depth: float = 1 / 3
    rate: float = 0.1
    prior: float = 0.3
    damping: float = 0.02
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class DistillText:
    """Text to distill from: files or directories."""

    texts: Sequence[str]
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        if "-" in self.texts:
            raise UsageError("is read again on a resume", where="stdin", remedy="give a file")
        for text in self.texts:
            if not path_of(text).exists():
                raise missing(text)

    def documents(self) -> Iterator[str]:
        """Their documents, one of each text in turn."""
        return texts_in_turn(self.texts, self.reading)

    def key(self) -> list[list[Any]]:
        """What tells whether a file is the same."""
        files = [
            file
            for text in map(Path, self.texts)
            for file in (sorted(text.rglob("*")) if text.is_dir() else [text])
        ]
        stats = [(str(file), file.stat()) for file in files if file.is_file()]
        return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


class Rows(NamedTuple):
    """Rows of the trained tokens: (n, d) float32, one tensor twice if the tables are tied."""

    inputs: torch.Tensor
    outputs: torch.Tensor


class Distilled(NamedTuple):
    """Rows after distillation, and which of them the text has, (n,) bool."""

    rows: Rows
    seen: torch.Tensor


class _BothSpellings(NamedTuple):
    """Sequences in both spellings; each begins with the token that begins a text.

    Shapes: new (B, N + 1), ids of old tokens, then V + j of the new token j; old (B, M) with
    padding; ends (B, N + 1), the place in `old` of the end of each new token.
    """

    new: torch.Tensor
    old: torch.Tensor
    ends: torch.Tensor


class Distillation:
    """Training of the rows of the tokens that a model spells with several of its own.

    Args:
        source: the model.
        new: the new tokenizer.
        spelling: old ids of each new token; a row is trained where they are several.
    """

    def __init__(
        self, source: HfSource, new: Subtokenizer, spelling: Spelling, recipe: Recipe
    ) -> None:
        self.source, self.tokenizer, self.recipe = source, new, recipe
        self.spelling = spelling.take(np.arange(len(new.vocabulary), dtype=np.int32))
        self.trained = np.flatnonzero(self.spelling.lengths > 1)

    def run(
        self, rows: Rows, text: DistillText, output: Path, progress: Progress = SILENT
    ) -> Distilled:
        """The rows after all steps; `rows` (n, d) float32 are those of `trained` at first.

        A run that was killed resumes from the journal beside `output`, also after the last step:
        whoever writes the output removes the journal then.
        """
        recipe = self.recipe
        gpu = torch.cuda.is_available()
        device = torch.device("cuda" if gpu else "cpu")
        # Products in bfloat16 are slow on most CPUs.
        dtype = recipe.dtype or (self.source.dtype if gpu else torch.float32)
        windows = self._windows(text, progress)
        steps = min(recipe.steps, -(-len(windows) // _BATCH))
        if steps < recipe.steps:
            progress.note(f"the text to distill from is read once, in {steps:,} steps")
        used = windows[: steps * _BATCH]
        counts = np.bincount(used.ravel(), minlength=len(self.spelling.lengths))
        seen = torch.from_numpy(counts[self.trained] > 0)
        journal = JournalDir(output, self._key(text))
        with _Frozen(self.source.open_model(dtype, device), recipe.depth) as model:
            kept = np.zeros(model.size, dtype=np.bool_)
            kept[self.spelling.ids[self.spelling.offsets[:-1][self.spelling.lengths == 1]]] = True
            bias = self._bias(model.head.bias)
            training = _Training(model, rows, seen, torch.from_numpy(kept), bias, recipe, steps)
            training.restore(journal.read())
            with progress.task("distilling rows", total=steps, unit="steps") as task:
                task.advance(training.step)
                while training.step < steps:
                    at = training.step * _BATCH
                    training.advance(self._batch(used[at : at + _BATCH], model.size))
                    task.advance(1)
                    if training.step == steps or journal.due():
                        journal.write(training.state())
            return Distilled(training.rows(), seen)

    def _bias(self, bias: torch.Tensor | None) -> torch.Tensor:
        """What the output layer adds to the logits of the trained tokens, (n,)."""
        if bias is None:
            return torch.zeros(len(self.trained))
        trained = torch.from_numpy(self.trained)
        blocks = spelled_rows([bias.float().cpu()[:, None]], self.spelling, trained, scaled=False)
        return torch.cat([rows[:, 0] for _, rows in blocks])

    def _key(self, text: DistillText) -> dict[str, Any]:
        recipe = {name: str(value) for name, value in vars(self.recipe).items()}
        return {"model": self.source.digest, "tokenizer": self.tokenizer.signature,
                "texts": text.key(), "reading": str(text.reading), **recipe}  # fmt: skip

    def _windows(self, text: DistillText, progress: Progress) -> Int32Array:
        """Sequences of new tokens of the text, in random order; (W, N) int32."""
        lengths = self.spelling.lengths
        same = np.flatnonzero(lengths == 1)
        begins = same[self.spelling.ids[self.spelling.offsets[same]] == self.source.first][:1]
        wanted = _POOL * self.recipe.steps * _BATCH * _WINDOW
        parts: list[Int32Array] = []
        batch: list[str] = []
        total = 0

        def flush() -> int:
            encoded = self.tokenizer.encode_batch(batch)
            batch.clear()
            for ids in encoded:
                parts.extend([begins.astype(np.int32), ids])
            return sum(map(len, encoded))

        for document in text.documents():
            batch.append(document)
            if len(batch) == 64:
                total += flush()
                if total >= wanted:
                    break
        total += flush()
        stream = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        stream = stream[lengths[stream] > 0]  # the model cannot read the others
        if not len(stream):
            raise ModtokError("the text to distill from has no documents", where=self.source.path)
        # A text shorter than a window is one window.
        width = min(_WINDOW, self.source.context // 4, len(stream))
        windows = stream[: len(stream) // width * width].reshape(-1, width)
        windows = windows[lengths[windows].sum(1) < self.source.context]
        shuffled: Int32Array = np.random.default_rng(self.recipe.seed).permutation(windows)
        return shuffled

    def _batch(self, windows: Int32Array, size: int) -> _BothSpellings:
        spelling, first = self.spelling, self.source.first
        place = np.full(len(spelling.lengths), -1, dtype=np.int64)
        place[self.trained] = size + np.arange(len(self.trained))
        same = np.flatnonzero(spelling.lengths == 1)
        place[same] = spelling.ids[spelling.offsets[same]]
        new = np.insert(place[windows], 0, first, axis=1)
        ends = np.zeros(new.shape, dtype=np.int64)
        np.cumsum(spelling.lengths[windows], axis=1, out=ends[:, 1:])
        old = np.zeros((len(windows), int(ends[:, -1].max()) + 1), dtype=np.int64)
        old[:, 0] = first
        for row, window in enumerate(windows):
            ids = spelling.take(window).ids
            old[row, 1 : len(ids) + 1] = ids
        return _BothSpellings(*map(torch.from_numpy, (new, old, ends)))


class _Reached(Exception):
    """A layer was reached; the layers after it are not needed."""

    def __init__(self, states: torch.Tensor) -> None:
        self.states = states


class _Frozen:
    """A model of transformers that reads rows which it does not have.

    Attributes:
        size: V, rows of its tables.
    """

    def __init__(self, model: Any, depth: float) -> None:
        self.model = model
        self.embedding, self.head = model.get_input_embeddings(), model.get_output_embeddings()
        self.embedding.padding_idx = None  # there may be fewer new rows
        self.size = int(self.head.weight.shape[0])
        self.tied = self.embedding.weight is self.head.weight
        self.scales = logit_scales(model)
        self._layer = _layer(model, depth)
        self._rows: torch.Tensor | None = None
        self._ids = torch.empty(0)
        self._states: dict[str, torch.Tensor] = {}
        self._stops = False
        self._hooks = ExitStack()

    def __enter__(self) -> _Frozen:
        for hook in (
            self.embedding.register_forward_pre_hook(self._clamped),
            self.embedding.register_forward_hook(self._with_new),
            self.head.register_forward_pre_hook(self._last),
            *([] if self._layer is None else [self._layer.register_forward_hook(self._middle)]),
        ):
            self._hooks.callback(hook.remove)
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()

    @property
    def device(self) -> torch.device:
        """Where its rows are."""
        return self.embedding.weight.device  # type: ignore[no-any-return]

    @torch.no_grad()
    def teacher(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Hidden states of old tokens (B, M): after the layer, and as the output layer reads them;
        (B, M, d) both.
        """
        self._states, self._stops = {}, False
        self.model(ids, use_cache=False)
        last = self._states["last"]
        return self._states.get("middle", last), last

    def student(self, ids: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Hidden states after the layer, (B, N, d); `rows` are those of the ids from V on."""
        self._states, self._stops, self._rows = {}, True, rows
        try:
            self.model(ids, use_cache=False)
        except _Reached as reached:
            return reached.states
        finally:
            self._rows = None
        return self._states["last"]

    def _clamped(self, _: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        if self._rows is None:
            return inputs
        self._ids = inputs[0]
        return (inputs[0].clamp(max=self.size - 1), *inputs[1:])

    def _with_new(
        self, module: torch.nn.Module, _: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> torch.Tensor:
        rows, self._rows = self._rows, None
        if rows is None:
            return output
        # The module itself, which may scale what it reads.
        weights, ids = {"weight": rows.to(output.dtype)}, (self._ids - self.size).clamp(min=0)
        new = torch.func.functional_call(module, weights, (ids,))
        return torch.where((self._ids >= self.size)[..., None], new, output)

    def _last(self, _: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        self._states["last"] = inputs[0]
        return (inputs[0][:, -1:], *inputs[1:])  # logits of the others are not needed

    def _middle(self, _: Any, __: Any, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        if self._stops:
            raise _Reached(states)
        self._states["middle"] = states


def _layer(model: Any, depth: float) -> torch.nn.Module | None:
    """The layer after a share of all layers; None for the last, or of a model without a list."""
    number = getattr(model.config.get_text_config(), "num_hidden_layers", 0)
    at = round(depth * number) - 1
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == number and at < number - 1:
            return module[max(at, 0)]
    return None


class _Training:
    """The rows, and what their steps depend on.

    Attributes:
        step: steps that were taken.
    """

    def __init__(
        self,
        model: _Frozen,
        rows: Rows,
        seen: torch.Tensor,
        kept: torch.Tensor,
        bias: torch.Tensor,
        recipe: Recipe,
        steps: int,
    ) -> None:
        self.model, self.recipe, self.steps, self.step = model, recipe, steps, 0
        device = model.device
        first = rows.inputs.to(device, torch.float32).clone()
        self._inputs = first.requires_grad_()
        # A tied table has one row for both.
        self._outputs = first if model.tied else rows.outputs.to(device, torch.float32).clone()
        self._seen, self._left_out = seen.to(device), ~kept.to(device)
        size, width = first.shape
        self._means, self._squares = torch.zeros_like(first), torch.zeros_like(first)
        self._updates = torch.zeros(size, 1, device=device)
        self._mass = torch.zeros(size, 1, device=device)  # occurrences so far, at least expected
        self._bias = bias.to(device)
        self._products = torch.zeros(width, width, device=device, dtype=torch.float64)
        self._states = 0
        self._axes: tuple[torch.Tensor, torch.Tensor] | None = None
        table = model.embedding.weight
        self._rate = recipe.rate * float(table.float().square().mean().sqrt())

    def rows(self) -> Rows:
        """The rows now."""
        return Rows(self._inputs.detach().cpu(), self._outputs.detach().cpu())

    def advance(self, batch: _BothSpellings) -> None:
        """Take a step."""
        new, old, ends = (each.to(self.model.device) for each in batch)
        places = ends[..., None]
        middle, last = (
            states.gather(1, places.expand(-1, -1, states.shape[-1]))
            for states in self.model.teacher(old)
        )
        self._step_outputs(last[:, :-1].flatten(0, 1), new[:, 1:].flatten())
        self._step_inputs(new, middle)
        self.step += 1

    def _step_inputs(self, new: torch.Tensor, wanted: torch.Tensor) -> None:
        """A step of Adam on the rows that occur, of the distance of hidden states."""
        is_new = new >= self.model.size
        after = is_new.cumsum(1) > 0
        if not bool(after.any()):
            return
        states = self.model.student(new, self._inputs)
        distance = (_normalized(states) - _normalized(wanted)).square().mean(-1)
        (gradient,) = torch.autograd.grad(distance[after].mean(), self._inputs)
        here = torch.unique(new[is_new] - self.model.size)
        self._updates[here] += 1
        times = self._updates[here]
        gradient = gradient[here]
        self._means[here] += 0.1 * (gradient - self._means[here])
        self._squares[here] += 0.05 * (gradient.square() - self._squares[here])
        mean = self._means[here] / (1 - 0.9**times)
        square = self._squares[here] / (1 - 0.95**times)
        rate = self._rate * min(1.0, (self.step + 1) / 10) * (1 - self.step / self.steps)
        with torch.no_grad():
            change = rate * mean / (square.sqrt() + 1e-12)
            if self.model.tied and self._axes is not None:
                # Directions in which logits depend on it more than on average are the output's.
                values, axes = self._axes
                change = (change @ axes * (values.mean() / (values + values.mean()))) @ axes.T
            self._inputs[here] -= change

    @torch.no_grad()
    def _step_outputs(self, states: torch.Tensor, targets: torch.Tensor) -> None:
        """A step of logistic regression of the next tokens (P,) on hidden states (P, d).

        A Newton step with the curvature of all steps so far, as if states and probabilities were
        independent: of a row it is the sum of its probabilities times the mean product of states.
        """
        model, (factor, cap) = self.model, self.model.scales
        head, size = model.head, model.size
        old = torch.nn.functional.linear(states, head.weight, head.bias).float() * factor
        wide = states.float()
        new = (wide @ self._outputs.T + self._bias) * factor
        slope = torch.full_like(new, factor)
        if cap is not None:
            old, new = (cap * torch.tanh(each / cap) for each in (old, new))
            slope *= 1 - (new / cap).square()
        old[:, self._left_out] = -torch.inf
        total = torch.logaddexp(old.logsumexp(-1), new.logsumexp(-1))
        share = (new - total[:, None]).exp()
        is_new = targets >= size
        chosen = targets[is_new] - size
        counts = torch.bincount(chosen, minlength=len(self._mass)).float()
        self._mass += torch.maximum(share.sum(0), counts)[:, None]
        share[is_new, chosen] -= 1
        gradient = (share * slope).T @ wide
        self._products += (wide.T @ wide).double() * factor**2
        self._states += len(wide)
        if self._axes is None or self.step & (self.step - 1) == 0:
            values, axes = torch.linalg.eigh(self._products / self._states)
            self._axes = values.clamp(min=0).float(), axes.float()
        values, axes = self._axes
        damping = self.recipe.damping if model.tied else 0.0
        whole = values.sum()
        curvature = self._mass * (values + damping * whole) + self.recipe.prior * whole
        change = (gradient @ axes / curvature) @ axes.T
        self._outputs -= torch.where(self._seen[:, None], change, 0.0)

    # --- the journal ---

    _NAMES = ("inputs", "outputs", "means", "squares", "updates", "mass", "products")

    def state(self) -> JournalState:
        """All that later steps depend on."""
        arrays = {name: getattr(self, f"_{name}").detach().cpu().numpy() for name in self._NAMES}
        if self._axes is not None:
            values, axes = self._axes
            arrays |= {"values": values.cpu().numpy(), "axes": axes.cpu().numpy()}
        return JournalState(arrays, {"step": self.step, "states": self._states})

    def restore(self, saved: JournalState | None) -> None:
        """Go on after the last step of a journal."""
        if saved is None:
            return
        tensors = {name: torch.from_numpy(each.copy()) for name, each in saved.arrays.items()}
        with torch.no_grad():
            for name in self._NAMES:
                getattr(self, f"_{name}").copy_(tensors[name])
        device = self.model.device
        self._axes = tensors["values"].to(device), tensors["axes"].to(device)
        self.step, self._states = saved.notes["step"], saved.notes["states"]


def _normalized(states: torch.Tensor) -> torch.Tensor:
    """States of a root mean square of 1: their length is not what the next layer reads."""
    wide = states.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
