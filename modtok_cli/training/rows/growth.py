"""First weights of a grown table: rows carried over by token, new rows from their spelling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from modtok_cli.tokenizer.spelling import Spelling
from modtok_cli.training.rows.table import RowTable

# Rows computed at a time: bounds the memory beside the table.
_BLOCK = 1 << 14


@torch.no_grad()
def grow_rows(
    table: RowTable, old: Sequence[torch.Tensor], spelling: Spelling, *, scaled: bool = True
) -> None:
    """Set the weights of `table` from the rows of another table.

    Rows without a spelling keep the weights that `table` has.

    Args:
        table: one shard of the new table, (V', d); moments and step counts stay zero.
        old: the shards of the old table, (n_s, d) float32 each; shard s of n holds the rows
            s, s + n, s + 2n, …
        spelling: old ids for each of the V' tokens.
        scaled: see `spelled_rows`.
    """
    own = torch.arange(table.shard, table.size, table.shards)
    for block, rows in spelled_rows(old, spelling, own, scaled=scaled):
        table.weight[table.local_rows(block)] = rows.to(table.weight.device)


def spelled_rows(
    old: Sequence[torch.Tensor], spelling: Spelling, tokens: torch.Tensor, *, scaled: bool
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Rows of new tokens from rows of the old tokens that spell them, a block at a time.

    A row whose token both vocabularies hold is copied bit for bit. Any other row is the mean of
    the old rows that spell its token. `scaled` scales it to their mean norm. Not so for finished
    models: their rows have a large part in common, and scaled means are far too likely as outputs
    (docs/results-pretraining.md).

    Args:
        old: the shards of the old table, as in `grow_rows`.
        tokens: ids of new tokens; those without a spelling are left out.

    Returns:
        Pairs of new ids (n,) and their rows (n, d) float32.

    Example: old rows (3, 0) and (0, 1) spell a new token. Their mean is (1.5, 0.5), of norm 1.58.
    Their mean norm is 2, so the scaled row is (1.897, 0.632).
    """
    ids = torch.from_numpy(spelling.ids).long()
    offsets = torch.from_numpy(spelling.offsets)
    tokens = tokens[offsets[tokens + 1] > offsets[tokens]]
    for block in torch.split(tokens, _BLOCK):
        counts = offsets[block + 1] - offsets[block]
        target = torch.repeat_interleave(torch.arange(len(block)), counts)
        first = torch.cumsum(counts, 0) - counts
        within = torch.arange(len(target)) - first[target]
        parts = _rows(old, ids[offsets[block][target] + within])
        rows = torch.zeros(len(block), parts.shape[1]).index_add_(0, target, parts)
        if scaled:
            norms = torch.zeros(len(block)).index_add_(0, target, parts.norm(dim=1))
            factor = norms / rows.norm(dim=1).clamp(min=1e-12)
        else:
            factor = torch.ones(len(block))
        # A copied row stays as it is, to the bit.
        rows = torch.where((counts == 1).unsqueeze(1), rows, rows * (factor / counts).unsqueeze(1))
        yield block, rows


def _rows(old: Sequence[torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """Rows of a table whose shards are `old`; (len(ids), d) float32."""
    shards = len(old)
    if shards == 1:
        return old[0][ids]
    rows = torch.empty(len(ids), old[0].shape[1])
    for shard, part in enumerate(old):
        here = torch.nonzero(ids % shards == shard).squeeze(1)
        rows[here] = part[torch.div(ids[here], shards, rounding_mode="floor")]
    return rows
