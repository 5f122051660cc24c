"""Executors, and counting as tasks: local ones, and a stand-in for Ray; for Slurm see `test_slurm`.

The real Ray runs in the benchmark `cluster_kills`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from helpers.contents import contents
from helpers.crawl import DATA, compressed, http, page, paragraphs, record, records_of
from helpers.killed_stages import Deadly
from helpers.processes import hear_ctrl_c, python
from helpers.sample import ROOT
from helpers.split_text import split_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.corpus import count, ray_tasks
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.count import corpus_count
from modtok_cli.corpus.executors import BuildStage, run_stages
from modtok_cli.text.corpus import write_counts

count_shards = partial(corpus_count, executor="local")
OPTIONS = {"partition": "cpu", "time": "1:00:00", "cpus_per_task": "2"}


def test_missing_slurm_or_ray_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    options = {"executor": "slurm", "executor_options": OPTIONS}
    with pytest.raises(UsageError, match="sbatch not found"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "data", **options)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"requires the package ray; pip install ray"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "other", executor="ray")
    with pytest.raises(UsageError, match="expected local, slurm or ray, got 'dask'"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "none", executor="dask")
    monkeypatch.setitem(sys.modules, "trafilatura", None)  # the default alone needs it
    with pytest.raises(UsageError, match=r"requires trafilatura; pip install 'modtok\[corpus\]'"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "none")
    monkeypatch.undo()
    with pytest.raises(UsageError, match="no quality model; "):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "none", quality_top=0.5)


def test_documented_pipelines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks in a pipeline of the user, and datatrove's MinHash over the output of a build."""
    monkeypatch.chdir(tmp_path)
    Path("crawl").mkdir()
    for name in ("fi", "en"):
        bodies = [paragraphs(name)[n : n + 4] for n in (0, 4, 8)]
        bodies.append([f"{text} (2)" for text in bodies[0]])  # nearly the first
        pages = [http(page(body)) for body in bodies] + [http(page(paragraphs(name)[12:]))]
        urls = [f"http://x/{n}" for n in range(4)] + ["http://x/tag/"]
        records = map(record, pages, urls)
        content = b"".join(compressed(raw, "gz") for raw in records)
        Path("crawl", f"{name}.warc.gz").write_bytes(content)
    corpus_build(["crawl"], workers=1, min_characters=1)
    text = (ROOT / "docs" / "corpora.md").read_text("utf-8")
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        assert len(code.splitlines()) <= 26
        Path(f"pipeline{number}.py").write_text(code)
        python(f"pipeline{number}.py", cwd=tmp_path)
    sizes = {name: len(records_of(Path("own", name))) for name in ("fi", "en")}
    assert sizes == {"fi": 4, "en": 4}
    assert len(records_of(Path("data/fi"))) == 5
    assert [one["url"] for one in records_of(Path("distinct/fi"))] == [
        "http://x/0", "http://x/1", "http://x/2", "http://x/tag/",
    ]  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return split_text(tmp_path / "data", 11)


def test_tree_merged_counts_equal_one_process(tmp_path: Path, data: Path) -> None:
    one, many = tmp_path / "one", tmp_path / "many"
    write_counts(data=data, output=one)
    rows = count_shards(data=data, output=many, workers=2)
    assert rows is not None
    assert [row["language"] for row in rows] == ["en", "fi"]
    assert contents(many) == contents(one)
    said = Silent()
    again = count_shards(data=data, output=many, progress=said)
    assert again == [row | {"unchanged": True} for row in rows]
    assert "already counted" in said.warnings[0]
    (data / "fi" / "03.jsonl").write_text('{"text": "uusi teksti"}\n')
    with pytest.raises(UsageError, match="no tasks without executor: omit"):
        corpus_count(data=data, output=many, workers=1)
    with pytest.raises(UsageError, match="would overwrite its own input"):
        count_shards(data=many / "fi.counts", output=many)
    changed = count_shards(data=data, output=many, tasks=2, workers=1, memory="200MB")
    write_counts(data=data, output=one)
    assert changed != rows
    assert contents(many) == contents(one)


def test_failed_count_resumes(tmp_path: Path, data: Path) -> None:
    one, out, bad = tmp_path / "one", tmp_path / "counts", data / "fi" / "05.jsonl"
    good = bad.read_bytes()
    bad.write_bytes(b"no JSON \xff\n")
    with pytest.raises(ModtokError, match=r"05\.jsonl:1: not JSON"):
        count_shards(data=data, output=out, workers=2)
    assert not (out / "fi.counts").exists()
    bad.write_bytes(good)
    with pytest.raises(UsageError, match="unfinished count of other files"):
        count_shards(data=data, output=out, workers=2)
    count_shards(data=data, output=out, workers=2, force=True)
    write_counts(data=data, output=one)
    assert contents(out) == contents(one)


