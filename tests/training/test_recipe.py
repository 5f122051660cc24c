"""Recipe files: read, written, and overridden by flags."""

import re
from pathlib import Path

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.model.architecture.sizes import RECIPES, SIZES
from modtok_cli.training.recipe import (
    PRESETS,
    as_sections,
    read_assignments,
    read_recipe,
    write_recipe,
)
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.stored_config import config_as_json


def test_a_resolved_configuration_is_a_recipe(tmp_path: Path) -> None:
    given = RunSettings(
        mix={"en": 0.4}, langs=("en", "fi"), layers=3, lr=1e-3, offload=True, data=Path('a "b" ä')
    )
    config = resolve(given, gpu=False)
    assert config.shape.layers == 3
    path = tmp_path / "recipe.toml"
    path.write_text(write_recipe(config))
    again = resolve(RunSettings(**read_recipe(path)), gpu=True)
    assert config_as_json(again) == config_as_json(config)
    assert as_sections(config)["architecture"]["hidden_size"] == 128


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "invalid TOML"),
        ("\na = 1", r"recipe.toml:2: unknown section \[a\]; use data, architecture"),
        ("[data.mix]\nen = 2\nfi = 'x'", r"recipe.toml:1: \[data\] mix: expected shares such"),
        ("[data]\np = 1\n[data.'mix'.x-y]", r"recipe.toml:3: \[data\] mix: expected shares such"),
        ("[data]\nsteps = 3", r"unknown key of \[data\]; did you mean steps in \[schedule\]\?"),
        ("[data]\nmicro-batch = 3", r"unknown key of \[data\]; did you mean micro_batch\?"),
        ("[optimizer]\nzzz = 3", r"unknown key of \[optimizer\]; use update, beta1"),
        ("[schedule]\nsteps = 0", r"\[schedule\] steps: expected at least 1"),
        ('[schedule]\nlr = "x"', r"\[schedule\] lr: expected a number, got 'x'"),
        ("[schedule]\nlr = true", r"\[schedule\] lr: expected a number, got True"),
        ("[data]\nlangs = ['fi', 3]", r"\[data\] langs: expected a list of languages, got"),
    ],
)
def test_invalid_recipes(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_recipe(path)
    with pytest.raises(UsageError, match="does not exist"):
        read_recipe(tmp_path / "none.toml")


def test_assignments() -> None:
    words = ["schedule.final_lr=1e-5", "architecture.tied=true", "optimizer.decay_params=norms"]
    assert read_assignments(words) == {
        "final_lr": 1e-5, "tied": True, "decay_params": ("norms",)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["final_lr=1"], "--set: expected SECTION.KEY=VALUE, got 'final_lr=1'; as in --set sche"),
        (["schedul.lr=1"], "--set schedul.lr: unknown section [schedul]; use data, archit"),
        (["schedule.lrs=1"], "--set schedule.lrs: unknown key of [schedule]; did you mean lr?"),
        (["data.lr=1"], "--set data.lr: unknown key of [data]; did you mean lr in [schedule]?"),
        (["schedule.lr=x"], "--set schedule.lr: expected a number greater than 0, got 'x'"),
        (["schedule.lr=1", "schedule.lr=2"], "--set schedule.lr: is given twice; give it once"),
    ],
)
def test_invalid_assignments(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        read_assignments(words)


def test_a_preset_is_a_recipe_of_the_package() -> None:
    """--model NAME gives the run that --config with its file gives, but for the name."""
    for name in SIZES:  # other tests add presets
        file = RECIPES / f"{name}.toml"
        by_name = resolve(RunSettings(model=name), gpu=True)
        by_file = resolve(RunSettings(**read_recipe(file), model="tiny"), gpu=True)
        assert by_name.shape == by_file.shape == SIZES[name]
        differing = {key for key in OPTIONS if by_name[key] != by_file[key]}
        assert differing <= {"model"}
        for key in ("layers", "head_width", "batch_size", "micro_batch", "steps", "lr"):
            assert by_name[key] == PRESETS[name][key]


def test_presets_are_overridden_and_fit_the_options() -> None:
    config = resolve(RunSettings(model="2.5b", steps=50, batch_size=1), gpu=True)
    assert (config.schedule.warmup, config.data.micro_batch) == (5, 1)
    assert (PRESETS["7b-32"]["layers"], PRESETS["7b-32"]["hidden_size"]) == (32, 4096)


def test_options_that_make_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"layers": 1, "hidden_size": 8, "ffn": 8, "heads": 2, "kv_heads": 2, "head_width": 4}
    monkeypatch.setitem(PRESETS, "mine", sizes)
    for settings, message in (
        (RunSettings(model="mine"), "--batch-size: preset 'mine' does not set it"),
        (RunSettings(model="9b"), "--model: preset '9b' does not exist; choose from tiny"),
        (RunSettings(heads=6, kv_heads=4), "architecture.kv_heads: does not fit the other sizes"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve(settings, gpu=False)
