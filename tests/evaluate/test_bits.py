"""Bits per byte: by hand, under every mode; windows of long texts; languages."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from helpers.handmade_tokenizers import write_text
from helpers.questions import by_hand
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.evaluate.evaluate import evaluate_bpb
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.load import load

LINES = ["Le marché ouvre à l’arrivée de la charrette.", "Où est la reine ?", "x"]


@pytest.fixture(scope="module")
def model(few_steps: Path) -> SlicedModel:
    return load(few_steps, ["fr"])


@pytest.mark.parametrize("mode", ["lang", "full", "en,fr", "full-lang"])
def test_bits_by_hand(few_steps: Path, tmp_path: Path, model: SlicedModel, mode: str) -> None:
    (path,) = write_text(tmp_path, fr=LINES)
    found = evaluate_bpb(few_steps, [path], infer=mode)
    (row,) = found.rows
    sides = {"full": "full", "en,fr": ["en", "fr"]}
    under = model.with_vocabulary(sides.get(mode, ["fr"]))
    bits = [-by_hand(under, "", line) / log(2) for line in LINES]
    assert [each["bits"] for each in found.examples] == pytest.approx(bits, rel=1e-4)
    size = sum(len(line.encode()) for line in LINES)
    counts = {"byte": size, "character": sum(map(len, LINES)), "token": row["tokens"]}
    for unit, count in counts.items():
        assert row[f"bits_per_{unit}"] == pytest.approx(sum(bits) / count, rel=1e-5)
    assert (row["documents"], row["bytes"], row["infer"]) == (3, size, mode)
    assert row["low"] <= row["bits_per_byte"] <= row["high"]
    assert row["tokens"] == sum(len(under.encode_out(line)) for line in LINES)
    assert f"|infer:{mode.replace('|', '/')}:" in row["signature"]


def test_languages_of_texts(few_steps: Path, tmp_path: Path) -> None:
    texts = write_text(tmp_path, fr=LINES, en=["The sea is wide."], sw=["Bahari ni pana."])
    said = Silent()
    rows = evaluate_bpb(few_steps, texts, progress=said).rows
    assert sorted(row["language"] for row in rows) == ["en", "fr"]
    assert any("skipped text in sw" in line for line in said.warnings)
    rows = evaluate_bpb(few_steps, texts, infer="full", limit=1).rows
    assert sorted((row["language"], row["documents"]) for row in rows) == [
        ("en", 1), ("fr", 1), ("sw", 1),
    ]  # fmt: skip
    evaluate_bpb(few_steps, texts, languages="en,de", limit=1, progress=said)
    assert "no text in de" in said.warnings
    with pytest.raises(ModtokError, match="no text in a language of the model, only in sw"):
        evaluate_bpb(few_steps, texts[2:])
    # Empty documents are left out: a draw of the bootstrap with these alone would have no ratio.
    (tmp_path / "lines.md").write_text(f"{LINES[0]}\n\n{LINES[1]}\n")
    (row,) = evaluate_bpb(few_steps, [tmp_path / "lines.md"], language="fr", limit=2).rows
    assert (row["documents"], row["bytes"]) == (2, sum(len(line.encode()) for line in LINES[:2]))
    (tmp_path / "lines.txt").write_text(LINES[0] + "\n")
    (row,) = evaluate_bpb(few_steps, [tmp_path / "lines.txt"], language="fr").rows
    assert (row["language"], row["low"]) == ("fr", None)  # one document: no interval
