"""Logits over the active vocabulary in a model of transformers, for any trainer.

The rows of the active tokens are parameters of their own, (n, d). They are what the loss multiplies
by, what gradients and optimizer states exist for, and what is trained. The whole table (V, d) is
frozen, and only input tokens that are not active read it. `state_dict` writes the rows into the
whole table, so that what is saved is the whole model, and `load_state_dict` takes it.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.architecture.logit_scales import logit_scales
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.training.model.loss import CHUNK, sliced_cross_entropy

IGNORED = -100
"""Label without a loss, as in transformers."""
_TRIED = 8  # tokens on which `attach` compares with the whole model
_CLOSE = 1e-2

Active = str | Subtokenizer | Sequence[int] | np.ndarray[Any, Any] | torch.Tensor


class ActiveHead(nn.Module):
    """The output layer of a model over the active tokens; `ActiveHead.attach` makes it.

    With labels, the model returns the loss over the active tokens and no logits; the loss is
    computed by chunks, for the positions with a label only. Without labels it returns logits
    (…, V), -inf for tokens that are not active, so that `generate` samples active tokens only.

    Attributes:
        weight: (n, d), the rows of the active tokens; one parameter with the input's if tied.
        bias: (n,) or None.
        ids: (n,) int64, ascending, ids of the active tokens in the model's vocabulary.
        columns: (V,) int64, the place of each token in `ids`, -1 if it is not active.

    Example:
        >>> head = ActiveHead.attach(model, "adopted@en,fr")     # doctest: +SKIP
        >>> Trainer(model, …).train()                            # doctest: +SKIP
        >>> head.detach()                                        # doctest: +SKIP
    """

    ids: torch.Tensor
    columns: torch.Tensor

    def __init__(
        self, whole: Any, ids: torch.Tensor, *, scale: float, smoothing: float, chunk: int
    ) -> None:
        super().__init__()
        size, device = len(whole.weight), whole.weight.device
        ids = ids.to(device)
        columns = torch.full((size,), -1, dtype=torch.int64, device=device)
        columns[ids] = torch.arange(len(ids), device=device)
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("columns", columns, persistent=False)
        self.out_features, self.in_features = whole.weight.shape
        self.scale, self.smoothing, self.chunk = scale, smoothing, chunk
        self.ignore_outside = False
        self.weight = _rows(whole.weight, ids)
        self._undo = [_keep(self, "weight", whole.weight, ids)]
        self.bias: nn.Parameter | None = None
        if whole.bias is not None:
            self.bias = _rows(whole.bias, ids)
            self._undo.append(_keep(self, "bias", whole.bias, ids))
        self._hidden: torch.Tensor | None = None
        self._computes_loss = False

    @classmethod
    def attach(
        cls,
        model: Any,
        active: Active,
        *,
        label_smoothing: float = 0.0,
        ignore_outside: bool = False,
        chunk: int = CHUNK,
        verify: bool = True,
    ) -> ActiveHead:
        """Replace the output layer and the input table of a model; the model is changed in place.

        Call it before the optimizer is made: after `SFTTrainer(…)` of TRL, which changes the model
        too, and before `train()`.

        Args:
            model: a causal language model of transformers, also inside a model of PEFT.
            active: ids in the model's vocabulary, a subset of an adopted tokenizer, or its name
                (`"adopted@en,fr"`).
            label_smoothing: share of the loss that is spread over all active tokens;
                `label_smoothing_factor` of transformers spreads it over the whole vocabulary.
            ignore_outside: ignore labels that are not active; otherwise they are an error.
            chunk: number of positions whose logits exist at a time.
            verify: compare loss and logits with the whole model's on a few tokens.

        Raises:
            UsageError: the model has no plain output layer, changes its logits by a function other
                than a factor, or an id is not one of its vocabulary.
            ModtokError: `verify` found a difference.
        """
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        whole, table = base.get_output_embeddings(), base.get_input_embeddings()
        name = type(base).__name__
        if not isinstance(whole, nn.Linear) or not isinstance(table, nn.Embedding):
            kinds = f"{type(whole).__name__} and {type(table).__name__}"
            raise UsageError(
                f"output layer and input table are {kinds}, not Linear and Embedding", where=name
            )
        ids = _ids(active, len(whole.weight))
        expected = _expected(base, ids) if verify else None
        head = cls(whole, ids, scale=_scale(base), smoothing=label_smoothing, chunk=chunk)
        head.ignore_outside = ignore_outside
        head._install(base, whole, table)
        if expected is not None:
            head._compare(base, expected)
        return head

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits (…, V); while the model computes a loss, `hidden` as it is."""
        if self._computes_loss:
            self._hidden = hidden
            return hidden
        logits = F.linear(hidden, self.weight, self.bias)
        out = logits.new_full((*logits.shape[:-1], self.out_features), -torch.inf)
        return out.index_copy(-1, self.ids, logits)

    def loss(
        self,
        hidden: torch.Tensor,
        columns: torch.Tensor,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Mean cross-entropy over the active tokens, or the sum over `num_items_in_batch`.

        hidden (N, d); columns (N,) int64, places in `ids`, -100 for positions without a loss.
        """
        labeled = columns != IGNORED
        hidden, columns = hidden[labeled] * self.scale, columns[labeled]
        rows: torch.Tensor = self.weight
        if self.bias is not None:
            hidden = torch.cat([hidden, hidden.new_ones(len(hidden), 1)], dim=1)
            rows = torch.cat([rows, self.bias.unsqueeze(1)], dim=1)
        number = max(len(hidden), 1) if num_items_in_batch is None else num_items_in_batch
        weights = torch.ones(len(hidden), dtype=torch.float32, device=hidden.device) / number
        loss, _ = sliced_cross_entropy(hidden, rows, columns, weights, chunk=self.chunk)
        if self.smoothing:
            # (1 - ε) nll + ε (ln Z - mean logit) is nll + ε (logit of the label - mean logit).
            above = (hidden * (rows[columns] - rows.mean(dim=0))).sum(dim=1).float()
            loss = loss + self.smoothing * (above * weights).sum()
        return loss

    def detach(self) -> None:
        """Write the rows into the whole tables and give the model its own layers back."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def labels_to_columns(self, labels: torch.Tensor) -> torch.Tensor:
        """Places in `ids` of labels of any shape; -100 stays.

        Raises:
            UsageError: a label is not active, and `ignore_outside` was not given.
        """
        columns = self.columns[labels.clamp(min=0)].where(labels >= 0, -1)
        columns = torch.where(labels == IGNORED, IGNORED, columns)
        outside = columns == -1
        if self.ignore_outside:
            return columns.masked_fill(outside, IGNORED)
        if bool(outside.any()):
            first = int(labels[outside].reshape(-1)[0])
            raise UsageError(
                f"{int(outside.sum())} labels are not active, the first is token {first}",
                where="ActiveHead",
                remedy="encode the text with the subset's tokenizer, add the ids, "
                "or attach with ignore_outside=True",
            )
        return columns

    def _install(self, base: Any, whole: nn.Linear, table: nn.Embedding) -> None:
        tied = table.weight is whole.weight
        self._undo.append(_activate(table, self, self.weight if tied else None))
        base.set_output_embeddings(self)
        self._undo.append(lambda: base.set_output_embeddings(whole))
        original, own_loss = base.forward, base.loss_function

        @functools.wraps(type(base).forward)
        def forward(model: Any, *args: Any, **kwargs: Any) -> Any:
            given = [name for name in ("labels", "shift_labels") if kwargs.get(name) is not None]
            for name in given:
                kwargs[name] = self.labels_to_columns(kwargs[name])
            if not given or kwargs.get("fused_lm_head"):  # the loss of TRL reads `weight`
                return original(*args, **kwargs)
            with self._measuring():
                output = original(*args, **kwargs)
            if isinstance(output, tuple):
                return (output[0], *output[2:])
            output.logits = None
            return output

        base.forward = types.MethodType(forward, base)
        base.loss_function = self._loss_function

        def undo() -> None:
            base.forward = original
            base.loss_function = own_loss

        self._undo.append(undo)

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        self._computes_loss = True
        try:
            yield
        finally:
            self._computes_loss, self._hidden = False, None

    def _loss_function(
        self,
        logits: torch.Tensor,
        labels: torch.Tensor | None,
        vocab_size: int | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        ignore_index: int = IGNORED,
        shift_labels: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor:
        """In place of the model's; labels are columns, and `logits` may be scaled hidden states."""
        assert self._hidden is not None
        if shift_labels is None:
            assert labels is not None
            shift_labels = F.pad(labels, (0, 1), value=IGNORED)[..., 1:]
        hidden = self._hidden.reshape(-1, self._hidden.shape[-1])
        if isinstance(num_items_in_batch, torch.Tensor):
            num_items_in_batch = num_items_in_batch.to(hidden.device)
        return self.loss(hidden, shift_labels.reshape(-1), num_items_in_batch)

    def _compare(self, base: Any, expected: tuple[float, torch.Tensor]) -> None:
        nll, logits = expected
        found = _tried(base, self.ids)
        with torch.no_grad(), _evaluating(base):
            loss = float(base(input_ids=found, labels=found).loss)
            own = base(input_ids=found).logits[..., self.ids]
        apart = float((own.float() - logits.float()).abs().max() / logits.float().abs().max())
        smooth = self.smoothing != 0
        if apart > _CLOSE or (not smooth and abs(loss - nll) > _CLOSE * max(nll, 1)):
            self.detach()
            raise ModtokError(
                f"the loss over the active tokens is {loss:.4f}, the whole model's {nll:.4f}",
                where=type(base).__name__,
                remedy="the model changes its logits after the output layer: slice it instead",
            )


def _ids(active: Active, size: int) -> torch.Tensor:
    """Ascending ids in a vocabulary of `size`."""
    if isinstance(active, str):
        tokenizer = open_tokenizer(active)
        if not isinstance(tokenizer, Subtokenizer) or tokenizer.parent_signature is None:
            raise UsageError(
                "is not a subset of a modular tokenizer", where=active, remedy="as in adopted@en,fr"
            )
        active = tokenizer
    if isinstance(active, Subtokenizer):
        active = active.global_ids
    ids = torch.as_tensor(np.unique(np.asarray(active, dtype=np.int64)))
    if not len(ids) or int(ids[0]) < 0 or int(ids[-1]) >= size:
        raise UsageError(f"ids are not between 0 and {size - 1}", where="ActiveHead")
    return ids


def _scale(base: Any) -> float:
    """The factor of the logits of a model.

    Raises:
        UsageError: the logits are bounded by a function.
    """
    factor, cap = logit_scales(base)
    if cap is not None:
        raise UsageError(
            f"bounds its logits to {cap:g}: those of tokens that are not active would not be -inf",
            where=type(base).__name__,
            remedy="slice the model: modtok slice",
        )
    return factor


def _rows(whole: nn.Parameter, ids: torch.Tensor) -> nn.Parameter:
    """Rows of a parameter as one of their own, trained if the whole is."""
    return nn.Parameter(whole.detach()[ids].clone(), requires_grad=whole.requires_grad)


def _keep(module: Any, name: str, whole: nn.Parameter, ids: torch.Tensor) -> Callable[[], None]:
    """Hold the whole beside its rows `name`; state dicts have the whole under that name.

    Returns what ends that.
    """
    kept, trained = f"whole_{name}", whole.requires_grad
    whole.requires_grad_(False)
    module.register_parameter(kept, whole)

    def written(own: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
        table, rows = getattr(own, kept), getattr(own, name)
        with torch.no_grad():
            table[ids.to(table.device)] = rows.detach().to(table.dtype)
        state.pop(prefix + kept, None)
        state[prefix + name] = table.detach()

    def taken(own: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
        table = state.pop(prefix + name, None)
        if table is not None:
            state[prefix + kept] = table
            state[prefix + name] = table[ids.to(table.device)]

    hooks = [
        module.register_state_dict_post_hook(written),
        module.register_load_state_dict_pre_hook(taken),
    ]

    def end() -> None:
        with torch.no_grad():
            whole[ids] = getattr(module, name).detach().to(whole.dtype)
        whole.requires_grad_(trained)
        delattr(module, kept)
        for hook in hooks:
            hook.remove()

    return end


def _activate(table: Any, head: ActiveHead, tied: nn.Parameter | None) -> Callable[[], None]:
    """Let an input table read the active rows, and the frozen whole for other ids; how to undo it.

    The forward of its own class runs on both, so that a scale of the embeddings stays.
    """
    whole, padding = table.weight, table.padding_idx
    frozen = copy.copy(table)
    frozen._parameters = {"weight": whole}
    original, ids = table.forward, head.ids
    table.register_parameter("weight", tied if tied is not None else _rows(whole, ids))
    end = _keep(table, "weight", whole, ids)
    if padding is not None:
        place = int(head.columns[padding])
        table.padding_idx = place if place >= 0 else None

    def forward(own: nn.Embedding, tokens: torch.Tensor) -> torch.Tensor:
        columns = head.columns[tokens]
        active = columns >= 0
        rows: torch.Tensor = original(columns.clamp(min=0))
        if bool(active.all()):
            return rows
        with torch.no_grad():
            others = type(frozen).forward(frozen, tokens)
        return torch.where(active.unsqueeze(-1), rows, others)

    table.forward = types.MethodType(forward, table)

    def undo() -> None:
        end()
        del table.__dict__["forward"]
        table.register_parameter("weight", whole)
        table.padding_idx = padding

    return undo


def _tried(base: Any, ids: torch.Tensor) -> torch.Tensor:
    """Active tokens spread over the vocabulary, (1, m)."""
    places = torch.linspace(0, len(ids) - 1, min(_TRIED, len(ids))).long()
    return ids.cpu()[places].unsqueeze(0).to(base.get_input_embeddings().weight.device)


def _expected(base: Any, ids: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Loss over the active tokens by the whole model, and their logits.

    The loss of a model may have more parts than cross-entropy, such as a mixture's for its router.
    """
    tokens = _tried(base, ids)
    with torch.no_grad(), _evaluating(base):
        output = base(input_ids=tokens, labels=tokens)
    whole = output.logits.float()
    logits = whole[..., ids.to(whole.device)]
    columns = torch.searchsorted(ids, tokens.cpu()).to(whole.device)
    nll = F.cross_entropy(logits[0, :-1], columns[0, 1:])
    others = output.loss - F.cross_entropy(whole[0, :-1], tokens.to(whole.device)[0, 1:])
    return float(nll + others), logits


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
