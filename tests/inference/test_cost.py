"""The paper's tables of memory, digit for digit, and what a text costs."""

import numpy as np
import pytest

from modtok_cli.architectures.sizes import sizes
from modtok_cli.inference.cost.cost import Entry, _row, cost

SCALES = ["0.5b", "1b", "2.5b", "7b", "12b", "30b"]


@pytest.mark.parametrize(
    ("tied", "percent"), [(False, [55, 47, 35, 20, 16, 10]), (True, [40, 31, 21, 11, 9, 5])]
)
def test_reduction_by_24k_in_place_of_256k(tied: bool, percent: list[int]) -> None:
    rows = [row for row in cost(tied=tied) if row["tokenizer"] == "24k"]
    assert [row["model"] for row in rows] == SCALES
    assert [round(100 * row["saved"]) for row in rows] == percent


def test_scales_are_named_by_the_parameters_beside_the_tables() -> None:
    for row in cost():
        backbone = row["parameters"] - row["vocabulary_parameters"]
        assert backbone == pytest.approx(float(row["model"].rstrip("b")) * 1e9, rel=0.09)
        assert row["share"] == row["vocabulary_parameters"] / row["parameters"]


def test_a_text_fills_cache_and_takes_operations_by_its_tokens() -> None:
    """The paper: 0.314 tokens a character against 0.242, a 23% cut."""
    first = Entry("gemma", 262_144, "a", "t", 1000, np.zeros(314, np.int64))
    own = Entry("own", 24_000, "b", "t", 1000, np.zeros(242, np.int64))
    shape = sizes(["0.5b"])["0.5b"]
    row = _row("0.5b", shape, "hr", own, first)
    assert round(100 * row["kv_saved"]) == 23
    assert row["kv_bytes_per_character"] == pytest.approx(0.242 * 58_368)
    matrices = shape.layers * shape.layer_products
    step = (matrices + shape.hidden_size * 24_000) / (matrices + shape.hidden_size * 262_144)
    assert row["token_flops"] == pytest.approx(step)
    assert row["flops"] == pytest.approx(242 / 314 * step)
    assert _row("0.5b", shape, "hr", first, first)["flops"] == 1
