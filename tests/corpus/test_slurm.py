"""Jobs on Slurm: a stand-in for its commands, and the real one where the machine has it."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import fake_slurm
from helpers.contents import contents
from helpers.crawl import DATA, records_of
from helpers.examples import examples
from helpers.fake_slurm import jobs_of, set_states, states
from helpers.python_processes import Python, write_command
from helpers.split_text import split_text
from modtok_cli.base.errors import ModtokError, Unfinished, UsageError
from modtok_cli.corpus import executors, slurm
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.build_report import load_report
from modtok_cli.corpus.count import corpus_count
from modtok_cli.corpus.executors import BuildStage, check_executor, run_stages
from modtok_cli.text.corpus import write_counts

OPTIONS = {"partition": "cpu", "time": "1:00:00", "cpus_per_task": "2"}
SLURM = {"executor": "slurm", "executor_options": OPTIONS}
SECONDS = 600


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of a small Slurm, first on the path."""
    if re.search(r"\s", str(tmp_path)):
        pytest.skip("jobs do not find a path with white space")
    place = tmp_path / "slurm"
    commands = fake_slurm.install(place)
    write_command(
        commands / "launch_pickled_pipeline", "-m datatrove.tools.launch_pickled_pipeline"
    )
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_POLL_SECONDS", 0.05)
    yield place
    fake_slurm.stop(place)


@pytest.fixture
def held(place: Path) -> Path:
    """Jobs stay as they are."""
    (place / "held").touch()
    return place


def names(place: Path) -> Counter[str]:
    """How often each stage was submitted."""
    found = [(job / "name").read_text() for job in jobs_of(place)]
    assert len({name.split("-")[1] for name in found}) <= 1
    return Counter(name.split("-", 2)[2] for name in found)


STAGES = [BuildStage("0-count", [], 3), BuildStage("1-merge", [], 1)]


def ask(logs: Path) -> str:
    """State of the stages; those that are missing are submitted."""
    with pytest.raises(Unfinished) as caught:
        run_stages(STAGES, logs, "slurm", options=OPTIONS)
    assert caught.value.exit_code == 75
    assert caught.value.where == str(logs.parents[1])
    return caught.value.what


def finish(logs: Path, stage: str, *ranks: int) -> None:
    """Mark tasks as datatrove does."""
    marks = logs / stage / "completions"
    marks.mkdir(exist_ok=True)
    for rank in ranks:
        (marks / f"{rank:05d}").touch()


def test_states_are_told_and_only_failed_tasks_repeated(held: Path, tmp_path: Path) -> None:
    logs = tmp_path / "out" / "work" / "logs"
    assert ask(logs) == "0 of 4 tasks done, 4 submitted"
    first, second = jobs_of(held)
    assert (second / "after").read_text() == "1"
    assert "#SBATCH --cpus-per-task=2" in (first / "script").read_text()
    set_states(first, "R", "R")
    before = (logs / "0-count/ranks_to_run.json").read_bytes()
    for _ in range(2):
        assert ask(logs) == "0 of 4 tasks done, 2 running"
    finish(logs, "0-count", 0)
    set_states(first, "done", "failed", "R")
    # One task still reads the list of tasks, and has not failed whatever its log says.
    (logs / "0-count/slurm_logs/1_2.out").write_text("at work")
    assert ask(logs) == f"1 of 4 tasks done, 1 running, 1 failed (see {logs / '0-count'})"
    assert (logs / "0-count/ranks_to_run.json").read_bytes() == before
    assert states(second) == ["PD"]
    finish(logs, "0-count", 2)
    set_states(first, "done", "failed", "done")
    again = f"2 of 4 tasks done, 1 failed (see {logs / '0-count'}), 2 submitted"
    assert ask(logs) == again
    assert json.loads((logs / "0-count/ranks_to_run.json").read_text()) == [1]
    third, fourth = jobs_of(held)[2:]
    assert (states(third), (fourth / "after").read_text()) == (["PD"], "3")
    finish(logs, "0-count", 1)
    set_states(third, "done")
    set_states(fourth, "R")
    assert ask(logs) == "3 of 4 tasks done, 1 running"
    finish(logs, "1-merge", 0)
    assert ask(logs) == "4 of 4 tasks done, 1 running"
    set_states(fourth, "done")
    run_stages(STAGES, logs, "slurm", options=OPTIONS)
    assert names(held) == {"0-count": 2, "1-merge": 2}
    assert not (logs / "jobs.json").exists()


