"""The study on a toy model, and text drawn from one."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.toy_preset import toy_preset
from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.study import continue_texts, study_sampling

from .conftest import SAMPLE

TOY = toy_preset(llama(1, 32, 8, 88), 32, 4, 2, 3, 1, 3e-3)


def test_every_regime_under_every_inference_set(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "toy", TOY)
    data = tmp_path / "data"
    data.mkdir()
    for language in ("en", "fi"):
        shutil.copy(SAMPLE / f"{language}.jsonl", data)
    settings = RunSettings(
        model="toy",
        data=data,
        tokenizer=tokenizer,
        runs=tmp_path / "runs",
        workers=0,
        eval_bytes=600,
    )
    rows = study_sampling(settings, ["none", "sub:1"], samples=3, tokens=4)
    keys = [(row["sampling"], row["inference"], row["language"]) for row in rows]
    sets = [("lang", "en"), ("full", "en"), ("lang", "fi"), ("full", "fi"), ("en+lang", "fi")]
    assert keys == [(regime, *each) for regime in ("none", "sub:1") for each in sets]
    assert all(0 < row["bits_per_byte"] < 20 for row in rows)
    assert all(0 <= row["in_language"] <= 1 and row["texts"] > 0 for row in rows)
    assert rows[1]["vocabulary"] > rows[0]["vocabulary"]
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").glob("study-*/metrics.jsonl")}
    again = study_sampling(settings, ["none", "sub:1"], samples=3, tokens=4)
    assert again == rows  # finished runs are measured, not trained again
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    # Of several p and seeds only what is new is trained: regimes without p once for each seed.
    more = study_sampling(
        settings, ["none", "sub:1"], probabilities=[0.5, 0.25], samples=3, tokens=4
    )
    assert [{**row, "p": 0.5} for row in more][: len(rows)] == rows
    assert [(row["sampling"], row["p"]) for row in more[len(rows) :]] == [("sub:1", 0.25)] * 5
    seeds = study_sampling(settings, ["none"], seeds=[0, 1], samples=3, tokens=4)
    assert seeds[:5] == rows[:5]
    assert [row["seed"] for row in seeds] == [0] * 5 + [1] * 5
    assert seeds[5]["bits_per_byte"] != rows[0]["bits_per_byte"]
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}
    assert {path.name for path in (tmp_path / "runs").glob("study-*")} == {
        *("study-none", "study-sub-1", "study-sub-1-p-0.25", "study-none-seed-1"),
    }
    with pytest.raises(UsageError, match="trained with other settings"):
        study_sampling(replace(settings, seed=1), ["none"])
    shutil.copy(SAMPLE / "fr.jsonl", data)
    with pytest.raises(UsageError, match=r"trained with other settings \(langs\)"):
        study_sampling(settings, ["none"])


def test_what_cannot_be_finished_is_not_begun(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "toy", TOY)
    data = tmp_path / "data"
    data.mkdir()
    for language in ("en", "fi"):
        shutil.copy(SAMPLE / f"{language}.jsonl", data)
    settings = RunSettings(
        model="toy",
        data=data,
        tokenizer=tokenizer,
        runs=tmp_path / "runs",
        workers=0,
        eval_bytes=600,
    )
    with pytest.raises(UsageError, match="use sub:1 at most"):
        study_sampling(settings, ["none", "sub:2"])
    partly = tmp_path / "tokenizer"
    shutil.copytree(tokenizer, partly)
    (partly / "references" / "fi.json").unlink()
    with pytest.raises(ModtokError, match="no reference for language 'fi'"):
        study_sampling(replace(settings, tokenizer=partly), ["none"])
    assert not (tmp_path / "runs").exists()


def test_drawn_text_stays_in_the_vocabulary_and_follows_the_seed(
    subtokenizers: SubtokenizerCache,
) -> None:
    model = Model(llama(1, 32, 8, 88), subtokenizers.size, start_ranks())
    finnish = subtokenizers.of(("fi",))
    prompts = [np.arange(5, dtype=np.int32), np.arange(7, 12, dtype=np.int32)]
    texts = continue_texts(model, finnish, prompts, 6, avoid=[0, 1], seed=1)
    assert texts == continue_texts(model, finnish, prompts, 6, avoid=[0, 1], seed=1)
    assert texts != continue_texts(model, finnish, prompts, 6, avoid=[0, 1], seed=2)
    forbidden = finnish.vocabulary.specials[0].encode()
    assert all(forbidden not in text for text in texts)
