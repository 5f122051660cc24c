"""Cross-entropy over the active vocabulary, in chunks of tokens and shards of rows.

Logits exist for one chunk of tokens and one shard of V_S at a time, and the gradient of a
chunk is computed with them. Neither tokens × V_S in full precision nor anything of size |T|
is ever allocated.

On a GPU the matrices have rows added, up to a multiple of 64: matrix products of other widths run
at a quarter of their speed there. Logits of added rows are −∞, and their gradients zero.

Shapes: N tokens, hidden size d, n rows of V_S on this shard (uneven, or none).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from modtok_cli.training.model.products import add_product

CHUNK = 2048


def row_multiple(device: torch.device) -> int:
    """The divisor of the number of a matrix's rows for fast products on a device."""
    return 64 if device.type == "cuda" else 1


def sliced_cross_entropy(
    hidden: torch.Tensor,
    rows: torch.Tensor,
    columns: torch.Tensor,
    weights: torch.Tensor,
    *,
    places: torch.Tensor | None = None,
    group: dist.ProcessGroup | None = None,
    chunk: int = CHUNK,
    z_loss: float = 0.0,
    fused: bool = False,
    multiple: int | None = None,
    cap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weighted sum of the negative log-likelihoods, and each of them.

    Args:
        hidden: (N, d).
        rows: (n, d), this shard's rows of V_S; with `places`, (m, d), these and others.
        columns: (N,) int64, the target's index in V_S, or -1 if it is on another shard.
        weights: (N,) float32; the loss is Σ weight · (nll + z_loss · (ln Z)²), where Z is the
            denominator of the softmax.
        places: (n,) int64, different places in `rows` of V_S; None: all.
        group: the tensor-parallel shards; None for one.
        chunk: number of tokens computed at a time.
        fused: compile what is between the two matrix products of a chunk.
        multiple: what the rows of a matrix product are padded to; None: by `row_multiple`.
        cap: c of logits c · tanh(l / c); None: logits as they are.

    Returns:
        The loss, a scalar with gradients for `hidden` and `rows`; and nll (N,) float32 in
        nats, without gradient. Both are the same on every shard; so is the gradient of
        `hidden`, which is summed over shards.

    Example: d = 1, hidden [[1]], rows [[0], [0]], columns [0], weights [1] gives ln 2.
    """
    apply: Any = _CrossEntropy.apply
    how = chunk, z_loss, fused, multiple or row_multiple(hidden.device), cap
    loss, nll = apply(hidden, rows, columns, weights, places, group, how)
    return loss, nll


def _head(rows: torch.Tensor, places: torch.Tensor | None, added: int) -> torch.Tensor:
    """V_S of `rows`, and so many rows after it; the same tensor if that is all."""
    if places is None:
        return F.pad(rows, (0, 0, 0, added)) if added else rows
    return rows.index_select(0, F.pad(places, (0, added), value=0))


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        rows: torch.Tensor,
        columns: torch.Tensor,
        weights: torch.Tensor,
        places: torch.Tensor | None,
        group: dist.ProcessGroup | None,
        how: tuple[int, float, bool, int, float | None],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chunk, z_loss, fused, multiple, cap = how
        count = len(rows if places is None else places)
        head = _head(rows, places, -count % multiple)
        # Forward runs without autograd; this tells whether the caller needs gradients.
        wanted = any(ctx.needs_input_grad[:2])
        d_hidden = torch.empty_like(hidden, dtype=torch.float32) if wanted else None
        d_rows = torch.zeros_like(head, dtype=torch.float32) if wanted else None
        nll = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        log_z = torch.empty_like(nll)
        here = columns >= 0
        targets = columns.clamp(min=0).unsqueeze(1)
        for start in range(0, len(hidden), chunk):
            part = slice(start, start + chunk)
            logits = hidden[part] @ head.t()
            if cap is not None:
                logits = (logits / cap).tanh_()
                slope = 1 - logits.square()
                logits *= cap
            logits[:, count:] = -torch.inf
            if fused and d_rows is not None and count:
                sums, gradient = compiled()
                log_sum, target = sums(logits, targets[part])
                nll[part], log_z[part] = _over_shards(log_sum, target, here[part], group)
                p = gradient(logits, targets[part], here[part], weights[part], log_z[part], z_loss)
            else:
                nll[part], log_z[part], p = _chunk(logits, targets[part], here[part], group)
                if d_rows is not None:
                    if z_loss:
                        p *= (1 + 2 * z_loss * log_z[part]).unsqueeze(1)
                    if count:
                        each = torch.arange(len(p), device=p.device)
                        p[each, targets[part, 0]] -= here[part].to(p.dtype)
                    p *= weights[part].unsqueeze(1)
                    p = p.to(hidden.dtype)
            del logits
            if d_hidden is not None and d_rows is not None:
                if cap is not None:
                    p *= slope
                d_hidden[part] = p @ head
                add_product(d_rows, p.t(), hidden[part])
            del p  # before the next chunk's logits are computed
        if d_hidden is not None and group is not None:
            dist.all_reduce(d_hidden, group=group)
        ctx.save_for_backward(d_hidden, d_rows, places)
        ctx.dtypes, ctx.count, ctx.rows = (hidden.dtype, rows.dtype), count, rows.shape
        ctx.mark_non_differentiable(nll)
        total = (nll * weights).sum()
        if z_loss:
            total = total + z_loss * (log_z.square() * weights).sum()
        return total, nll

    @staticmethod
    def backward(ctx: Any, scale: torch.Tensor, _: torch.Tensor) -> Any:
        d_hidden, d_rows, places = ctx.saved_tensors
        of_hidden, of_rows = ctx.dtypes
        found = (d_rows[: ctx.count] * scale).to(of_rows)
        if places is not None:
            found = found.new_zeros(ctx.rows).index_copy_(0, places, found)
        return (d_hidden * scale).to(of_hidden), found, *[None] * 5


@cache
def compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`logit_sums` and `logit_gradient`, a pass over the logits each, for any number of rows."""
    return torch.compile(logit_sums, dynamic=True), torch.compile(logit_gradient, dynamic=True)


def logit_sums(logits: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ln Σ exp (c,) of logits (c, n) of a shard, and logits (c,) of the columns `places` (c, 1)."""
    exact = logits.float()
    return exact.logsumexp(1), exact.gather(1, places).squeeze(1)


def logit_gradient(
    logits: torch.Tensor,
    places: torch.Tensor,
    here: torch.Tensor,
    weights: torch.Tensor,
    log_z: torch.Tensor,
    z_loss: float,
) -> torch.Tensor:
    """The gradient of the loss by a shard's logits (c, n); `log_z` (c,) is ln Z over all shards.

    `places` (c, 1) are columns of the targets, where `here` (c,) says that they are on this shard.
    """
    p = (logits.float() - log_z.unsqueeze(1)).exp() * (1 + 2 * z_loss * log_z).unsqueeze(1)
    is_target = (torch.arange(logits.shape[1], device=logits.device) == places) & here.unsqueeze(1)
    return ((p - is_target.float()) * weights.unsqueeze(1)).to(logits.dtype)


def _over_shards(
    log_sum: torch.Tensor,
    target: torch.Tensor,
    here: torch.Tensor,
    group: dist.ProcessGroup | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """nll and ln Z, both (c,), from `logit_sums` of this shard; exchanges what `_chunk` does."""
    if group is None:
        return log_sum - target, log_sum
    peak = log_sum.clone()
    dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=group)
    sums = torch.stack([(log_sum - peak).exp(), (target - peak).where(here, 0)])
    dist.all_reduce(sums, group=group)
    log_total = sums[0].log()
    return log_total - sums[1], log_total + peak


def _chunk(
    logits: torch.Tensor,
    places: torch.Tensor,
    here: torch.Tensor,
    group: dist.ProcessGroup | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """nll (c,), ln Z (c,), and this shard's probabilities (c, n).

    `places` (c, 1) are columns of the targets, where `here` (c,) says that they are on this shard.
    """
    logits = logits.float()  # of float32 the same tensor, changed in place
    if logits.shape[1]:
        peak = logits.amax(dim=1)
    else:
        peak = torch.full((len(logits),), -torch.inf, device=logits.device)
    if group is not None:
        dist.all_reduce(peak, op=dist.ReduceOp.MAX, group=group)
    logits -= peak.unsqueeze(1)
    target = torch.zeros_like(peak)
    if logits.shape[1]:
        target = logits.gather(1, places).squeeze(1).where(here, 0)
    p = logits.exp_()
    sums = torch.stack([p.sum(dim=1), target])
    if group is not None:
        dist.all_reduce(sums, group=group)
    total, target = sums
    p /= total.unsqueeze(1)
    log_total = total.log()
    return log_total - target, log_total + peak, p
