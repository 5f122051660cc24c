"""Growing a trained run: a language appended to its tokenizer, its weights carried over."""

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch

from helpers.metrics import numbers, read_metrics
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.inference.load import load
from modtok_cli.training.loop import pretrain
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE, TOY, interrupt

OLD = ("el", "en", "fi")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a tokenizer and a run of three languages."""
    place = tmp_path_factory.mktemp("finished") / "workspace"
    bpe_seq(OLD, data=SAMPLE, output=place / "tokenizer", k=500, references=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(PRESETS, "toy", TOY)
        pretrain(settings_of(place))
    return place


def settings_of(place: Path) -> RunSettings:
    return RunSettings(
        model="toy", langs=OLD, sampling="sub:1", data=SAMPLE, tokenizer=place / "tokenizer",
        runs=place / "runs", workers=0, steps=12, eval_every=6, save_every=4, name="old",
        eval_bytes=600,
    )  # fmt: skip


@pytest.fixture
def old(finished: Path, tmp_path: Path) -> RunSettings:
    """A finished run of three languages, in the workspace `tmp_path`."""
    shutil.copytree(finished, tmp_path, symlinks=True, dirs_exist_ok=True)
    return settings_of(tmp_path)


@pytest.fixture
def grown(old: RunSettings, tmp_path: Path) -> RunSettings:
    """Settings that continue it with French appended."""
    larger = tmp_path / "larger"
    shutil.copytree(Path(str(old.tokenizer)), larger)
    bpe_seq(append=("fr",), output=larger, data=SAMPLE, references=False)
    return RunSettings(
        init_from=old.runs / "old", langs=("fr",), sampling="none", data=SAMPLE, tokenizer=larger,
        runs=old.runs, workers=0, steps=8, eval_every=4, save_every=4, lr=1e-2, name="grown",
        eval_bytes=600,
    )  # fmt: skip


def logits(run: Path, tokenizer: Path, languages: list[str]) -> torch.Tensor:
    model = load(run, languages, tokenizer=tokenizer)
    ids = torch.tensor([[model.end_of_text, *model.encode_in("Ja yksi, one, \u03ad\u03bd\u03b1")]])
    return model.logits(ids)


@pytest.mark.parametrize("offload", [False, True])
def test_old_languages_are_unchanged_by_train_rows(
    old: RunSettings, grown: RunSettings, offload: bool
) -> None:
    rows = replace(grown, train="rows", offload=offload or None)
    pretrain(rows)
    for languages in (["fi"], ["el", "en"], list(OLD)):
        before = logits(old.runs / "old", old.tokenizer, languages)
        after = logits(old.runs / "grown", grown.tokenizer, languages)
        assert torch.equal(before, after)
    bits = [
        line["bits_per_byte"] for line in read_metrics(old.runs / "grown") if "held_out" in line
    ]
    assert bits[-1] < bits[0]
    stored = orjson.loads((old.runs / "grown" / "config.json").read_bytes())
    assert stored["initial"]["languages"] == list(OLD)
    words = shlex.split(stored["command"])
    assert words[words.index("--init-from") + 1] == str(rows.init_from)
    assert "--train" in words
    assert "--model" not in words


def test_train_all_changes_everything(old: RunSettings, grown: RunSettings) -> None:
    pretrain(replace(grown, langs=("en", "fr"), sampling="full"))
    before = logits(old.runs / "old", old.tokenizer, ["en"])
    after = logits(old.runs / "grown", grown.tokenizer, ["en"])
    assert not torch.allclose(before, after)


def test_spelled_rows_start_better_than_random_ones(old: RunSettings, grown: RunSettings) -> None:
    first = {}
    for rows in ("spelling", "random"):
        settings = replace(grown, init_rows=rows, steps=1, lr=1e-9, name=rows)
        pretrain(settings)
        first[rows] = read_metrics(old.runs / rows)[-1]["bits_per_byte"]
    assert first["spelling"] < first["random"]


def test_a_grown_run_resumes_to_the_bit(grown: RunSettings, before_step: Any) -> None:
    rows = replace(grown, train="rows")
    pretrain(replace(rows, name="unbroken"))
    for stop in (2, 7):  # before the first checkpoint; after it the old run is needed no more
        before_step(stop, interrupt)
        name = f"stopped-{stop}"
        with pytest.raises(KeyboardInterrupt):
            pretrain(replace(rows, name=name))
        before_step(0, interrupt)
        if stop == 7:
            shutil.rmtree(Path(str(grown.init_from)))
        pretrain(RunSettings(runs=grown.runs, name=name), resume=True)
        assert numbers(grown.runs / name) == numbers(grown.runs / "unbroken")


def test_a_tokenizer_that_does_not_contain_the_old_one(
    old: RunSettings, grown: RunSettings, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    bpe_seq(("en", "fr"), data=SAMPLE, output=other, k=500, references=False)
    with pytest.raises(UsageError, match=r"--train rows: the tokenizer does not contain the one"):
        pretrain(replace(grown, tokenizer=other, train="rows"))
    # Without frozen rows it is a tokenizer like any other: rows are carried over by token.
    pretrain(replace(grown, tokenizer=other, steps=1))
    with pytest.raises(UsageError, match="the tokenizer has no token that is new"):
        pretrain(replace(grown, tokenizer=old.tokenizer, langs=("fi",), train="rows", name="x"))


def test_what_does_not_go_together(old: RunSettings, grown: RunSettings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--train: needs --init-from"):
        pretrain(replace(old, train="rows", name="x"))
    with pytest.raises(UsageError, match="nothing: does not exist"):
        pretrain(replace(grown, init_from=tmp_path / "nothing"))
    with pytest.raises(UsageError, match="is not a run, nor a model in safetensors"):
        pretrain(replace(grown, init_from=tmp_path))
    (old.runs / "old" / "checkpoints").rename(tmp_path / "away")
    with pytest.raises(ModtokError, match="has no checkpoint yet"):
        pretrain(grown)
