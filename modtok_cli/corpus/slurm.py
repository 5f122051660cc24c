"""Jobs of a build or count on Slurm: submitted once, asked how they are, repeated where they fail.

Every stage is an array of jobs that depends on the stage before; Slurm cancels it if that fails.
Names of jobs are random, unique to the output, and saved in `logs/jobs.json` before anything is
submitted, so the jobs of a killed caller are found. What is done is known by datatrove's completion
marks, what lives by `squeue`; accounting (`sacct`), which many clusters lack, is not needed.

A task of an array reads its rank from a list in a file that the next submission overwrites.
Therefore missing tasks are submitted again only when no job lives. They are not if a stage failed
as it did the time before, with the same line in a log and no task done in between: the call after
that error submits it again.
"""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from shutil import which
from typing import Any, TypeVar

import orjson

from modtok_cli.base.errors import ModtokError, Unfinished, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.progress import Progress
from modtok_cli.corpus.build_plan import JOBS, BuildStage, read_json

_ORPHAN_SECONDS = 10.0
"""How long a job may take to appear whose submission was interrupted."""
_POLL_SECONDS = 1.0
"""First pause between looks; later ones are up to 15 times as long."""
_PATIENCE_SECONDS = 600.0
"""How long `squeue` may fail while jobs are watched, for a restart of the controller."""
_LARGEST_ARRAY = 1001
"""Default of datatrove's option `max_array_size`."""
_MOST_SHOWN = 300
_LOG_BYTES = 1 << 16
"""End of a log in which its failure is looked for."""
_NO_REASON = re.compile(r"srun: (error: .*(Exited with|Terminated|Killed)|Terminating|launch/)")
"""Lines after the line of the failure."""

T = TypeVar("T")


@dataclass
class Living:
    """Jobs of a stage that Slurm still has: ids of arrays, names of logs, and tasks by state."""

    ids: list[str] = field(default_factory=list)
    logs: set[str] = field(default_factory=set)
    running: int = 0
    waiting: int = 0


class Submitted(Unfinished):
    """How the jobs are. `left`: tasks that are not done."""

    def __init__(self, what: str, jobs: "Jobs", left: int) -> None:
        remedy = "repeat the call, or pass --wait"
        super().__init__(what, where=jobs.output, remedy=remedy)
        self.jobs, self.left = jobs, left


def until_done(call: Callable[[int | None], T], wait: bool, progress: Progress) -> T:
    """Result of `call`, which raises `Submitted` until the jobs are done; with `wait`, of the last.

    The argument is the number of tasks that were left the last time, None at first: failed tasks
    are submitted again as long as others finish.
    """
    left = None
    while True:
        try:
            return call(left)
        except Submitted as state:
            if not wait:
                raise
            left = state.left
            state.jobs.watch(progress)


def check_no_jobs(logs: Path) -> None:
    """Check that no job of an earlier call lives.

    Raises:
        UsageError: one does.
    """
    if not (logs / JOBS).exists():
        return
    record = read_json(logs / JOBS)
    stages = {*record["ids"], record["submitting"]} - {None}
    living = _living(record["name"], sorted(stages)) if stages else {}
    if ids := [each for stage in living.values() for each in stage.ids]:
        raise UsageError(
            "jobs on Slurm still write to it",
            where=logs.parents[1],
            remedy="repeat the call with --executor slurm and without --force, or cancel them "
            f"first: scancel {' '.join(ids)}",
        )


