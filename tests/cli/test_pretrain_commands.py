"""pretrain: options handed on, plans, launching, and a real run."""

from __future__ import annotations

import json
import re
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE, sample_text
from modtok_cli.base.errors import UsageError
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.settings import RunSettings

from .conftest import StandIn

ROW = {"language": "fi", "bits_per_byte": 2.5, "nats_per_token": 5.0, "tokens": 9, "bytes": 20}


def words(line: str) -> list[str]:
    return line.split()


class Report:
    output = Path("runs/one")
    step = 7

    def rows(self) -> list[dict[str, Any]]:
        return [ROW]


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """In place of training."""
    monkeypatch.delenv("RANK", raising=False)
    fake = types.ModuleType("modtok_cli.training.loop")
    fake.pretrain = StandIn(Report())  # type: ignore[attr-defined]
    fake.finish = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    return fake.pretrain  # type: ignore[attr-defined, no-any-return]


def test_defaults(here: Any, loop: StandIn) -> None:
    status, out, _ = here("pretrain", "--sampling", "sub:2", "--json")
    assert (status, json.loads(out)) == (0, ROW)
    assert loop.args == (RunSettings(sampling="sub:2"),)
    assert (loop.kwargs["resume"], loop.kwargs["force"]) == (False, False)


def test_resume_takes_options_of_the_command_line_only(
    here: Any, loop: StandIn, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "modtok.toml").write_text('[pretrain]\nseed = 3\np = 0.25\nruns = "out"\n')
    assert here("pretrain", "--gpus", "1")[0] == 0
    assert loop.args == (RunSettings(gpus=1, seed=3, p=0.25, runs=Path("out")),)
    assert here("pretrain", "--gpus", "1", "--resume", "--steps", "9")[0] == 0
    assert loop.args == (RunSettings(gpus=1, steps=9, runs=Path("out")),)


def test_a_recipe_is_between_settings_and_flags(here: Any, loop: StandIn, workspace: Path) -> None:
    (workspace / "modtok.toml").write_text("[pretrain]\nseed = 3\nwarmup = 4\n")
    recipe = workspace / "recipe.toml"
    recipe.write_text("[init]\nseed = 5\n[schedule]\nsteps = 6\nlr = 1e-2\n")
    assert here("pretrain", "--config", str(recipe), "--steps", "7")[0] == 0
    assert loop.args == (RunSettings(seed=5, warmup=4, steps=7, lr=1e-2, stages=()),)


def test_gpus_start_that_many_ranks(
    here: Any, loop: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from modtok_cli.training import prepare
    from modtok_cli.training.distributed import launch

    started, unpacked = StandIn(0), StandIn([])
    monkeypatch.setattr(launch, "launch", started)
    monkeypatch.setattr(prepare, "prepare_text", unpacked)
    assert here("pretrain", "--gpus", "8")[0] == 0
    assert unpacked.args[0]["gpus"] == 8
    assert started.args == (("pretrain", "--gpus", "8"), 8)
    started.answer = 1
    assert here("pretrain", "--gpus", "8")[0] == 1
    started.args = ()
    assert here("pretrain", "--gpus", "1")[0] == 0
    monkeypatch.setenv("RANK", "3")  # under torchrun this process is a rank already
    status, out, _ = here("pretrain", "--gpus", "8")
    assert (status, out, started.args) == (0, "", ())
    loop.answer = UsageError("no such run")
    assert here("pretrain")[::2] == (2, "")  # rank 0 says it
    monkeypatch.setenv("RANK", "0")
    status, _, err = here("pretrain")
    assert status == 2
    assert "no such run" in err


@pytest.fixture
def filled(workspace: Path, here: Any) -> Path:
    """A workspace of two languages with a tokenizer."""
    sample_text(workspace / "data", "en", "fi")
    assert here("bpe-seq", "-k", "500", "--no-references", "-q")[0] == 0
    return workspace


def test_prepare_unpacks_the_text_only(here: Any, filled: Path) -> None:
    status, out, _ = here(*words("pretrain --sampling sub:1 --prepare --json"))
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["language"] for row in rows] == sorted(row["language"] for row in rows)
    assert all(len(TextStore(Path(row["store"]))) == row["documents"] > 1 for row in rows)
    assert [path.name for path in (filled / "runs").iterdir()] == [".text"]


