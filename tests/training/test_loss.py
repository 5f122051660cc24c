"""Chunked cross-entropy against torch's, in value, gradient and memory."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import loss as loss_module
from modtok_cli.training.model import megatron, products
from modtok_cli.training.model.loss import sliced_cross_entropy
from modtok_cli.training.model.products import add_product

PLAIN = (loss_module.logit_sums, loss_module.logit_gradient)


class Largest(TorchDispatchMode):
    """The most numbers in any tensor made meanwhile, and the most rows."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0
        self.rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.dim():
                self.numbers = max(self.numbers, leaf.numel())
                self.rows = max(self.rows, max(leaf.shape))
        return result


class Widths(TorchDispatchMode):
    """Numbers of rows that hidden states (…, 6) are multiplied with."""

    def __init__(self) -> None:
        super().__init__()
        self.head: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.mm.default and args[1].shape[0] == 6:
            self.head.add(args[1].shape[1])
        return func(*args, **(kwargs or {}))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 20),
    st.integers(1, 30),
    st.integers(1, 8),
    st.integers(0, 99),
    st.sampled_from([0.0, 1e-4, 0.3]),
    st.booleans(),
    st.sampled_from([(1, 0), (8, 0), (1, 3), (8, 3)]),
    st.sampled_from([None, 2.0]),
)
def test_equals_torch(
    tokens: int,
    rows: int,
    chunk: int,
    seed: int,
    z: float,
    fused: bool,
    of: tuple[int, int],
    cap: float | None,
) -> None:
    """Also with padded rows, with rows that are not in V_S, and with bounded logits."""
    (multiple, others), generator = of, torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, 6, generator=generator, requires_grad=True)
    table = torch.randn(rows + others, 6, generator=generator, requires_grad=True)
    places = torch.randperm(len(table), generator=generator)[:rows] if others else None
    targets = torch.randint(rows, (tokens,), generator=generator)
    weights = torch.rand(tokens, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_module, "compiled", lambda: PLAIN)
        options: Any = {"chunk": chunk, "z_loss": z, "fused": fused, "multiple": multiple}
        options["cap"] = cap
        with Widths() as widths:
            loss, nll = sliced_cross_entropy(
                hidden, table, targets, weights, places=places, **options
            )
    assert widths.head
    assert all(width % multiple == 0 for width in widths.head)
    (loss * 3).backward()
    found = hidden.grad, table.grad
    hidden.grad = table.grad = None
    logits = hidden @ (table if places is None else table[places]).t()
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    expected = F.cross_entropy(logits, targets, reduction="none")
    whole = ((expected + z * torch.logsumexp(logits, dim=1).square()) * weights).sum()
    (3 * whole).backward()
    torch.testing.assert_close(loss, whole.detach())
    torch.testing.assert_close(nll, expected.detach())
    torch.testing.assert_close(found[0], hidden.grad, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[1], table.grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("z", [0.0, 0.3])
@pytest.mark.parametrize("fused", [False, True])
def test_shards_together_equal_one(monkeypatch: pytest.MonkeyPatch, z: float, fused: bool) -> None:
    """Three shards in threads, one of which has no rows."""
    generator = torch.Generator().manual_seed(1)
    hidden, table = torch.randn(9, 6, generator=generator), torch.randn(7, 6, generator=generator)
    targets, weights = torch.arange(9) % 7, torch.rand(9, generator=generator)
    shares = [
        torch.tensor([0, 2, 3, 6]),
        torch.tensor([], dtype=torch.int64),
        torch.tensor([1, 4, 5]),
    ]
    barrier, mine, values = threading.Barrier(3), threading.local(), [hidden] * 3

    def all_reduce(value: torch.Tensor, op: object = None, group: object = None) -> None:
        values[mine.shard] = value.clone()
        barrier.wait(600)
        parts = torch.stack(values)
        barrier.wait(600)
        value.copy_(parts.sum(0) if op is None else parts.amax(0))

    def run(shard: int) -> tuple[torch.Tensor, ...]:
        mine.shard = shard
        here, rows = hidden.clone().requires_grad_(), table[shares[shard]].requires_grad_()
        found = (targets.unsqueeze(1) == shares[shard]).long()
        columns = torch.where(found.any(1), found.argmax(1), -1) if len(rows) else targets * 0 - 1
        group: Any = "shards"
        loss, nll = sliced_cross_entropy(
            here, rows, columns, weights, group=group, chunk=4, z_loss=z, fused=fused, multiple=8
        )
        loss.backward()
        return loss.detach(), nll, here.grad, rows.grad

    monkeypatch.setattr(loss_module, "compiled", lambda: PLAIN)
    monkeypatch.setattr(loss_module.dist, "all_reduce", all_reduce)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(run, range(3)))
    hidden.requires_grad_(), table.requires_grad_()
    whole = sliced_cross_entropy(hidden, table, targets, weights, z_loss=z)
    whole[0].backward()
    for share, found in zip(shares, results, strict=True):
        expected = (whole[0].detach(), whole[1], hidden.grad, table.grad[share])
        torch.testing.assert_close(found, expected)