class Jobs:
    """Jobs of the stages of one output."""

    def __init__(
        self,
        stages: Sequence[BuildStage],
        logs: Path,
        workers: int | None,
        options: Mapping[str, Any],
    ) -> None:
        if which("sbatch") is None:
            raise UsageError("sbatch not found", remedy="run it on a machine of the cluster")
        self.output = logs.parents[1]
        if re.search(r"\s", str(logs.absolute())):
            raise UsageError(
                "jobs on Slurm do not find a path with white space",
                where=self.output,
                remedy="choose another -o",
            )
        self._stages, self._logs = stages, logs
        self._workers, self._options = workers or -1, dict(options)
        # Jobs that wait for one that failed would stay for ever.
        orders = {"kill-on-invalid-dep": "yes"} | self._options.get("sbatch_args", {})
        self._options["sbatch_args"] = orders
        is_activated = which("launch_pickled_pipeline") is not None
        if not is_activated and not {"env_command", "condaenv", "venv_path"} & set(options):
            programs = shlex.quote(str(Path(sys.executable).parent))
            self._options["env_command"] = f"export PATH={programs}:$PATH"
        self._total = sum(stage.tasks for stage in stages)
        self._record: dict[str, Any] = {
            "name": f"modtok-{token_hex(4)}", "ids": {}, "submitting": None, "failed": {}
        }  # fmt: skip
        if (logs / JOBS).exists():
            self._record = read_json(logs / JOBS)
        else:
            self._save()

    def _save(self, **changes: Any) -> None:
        self._record |= changes
        self._logs.mkdir(parents=True, exist_ok=True)
        write_bytes(self._logs / JOBS, orjson.dumps(self._record))

    def _look(self) -> tuple[dict[str, Living], dict[str, list[int]]]:
        """Living jobs and missing ranks by stage."""
        # In this order: a task that ends in between is done, not failed.
        living = _living(self._record["name"], [stage.name for stage in self._stages])
        return living, {stage.name: missing(stage, self._logs) for stage in self._stages}

    def advance(self, before: int | None) -> None:
        """Submit the missing tasks if no job lives; return if none is missing.

        Raises:
            Unfinished: jobs live.
            ModtokError: no task was finished since `before` were left, a stage fails as it did the
                time before, or Slurm failed.
        """
        self._settle()
        living, ranks = self._look()
        left = sum(map(len, ranks.values()))
        state = self._state(living, ranks)
        if not living:
            if not left:
                return
            if before is not None and left >= before:
                raise ModtokError(
                    f"no task succeeded any more: {state}",
                    where=self.output,
                    remedy="repeat the call to run them again",
                )
            waiting = [stage for stage in self._stages if ranks[stage.name]]
            self._refuse_repeated(waiting[0].name, ranks[waiting[0].name])
            self._save(ids={})
            after: list[str] = []
            for stage in waiting:
                after = self._submit(stage, after)
            state += f", {left} submitted"
        raise Submitted(state, self, left)

    def _settle(self) -> None:
        """Wait until the job of a caller that was killed while it submitted has appeared."""
        stage = self._record["submitting"]
        if stage is None:
            return
        until = time.monotonic() + _ORPHAN_SECONDS
        while not (found := _living(self._record["name"], [stage])) and time.monotonic() < until:
            time.sleep(0.5)
        ids = {name: living.ids for name, living in found.items()}
        self._save(submitting=None, ids=self._record["ids"] | ids)

    def _state(self, living: Mapping[str, Living], ranks: Mapping[str, Sequence[int]]) -> str:
        done = self._total - sum(map(len, ranks.values()))
        text = f"{done} of {self._total} tasks done"
        if running := sum(each.running for each in living.values()):
            text += f", {running} running"
        # Only of the first unfinished stage; the others wait for it.
        first = next((stage.name for stage in self._stages if ranks[stage.name]), "")
        if first in self._record["ids"]:
            here = living.get(first, Living())
            alive = (here.running + here.waiting) * int(self._options.get("tasks_per_job", 1))
            failed = len(ranks[first]) - alive
            if failed > 0:
                found = self._failure(first, ranks[first], here.logs)
                where = ": ".join(map(str, found)) if found else self._logs / first
                text += f", {failed} failed (see {where})"
        return text

    def _refuse_repeated(self, stage: str, ranks: Sequence[int]) -> None:
        """Stop at the second of two failures of a stage that are equal but for numbers."""
        found = self._failure(stage, ranks)
        if found is None:
            return
        log, line = found
        kind = [len(ranks), re.sub(r"[0-9]+", "0", line)]
        before = self._record["failed"].get(stage, {})
        repeated = before.get("kind") == kind
        told = repeated and not before["told"]
        self._save(failed={**self._record["failed"], stage: {"kind": kind, "told": told}})
        if told:
            raise ModtokError(
                f"failed twice in the same way: {line}",
                where=log,
                remedy="mend the cause, then repeat the call",
            )

    def _failure(
        self, stage: str, ranks: Sequence[int], living: Collection[str] = ()
    ) -> tuple[Path, str] | None:
        """The log of one of the missing ranks that have run last, and its line of the failure.

        `living`: names of logs of tasks that have not ended.
        """
        ids = self._record["ids"].get(stage)
        if not ids:
            return None
        place = Path(self._options.get("slurm_logs_folder", self._logs / stage / "slurm_logs"))
        most = int(self._options.get("max_array_size", _LARGEST_ARRAY))
        each = int(self._options.get("tasks_per_job", 1))
        run = read_json(self._logs / stage / "ranks_to_run.json")
        for at in range(0, len(run), each):
            array, number = divmod(at // each, most) if most > 0 else (0, at // each)
            log = place / f"{ids[min(array, len(ids) - 1)]}_{number}.out"
            if log.name in living:
                continue
            if set(ranks) & set(run[at : at + each]) and log.exists():
                with log.open("rb") as file:
                    file.seek(max(0, log.stat().st_size - _LOG_BYTES))
                    lines = file.read().decode(errors="replace").splitlines()
                lines = [re.sub(r"^ *[0-9]+: ", "", line).strip() for line in lines]
                said = [line for line in lines if line and not _NO_REASON.match(line)]
                if said:
                    return log, said[-1][:_MOST_SHOWN]
        return None

    def _submit(self, stage: BuildStage, after: Sequence[str]) -> list[str]:
        from modtok_cli.corpus.executor_tasks import Array

        ids = _Ids(int(self._options.get("job_id_position", -1)))
        try:
            executor = Array(
                pipeline=list(stage.blocks),
                tasks=stage.tasks,
                logging_dir=str(self._logs / stage.name),
                job_name=f"{self._record['name']}-{stage.name}",
                workers=self._workers,
                depends_job_id=":".join(after) or None,
                job_id_retriever=ids,
                **self._options,
            )
            self._save(submitting=stage.name)
            executor.launch_job()
        except (TypeError, ValueError, ArithmeticError) as error:  # unknown, or no number
            self._save(submitting=None)
            raise UsageError(f"not accepted ({error})", where="--executor-option") from error
        except (OSError, IndexError, subprocess.CalledProcessError) as error:
            self._save(submitting=None)
            raise ModtokError(
                "sbatch failed; its message is above",
                where=self._logs / stage.name,
                remedy="check --executor-option, then repeat the call",
            ) from error
        self._save(submitting=None, ids=self._record["ids"] | {stage.name: ids.found})
        return ids.found

    def watch(self, progress: Progress) -> None:
        """Wait until no job lives."""
        shown, pause, failing = 0, _POLL_SECONDS, None
        with progress.task("tasks on Slurm", self._total, "tasks") as task:
            while True:
                try:
                    living, ranks = self._look()
                except ModtokError:
                    failing = failing or time.monotonic()
                    if time.monotonic() > failing + _PATIENCE_SECONDS:
                        raise
                else:
                    failing = None
                    done = self._total - sum(map(len, ranks.values()))
                    task.advance(done - shown)
                    shown = done
                    if not living:
                        return
                time.sleep(pause)
                pause = min(1.5 * pause, 15 * _POLL_SECONDS)


class _Ids:
    """Takes the ids of jobs from the output of sbatch; datatrove calls it and saves it in tasks."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.found: list[str] = []

    def __call__(self, output: str) -> str:
        self.found.append(output.split()[self.position])
        return self.found[-1]


def missing(stage: BuildStage, logs: Path) -> list[int]:
    """Ranks of a stage without a completion mark."""
    try:
        done = {path.name for path in (logs / stage.name / "completions").iterdir()}
    except FileNotFoundError:
        done = set()
    return [rank for rank in range(stage.tasks) if f"{rank:05d}" not in done]


def _living(name: str, stages: Sequence[str]) -> dict[str, Living]:
    """Jobs that Slurm has, by stage."""
    names = {f"{name}-{stage}": stage for stage in stages}
    found: dict[str, Living] = {}
    lines = _slurm(
        "squeue", "--noheader", "--array", f"--name={','.join(names)}", "--format=%j|%F|%t|%K"
    )
    for line in lines.splitlines():
        job, number, state, task = line.split("|")
        living = found.setdefault(names[job], Living())
        if number not in living.ids:
            living.ids.append(number)
        living.logs.add(f"{number}_{task}.out")
        living.running += state != "PD"
        living.waiting += state == "PD"
    return found


def _slurm(*command: str) -> str:
    """Standard output of a command of Slurm.

    Raises:
        UsageError: it is not there.
        ModtokError: it failed.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UsageError(
            f"{command[0]} not found", remedy="run it on a machine of the cluster"
        ) from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise ModtokError(f"{command[0]} failed ({said})", remedy="repeat the call")
    return done.stdout
