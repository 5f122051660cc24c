"""A command that finds its output finished reports what the first run reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.unigram import unigram
from modtok_cli.construct.unigram_merge import unigram_merge

# Learner, its options, and the columns of its report beside language, output and signature.
BUILDS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "bpe": (bpe, {"min_count": 2}, "tokens"),
    "bpe --joint": (bpe, {"joint": True, "min_count": 2}, "tokens"),
    "unigram": (unigram, {}, "tokens"),
    "unigram --joint": (unigram, {"joint": True}, "tokens"),
    "bpe-seq": (bpe_seq, {"order": "size", "min_count": 2}, "tokens adopted new_tokens total"),
    "fewest tokens": (bpe_seq, {"segmentation": "fewest-tokens", "passes": 2},
                      "tokens adopted new_tokens total"),
    "memory": (bpe_seq, {"memory": "500MB"}, "tokens adopted new_tokens total"),
    "bpe-merge": (bpe_merge, {"superwords": 20, "min_count": 2}, "tokens own superwords total"),
    "unigram-merge": (unigram_merge, {"iterations": 3}, "tokens own at_the_floor total"),
    "no EM": (unigram_merge, {"iterations": 0}, "tokens own at_the_floor total"),
}  # fmt: skip
LEFT_OUT = {
    "min_count",
    "sample_weight",
    "left_out_words",
    "left_out_occurrences",
    "left_out_bytes",
}
COMMON = {"language", "output", "signature"}


def again(learn: Any, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of two runs, which are equal but for times; and what both warn of."""
    first, second = Silent(), Silent()
    rows = learn(**options, progress=first).rows()
    repeated = learn(**options, progress=second).rows()
    assert repeated == [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    assert [each for each in second.warnings if "already finished" not in each] == [
        each for each in first.warnings if "EM did not converge" not in each
    ]
    return rows, second.warnings


@pytest.mark.parametrize("name", BUILDS)
def test_the_second_report_is_the_first(name: str, tmp_path: Path) -> None:
    learn, options, columns = BUILDS[name]
    place = {"data": SAMPLE / "data", "output": tmp_path / "made", "k": 600}
    rows, said = again(learn, languages="fr,fi,sw", **place, **options)
    assert any("is already finished with these settings" in each for each in said)
    expected = COMMON | set(columns.split()) | (LEFT_OUT if "min_count" in options else set())
    assert expected <= rows[0].keys() <= expected | {"seconds", "certain_merges"}


@pytest.mark.parametrize("learn", [bpe_seq, bpe_merge])
def test_the_second_report_of_an_extension_is_the_first(learn: Any, tmp_path: Path) -> None:
    learn("fi,sw", data=SAMPLE / "data", output=tmp_path / "old", k=600)
    place = {"data": SAMPLE / "data", "tokenizer": tmp_path / "old", "output": tmp_path / "new"}
    rows, _ = again(learn, append="fr", **place)
    assert [row["language"] for row in rows] == ["fr"]
    if learn is bpe_merge:
        rows, _ = again(learn, remove="fr", **{**place, "tokenizer": tmp_path / "new",
                                               "output": tmp_path / "less"})  # fmt: skip
        assert [row["language"] for row in rows] == ["fi", "sw"]
