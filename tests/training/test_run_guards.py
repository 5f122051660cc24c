"""What a run refuses, and what it leaves behind when it stops."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import modtok_cli as modtok
from helpers.metrics import numbers, read_metrics
from helpers.python_processes import run_python
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.slice.run_source import open_run
from modtok_cli.training import loop
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model.model import Model
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.rundir import RunDirectory, point_latest
from modtok_cli.training.settings import OPTIONS, RunSettings


@pytest.mark.parametrize("eval_every", [1, 6])
def test_huge_weights_are_not_saved(settings: RunSettings, eval_every: int) -> None:
    """Also between evaluations."""
    wild = settings.changed(lr=1e38, warmup=4, eval_every=eval_every, save_every=1)
    with pytest.raises(ModtokError, match=r"after step 1 held-out text has no finite loss.*--lr"):
        pretrain(wild)
    assert not (settings.runs / "it" / "checkpoints").exists()


def test_an_infinite_row_is_not_saved_between_evaluations(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loop.train_step

    def poisoned(run: Any, model: Model, feed: Any, step: int) -> dict[str, Any]:
        line = whole(run, model, feed, step)
        if step == 4:  # an idle row: no loss ever tells of it
            model.output.moment2[model.output.steps == 0] = float("inf")
        return line

    monkeypatch.setattr(loop, "train_step", poisoned)
    far = settings.changed(eval_every=6)
    with pytest.raises(ModtokError) as caught:
        pretrain(far)
    assert "after step 4 'output.moment2' is not finite" in str(caught.value)
    assert "the checkpoint of step 2 is kept; try a lower --lr in another run" in str(caught.value)
    kept = [path.name for path in (settings.runs / "it" / "checkpoints").iterdir()]
    assert kept == ["step-00000002"]
    monkeypatch.setattr(loop, "train_step", whole)
    pretrain(far, resume=True)
    assert read_metrics(settings.runs / "it")[-1]["step"] == 6


def test_looking_before_saving_changes_no_number(settings: RunSettings) -> None:
    pretrain(settings.changed(eval_every=6, save_every=1))
    pretrain(settings.changed(eval_every=6, save_every=6, name="seldom"))
    assert numbers(settings.runs / "it") == numbers(settings.runs / "seldom")


def test_text_in_another_order_is_other_text(settings: RunSettings) -> None:
    pretrain(settings.changed(steps=2))
    file = settings.data.data / "fi.jsonl"
    whole = file.read_bytes()
    file.write_bytes(b"\n".join(reversed(whole.splitlines())) + b"\n")  # of the same size
    with pytest.raises(ModtokError, match="the text has changed"):
        pretrain(RunSettings(runs=settings.runs, steps=3), resume=True)
    file.write_bytes(whole)  # the same text at another time is the same
    pretrain(RunSettings(runs=settings.runs, steps=3), resume=True)


def test_force_does_not_remove_the_tokenizer_in_use(settings: RunSettings) -> None:
    pretrain(settings.changed(steps=1))
    own = settings.runs / "it" / "tokenizer"
    with pytest.raises(UsageError, match="is part of the run that --force overwrites"):
        pretrain(settings.changed(steps=1, tokenizer=own), force=True)
    assert own.is_dir()


def test_invalid_utf8_is_handled_as_the_run_says(settings: RunSettings) -> None:
    (settings.data.data / "fi.txt").write_bytes(b"hyv\xe4\n")
    pretrain(settings.changed(steps=2, errors="replace"))
    pretrain(RunSettings(runs=settings.runs, steps=3), resume=True)


def test_resume_accepts_settings_that_are_repeated(settings: RunSettings) -> None:
    odd = {"batch_size": 6, "micro_batch": 3, "offload_delay": 0}
    places = {"data": settings.data.data, "tokenizer": settings.data.tokenizer, "workers": 0}
    pretrain(settings.changed(**odd, offload=True, steps=2))
    again = RunSettings(runs=settings.runs)
    for told in (places, *({name: value} for name, value in odd.items())):
        pretrain(again.changed(**told), resume=True)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"settings: --batch-size, --set .*offload_delay"):
        pretrain(again.changed(batch_size=5, offload_delay=1), resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 0.0}, "^lr: expected a number greater than 0, got 0"),
        ({"lr": float("nan")}, "^lr: expected a number greater than 0, got nan"),
        ({"lr": float("inf")}, "^lr: expected a number greater than 0, got inf"),
        ({"seed": 1 << 62}, "^seed: expected at least 0 and at most"),
        ({"beta1": 1.0}, "^beta1: expected at least 0 and less than 1, got 1"),
        ({"beta2": -0.1}, "^beta2: expected at least 0 and less than 1"),
        ({"eps": 0.0}, "^eps: expected at least 1e-30, got 0"),
        ({"decay_params": "matrices,rows"}, "^decay_params: expected some of matrices, embedd"),
        ({"clip": -1.0}, "^clip: expected at least 0, got -1"),
        ({"init_std": 0.0}, "^init_std: expected a number greater than 0"),
        ({"log": ("tensorboard",)}, r"--log: tensorboard is not .* pip install 'modtok\[log\]'"),
        ({"log": "wandb"}, r"--log: wandb is not installed; pip install 'modtok\[log\]'"),
        ({"log": "mlflow"}, "^log: expected tensorboard, wandb or none, got 'mlflow'"),
        ({"langs": ("en", "sv")}, "no text of language 'sv'"),
        ({"name": "../out"}, "cannot be the name of a run"),
        ({"name": "latest"}, "cannot be the name of a run"),
        ({"tokenizer": Path("nowhere")}, "nowhere: does not exist; build one"),
        ({"tp": 2}, "--tp 2 needs a multiple of 2 processes; this run has 1"),
        pytest.param(
            {"distributed_optimizer": True}, "distributed_optimizer: requires GPUs",
            marks=pytest.mark.skipif("MODTOK_GPU_CHECK" in os.environ, reason="of a CPU"),
        ),
    ],
)  # fmt: skip
def test_nothing_is_begun_with_wrong_settings(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], message: str
) -> None:
    for package in ("torch.utils.tensorboard", "wandb"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=message):
        pretrain(settings.changed(**change))
    assert not (settings.runs / "it").exists()


def test_names_that_are_no_text(settings: RunSettings) -> None:
    strange = settings.runs.parent / os.fsdecode(b"caf\xe9")
    strange.mkdir()
    settings.data.data.rename(strange / "data")
    shutil.copytree(settings.data.tokenizer, strange / os.fsdecode(b"tok\xe9"))
    odd = settings.changed(
        data=strange / "data",
        tokenizer=strange / os.fsdecode(b"tok\xe9"),
        steps=1,
    )
    pretrain(odd)
    pretrain(odd.changed(steps=2), resume=True)
    with pytest.raises(UsageError, match=r"the path is not UTF-8.*--runs"):
        pretrain(odd.changed(runs=strange / "runs"))
    assert not (strange / "runs").exists()


def test_a_run_that_lies_elsewhere_by_a_link(settings: RunSettings, tmp_path: Path) -> None:
    pretrain(settings.changed(steps=1))
    large = tmp_path / "large-disk"
    large.mkdir()
    (settings.runs / "it").rename(large / "it")
    (settings.runs / "it").symlink_to(large / "it")
    pretrain(settings.changed(steps=1, name="other"))
    for name in ("it", None):
        pretrain(RunSettings(runs=settings.runs, steps=2, name=name), resume=True)
        assert (settings.runs / "latest").readlink() == Path("it")
    assert [path.name for path in large.iterdir()] == ["it"]


def test_what_a_killed_run_left_of_its_link_goes(tmp_path: Path) -> None:
    (tmp_path / ".latest-99999").symlink_to("gone")
    (tmp_path / ".latest-99998").write_bytes(b"")
    (tmp_path / "latest").symlink_to("older")
    (tmp_path / "it").mkdir()
    point_latest(tmp_path / "it")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it", "latest"]
    assert (tmp_path / "latest").readlink() == Path("it")


def told(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """config.json with other values, of options or of whole tables."""
    found = {name: dict(each) if isinstance(each, dict) else each
             for name, each in config["config"].items()}  # fmt: skip
    for name, value in changes.items():
        (found[OPTIONS[name].section] if name in OPTIONS else found)[name] = value
    return config | {"config": found}


def shaped(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return told(config, shape=config["config"]["shape"] | changes)


def without_shape(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"config": {k: v for k, v in config["config"].items() if k != "shape"}}


def without_tables(config: dict[str, Any]) -> dict[str, Any]:
    """The layout of an older version."""
    tables = [each for each in config["config"].values() if isinstance(each, dict)]
    return config | {"config": {name: value for table in tables for name, value in table.items()}}


# What is done to config.json, what resuming says of it, and what inference says, if it reads that.
DAMAGE: tuple[tuple[Callable[[dict[str, Any]], Any], str, str], ...] = (
    (lambda config: b"", "cannot be read", "cannot be read"),
    (lambda config: [], "is not the configuration of a run", "is not the configuration"),
    (lambda config: {"model_type": "llama"}, "is not the configuration of a run", "is not the"),
    (lambda config: config | {"tokenizer": {}}, "'signature'", "'signature'"),
    (without_shape, "'config.shape': is missing", "'config.shape': is missing"),
    (lambda config: shaped(config, layers=0), "'config.shape.layers' is out", "layers' is out of"),
    (
        lambda config: told(config, seq_length=0),
        "'config.data.seq_length': expec",
        "seq_length' is 0",
    ),
    (
        lambda config: told(config, dtype="int8"),
        "'config.precision.dtype': expected",
        "dtype' is 'int8'",
    ),
    (lambda config: config | {"mixture": None}, "'mixture' is not an object", ""),
    (lambda config: config | {"ranks": {"threads": 0}}, "'ranks.threads' is 0", ""),
    (
        lambda config: told(config, micro_batch=0),
        "'config.data.micro_batch': expected at least 1",
        "",
    ),
    (lambda config: told(config, micro_batch=3), "'config.data.micro_batch': a batch of 4", ""),
    (lambda config: told(config, sampling="sub:0"), "'config.data.sampling': expected none", ""),
    (
        lambda config: told(config, steps=None),
        "'config.schedule.steps': expected a whole number",
        "",
    ),
    (lambda config: told(config, stranger=1), "'config.stranger': is not a table", ""),
    (
        lambda config: told(config, optimizer=config["config"]["optimizer"] | {"lr": 1}),
        "'config.optimizer.lr': is unknown",
        "",
    ),
    (without_tables, "'config.data' is not an object", "'config.data' is not an object"),
)


def one_line(file: Path, message: str, remedy: str) -> str:
    return rf"\A{re.escape(str(file))}: .*{re.escape(message)}.*{remedy}.*\Z"


def test_damaged_or_external_config(settings: RunSettings) -> None:
    """One line: the file, what is wrong, and what to do."""
    pretrain(settings.changed(steps=1))
    run = settings.runs / "it"
    file = run / "config.json"
    whole = file.read_bytes()
    for harm, resumed, read in DAMAGE:
        harmed = harm(orjson.loads(whole))
        file.write_bytes(harmed if isinstance(harmed, bytes) else orjson.dumps(harmed))
        with pytest.raises(ModtokError, match=one_line(file, resumed, ", or start another run")):
            pretrain(RunSettings(runs=settings.runs), resume=True)
        if read:
            with pytest.raises(ModtokError, match=one_line(file, read, "; ")):
                open_run(run)


def test_an_edited_preset_does_not_change_a_run(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(settings.changed(steps=1))
    monkeypatch.setitem(PRESETS, "toy", PRESETS["tiny"])
    assert open_run(settings.runs / "it", tokenizer=settings.data.tokenizer).shape.layers == 1


def test_a_place_for_rows_that_is_a_file(settings: RunSettings) -> None:
    file = settings.data.data / "fi.jsonl"
    for place in (file, file / "below"):
        with pytest.raises(UsageError, match=r"fi.jsonl: is not a directory; .*offload_file"):
            pretrain(settings.changed(offload=True, offload_file=place))
    assert not (settings.runs / "it").exists()


@pytest.mark.parametrize(
    ("rank", "world", "message"),
    [
        ("abc", "2", "RANK: expected a number, got 'abc'; start ranks with torchrun"),
        ("0", "", "WORLD_SIZE: expected a number, got ''"),
        ("2", "2", "RANK: expected a rank below 2, got 2"),
        ("-1", "2", "RANK: expected a"),
    ],
)
def test_an_environment_that_no_launcher_makes(
    monkeypatch: pytest.MonkeyPatch, rank: str, world: str, message: str
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    with pytest.raises(UsageError, match=message):
        start_ranks()


def test_ranks_without_an_address() -> None:
    # In a process of its own: here there is a group of one already.
    program = "from modtok_cli.training.distributed.ranks import start_ranks; start_ranks()"
    told = {**os.environ, "RANK": "0", "WORLD_SIZE": "2"}
    told.pop("MASTER_ADDR", None)
    ended = run_python(["-c", program], env=told, capture_output=True, text=True)
    line = ended.stderr.strip().splitlines()[-1]
    assert re.search("ModtokError: rank 0 of 2 cannot reach the others .*MASTER_ADDR", line)


@pytest.mark.parametrize("way", ["resume", "force"])
def test_a_run_that_is_being_written_is_let_alone(settings: RunSettings, way: str) -> None:
    pretrain(settings.changed(steps=2))
    place = settings.runs / "it"
    before = sorted((path, path.stat().st_mtime_ns) for path in place.rglob("*"))
    longer = settings.changed(steps=3)
    words = [sys.executable, "-c", HOLDS, str(place)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ModtokError, match=r"another process writes to this run.*wait for it"):
            pretrain(longer, resume=way == "resume", force=way == "force")
        assert sorted((path, path.stat().st_mtime_ns) for path in place.rglob("*")) == before
        other.kill()
    pretrain(longer, resume=way == "resume", force=way == "force")
    assert read_metrics(place)[-1]["step"] == 3


def test_of_two_runs_with_one_name_the_later_one_writes_nothing(settings: RunSettings) -> None:
    """The other one has made its directory, and nothing else yet."""
    place = settings.runs / "it"
    place.mkdir(parents=True)
    other = RunDirectory(place)
    other.lock()
    with pytest.raises(ModtokError, match=r"it: another process writes to this run; wait for it"):
        pretrain(settings)
    assert list(place.iterdir()) == []
    other.close()
    assert pretrain(settings).step > 0


HOLDS = (
    "import sys; from pathlib import Path; from modtok_cli.training.rundir import RunDirectory\n"
    "run = RunDirectory(Path(sys.argv[1])); run.lock(); print('held', flush=True); input()"
)


def test_one_run_at_a_time(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch, before_step: Any
) -> None:
    """Of threads of one process: they share process groups."""

    def another() -> None:
        with pytest.raises(UsageError, match="another run trains in this process; start a proc"):
            modtok.pretrain(settings.changed(name="other"))

    before_step(6, another)
    monkeypatch.setattr(loop, "finish", lambda: None)  # other tests use the groups
    modtok.pretrain(settings)
    assert modtok.pretrain(settings.changed(name="later", steps=2)).step == 2


def test_tracebacks_of_a_program_stay_as_they_are() -> None:
    """torch prefixes them with "[rank0]:" when process groups begin."""
    program = (
        "import sys\n"
        "import torch.distributed as dist\n"
        "from modtok_cli.training.distributed.ranks import start_ranks\n"
        "hook = sys.excepthook\n"
        "start_ranks()\n"
        "assert dist.is_initialized()\n"
        "assert sys.excepthook is hook\n"
    )
    run_python(["-c", program], check=True)
