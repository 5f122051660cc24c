"""Likelihoods under any causal language model of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch

from helpers.external_models import FAMILIES, build
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.inference.hf import causal_lm
from modtok_cli.inference.hf.causal_lm import CausalLM, window_bounds

DOCUMENTS = ["La maison est grande.", "", "The house is large, and old. " * 12, "a", "maison"]


def reference(path: Path, documents: list[str]) -> tuple[list[float], list[int]]:
    """Nats and tokens of each document, a window at a time, without a cache or a batch."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    width = model.config.max_position_embeddings
    nats, tokens = [], []
    for document in documents:
        ids = tokenizer(document, add_special_tokens=False).input_ids
        begins = tokenizer(document).input_ids[: -len(ids) or None]
        whole = [begins[0] if begins else model.config.bos_token_id, *ids]
        total = 0.0
        for start in range(0, len(ids), width):
            stop = min(start + width, len(ids))
            # Tokens start + 1 to stop of `whole`, after as many as fit.
            first = max(0, stop - width) if start else 0
            window = torch.tensor([whole[first : stop + 1]])
            with torch.no_grad():
                logits = model(window[:, :-1]).logits[0].double()
            lost = torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="none")
            total += float(lost[start - first :].sum())
        nats.append(total)
        tokens.append(len(ids))
    return nats, tokens


@pytest.mark.parametrize("family", FAMILIES)
def test_likelihoods_are_those_of_transformers(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = build(tmp_path / "model", family)
    nats, tokens = reference(path, DOCUMENTS)
    assert max(tokens) > 64  # several windows
    for logits in (1 << 26, 7 * 2 * 640):  # whole sequences, and seven positions at a time
        monkeypatch.setattr(causal_lm, "_LOGITS", logits)
        found = CausalLM(path).nats(DOCUMENTS, batch_size=2)
        np.testing.assert_allclose(found[0], nats, rtol=2e-5, atol=1e-5)
        assert found[1].tolist() == tokens


def test_windows_predict_each_token_once_with_all_context_that_fits() -> None:
    for count in range(20):
        for width in range(1, 9):
            bounds = list(window_bounds(count, width))
            predicted = [place for _, start, stop in bounds for place in range(start, stop)]
            assert predicted == list(range(count))
            for before, start, stop in bounds:
                assert 0 <= before <= start
                context = start - before if start else 1  # the token that begins a text
                assert context >= 1
                assert context + stop - start <= width + 1


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(tmp_path / "model")
    with pytest.raises(UsageError, match=r"has no config.json"):
        CausalLM(tmp_path)
    config: dict[str, Any] = orjson.loads((path / "config.json").read_bytes())
    (path / "config.json").write_bytes(orjson.dumps({**config, "model_type": "nothing"}))
    with pytest.raises(ModtokError, match="transformers does not open it"):
        CausalLM(path).nats(["a"])
    (path / "config.json").write_bytes(orjson.dumps(config))
    opened = CausalLM(path)
    _ = opened.hf_tokenizer
    monkeypatch.setattr("modtok_cli.base.memory.available", lambda: 1000)
    with pytest.raises(ModtokError, match=r"measuring with .* needs about .* use a machine"):
        opened.nats(["a"])
