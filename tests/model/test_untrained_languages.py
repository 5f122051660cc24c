"""A run knows the languages that it was trained in, though its tokenizer has others."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.evaluate.evaluate import evaluate_bpb, evaluate_mcq
from modtok_cli.model.export.export import export
from modtok_cli.model.generate.generate import generate
from modtok_cli.model.load import load, open_model
from modtok_cli.model.serve.served_directory import served_run
from modtok_cli.model.serve.served_languages import ServedLanguages
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.model.slice.slice_directory import read_facts
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training.rundir import trained_languages

FINNISH = (SAMPLE / "parallel" / "fi.txt").read_text("utf-8").splitlines()[0]


@pytest.fixture(scope="module")
def some(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run as if it had been trained in English and French only."""
    place = tmp_path_factory.mktemp("some") / "runs" / "some"
    shutil.copytree(run, place)
    config = orjson.loads((place / "config.json").read_bytes())
    config["mixture"] = {"el": 0.0, "en": 0.7, "fr": 0.3}
    (place / "config.json").write_bytes(orjson.dumps(config))
    return place


def test_prompts_are_routed_among_trained_languages(some: Path, run: Path) -> None:
    prompts = [FINNISH, "12345", "Emma habite"]
    assert generate(run, prompts, "auto", max_tokens=1)[0]["languages"] == ["fi"]
    rows = generate(some, prompts, "auto", max_tokens=1)
    assert all(set(row["languages"]) <= {"en", "fr"} for row in rows)
    # The whole vocabulary is that of T, and is called by the languages of the run.
    (row,) = generate(some, [FINNISH], max_tokens=1)
    assert row["languages"] == ["en", "fr"]
    assert load(some).tokenizer_in.size == ModularTokenizer.load(some / "tokenizer").size


REFUSED: dict[str, Callable[[Path, Path], Any]] = {
    "generate": lambda some, place: generate(some, ["a"], "fi"),
    "an output side": lambda some, place: generate(some, ["a"], outputs="fi"),
    "slice": lambda some, place: slice_model(some, "en,fi", output=place),
    "export": lambda some, place: export(some, languages="fi", output=place),
    "mcq": lambda some, place: evaluate_mcq(some, "fi", data=SAMPLE / "tasks"),
    "a union": lambda some, place: evaluate_mcq(some, "en", data=SAMPLE / "tasks", infer="en,fi"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_languages_are_refused_by_name(some: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"language 'fi'.*(en, fr|en,fr)"):
        REFUSED[name](some, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_evaluations_cover_trained_languages(some: Path) -> None:
    found = evaluate_mcq(some, data=SAMPLE / "tasks", limit=1)
    assert {result.language for result in found.results} == {"en", "fr"}
    progress = Silent()
    texts = [SAMPLE / "parallel" / f"{name}.txt" for name in ("fi", "fr")]
    rows = evaluate_bpb(some, texts, limit=1, progress=progress).rows
    assert [row["language"] for row in rows] == ["fr"]
    assert any("skipped text in fi" in line for line in progress.warnings)


def test_requests_to_a_server(some: Path, tmp_path: Path) -> None:
    place = served_run(some, tmp_path / "served")
    assert read_facts(place).inputs == ("en", "fr")
    served = ServedLanguages.of(place)
    assert set(served.chosen(None, [FINNISH]).output.split(",")) <= {"en", "fr"}
    assert served.chosen("full", [])[:2] == ("", "")
    for wrong in ("fi", ["en", "fi"]):
        with pytest.raises(UsageError, match=r"has no language 'fi'; it has: en, fr"):
            served.chosen(wrong, [])
    with pytest.raises(UsageError, match="has no language 'fi'"):
        ServedLanguages.of(place, "fi")
    # A run that has more languages now, at the same step, is written again.
    config = orjson.loads((some / "config.json").read_bytes())
    try:
        (some / "config.json").write_bytes(orjson.dumps({**config, "mixture": {"fr": 1}}))
        assert read_facts(served_run(some, place, force=True)).inputs == ("fr",)
    finally:
        (some / "config.json").write_bytes(orjson.dumps(config))


def test_a_slice_of_everything_stays_one(some: Path, tmp_path: Path) -> None:
    slice_model(some, inputs="full", outputs="fr", output=tmp_path / "full")
    facts = read_facts(tmp_path / "full")
    assert (facts.inputs, facts.full_inputs) == (("en", "fr"), True)
    slice_model(tmp_path / "full", append="en", origin=some, output=tmp_path / "more")
    more = read_facts(tmp_path / "more")
    assert (more.full_inputs, more.outputs, len(more.ids)) == (True, ("en", "fr"), len(facts.ids))
    assert open_model(tmp_path / "full").languages == ("en", "fr")


def test_what_counts_as_trained(run: Path) -> None:
    tokenizer = ModularTokenizer.load(run / "tokenizer")
    assert tokenizer.languages == ("el", "en", "fi", "fr")
    config = {"mixture": {"fr": 1.0, "en": 0.0}}
    assert trained_languages(config, tokenizer) == ("fr",)
    assert trained_languages({**config, "initial": {"languages": ["en"]}}, tokenizer) == (
        "en",
        "fr",
    )
    assert trained_languages({**config, "grafted": {"languages": ["fi"]}}, tokenizer) == (
        "fi",
        "fr",
    )
    # A model of transformers that lacks a token of one language has the rows of all others.
    columns = tokenizer.token_membership
    for place, name in enumerate(tokenizer.languages):
        own = columns[:, place] & ~np.delete(columns[:], place, axis=1).any(1)
        new = np.zeros(tokenizer.size, dtype=bool)
        new[np.flatnonzero(own)[0]] = True
        stored = {"new_rows": b64encode(np.packbits(new).tobytes()).decode()}
        found = trained_languages({"mixture": {}, "initial": stored}, tokenizer)
        assert found == tuple(each for each in tokenizer.languages if each != name)
