"""Fine-tuning as other tools do it: graft, PEFT settings and the commands of the guide."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE


@pytest.fixture
def model(workspace: Path) -> Path:
    if not find_spec("transformers"):
        pytest.skip("needs the extra [lm]")
    from helpers.external_models import build

    (workspace / "data").mkdir()
    for language in ("en", "fi", "fr"):
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", workspace / "data")
    return build(workspace / "model", "Qwen2")


def modtok(here: Any, line: str) -> tuple[int, str, str]:
    result: tuple[int, str, str] = here(*line.split())
    return result


def test_a_slice_is_grafted_onto_its_model(model: Path, here: Any) -> None:
    assert modtok(here, "slice model --langs fr -o part")[0] == 0
    line = "graft part --onto model --slice part --any-weights --convert -o whole --json"
    status, out, err = modtok(here, line)
    assert status == 0, err
    rows = {row["part"]: row for row in map(json.loads, out.splitlines())}
    assert rows["backbone"]["saved"] == 0
    assert 0 < rows["vocabulary rows"]["saved"] < 1
    for name in ("model.safetensors", "tokenizer.json"):
        assert (Path("whole") / name).read_bytes() == (model / name).read_bytes()
    status, out, err = modtok(here, "graft part --onto model -o again --report data/fr.txt")
    assert status == 0, err
    for line, message in (
        ("graft part --onto model -o whole", "already exists"),
        ("graft part --onto data -o new", "is not the Hugging Face model that part is a slice of"),
        ("graft nothing --onto model -o new", "does not exist"),
        ("graft part --onto model -o new --report nowhere", "nowhere"),
        ("graft model --onto model -o new", "--slice DIR"),
    ):
        status, _, err = modtok(here, line)
        assert status in (1, 2), line
        assert message in err, err
        assert not Path("new").exists()
