"""What a run refuses, and what it leaves behind when it stops."""

from dataclasses import replace
from typing import Any

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.pretrain import loop
from modtok_cli.pretrain.config import Settings
from modtok_cli.pretrain.loop import pretrain
from modtok_cli.pretrain.model import Model
from modtok_cli.pretrain.rundir import read_metrics

from .test_run import _toy, numbers, settings  # noqa: F401  (fixtures)


def test_huge_weights_are_not_saved_between_evaluations(settings: Settings) -> None:  # noqa: F811
    wild = replace(settings, lr=1e38, warmup=4, eval_every=6, save_every=1)
    with pytest.raises(ModtokError, match=r"after step 1 held-out text has no finite loss.*--lr"):
        pretrain(wild)
    assert not (settings.runs / "it" / "checkpoints").exists()


def test_an_infinite_row_is_not_saved_between_evaluations(
    settings: Settings,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = loop.train_step

    def poisoned(run: Any, model: Model, feed: Any, step: int) -> dict[str, Any]:
        line = whole(run, model, feed, step)
        if step == 4:  # an idle row: no loss ever tells of it
            model.output.moment2[model.output.steps == 0] = float("inf")
        return line

    monkeypatch.setattr(loop, "train_step", poisoned)
    far = replace(settings, eval_every=6)
    with pytest.raises(ModtokError) as caught:
        pretrain(far)
    assert "after step 4 'output.moment2' is not finite" in str(caught.value)
    assert "the checkpoint of step 2 is kept; try a lower --lr in another run" in str(caught.value)
    kept = [path.name for path in (settings.runs / "it" / "checkpoints").iterdir()]
    assert kept == ["step-00000002"]
    monkeypatch.setattr(loop, "train_step", whole)
    pretrain(far, resume=True)
    assert read_metrics(settings.runs / "it")[-1]["step"] == 6


def test_looking_before_saving_changes_no_number(settings: Settings) -> None:  # noqa: F811
    pretrain(replace(settings, eval_every=6, save_every=1))
    pretrain(replace(settings, eval_every=6, save_every=6, name="seldom"))
    assert numbers(settings.runs / "it") == numbers(settings.runs / "seldom")