def test_cancelled_chain_is_submitted_again(held: Path, tmp_path: Path) -> None:
    logs = tmp_path / "out" / "work" / "logs"
    ask(logs)
    fake_slurm.scancel(held, ["2"])
    assert ask(logs) == "0 of 4 tasks done"  # it may have been cancelled for a failure before it
    fake_slurm.scancel(held, ["1"])
    assert ask(logs) == f"0 of 4 tasks done, 3 failed (see {logs / '0-count'}), 4 submitted"
    assert (jobs_of(held)[3] / "after").read_text() == "3"
    set_states(jobs_of(held)[2], "done", "done", "done")
    finish(logs, "0-count", 0, 1, 2)
    fake_slurm.scancel(held, ["4"])
    assert ask(logs) == f"3 of 4 tasks done, 1 failed (see {logs / '1-merge'}), 1 submitted"
    assert (jobs_of(held)[4] / "after").read_text() == ""


CALL = """
import sys
from pathlib import Path
from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus import slurm
from modtok_cli.corpus.count import corpus_count
slurm._ORPHAN_SECONDS = 1
options = {"partition": "cpu", "time": "1:00:00"}
try:
    corpus_count(data=sys.argv[1], output=sys.argv[2], executor="slurm", executor_options=options)
except ModtokError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def call(data: Path, output: Path) -> Python:
    return Python(["-c", CALL, data, output], stdout=subprocess.PIPE, text=True)


def test_two_callers_submit_once(held: Path, tmp_path: Path) -> None:
    data = split_text(tmp_path / "data", 2)
    callers = [call(data, tmp_path / "counts") for _ in range(3)]
    said = sorted(caller.communicate()[0].partition("; ")[0] for caller in callers)
    assert [caller.returncode for caller in callers] == [75] * 3
    assert names(held) == {"0-count": 1, "1-merge": 1}
    place = tmp_path / "counts"
    assert said == [f"{place}: 0 of 4 tasks done"] * 2 + [
        f"{place}: 0 of 4 tasks done, 4 submitted"
    ]


@pytest.mark.parametrize("is_submitted", [False, True])
def test_killed_caller_submits_nothing_twice(
    held: Path, tmp_path: Path, *, is_submitted: bool
) -> None:
    data = split_text(tmp_path / "data", 2)
    real, sbatch = held / "bin" / "sbatch", held / "bin" / "real-sbatch"
    real.rename(sbatch)
    kill = "kill -9 $PPID"
    submit = f'"{sbatch}" "$@"'
    real.write_text(f"#!/bin/sh\n{f'{submit}; {kill}' if is_submitted else kill}\n")
    real.chmod(0o755)
    killed = call(data, tmp_path / "counts")
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    shutil.move(sbatch, real)
    squeue = held / "bin" / "squeue"
    for number in range(2):  # a job that was submitted appears the third time that Slurm is asked
        (held / f"late-{number}").touch()
    hidden = f'late=$(ls {held}/late-* 2>/dev/null | head -1); [ "$late" ] && rm "$late" && exit 0'
    squeue.write_text(squeue.read_text().replace("exec", f"{hidden}\nexec"))
    after = call(data, tmp_path / "counts")
    said, _ = after.communicate()
    assert said.partition("; ")[0].endswith("done" if is_submitted else "done, 4 submitted")
    assert names(held) == {"0-count": 1} | ({} if is_submitted else {"1-merge": 1})


def test_a_count_is_asked_killed_and_equal(place: Path, tmp_path: Path) -> None:
    data = split_text(tmp_path / "data", 2)
    write_counts(data=data, output=tmp_path / "one")
    out, until = tmp_path / "counts", time.monotonic() + SECONDS
    (place / "paused").touch()  # or a task may be done before it is killed
    with pytest.raises(Unfinished):
        corpus_count(data=data, output=out, **SLURM)
    first = jobs_of(place)[0]
    while states(first)[0] != "R" and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(int((first / "pid-0").read_text()), signal.SIGKILL)
    (place / "paused").unlink()
    while time.monotonic() < until:
        with suppress(Unfinished):
            corpus_count(data=data, output=out, **SLURM)
            break
        time.sleep(0.2)
    assert contents(out) == contents(tmp_path / "one")
    assert names(place) == {"0-count": 2, "1-merge": 2}


def test_the_second_of_two_equal_failures_is_an_error(place: Path, tmp_path: Path) -> None:
    program = place / "bin" / "launch_pickled_pipeline"
    program.write_text('#!/bin/sh\necho "1: no program $$"; echo srun: Terminating; exit 127\n')

    def said() -> str:
        """What a call says once no job runs."""
        until = time.monotonic() + SECONDS
        while any(set(states(job)) & {"PD", "R"} for job in jobs_of(place)[::2]):
            assert time.monotonic() < until
            time.sleep(0.02)
        with pytest.raises(ModtokError) as caught:
            run_stages(STAGES, tmp_path / "out" / "work" / "logs", "slurm", options=OPTIONS)
        return str(caught.value)

    assert "4 tasks done, 4 submitted" in said()
    assert re.search(r"3 failed \(see .*slurm_logs/1_0.out: no program \d+\), 4 submit", said())
    for _ in range(2):
        assert re.search("_0.out: failed twice in the same way: no program [0-9]+; mend", said())
        assert "4 submitted" in said()


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_the_log_of_a_failure_is_that_of_a_task_that_ended(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Of the first missing rank of the last submission whose log says a reason."""
    logs = tmp_path_factory.mktemp("logs")
    run = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True))
    each, most = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3))
    tasks = [run[at : at + each] for at in range(0, len(run), each)]
    ids = [str(70 + number) for number in range(-(-len(tasks) // most))]
    said = st.sampled_from([None, "", "srun: Terminating\n", "1: no disk\n\n", "a\nno core\n"])
    (logs / "s" / "slurm_logs").mkdir(parents=True)
    (logs / "s" / "ranks_to_run.json").write_text(json.dumps(run))
    jobs = object.__new__(slurm.Jobs)
    jobs._record, jobs._logs = {"ids": {"s": ids}}, logs
    jobs._options = {"max_array_size": most, "tasks_per_job": each}
    ranks, living, expected = data.draw(st.sets(st.sampled_from(run))), set(), []
    for number, those in enumerate(tasks):
        log = logs / "s" / "slurm_logs" / f"{ids[number // most]}_{number % most}.out"
        if (text := data.draw(said)) is not None:
            log.write_text(text)
        if data.draw(st.booleans()):
            living.add(log.name)
        elif text and "no" in text and ranks & {*those}:
            expected.append((log, text.split()[-2] + " " + text.split()[-1]))
    assert jobs._failure("s", [*ranks], living) == (expected[0] if expected else None)


def test_waiting_ends_with_the_result_or_a_failure(place: Path, tmp_path: Path) -> None:
    data = split_text(tmp_path / "data", 2)
    bad = tmp_path / "data" / "sv.jsonl"
    bad.write_bytes(b"no JSON \xff\n")
    out = tmp_path / "counts"
    with pytest.raises(ModtokError, match="no task succeeded any more: 3 of 5 tasks done, 1 fail"):
        corpus_count(data=data, output=out, wait=True, **SLURM)
    assert [len(states(job)) for job in jobs_of(place)] == [4, 1, 1, 1]
    log = (out / ".corpus-count/logs/0-count/logs/task_00003.log").read_text()
    assert "sv.jsonl:1: not JSON" in log
    bad.unlink()
    rows = corpus_count(data=data, output=out, wait=True, force=True, **SLURM)
    assert [row["language"] for row in rows] == ["en", "fi"]


def test_slurm_equals_the_local_executor(place: Path, tmp_path: Path) -> None:
    inputs = [DATA / "fi.jsonl", DATA / "en.jsonl"]
    corpus_build(inputs, output=tmp_path / "local", shard_bytes=1)
    options = {"shard_bytes": 1, "wait": True, "force": True, **SLURM}
    report = corpus_build(inputs, output=tmp_path / "data", **options)
    assert report.languages == load_report(tmp_path / "local").languages
    for language in ("fi", "en"):
        assert records_of(tmp_path / "data" / language) == records_of(tmp_path / "local" / language)
    assert set(names(place).values()) == {1}


def test_jobs_are_not_overrun(held: Path, tmp_path: Path) -> None:
    """--force or another executor while they live; Slurm fails or is not there."""
    page = tmp_path / "fi.jsonl"
    shutil.copy(DATA / "fi.jsonl", page)
    out = tmp_path / "out"
    with pytest.raises(Unfinished):
        corpus_build([page], output=out, **SLURM)
    refused = r"out: jobs on Slurm still write to it; .* scancel 1 2 3 4 5$"
    with pytest.raises(UsageError, match=refused):
        corpus_build([page], output=out)
    with pytest.raises(UsageError, match=refused):
        corpus_build([page], "fi", output=out, force=True, **SLURM)
    with pytest.raises(UsageError, match="unfinished build with other inputs"):
        corpus_build([page], "fi", output=out, **SLURM)
    fake_slurm.scancel(held, ["1", "2", "3", "4", "5"])
    with pytest.raises(Unfinished, match="out: 0 of 5 tasks done, 5 submitted"):
        corpus_build([page], "fi", output=out, force=True, **SLURM)
    odd = {"executor": "slurm", "executor_options": OPTIONS | {"colour": "red"}}
    with pytest.raises(UsageError, match=r"executor_options: .*'colour'"):
        corpus_build([page], output=tmp_path / "odd", **odd)
    (held / "bin" / "sbatch").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ModtokError, match="1-pages: sbatch failed; its message is above; check"):
        corpus_build([page], output=tmp_path / "other", **SLURM)
    (held / "bin" / "squeue").write_text("#!/bin/sh\necho down >&2; exit 1\n")
    with pytest.raises(ModtokError, match=r"^squeue failed \(down\); repeat the call"):
        corpus_build([page], "fi", output=out, **SLURM)


def test_a_second_caller_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_LOCK_SECONDS", 0.3)
    with executors.one_caller(tmp_path, "local"):
        for kind in ("local", "slurm"):
            with (
                pytest.raises(ModtokError, match="is being written by another process"),
                executors.one_caller(tmp_path, kind),
            ):
                pass


def test_options_that_the_executor_does_not_take(held: Path, tmp_path: Path) -> None:
    """One line each, and nothing is submitted; the next call does not wait for it."""
    logs = tmp_path / "out" / ".work" / "logs"
    for name, value in (("workers", "3"), ("tasks_per_job", "x"), ("tasks_per_job", "0"),
                        ("gpus_per_task", "x"), ("mem", "4")):  # fmt: skip
        options = check_executor("slurm", {**OPTIONS, name: value})
        with pytest.raises(UsageError, match=r"^--executor-option: not accepted \("):
            run_stages(STAGES, logs, "slurm", options=options)
        assert json.loads((logs / "jobs.json").read_bytes())["submitting"] is None
    for kind, name in (("slurm", "sbatch_args"), ("ray", "cpus_per_task")):
        with pytest.raises(UsageError, match=f"^--executor-option: {name}: "):
            check_executor(kind, {**OPTIONS, name: "x"} if kind == "slurm" else {name: "x"})
    with pytest.raises(UsageError, match="out 2: jobs on Slurm do not find a path with white sp"):
        run_stages(STAGES, tmp_path / "out 2" / ".work" / "logs", "slurm", options=OPTIONS)
    assert jobs_of(held) == []
    given = {**OPTIONS, "sbatch_args": "account=lab,constraint=a&b", "mem_per_cpu_gb": "²"}
    options = check_executor("slurm", given)
    assert options["mem_per_cpu_gb"] == "²"
    with pytest.raises(Unfinished):
        run_stages(STAGES, logs, "slurm", options={**options, "mem_per_cpu_gb": "2"})
    for job in jobs_of(held):
        script = (job / "script").read_text()
        assert "#SBATCH --account=lab\n#SBATCH --constraint=a&b\n" in script
