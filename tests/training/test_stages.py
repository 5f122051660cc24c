"""Runs of several stages: `[[stage]]` tables of a recipe."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.metrics import numbers
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT
from modtok_cli.model.slice.run_source import open_run
from modtok_cli.training import prepare, run_memory, run_texts
from modtok_cli.training.data.sampling import Draw
from modtok_cli.training.loop import pretrain
from modtok_cli.training.plan import plan
from modtok_cli.training.reads import samples_of_files
from modtok_cli.training.recipe import read_recipe, write_recipe
from modtok_cli.training.resolve import resolve, resumed
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.stages import StageTable
from modtok_cli.training.stored_config import at_step, config_as_json, config_from_json

from .conftest import LANGUAGES, SAMPLE, interrupt

RECIPE = """
[schedule]
steps = 4

[[stage]]
steps = 3
data = "best"
mix = { el = 0.25 }
batch_size = 6
schedule = "linear"
final_lr = 0
sources = { fi = { web = 3, wiki = 1 } }
[[stage]]
steps = 3
seq_length = 48
batch_size = 2
rope_theta = 5e5
lr = 1e-3
warmup = 2

[stage.mix]
fi = 0.9

[stage.sources.fi]
wiki = 1
"""


@pytest.fixture
def staged(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> RunSettings:
    """A mixture, then other text of two sources with a decay to zero, then longer sequences."""
    place = settings.data.data.parent
    monkeypatch.chdir(place)
    (place / "best" / "fi").mkdir(parents=True)
    for language, name, part in (
        ("el", "el", slice(60)),
        ("fi", "fi/web", slice(0, 60, 2)),
        ("fi", "fi/wiki", slice(1, 60, 2)),
    ):
        lines = (SAMPLE / f"{language}.jsonl").read_bytes().splitlines(keepends=True)
        (place / "best" / f"{name}.jsonl").write_bytes(b"".join(lines[part]))
    (place / "recipe.toml").write_text(RECIPE)
    return settings.changed(**read_recipe(Path("recipe.toml")), save_every=1, keep=20, dropout=0.1)


def saved(run: Path) -> dict[str, bytes]:
    """Weights, moments and row steps, and where the streams are, in each checkpoint there is."""
    files = [file for file in (run / "checkpoints").rglob("*") if file.is_file()]
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def test_what_each_stage_changes(staged: RunSettings) -> None:
    report = pretrain(staged)
    again = pretrain(RunSettings(runs=staged.runs, name="it"), resume=True)
    assert again.rows() == report.rows()  # of a finished run, as its last stage evaluates
    whole = staged.runs / "it"
    lines = [line for line in numbers(whole) if "loss" in line]
    assert [line["stage"] for line in lines] == [1] * 4 + [2] * 3 + [3] * 3
    sizes = [4 * 32] * 4 + [6 * 32] * 3 + [2 * 48] * 3
    assert [line["tokens"] for line in lines] == list(accumulate(sizes))
    rates = [line["lr"] for line in lines]
    assert rates[4:7] == pytest.approx([rates[3] * 2 / 3, rates[3] / 3, 0])
    assert rates[7:] == pytest.approx([5e-4, 1e-3, 1e-4])
    languages = [{Draw.parse(draw).language for draw in line["draws"]} for line in lines]
    assert set().union(*languages[4:]) <= {"el", "fi"}
    assert {"en"} <= set().union(*languages[:4])
    sources = {Draw.parse(draw).source for line in lines[7:] for draw in line["draws"]}
    assert sources <= {"", "wiki"}
    shares = next(
        line["shares"] for line in numbers(whole) if "shares" in line and line["step"] == 6
    )
    draws = Counter(Draw.parse(draw).text for line in lines[4:6] for draw in line["draws"])
    seen = {name: one["seen"] for name, one in shares.items()}
    assert seen == pytest.approx({name: draws[name] / draws.total() for name in shares}, abs=1e-6)
    assert shares["fi/web"]["planned"] == pytest.approx(0.75 * 0.75)
    for step, length, theta in ((7, 32, 1e5), (8, 48, 5e5)):
        found = open_run(whole, step=step)
        assert (found.context, found.shape.rope_theta) == (length, theta)
        assert found.config["mixture"].keys() == {*LANGUAGES}
    content = orjson.loads((whole / "config.json").read_bytes())
    content["mixture"], languages_of = {"en": 1.0}, ["en"]
    for stage, name in zip(content["stages"], ("el", "fi"), strict=True):
        stage["mixture"] = {name: 1.0}
    for step, name in ((1, "en"), (4, "en"), (5, "el"), (7, "el"), (8, "fi"), (10, "fi")):
        languages_of += [] if name in languages_of else [name]
        assert [*at_step(content, step, "x")["mixture"]] == languages_of  # of all until then


LATE = {"offload": True, "offload_moments": "bfloat16", "save_every": 2, "keep": 2, "keep_every": 3}


@pytest.mark.parametrize("change", [{}, LATE], ids=["resident", "late"])
def test_a_run_that_is_stopped_at_any_step_of_any_stage(
    staged: RunSettings, before_step: Any, change: dict[str, Any]
) -> None:
    """Metrics, and all files of the checkpoints that are kept, are those of an unbroken run."""
    options = staged.changed(**change)
    whole, part = staged.runs / "it", staged.runs / "part"
    pretrain(options)
    steps = {6, 8, 10} if change else {*range(1, 11)}  # the last two, and those divisible by 3
    assert {int(name.split("/")[1][5:]) for name in saved(whole)} == steps
    for step in range(2, 11):
        before_step(step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            pretrain(options.changed(name="part"))
        before_step(0, interrupt)
        pretrain(RunSettings(runs=staged.runs, name="part"), resume=True)
        assert numbers(part) == numbers(whole), step
        assert saved(part) == saved(whole), step
        shutil.rmtree(part)


def test_a_finished_run_goes_on_with_stages(staged: RunSettings) -> None:
    pretrain(staged)
    pretrain(staged.changed(stages=(), name="first"))
    more = RunSettings(runs=staged.runs, name="first", **read_recipe(Path("recipe.toml")))
    said = Said()
    pretrain(more.changed(stages=more.stages[:1]), resume=True)
    pretrain(more, resume=True, progress=said)
    assert any(
        "stage 3, from step 8 on, is now steps = 3, seq_length = 48" in n for n in said.notes
    )
    found = [line for line in numbers(staged.runs / "first") if "loss" in line]
    assert found == [line for line in numbers(staged.runs / "it") if "loss" in line]
    assert saved(staged.runs / "first") == saved(staged.runs / "it")
    for old, new, message in (
        ("steps = 3\ndata", "steps = 5\ndata", r"recipe.toml:6: .*\] steps: stage 2 has begun"),
        ("warmup = 2", "warmup = 1", r"recipe.toml:19: .*\] warmup: stage 3 has begun and "),
        ("steps = 4", "steps = 5", r"^--steps: stage 1 has ended .*: the run is at step 10; add"),
    ):
        Path("recipe.toml").write_text(RECIPE.replace(old, new))
        with pytest.raises(UsageError, match=message):
            pretrain(more.changed(**read_recipe(Path("recipe.toml"))), resume=True)
    with pytest.raises(UsageError, match=r"stage 3 is missing, which has begun: the run is at st"):
        pretrain(more.changed(stages=more.stages[:1]), resume=True)
    with pytest.raises(
        UsageError, match=r"^--config: has no \[\[stage\]\], and the run has 2; giv"
    ):
        pretrain(more.changed(stages=()), resume=True)
    Path("best").rename("moved")
    with pytest.raises(
        ModtokError, match=r"the text of stage 2 does not exist in .*best; give all"
    ):
        pretrain(RunSettings(runs=staged.runs, name="first"), resume=True)
    Path("recipe.toml").write_text(RECIPE.replace('"best"', '"moved"'))
    moved = read_recipe(Path("recipe.toml"))
    assert pretrain(more.changed(**moved), resume=True).step == 10
    (Path("moved") / "fi" / "wiki.jsonl").write_text('{"text": "toinen"}\n' * 60)
    with pytest.raises(ModtokError, match="the text has changed since the run was started"):
        pretrain(RunSettings(runs=staged.runs, name="first"), resume=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("warmup = 2", "warm_up = 2", r":19: \[\[stage\]\] warm_up: unknown key .*mean warmup\?"),
        ("warmup = 2", "seed = 2", r":19: \[\[stage\]\] seed: cannot change between stages; set"),
        ("steps = 3\nseq", "steps = 0\nseq", r":14: \[\[stage\]\] steps: expected at least 1"),
        ("steps = 3\nseq", "seq", r":13: \[\[stage\]\]: has no steps"),
        ("fi = 0.9", "xx = 0.9", r":21: \[\[stage\]\] mix: there is no text of language 'xx'"),
        ("el = 0.25", "en = 0.25", r":8: \[\[stage\]\] mix: there is no text of language 'en'"),
        ("web = 3", "web = 0", r":12: \[\[stage\]\] sources: expected weights above 0 of source"),
        ("web = 3", "x = 3", r":12: \[\[stage\]\] sources: there is no source 'x' of language 'fi"),
        ("batch_size = 6", "max_epochs = 0.01", r":9: \[\[stage\]\] max_epochs: the text of el is"),
        ('"best"', '"worst"', r":7: \[\[stage\]\] data: does not exist"),
        ("final_lr = 0", "final_lr = 1", r":11: \[\[stage\]\] final_lr: 1 is above the rate 0"),
        ('"linear"', '"constant"', r":11: \[\[stage\]\] final_lr: has no effect: the schedule"),
        ("warmup = 2", "decay_steps = 2", r":19: \[\[stage\]\] decay_steps: has no effect: the s"),
        ("lr = 1e-3\nwarmup = 2", "", r":13: \[\[stage\]\]: the learning rate is 0 in all of its"),
        ("batch_size = 6", "batch_size = 7", r":5: \[\[stage\]\]: .*not divisible into microbatch"),
        ("lr = 1e-3", 'lr = "default"', r":18: \[\[stage\]\] lr: expected a number"),
        ("5e5", "0.5", r":17: \[\[stage\]\] rope_theta: does not fit the other sizes"),
        ("mix = { el", 'sampling = "sub:2"\nmix = { el', r":8: \[\[stage\]\] sampling: sub:2"),
    ],
)  # fmt: skip
def test_bad_stages(staged: RunSettings, old: str, new: str, message: str) -> None:
    assert old in RECIPE
    Path("recipe.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(UsageError, match=rf"^recipe\.toml{message}"):
        plan(staged.changed(**read_recipe(Path("recipe.toml"))))


def test_stages_of_a_program_are_checked(staged: RunSettings) -> None:
    for options, message in (
        ({"warm_up": 2}, r"^\[\[stage\]\] warm_up: unknown key"),
        ({"lr": "fast"}, r"^\[\[stage\]\] lr: expected a number"),
        ({"mix": {"xx": 0.9}}, r"^\[\[stage\]\] mix: there is no text of language 'xx'"),
    ):
        with pytest.raises(UsageError, match=message):
            plan(staged.changed(stages=(StageTable(3, options),)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("fi = 0.9", "xx = 0.9", "there is no text of language 'xx'"),
        ('"best"', '"worst"', "data: does not exist"),
        ("mix = { el", 'sampling = "sub:2"\nmix = { el', "sampling: sub:2"),
    ],
)
def test_a_wrong_stage_is_refused_before_anything_is_loaded(
    staged: RunSettings, old: str, new: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((prepare, "start_ranks"), (prepare, "SubtokenizerCache"),
                         (run_texts, "text_stores")):  # fmt: skip
        monkeypatch.setattr(module, name, None)
    Path("recipe.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(UsageError, match=message):
        pretrain(staged.changed(**read_recipe(Path("recipe.toml"))))


def test_many_stages_are_read_once(staged: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage has a configuration with all stages: 3,000 take a second, not minutes."""
    tables = tuple({"steps": 1, "lr": 1e-3 * (1 + number % 5)} for number in range(3000))
    calls = []
    read = StageTable.read
    monkeypatch.setattr(StageTable, "read", lambda *of: calls.append(of) or read(*of))
    config = resolve(RunSettings(steps=1, stages=tables), gpu=False)
    assert (len(config.periods), len(calls)) == (3001, 3000)
    assert config.periods[-1].config.stages is config.stages
    last = config.periods[-1].config  # a run trains by it, and asks it for the learning rate
    monkeypatch.setattr(type(config), "_changed_by", None)
    assert last.lr_at(3001) == config.lr_at(3001)
    assert last.tokens == config.tokens