def test_dry_run_says_what_it_takes(here: Any, filled: Path) -> None:
    def planned(options: str) -> tuple[int, str, str]:
        status, out, err = here("pretrain", "--dry-run", *words(options))
        return status, out, " ".join(err.split())

    status, out, _ = planned("--sampling sub:1 --json")
    rows = {row["part"]: row for row in map(json.loads, out.splitlines())}
    assert status == 0
    assert set(rows) == {
        "backbone", "tables", "active rows", "activations", "working memory", "all",
    }  # fmt: skip
    assert rows["backbone"]["parameters"] == rows["all"]["backbone_parameters"] == 738_432
    assert rows["all"]["bytes"] == sum(r["bytes"] for p, r in rows.items() if p != "all")
    assert rows["all"]["tokens"] == 300 * 8 * 256
    assert rows["all"]["step_seconds"] > 0
    assert not (filled / "runs").exists()
    assert 'sampling = "sub:1"' in planned("")[1]  # of two languages
    assert 'sampling = "none"' in planned("--langs fi")[1]
    _, out, err = planned("--model 2.5b --sampling none")
    assert "this machine has no GPU: the plan is for 1 × H100" in err
    assert 'dtype = "bfloat16"' in out
    _, out, _ = planned("--model 2.5b --gpus 8 --tp 2 --sampling none --json")
    row = json.loads(out.splitlines()[0])
    assert row["backbone_parameters"] == 2 * row["parameters"] == 2_548_190_208
    assert (row["tokens"], row["active_rows"]) == (300_000 * 64 * 4096, 500)
    moments = "--set parallelism.offload_moments=bfloat16"
    status, out, _ = planned(f"--sampling sub:1 --json --offload {moments}")
    held = {row["part"]: row["bytes"] for row in map(json.loads, out.splitlines())}
    assert (status, "tables" in held) == (0, False)
    assert held["host, tables"] == 2 * rows["all"]["vocabulary"] * (128 * 8 + 4)
    assert held["host, tables of 250 languages"] > 100 * held["host, tables"]
    assert "bytes = 0.0 GiB, and 0.0 GiB of buffers" in json.loads(out.splitlines()[0])["host"]
    small = "--model 2.5b --gpus 8 --sampling none --set parallelism.device_memory="
    status, _, err = planned(f"{small}80GB")
    assert (status, "65,536 bytes of each of 2 texts" in err) == (0, True)
    status, out, err = planned(f"{small}12GB")
    assert (status, "all" in out) == (1, True)  # the plan, then the error
    assert "modtok: error: memory: the run needs" in err
    assert "it fits with" in err
    for wrong in (f"{small}much", "--sampling sub:2", "--model 2.5b --gpus 8 --tp 8"):
        assert planned(wrong)[0] == 2
    _, _, err = planned("--hidden-size 64")
    assert "--hidden-size is a key of a recipe; use --set architecture.hidden_size=VALUE" in err


def test_switches_can_be_turned_off_on_resume(here: Any, loop: StandIn) -> None:
    off = words("--set parallelism.distributed_optimizer=false --log none")
    assert here("pretrain", "--resume", *words("--gpus 1 --valid none"), *off)[0] == 0
    assert loop.args[0].given() == {
        "distributed_optimizer": False,
        "log": (), "valid": {}, "gpus": 1,
    }  # fmt: skip


