"""The paper's tables of memory, digit for digit; what a text costs; times of whole texts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers.sample import SAMPLE
from helpers.small_run import TOY
from modtok_cli.base import memory
from modtok_cli.base.errors import ModtokError
from modtok_cli.model.architecture.sizes import shape_of, sizes
from modtok_cli.model.cost import timing
from modtok_cli.model.cost.cost import Entry, _row, cost
from modtok_cli.model.cost.timing import RandomModel
from modtok_cli.tokenizer.open import open_tokenizer

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


def test_a_shape_keeps_its_own_tied_tables() -> None:
    shape = replace(sizes(["0.5b"])["0.5b"], tied=True)
    assert cost(models={"0.5b": shape}) == cost(model=["0.5b"], tied=True)


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


# --- times ---


MODELS = {"toy": shape_of(TOY)}


class Clock:
    """In place of a model: a pass takes a second per token and a millisecond per output row."""

    device = torch.device("cpu")

    def __init__(self, *sizes: Any) -> None:
        self.passes: list[tuple[int, int]] = []

    def seconds(self, ids: torch.Tensor, size: int) -> float:
        self.passes.append((ids.shape[1], size))
        return ids.shape[1] + size / 1000

    def decode_seconds(self, sizes: list[int], steps: int) -> list[float]:
        return [1 + size / 1000 for size in sizes]


def test_long_texts_are_not_truncated(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "RandomModel", Clock)
    text = tmp_path / "fr.txt"
    text.write_text("Il était une fois un petit roi. " * 1200 + "\n" + "Fin.\n")
    spec = str(workspace / "tokenizer")
    rows = cost(text, time=True, tokenizers=[f"{spec}@each", spec], models=MODELS)
    for row, each in zip(rows, [f"{spec}@fr", f"{spec}@fr", spec], strict=True):
        ids = open_tokenizer(each).encode_batch(text.read_text().splitlines())
        if row["tokenizer"] != "reference":
            assert row["tokens"] == sum(map(len, ids)) > 2 * 4096
        assert row["contexts"] == -(-row["tokens"] // 4096)
        assert row["context_seconds"] == 4096 + row["vocabulary"] / 1000
        assert row["forward_seconds"] == pytest.approx(
            row["context_seconds"] * row["tokens"] / 4096
        )
        assert row["forward_ratio"] == row["forward_seconds"] / rows[0]["forward_seconds"]
    short = cost([spec, text], time=True, models=MODELS, limit=1)
    assert short[1]["tokens"] < rows[2]["tokens"]


def test_every_tokenizer_reads_the_same_text(workspace: Path) -> None:
    each = f"{workspace / 'tokenizer'}@each"
    rows = cost(
        [each, workspace / "tokenizer", SAMPLE / "data" / "fr.jsonl"],
        models=MODELS,
        limit=2,
        decode_steps=3,
        time=True,
    )
    assert [row["tokenizer"] for row in rows] == ["reference", each, str(workspace / "tokenizer")]
    assert rows[0]["forward_ratio"] == rows[0]["decode_ratio"] == 1
    assert rows[1]["vocabulary"] == 600 < rows[2]["vocabulary"]
    assert all(row["forward_seconds"] > 0 and row["token_seconds"] > 0 for row in rows)
    assert rows[2]["tokens"] < rows[1]["tokens"] * 1.1
    # What a number depends on: tokenizer, reference, text and shape.
    others = [
        cost([each, SAMPLE / "data" / "fr.jsonl"], models=MODELS, limit=1),
        cost([each, SAMPLE / "data" / "fr.jsonl"], models=MODELS, limit=2, tied=True),
        cost([each, SAMPLE / "data" / "en.jsonl"], models=MODELS, limit=2),
    ]
    again = cost([each, SAMPLE / "data" / "fr.jsonl"], models=MODELS, limit=2)
    assert [row["signature"] for row in again] == [row["signature"] for row in rows[:2]]
    every = [row["signature"] for found in (rows, *others) for row in found]
    assert len(set(every)) == len(every) == 9


def test_models_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    with pytest.raises(ModtokError, match=r"the model needs .*; choose a smaller --model"):
        RandomModel(shape_of(TOY), 600, torch.float32, torch.device("cpu"))
