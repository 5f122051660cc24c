"""Tasks on Ray: a stand-in for the package. The real one runs in the benchmark `cluster_kills`."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from helpers.contents import contents
from helpers.split_text import split_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus import ray_tasks
from modtok_cli.corpus.count import corpus_count
from modtok_cli.corpus.executors import Stage, run_stages
from modtok_cli.text.corpus import write_counts


class RayError(Exception):
    """Ray lost something."""


class RayTaskError(RayError):
    """A task failed with `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("a long trace")
        self.cause = cause


class FakeRay(ModuleType):
    """Tasks run where they are waited for; `started` are the arguments of `init`."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self) -> None:
        super().__init__("ray")
        self.started: list[dict[str, Any]] = []
        self.options: list[dict[str, Any]] = []
        self.most = self.cancelled = self.stopped = 0
        self.refusal: Exception | None = None
        self.lost: Exception | None = None

    def is_initialized(self) -> bool:
        return False

    def init(self, **given: Any) -> None:
        self.started.append(given)
        if self.refusal:
            raise self.refusal

    def put(self, value: Any) -> Any:
        return value

    def remote(self, function: Callable[..., None]) -> Any:
        def options(**given: Any) -> Any:
            self.options.append(given)
            return SimpleNamespace(remote=lambda *words: (function, words))

        return SimpleNamespace(options=options)

    def wait(self, running: list[Any]) -> tuple[list[Any], list[Any]]:
        self.most = max(self.most, len(running))
        return running[:1], running[1:]

    def get(self, done: list[Any]) -> None:
        for function, words in done:
            if self.lost:
                raise self.lost
            try:
                function(*words)
            except Exception as error:
                raise RayTaskError(error) from None

    def cancel(self, _: Any, force: bool) -> None:
        self.cancelled += force

    def shutdown(self) -> None:
        self.stopped += 1


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return fake


RAY = {"executor": "ray", "workers": 2}


def test_counts_equal_those_of_one_process(ray: FakeRay, tmp_path: Path) -> None:
    data, out = split_text(tmp_path / "data", 3), tmp_path / "counts"
    write_counts(data=data, output=tmp_path / "one")
    given = {"cpus_per_task": "2", "mem_per_cpu_gb": "1.5"}
    rows = corpus_count(data=data, output=out, executor_options=given, **RAY)
    assert [row["language"] for row in rows] == ["en", "fi"]
    assert contents(out) == contents(tmp_path / "one")
    needs = {"num_cpus": 2.0, "num_gpus": 0.0, "memory": 3 << 30, "max_retries": 3}
    assert ray.options == [needs, needs]
    assert (ray.most, ray.stopped, ray.cancelled) == (2, 1, 0)
    assert ray.started[0]["address"] == "local"
    assert ray.started[0]["num_cpus"] == 2


def test_a_cluster_by_its_address(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "work" / "logs"
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    run_stages([Stage("0-count", [], 2)], logs, "ray")
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    reached = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(ray_tasks.socket, "create_connection", lambda *_: reached)
    run_stages([Stage("1-merge", [], 1)], logs, "ray")
    assert [each["address"] for each in ray.started] == ["auto", "ray://head:10001"]
    assert all("num_cpus" not in each for each in ray.started)
    assert ray.most == 2
    # Nothing is left to do.
    run_stages([Stage("0-count", [], 2), Stage("1-merge", [], 1)], logs, "ray")
    assert len(ray.options) == 2


def test_failures_are_one_line(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = split_text(tmp_path / "data", 2), tmp_path / "counts"
    (data / "fi" / "00.jsonl").write_bytes(b"\xff\xfe no JSON\n")
    with pytest.raises(ModtokError, match=r"00\.jsonl:1: not JSON.*; fix or delete the line"):
        corpus_count(data=data, output=out, **RAY)
    assert ray.stopped == 1
    ray.lost = RayError("the worker died\nand much more")
    with pytest.raises(ModtokError, match=r"counts: Ray failed \(the worker died\); repeat the c"):
        corpus_count(data=data, output=out, **RAY)
    ray.refusal = RuntimeError("no memory for the store.\nTrace")
    with pytest.raises(ModtokError, match=r"^Ray does not start \(no memory for the store\); free"):
        corpus_count(data=data, output=out, **RAY)
    ray.refusal = ConnectionError("no Ray")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(ModtokError, match=r"^auto: Ray does not start \(no Ray\); check"):
        corpus_count(data=data, output=out, **RAY)
    # Nothing listens there, so Ray is not called.
    before = len(ray.started)
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ModtokError, match=r"^127\.0\.0\.1:1: Ray does not start \("):
        corpus_count(data=data, output=out, **RAY)
    assert len(ray.started) == before


def test_a_failure_of_another_type_names_it(ray: FakeRay, tmp_path: Path) -> None:
    with pytest.raises(ModtokError, match=r"logs: a task failed \(AssertionError: odd\); see the"):
        run_stages([Stage("0-count", [fail], 2)], tmp_path / "work" / "logs", "ray")
    assert (ray.stopped, ray.cancelled) == (1, 1)


def fail(*_: Any) -> None:
    raise AssertionError("odd")


def test_wrong_options(tmp_path: Path) -> None:
    data = split_text(tmp_path / "data", 1)
    with pytest.raises(UsageError, match="unknown option of Ray: address; use cpus_per_task,"):
        corpus_count(data=data, executor_options={"address": "auto"}, **RAY)
    with pytest.raises(UsageError, match="require executor"):
        corpus_count(data=data, workers=2)