def test_stages_that_differ_in_their_rate_share_a_plan(
    staged: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = tuple(
        {"steps": 1, "lr": (1 + number % 5) / 1024, "mix": {"fi": (0.5, 0.9)[number // 5 % 2]}}
        for number in range(20)
    )
    staged = staged.changed(schedule="constant")
    alone = [plan(staged.changed(stages=tables[:count])).stages[-1] for count in (1, 8)]
    read, calls = samples_of_files, []
    monkeypatch.setattr(
        "modtok_cli.training.plan.samples_of_files", lambda *of: calls.append(of) or read(*of)
    )
    together = plan(staged.changed(stages=tables)).stages
    assert len(calls) == 3  # of the first stage, and of each mixture
    for stage, one in ((together[1], alone[0]), (together[8], alone[1])):
        assert {**stage.row, "hours": 0} == {**one.row, "hours": 0}
    assert [stage.row["lr"] for stage in together[1:]] == [table["lr"] for table in tables]


def test_a_plan_of_stages(staged: RunSettings) -> None:
    planned = plan(staged)
    shares = [stage.mixture.of_texts() for stage in planned.stages]
    assert shares[0]["en"] == pytest.approx(0.7)
    assert shares[1] == pytest.approx({"el": 0.25, "fi/web": 0.5625, "fi/wiki": 0.1875})
    assert shares[2] == pytest.approx({"el": 0.1, "fi/wiki": 0.9})
    assert [stage.row["tokens"] for stage in planned.stages] == [512, 576, 288]
    assert planned.rows()[0]["tokens"] == 1376
    best = planned.stages[1].reads["fi/wiki"] + planned.stages[2].reads["fi/wiki"]
    assert planned.reads["fi/wiki of best"] == pytest.approx(best)
    longer = plan(staged.changed(stages=({"steps": 1, "seq_length": 64},)))
    need = [sum(size for _, size in stage.memory.values()) for stage in longer.stages]
    whole = {row["part"]: row["bytes"] for row in longer.rows()}["all"]
    assert whole == need[1] > need[0]


def test_what_one_stage_needs_holds_for_all(
    staged: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def needed(config: Any, *_: Any) -> Any:
        return config.changed(recompute=int(config.data.batch_size == 6))

    monkeypatch.setattr(run_memory, "recomputed", needed)
    run = prepare.prepare(staged, resume=False, force=False, progress=SILENT)
    run.directory.close()
    assert (len(run.stages), run.recompute) == (3, 1)


def test_text_of_later_stages_counts(staged: RunSettings) -> None:
    """Their languages are evaluated too, and no stage trains on text of --valid."""
    later = {"steps": 300, "langs": ["en", "fi", "fr"]}
    few = staged.changed(langs=("el",), sampling="none", steps=300, stages=(later,))
    planned = plan(few.changed(eval_every=None, eval_bytes=None))
    assert planned.evaluation.endswith("bytes of each of 4 texts, about 10% of training's time")
    said = Said()
    short = few.changed(steps=1, stages=({**later, "steps": 1},))
    times = ceil(600 / planned.config.evaluation.eval_every)
    assert planned.evaluation.startswith(f"{times} evaluation")
    evaluated = {row["language"] for row in pretrain(short, progress=said).rows()}
    assert evaluated == {"el", "en", "fi", "fr"}
    assert any("bytes of each of 4 texts" in note for note in said.notes)
    with pytest.raises(UsageError, match="--valid: best is the text of the run"):
        pretrain(staged.changed(valid={"x": Path("best")}, name="valid"))


def test_a_recipe_of_stages_is_written_and_read(staged: RunSettings) -> None:
    Path("recipe.toml").write_text(f'{RECIPE}[[stage]]\nsteps = 1\nmix = "default"\n')
    staged = staged.changed(**read_recipe(Path("recipe.toml")))
    config = resolve(staged, gpu=False)
    assert [one.config.sampling.mix for one in config.periods] == [
        None,
        {"el": 0.25},
        {"fi": 0.9},
        None,
    ]
    assert config_from_json(config_as_json(config)).stages == config.stages
    Path("again.toml").write_text(write_recipe(config))
    again = RunSettings(**read_recipe(Path("again.toml")))
    assert resolve(again, gpu=False).stages == config.stages
    changed = RunSettings(stages=[{"steps": 1, "mix": {"fi": 0.5}}])
    short = config.changed(stages=config.stages[:1])
    assert "stage 2, from step 5 on, is now" in resumed(short, changed, "it", 4)[1][0]
    with pytest.raises(UsageError, match=r"stage 2 has begun and cannot change: .* step 5"):
        resumed(short, changed, "it", 5)
    Path("again.toml").write_text("[stage]\nsteps = 1\n")
    with pytest.raises(UsageError, match=r"^again.toml:1: expected tables \[\[stage\]\], not"):
        read_recipe(Path("again.toml"))