def test_large_logits_do_not_overflow() -> None:
    hidden = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    table = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss, nll = sliced_cross_entropy(hidden, table, torch.tensor([0, 0]), torch.ones(2))
    loss.backward()
    assert nll.tolist() == [0.0, 2e4]
    assert torch.isfinite(hidden.grad).all()


def test_bfloat16_accumulates_in_full_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(512, 32, generator=generator).bfloat16().requires_grad_()
    table = (torch.randn(300, 32, generator=generator) / 6).bfloat16().requires_grad_()
    targets = torch.randint(300, (512,), generator=generator)
    weights = torch.full((512,), 1 / 512)
    loss, _ = sliced_cross_entropy(hidden, table, targets, weights, chunk=64)
    loss.backward()
    exact_h, exact_t = (x.detach().float().requires_grad_() for x in (hidden, table))
    exact = F.cross_entropy(exact_h @ exact_t.t(), targets)
    exact.backward()
    assert loss.item() == pytest.approx(exact.item(), rel=2e-3)
    error = (table.grad.float() - exact_t.grad).norm() / exact_t.grad.norm()
    assert error < 0.02


class Product(TorchDispatchMode):
    """Answers for the operation that only a GPU has."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.found = func, args[0], kwargs
        return args[0]


def test_a_gpu_adds_products_to_sums_in_one_operation() -> None:
    with FakeTensorMode():
        sums = torch.empty(4, 3, device="cuda")
        left, right = (
            torch.empty(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((4, 5), (5, 3))
        )
        with Product() as product:
            add_product(sums, left, right)
    operation, to, options = product.found
    assert operation is torch.ops.aten.addmm.dtype_out
    assert to is sums is options["out"]


def test_weight_gradients_are_added_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all matrices of a layer, to what is there; a second pass over the sums is not needed."""
    shape, ranks = llama(2, 32, 8, 88), start_ranks()
    backbone = megatron.build_backbone(
        shape, shards=1, device=ranks.device, dtype=torch.float32, seed=0
    )
    added: list[torch.Size] = []

    def add(sums: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
        added.append(sums.shape)
        add_product(sums, left, right)

    monkeypatch.setattr(products, "add_product", add)
    x_SBd = torch.randn(8, 2, 32, device=ranks.device)
    found = []
    for _ in range(2):
        with backbone.accumulating(more=True):
            backbone(x_SBd).square().sum().backward()
        found.append({name: p.main_grad.clone() for name, p in backbone.parameters.items()})
    matrices = [p.shape for p in backbone.parameters.values() if p.dim() > 1]
    assert sorted(added) == sorted(2 * matrices)
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], 2 * gradient)


def test_logits_exist_a_chunk_at_a_time() -> None:
    hidden = torch.randn(4096, 8, requires_grad=True)
    table = torch.randn(1000, 8, requires_grad=True)
    with Largest() as largest:
        loss, _ = sliced_cross_entropy(
            hidden, table, torch.zeros(4096, dtype=torch.int64), torch.ones(4096), chunk=128
        )
        loss.backward()
    assert largest.numbers <= 128 * 1000
