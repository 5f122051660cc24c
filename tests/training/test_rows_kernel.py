"""The pass over rows in host memory, against numpy doing the same one operation at a time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.core.rows import copy_rows, touch, update_rows

ADAMW = (0.9, 0.95, 1e-8, 0.1)
SIZE = 83  # blocks of 16 rows, and some


def bits(array: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, as torch rounds."""
    return torch.from_numpy(array.copy()).bfloat16().view(torch.int16).numpy().view(np.uint16)


def floats(array: np.ndarray) -> np.ndarray:
    """Bits of bfloat16 to float32; float32 as it is."""
    if array.dtype == np.float32:
        return array.copy()
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).float().numpy()


def slow_update(weight, moment1, moment2, steps, rows, gradients, rate):
    """Row after row, each operation in float32 with its own rounding."""
    beta1, beta2, epsilon, decay = ADAMW
    f = np.float32
    for row, gradient in zip(rows, floats(gradients), strict=True):
        steps[row] += 1
        size = f(rate / (1 - beta1 ** int(steps[row])))
        scale = f(1 / math.sqrt(1 - beta2 ** int(steps[row])))
        m, v = floats(moment1[row : row + 1])[0], floats(moment2[row : row + 1])[0]
        m = m + f(1 - beta1) * (gradient - m)
        v = v * f(beta2) + f(1 - beta2) * gradient * gradient
        kept = weight[row] * f(1 - rate * decay)
        weight[row] = kept - size * m / (np.sqrt(v) * scale + f(epsilon))
        moment1[row] = m if moment1.dtype == np.float32 else bits(m)
        moment2[row] = v if moment2.dtype == np.float32 else bits(v)


def state(width: int, moments: type, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((SIZE, width)).astype(np.float32)
    first = (rng.standard_normal((SIZE, width)) / 10).astype(np.float32)
    second = rng.random((SIZE, width)).astype(np.float32) / 100
    steps = rng.integers(0, 9, SIZE).astype(np.int32)
    if moments == np.uint16:
        first, second = bits(first), bits(second)
    return [weight, first, second, steps]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.sets(st.integers(0, SIZE - 1)),
    width=st.sampled_from([1, 7, 16, 33]),
    moments=st.sampled_from([np.float32, np.uint16]),
    received=st.sampled_from([np.float32, np.uint16]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_update_equals_the_slow_twin_bit_for_bit(
    rows: set[int], width: int, moments: type, received: type, threads: int, seed: int
) -> None:
    fast, slow = state(width, moments, seed), state(width, moments, seed)
    places = np.array(sorted(rows), dtype=np.int64)
    rng = np.random.default_rng(seed + 1)
    for rate in (1e-2, 3e-4):
        gradients = rng.standard_normal((len(places), width)).astype(np.float32)
        if received == np.uint16:
            gradients = bits(gradients)
        update_rows(*fast, places, gradients, threads, rate, *ADAMW)
        slow_update(*slow, places, gradients, rate)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.integers(0, SIZE - 1), max_size=40),
    threads=st.integers(1, 5),
    half=st.booleans(),
)
def test_copies_round_as_torch_does(rows: list[int], threads: int, half: bool) -> None:
    weight = np.random.default_rng(3).standard_normal((SIZE, 9)).astype(np.float32)
    weight[3, :4] = [np.inf, -np.inf, 0.0, -0.0]
    weight[4, :2] = np.array([0x3F808000, 0x3F818000], dtype=np.uint32).view(np.float32)  # ties
    places = np.array(rows, dtype=np.int64)
    out = np.zeros((len(places), 9), np.uint16 if half else np.float32)
    copy_rows(weight, places, out, threads)
    expected = bits(weight[places]) if half else weight[places]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
@pytest.mark.parametrize("threads", [1, 3, 1000])
def test_touching_clears_every_row(dtype: type, threads: int) -> None:
    array = np.ones((SIZE, 3), dtype)
    touch(array, threads)
    assert not array.any()
