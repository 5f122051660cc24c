"""Recipe files: read, written, and overridden by flags."""

from pathlib import Path

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.training.config import Settings, resolve
from modtok_cli.training.recipe import as_sections, read_recipe, write_recipe


def test_a_resolved_configuration_is_a_recipe(tmp_path: Path) -> None:
    given = Settings(
        mix={"en": 0.4}, langs=("en", "fi"), layers=3, lr=1e-3, offload=True, data=Path('a "b" ä')
    )
    config = resolve(given, gpu=False)
    assert config.shape.layers == 3
    path = tmp_path / "recipe.toml"
    path.write_text(write_recipe(config))
    again = resolve(Settings(**read_recipe(path)), gpu=True)
    assert again.as_json() == config.as_json()
    assert as_sections(config)["architecture"]["hidden_size"] == 128


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "is not TOML"),
        ("a = 1", r"unknown section \[a\]; use the sections data, architecture"),
        ("[data]\nsteps = 3", r"\[data\] steps: unknown key; use sampling"),
        ("[schedule]\nsteps = 0", r"\[schedule\] steps: expected at least 1"),
        ('[schedule]\nlr = "x"', r"\[schedule\] lr: expected a number, got 'x'"),
        ("[schedule]\nlr = true", r"\[schedule\] lr: expected a number, got True"),
    ],
)
def test_invalid_recipes(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_recipe(path)
    with pytest.raises(UsageError, match="cannot read: No such file"):
        read_recipe(tmp_path / "none.toml")


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="--kv-heads: does not fit the other sizes"):
        resolve(Settings(heads=6, kv_heads=4), gpu=False)
