"""What a resumed run remembers, what may change, and what it takes to find its files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import fsspec
import orjson
import pytest

from helpers.metrics import numbers, read_metrics
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.remote import path_of
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.training.loop import pretrain
from modtok_cli.training.plan import plan
from modtok_cli.training.settings import RunSettings

from .conftest import LANGUAGES, SAMPLE


def rates(run: Path) -> list[float]:
    return [line["lr"] for line in read_metrics(run) if "lr" in line]


def stored(run: Path) -> dict[str, object]:
    config: dict[str, object] = orjson.loads((run / "config.json").read_bytes())["config"]
    return config


def test_more_steps_keep_the_schedule(settings: RunSettings) -> None:
    pretrain(settings)
    before = rates(settings.runs / "it")
    said = Said()
    pretrain(RunSettings(runs=settings.runs, steps=9), resume=True, progress=said)
    assert rates(settings.runs / "it") == [*before, *[pytest.approx(3e-4)] * 3]
    assert any("stays at 0.0003 after step 6" in note for note in said.notes)
    assert stored(settings.runs / "it")["steps"] == 9
    assert stored(settings.runs / "it")["lr_steps"] == 6
    with pytest.raises(UsageError, match=r"with other settings: --set schedule.lr_steps; leave"):
        pretrain(RunSettings(runs=settings.runs, lr_steps=9), resume=True)


def test_a_changed_option_is_said_and_stored(settings: RunSettings) -> None:
    pretrain(settings)
    said = Said()
    pretrain(
        RunSettings(runs=settings.runs, steps=7, recompute=1, keep=3, save_every=1),
        resume=True,
        progress=said,
    )
    assert {
        "--set parallelism.recompute is now 1, was None",
        "--save-every is now 1, was 2",
    } <= set(said.notes)
    found = stored(settings.runs / "it")
    assert (found["recompute"], found["save_every"], found["workers"]) == (1, 1, 0)


def test_a_tokenizer_that_contains_the_runs_is_accepted(
    settings: RunSettings, tmp_path: Path
) -> None:
    tokenizer = tmp_path / "tokenizer"
    bpe_seq(["el", "en"], data=SAMPLE, output=tokenizer, k=400, references=False)
    both = replace(settings, tokenizer=tokenizer, langs=("el", "en"))
    pretrain(both)
    pretrain(replace(both, steps=8, name="unbroken"))
    bpe_seq(append=["fi"], data=SAMPLE, output=tokenizer)
    said = Said()
    pretrain(RunSettings(runs=settings.runs, name="it", steps=8), resume=True)
    more = RunSettings(runs=settings.runs, name="it", steps=9, tokenizer=tokenizer)
    pretrain(more, resume=True, progress=said)
    assert any("contains the run's tokenizer (all" in note for note in said.notes)
    other = tmp_path / "other"
    bpe_seq(LANGUAGES, data=SAMPLE, output=other, k=450, references=False)
    with pytest.raises(ModtokError, match=r"which .*other does not contain"):
        pretrain(replace(more, tokenizer=other), resume=True)


@pytest.mark.parametrize("change", [{"batch_size": 10**9}, {"seq_length": 10**9}])
def test_steps_beyond_memory_are_refused_at_once(
    settings: RunSettings, change: dict[str, int]
) -> None:
    large = replace(settings, **change)  # type: ignore[arg-type]
    for work in (pretrain, lambda given: plan(given, ranks=1)):
        with pytest.raises(ModtokError, match=r"batches of .* GiB are free; use a smaller"):
            work(large)  # type: ignore[operator]
    assert not (settings.runs / "it").exists()


def test_validation_text_in_object_storage(settings: RunSettings) -> None:
    store = fsspec.filesystem("memory")
    for file in settings.data.iterdir():
        store.pipe(f"/text/data/{file.name}", file.read_bytes())
        store.pipe(f"/valid/data/{file.name}", file.read_bytes())
    far = replace(settings, valid="far=memory://valid/data")
    pretrain(far)
    expected = numbers(settings.runs / "it")
    assert any("far" in line.get("valid", {}) for line in expected)
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    pretrain(RunSettings(runs=settings.runs), resume=True)
    assert numbers(settings.runs / "it") == expected
    # All files of a store have the inode 0.
    pretrain(replace(far, data=path_of("memory://text/data"), name="both"))
    assert numbers(settings.runs / "both") == expected
    with pytest.raises(UsageError, match="valid/data is the text of the run"):
        pretrain(replace(far, data=path_of("memory://valid/data"), name="same"))
