"""The paper's tables of memory, digit for digit."""

import pytest

from modtok_cli.architectures.sizes import PAPER, sizes
from modtok_cli.base.errors import UsageError
from modtok_cli.inference.cost.memory import memory, memory_rows

SCALES = ["0.5b", "1b", "2.5b", "7b", "12b", "30b"]


@pytest.mark.parametrize(
    ("tied", "percent"), [(False, [55, 47, 35, 20, 16, 10]), (True, [40, 31, 21, 11, 9, 5])]
)
def test_reduction_by_24k_in_place_of_256k(tied: bool, percent: list[int]) -> None:
    rows = [row for row in memory(tied=tied) if row["tokenizer"] == "24k"]
    assert [row["model"] for row in rows] == SCALES
    assert [round(100 * row["saved"]) for row in rows] == percent


def test_kv_cache_per_token() -> None:
    """58 to 745 KB a token from 0.5B to 30B."""
    rows = [row for row in memory() if row["tokenizer"] == "24k"]
    assert [row["kv_bytes_per_token"] // 1000 for row in rows] == [58, 86, 147, 327, 409, 745]


def test_scales_are_named_by_the_parameters_beside_the_tables() -> None:
    for row in memory():
        backbone = row["parameters"] - row["vocabulary_parameters"]
        assert backbone == pytest.approx(float(row["model"].rstrip("b")) * 1e9, rel=0.09)
        assert row["share"] == row["vocabulary_parameters"] / row["parameters"]


def test_a_shorter_text_fills_less_cache() -> None:
    """The paper: 0.314 tokens a character against 0.242, a 23% cut."""
    figures = {"hr": {"gemma": 0.314, "own": 0.242}}
    counts = {"gemma": 262_144, "own": 24_000}
    rows = memory_rows(counts, sizes(PAPER), tokens_per_character=figures)
    own = [row for row in rows if row["tokenizer"] == "own"]
    assert len(own) == 6
    assert all(round(100 * row["kv_saved"]) == 23 for row in own)
    assert own[0]["kv_bytes_per_character"] == pytest.approx(0.242 * 58_368)
    with pytest.raises(UsageError, match="a text needs a tokenizer"):
        memory("text.txt")
