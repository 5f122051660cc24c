"""Work shared by processes: the bytes of one process; one that ends, ends all with one line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.python_processes import run_python
from helpers.ranks import start_ranks
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.processes import MESSAGES
from modtok_cli.base.progress import Silent
from modtok_cli.cli.inference_options import sharing
from modtok_cli.cli.session import Session
from modtok_cli.model.generate.score import score
from modtok_cli.model.generate.worker_processes import Processes
from modtok_cli.model.load import load

TASKS = str(SAMPLE / "tasks")
PROMPTS = "".join(
    f'{{"prompt": "Le chat {n} dort", "languages": ["fr"]}}\n' for n in range(7)
).encode()
COMMANDS = {
    "mt": f"eval mt --eval-data {TASKS} --pairs en-fr --shots 1 --limit 5 --batch-size 2 "
    "--max-tokens 6 --examples examples.jsonl --json",
    "generate": "generate --max-tokens 5 --temperature 1 --batch-size 2",
}
ALONE = {**os.environ, "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu"}


class Threads(Processes):
    """Some of these in threads stand for processes."""

    def __init__(self, rank: int, given: list[Any], barrier: Barrier) -> None:
        super().__init__()
        self.rank, self.count, self.first = rank, len(given), rank == 0
        self._given, self._barrier = given, barrier

    def gather(self, item: Any) -> list[Any]:
        self._given[self.rank] = item
        self._barrier.wait(600)
        found = list(self._given)
        self._barrier.wait(600)
        return found


def shared(count: int, work: Callable[[Processes], Any]) -> list[Any]:
    """What `work` returns on each of some processes."""
    given, barrier = [None] * count, Barrier(count)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda rank: work(Threads(rank, given, barrier)), range(count)))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("units", [0, 1, 5, 6])
def test_each_unit_is_computed_once_and_known_to_all(count: int, units: int) -> None:
    worked: list[tuple[int, int]] = []

    def twice(processes: Processes) -> Any:
        def work(unit: int) -> int:
            worked.append((unit, processes.rank))
            return unit * unit

        passed: list[int] = []
        return [processes.map(work, range(units), done=passed.append) for _ in range(2)], passed

    squares = [unit * unit for unit in range(units)]
    assert shared(count, twice) == [([squares] * 2, [*range(units)] * 2)] * count
    assert sorted(worked) == sorted([(unit, unit % count) for unit in range(units)] * 2)


def test_likelihoods_are_those_of_one_process(
    few_steps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(few_steps, ["fr"])
    start = "Le marché ouvre à l’arrivée de la charrette et la reine est en retard. " * 2
    contexts = [f"{start}{word}" for word in ("Où", "Qui", "Quand", "Le roi", "x")] + ["Un", ""]
    requests = [
        ([model.end_of_text, *model.encode_in(context)], model.encode_out(f" {choice}"))
        for context in contexts
        for choice in ("oui", "non", "peut-être", "la charrette")
    ]
    alone = score(model, requests, batch=3)
    asked: list[int] = []
    progress = Silent()
    monkeypatch.setattr(
        progress, "task", lambda *_: nullcontext(SimpleNamespace(advance=asked.append))
    )
    found = shared(
        3,
        lambda processes: score(model, requests, batch=3, processes=processes, progress=progress),
    )
    assert found == [alone] * 3
    assert sum(asked) == 3 * len(requests)


def run(
    words: str, count: int, home: Path, run: Path, text: bytes = PROMPTS
) -> subprocess.CompletedProcess[bytes]:
    home.mkdir()
    needs = ["-m", "modtok_cli", *words.split(), str(run), "--gpus", str(count)]
    return run_python(needs, cwd=home, env=ALONE, input=text, capture_output=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_two_processes_write_the_bytes_of_one(
    few_steps: Path, tmp_path: Path, command: str
) -> None:
    found = []
    for count in (1, 2):
        home = tmp_path / str(count)
        done = run(COMMANDS[command], count, home, few_steps)
        assert done.returncode == 0, done.stderr
        files = {path.name: path.read_bytes() for path in home.iterdir()}
        found.append((done.stdout, done.stderr, files))
    assert found[0] == found[1]
    assert found[0][0]


def test_an_error_of_one_process_is_that_of_the_command(few_steps: Path, tmp_path: Path) -> None:
    text = PROMPTS.replace(b"chat 3", b"chat " * 300)
    words = "generate --max-tokens 2 --batch-size 2"
    one, two = (run(words, count, tmp_path / str(count), few_steps, text) for count in (1, 2))
    assert (one.returncode, one.stderr) == (two.returncode, two.stderr)
    assert two.returncode == 2
    assert two.stderr.startswith(b"modtok: error: line 4: the prompt has")
    assert two.stderr.count(b"\n") == 1


def test_ranks_of_torchrun_cannot_share_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.delenv(MESSAGES, raising=False)
    with (
        pytest.raises(UsageError, match=r"^--gpus: ranks of torchrun and srun cannot share"),
        sharing(Session(), 2, reads_input=True),
    ):
        raise AssertionError


def test_one_process_shares_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")  # of a job that is not asked to share this
    with sharing(Session(), 1, reads_input=True) as processes:
        assert (processes.rank, processes.count, processes.first) == (0, 1, True)
        assert processes.map(abs, [-1, 2]) == [1, 2]


ENDS = """
import os, signal
from modtok_cli.model.generate.worker_processes import joined
from modtok_cli.training.distributed import watchdog
watchdog._GOODBYE_SECONDS = watchdog._SECONDS = 0.2
with joined() as processes:
    print(processes.gather(float("nan")), flush=True)
    processes.map(lambda unit: unit and os.kill(os.getpid(), signal.SIGKILL), [0, 1])
"""


def test_a_process_that_is_killed_ends_all_with_one_line() -> None:
    first, second = start_ranks(2, "-c", ENDS, text=True)
    assert first.communicate(timeout=600) == (
        "[nan, nan]\n",
        "error: rank 1 has ended; run the command again\n",
    )
    assert second.communicate(timeout=600) == ("[nan, nan]\n", "")
    assert (first.returncode, second.returncode) == (1, -signal.SIGKILL)