@pytest.mark.parametrize("tasks", [3, 7])
def test_any_number_of_tasks_counts_and_learns_the_same(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    monkeypatch.setattr(count, "FAN", 2)
    monkeypatch.setattr(count, "run_stages", here)
    write_counts(data=data, output=tmp_path / "one")
    count_shards(data=data, output=tmp_path / "many", tasks=tasks)
    assert contents(tmp_path / "many") == contents(tmp_path / "one")
    if tasks == 3:
        for source, name in ((data, "text"), (tmp_path / "many", "tables")):
            bpe_seq(["en", "fi"], data=source, output=tmp_path / name, k=300)
        text, tables = contents(tmp_path / "text"), contents(tmp_path / "tables")
        assert all(text[name] == tables[name] for name in ("arrays.safetensors", "tokenizer.json"))


def here(stages: Sequence[BuildStage], *_: object, **__: object) -> None:
    """The tasks in this process, one after the other."""
    for stage in stages:
        for rank in range(stage.tasks):
            list(stage.blocks[0].run(rank=rank, world_size=stage.tasks))


def test_killed_count_resumes_without_counting_twice(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker dies at the end of a counting task; what tasks have written is not written again."""
    one, many = tmp_path / "one", tmp_path / "many"
    write_counts(["fi"], data=data, output=one)

    def stage(name: str, blocks: list[Any], tasks: int) -> BuildStage:
        return BuildStage(name, [*blocks, *[Deadly(0, signal.SIGKILL)] * (name[0] == "0")], tasks)

    with monkeypatch.context() as patched:
        patched.setattr(count, "BuildStage", stage)
        with pytest.raises(ModtokError, match=r"a worker was killed.*repeat the call to resume"):
            count_shards(["fi"], data=data, output=many, tasks=3, workers=1)
    assert not (many / "fi.counts").exists()
    written = {path: path.stat().st_mtime_ns for path in many.rglob("0-*.counts")}
    assert written
    after: dict[Path, int] = {}

    def resumed(stages: Sequence[BuildStage], *_: object, **__: object) -> None:
        here(stages)
        after.update({path: path.stat().st_mtime_ns for path in written})

    monkeypatch.setattr(count, "run_stages", resumed)
    count_shards(["fi"], data=data, output=many, tasks=3)
    assert after == written
    assert contents(many) == contents(one)


def test_tasks_of_a_script_do_not_run_it_again(tmp_path: Path, data: Path) -> None:
    (data.parent / "random.py").write_text("raise SystemExit('a file of the user ran')\n")
    script = tmp_path / "place" / "script.py"
    script.parent.mkdir()
    script.write_text(
        "import modtok_cli as modtok\n"
        "print('begins')\n"
        "rows = modtok.corpus_count(data='data', output='counts', workers=2, executor='local')\n"
        "print([row['language'] for row in rows])\n"
    )
    done = python(script, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("begins\n['en', 'fi']\n", "")


ENDLESS = """
import os
from helpers.killed_stages import Deadly
from modtok_cli.__main__ import main
from modtok_cli.corpus import count
real = count.BuildStage
count.BuildStage = lambda name, blocks, tasks: real(name, [*blocks, Deadly(os.getpid(), 0)], tasks)
main()
"""
"""A command whose first task goes on for as long as it is let; signal 0 does nothing."""


def test_ctrl_c_while_workers_start_is_one_line(tmp_path: Path, data: Path) -> None:
    """The terminal sends it to all processes, of which some do not ignore it yet."""
    command = [sys.executable, "-c", ENDLESS, "corpus", "count", "--executor", "local"]
    process = subprocess.Popen(
        [*command, "--data", str(data), "--output", str(tmp_path / "counts")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )
    while process.poll() is None and not [*tmp_path.rglob("logs")]:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (
        130,
        "modtok: interrupted; repeat the command to continue\n",
    )


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
    run_stages([BuildStage("0-count", [], 2)], logs, "ray")
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    reached = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(ray_tasks.socket, "create_connection", lambda *_: reached)
    run_stages([BuildStage("1-merge", [], 1)], logs, "ray")
    assert [each["address"] for each in ray.started] == ["auto", "ray://head:10001"]
    assert all("num_cpus" not in each for each in ray.started)
    assert ray.most == 2
    # Nothing is left to do.
    run_stages([BuildStage("0-count", [], 2), BuildStage("1-merge", [], 1)], logs, "ray")
    assert len(ray.options) == 2


def test_failures_are_one_line(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, out = split_text(tmp_path / "data", 2), tmp_path / "counts"
    (data / "fi" / "00.jsonl").write_bytes(b"no JSON \xff\n")
    with pytest.raises(ModtokError, match=r"00\.jsonl:1: not JSON.*; fix or delete the line"):
        corpus_count(data=data, output=out, **RAY)
    assert ray.stopped == 1
    ray.lost = RayError("the worker died\nand much more")
    with pytest.raises(ModtokError, match=r"counts: Ray failed \(the worker died\); repeat the c"):
        corpus_count(data=data, output=out, **RAY)
    ray.lost = RayError()
    with pytest.raises(ModtokError, match=r"counts: Ray failed \(RayError\); repeat the call to"):
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
    with pytest.raises(ModtokError, match=r"^127\.0\.0\.1:1: Ray does not start \(.*refused"):
        corpus_count(data=data, output=out, **RAY)
    assert len(ray.started) == before
    monkeypatch.undo()

    def fail(*_: Any) -> None:
        raise AssertionError("odd")

    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "ray", other := FakeRay())
        with pytest.raises(ModtokError, match=r"logs: a task failed \(AssertionError: odd\); see"):
            run_stages([BuildStage("0-count", [fail], 2)], tmp_path / "work" / "logs", "ray")
    assert (other.stopped, other.cancelled) == (1, 1)


def test_wrong_options(tmp_path: Path) -> None:
    data = split_text(tmp_path / "data", 1)
    with pytest.raises(UsageError, match="unknown option of Ray: address; use cpus_per_task,"):
        corpus_count(data=data, executor_options={"address": "auto"}, **RAY)
    with pytest.raises(UsageError, match="no tasks without executor: omit"):
        corpus_count(data=data, workers=2)