def test_dry_run_is_a_recipe(here: Any, filled: Path) -> None:
    """What --dry-run prints gives the same run as --config, also that of a resumed run."""
    options = "pretrain --sampling sub:1 --langs en,fi --steps 3 --lr 1e-2 --mix en=0.4"
    options += " --set architecture.qk_norm=true"
    file = Path("recipe.toml")

    def planned(line: str) -> str:
        """The recipe without its comments."""
        status, recipe, err = here(*words(f"{line} --dry-run"))
        assert status == 0, err
        file.write_text(recipe)
        return re.sub(r" +# .*", "", recipe)

    recipe = planned(f"{options} --seq-length 32")
    sources = dict(re.findall(r"^(\w+) = .*  # (.*)$", file.read_text(), re.MULTILINE))
    assert [sources[name] for name in ("lr", "qk_norm", "layers", "seed")] == [
        "--lr", "--set", "preset tiny", "default",
    ]  # fmt: skip
    assert planned(f"pretrain --config {file}") == recipe
    assert set(re.findall("# (.*)", file.read_text())) == {str(file)}
    both = here(*words(f"{options} --set schedule.lr=1e-3 --dry-run"))
    assert both[0] == 2
    assert "--set schedule.lr: is given as --lr too; give one of them" in both[2]
    assert here(*words(f"pretrain --config {file} -q"))[0] == 0
    own = recipe.replace('"tokenizer"', '"runs/sub-1-tiny/tokenizer"')
    assert planned("pretrain --resume") == own
    changed = planned("pretrain --resume --steps 5 --set evaluation.keep=1")
    assert changed == own.replace("\nsteps = 3", "\nsteps = 5").replace("keep = 2", "keep = 1")
    assert planned(f"pretrain --config {file}") == changed
    stored = json.loads((filled / "runs" / "sub-1-tiny" / "config.json").read_bytes())["config"]
    assert (stored["schedule"]["steps"], stored["evaluation"]["keep"]) == (
        3,
        2,
    )  # a dry run changes nothing
    assert "--steps is now 5, was 3" in here(*words("pretrain --resume --steps 5 --dry-run"))[2]
    assert here(*words("pretrain --resume --name none --dry-run"))[0] == 2
    refused = here(*words("pretrain --resume --lr 0.5 --dry-run"))
    assert (refused[0], "was started with other settings: --lr" in refused[2]) == (2, True)


SMALL = words("""
    --sampling sub:1 --set architecture.layers=1 --set architecture.hidden_size=32
    --set architecture.ffn=88 --set architecture.heads=4 --set architecture.kv_heads=2
    --set architecture.head_width=8 --batch-size 2 --micro-batch 1 --seq-length 64 --steps 4
    --eval-every 2 --save-every 2 --workers 0 --name it -q
""")


def test_a_moved_run_needs_only_its_data(
    here: Any,
    filled: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Text, validation text and tasks move with the run; the tokenizer and the workspace go."""
    pytest.importorskip("lm_eval")

    def metrics(run: Path) -> list[dict[str, Any]]:
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [{key: line[key] for key in line if key != "time"} for line in lines]

    def resume(*options: str) -> tuple[int, str, str]:
        status: tuple[int, str, str] = here("pretrain", "--resume", "--name", "it", "-q", *options)
        return status

    for name in ("parallel", "tasks"):
        shutil.copytree(SAMPLE / name, filled / name)
    asked = words(
        "--valid parallel --eval-tasks endings --set evaluation.eval_tasks_langs=fi "
        "--set evaluation.eval_tasks_limit=3"
    )
    assert here("pretrain", *SMALL, *asked)[0] == 0
    expected = metrics(filled / "runs" / "it")
    assert {"valid", "tasks"} <= {key for line in expected for key in line}
    moved, other = tmp_path_factory.mktemp("moved"), tmp_path_factory.mktemp("other")
    for name in ("runs", "data", "parallel", "tasks"):
        (filled / name).rename(moved / name)
    shutil.rmtree(filled)
    monkeypatch.chdir(other)
    run = moved / "runs" / "it"
    shutil.rmtree(run / "checkpoints" / "step-00000004")
    assert resume("--runs", str(moved / "runs"))[0] == 0
    assert metrics(run) == expected
    # The directory of the run alone; its text is found where it was, until that moves too.
    run.rename(other / "it")
    given: list[str] = []
    for steps, name, flag, value, message in (
        (5, "data", "--data", "", "the text of the run does not exist in"),
        (6, "parallel", "--valid", "parallel=", "the validation text 'parallel' does not exist in"),
        (7, "tasks", "--set", "evaluation.eval_tasks_data=", "the tasks do not exist in"),
    ):
        assert resume("--runs", ".", "--steps", str(steps), *given)[0] == 0
        (moved / name).rename(other / f"new-{name}")
        status, _, err = resume("--runs", ".", "--steps", str(steps + 1), *given)
        assert (status != 0, message in err, err.count("\n")) == (True, True, 1), err
        given = [flag, f"{value}new-{name}"]
    assert resume("--runs", ".", *given)[0] == 0
    assert metrics(other / "it")[: len(expected)] == expected
