"""Attention against attention by hand, and packed documents against single ones."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from helpers.microbatches import microbatch
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.megatron import CausalAttention, document_mask
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.rows.microbatch import document_bounds

SHAPE = llama(2, 32, 8, 88)
END = 0


def test_attention_is_causal_with_grouped_queries() -> None:
    torch.manual_seed(0)
    s, heads, groups, width = 7, 4, 2, 8
    q, k, v = torch.randn(s, 2, heads, width), *torch.randn(2, s, 2, groups, width)
    found = CausalAttention(None, 1)(q, k, v)
    assert found.shape == (s, 2, heads * width)
    for head in range(heads):  # one at a time, by hand
        key, value = k[:, :, head // 2], v[:, :, head // 2]
        scores = torch.einsum("sbd,tbd->bst", q[:, :, head], key) / width**0.5
        scores = scores.masked_fill(torch.ones(s, s).triu(1).bool(), -torch.inf)
        expected = torch.einsum("bst,tbd->sbd", scores.softmax(-1), value)
        torch.testing.assert_close(found[:, :, head * width :][:, :, :width], expected)


def by_document(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *bounds: Any, **options: Any
) -> torch.Tensor:
    """What `torch.nn.attention.varlen.varlen_attn` computes on a GPU, a document at a time."""
    assert options == {"window_size": (-1, 0), "enable_gqa": True}  # causal
    parts = []
    for start, end in pairwise(bounds[0].tolist()):
        one = (x[start:end].transpose(0, 1) for x in (q, k, v))
        parts.append(F.scaled_dot_product_attention(*one, is_causal=True, enable_gqa=True))
    return torch.cat(parts, dim=1).transpose(0, 1)


@given(st.data(), st.integers(1, 3), st.integers(1, 12))
def test_bounds_of_documents_equal_the_mask(data: st.DataObject, count: int, length: int) -> None:
    ids = data.draw(st.lists(st.integers(0, 2), min_size=count * length, max_size=count * length))
    inputs = np.array(ids, dtype=np.int32).reshape(count, length)
    bounds = torch.from_numpy(document_bounds(inputs, END)).int()
    mask = document_mask(torch.from_numpy(inputs), END)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 9)))
    q = torch.randn(length, count, 4, 8, generator=generator)
    k, v = torch.randn(2, length, count, 2, 8, generator=generator)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(megatron, "document_attention", lambda: by_document)
        for one in (bounds, mask):
            leaves = [x.clone().requires_grad_() for x in (q, k, v)]
            mixed = CausalAttention(None, 1)(*leaves, one)
            (mixed * torch.arange(mixed.numel()).view(mixed.shape)).sum().backward()
            found.append([mixed, *(x.grad for x in leaves)])
    torch.testing.assert_close(*found, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_model_with_bounds_needs_no_mask(
    monkeypatch: pytest.MonkeyPatch, recompute: bool
) -> None:
    model = Model(SHAPE, 50, start_ranks(), end_of_text=END, recompute=recompute)
    ids = np.array([[3, END, 4, 5, 9], [6, 7, END, 8, END]], dtype=np.int32)
    bounds = torch.from_numpy(document_bounds(ids, END)).int()
    one = replace(microbatch(ids, ids, np.arange(50, dtype=np.int32)), documents=bounds)
    found = []
    for _ in range(2):
        active = model.activate([one])
        loss, nll = model.loss(one, active)
        with model.backbone.accumulating(more=False):
            loss.backward()
        found.append([nll, active[0].rows.grad])
        model._bounded = True  # as on a GPU
        monkeypatch.setattr(megatron, "document_attention", lambda: by_document)
        monkeypatch.setattr(megatron, "document_mask", None)
    torch.testing.assert_close(*found)


def nll(model: Model, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    vocabulary = torch.arange(50)
    weights = torch.full((targets.numel(),), 1.0 / targets.numel())
    microbatch = MicroBatch(inputs, targets.flatten(), vocabulary, weights)
    return model.measure(microbatch).view(inputs.shape)


@pytest.mark.parametrize("recompute", [False, True])
def test_packed_documents_equal_single_documents(recompute: bool) -> None:
    model = Model(SHAPE, 50, start_ranks(), end_of_text=END, recompute=recompute)
    open_model = Model(SHAPE, 50, start_ranks(), recompute=recompute)
    torch.manual_seed(1)
    documents = [torch.randint(1, 50, (n,)) for n in (5, 1, 9, 16)]
    starts = torch.tensor([END])
    packed = torch.cat([torch.cat([starts, d]) for d in documents] + [starts])
    found = nll(model, packed[None, :-1], packed[None, 1:])[0]
    mixed = nll(open_model, packed[None, :-1], packed[None, 1:])[0]
    at = 0
    for index, document in enumerate(documents):
        alone = torch.cat([starts, document, starts])
        expected = nll(open_model, alone[None, :-1], alone[None, 1:])[0]
        part = slice(at, at + len(expected))
        torch.testing.assert_close(found[part], expected, atol=1e-5, rtol=1e-5)
        if index:  # without the mask the documents before are visible
            assert not torch.allclose(mixed[part], expected, atol=1e-4)
        at += len(document) + 1
