"""Executors, and counting as tasks; for Slurm see `test_slurm`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.contents import contents
from helpers.crawl import DATA
from helpers.killed_stages import Deadly
from helpers.processes import hear_ctrl_c
from helpers.split_text import split_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.corpus import count
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.count import corpus_count, tasks_of
from modtok_cli.corpus.executors import Stage
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
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # only one layout needs it
    with pytest.raises(UsageError, match=r"requires pyarrow; pip install 'modtok\[data\]'"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "none", layout="fineweb-2")
    with pytest.raises(UsageError, match="--quality-model"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "none", quality_top=0.5)


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
    with pytest.raises(UsageError, match="wait and executor_options require"):
        corpus_count(data=data, output=many, workers=1)
    changed = count_shards(data=data, output=many, tasks=2, workers=1, memory="200MB")
    write_counts(data=data, output=one)
    assert changed != rows
    assert contents(many) == contents(one)


def test_failed_count_resumes(tmp_path: Path, data: Path) -> None:
    one, out, bad = tmp_path / "one", tmp_path / "counts", data / "fi" / "05.jsonl"
    good = bad.read_bytes()
    bad.write_bytes(b"\xff\xfe no JSON\n")
    with pytest.raises(ModtokError, match=r"05\.jsonl:1: not JSON"):
        count_shards(data=data, output=out, workers=2)
    assert not (out / "fi.counts").exists()
    bad.write_bytes(good)
    with pytest.raises(UsageError, match="unfinished count of other files"):
        count_shards(data=data, output=out, workers=2)
    count_shards(data=data, output=out, workers=2, force=True)
    write_counts(data=data, output=one)
    assert contents(out) == contents(one)


def test_count_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count, "FAN", 8)
    files = {"fi": [Path(f"{n}.txt") for n in range(65)], "en": [Path("en.txt")]}
    sizes = {"fi": [1] * 65, "en": [9]}
    stages = tasks_of(files, sizes, Path("work"), Path("out"), 66)
    assert [len(stage) for stage in stages] == [66, 9, 2, 1]
    jobs = [[job for task in stage for job in task] for stage in stages]
    assert [job.output for job in jobs[0] if job.last] == ["out/en.counts"]
    assert [(job.output, job.last) for job in jobs[-1]] == [("out/fi.counts", True)]
    for earlier, later in pairwise(jobs):
        made = sorted(job.output for job in earlier if not job.last)
        assert sorted(name for job in later for name in job.inputs) == made


@given(
    st.lists(st.tuples(st.sampled_from(["en", "fi"]), st.integers(0, 100)), min_size=1),
    st.integers(1, 9),
)
def test_tasks_share_all_files_by_size(given_files: list[tuple[str, int]], tasks: int) -> None:
    files: dict[str, list[Path]] = {}
    sizes: dict[str, list[int]] = {}
    for n, (language, size) in enumerate(given_files):
        files.setdefault(language, []).append(Path(f"{language}{n}"))
        sizes.setdefault(language, []).append(size)
    first = tasks_of(files, sizes, Path("w"), Path("o"), tasks)[0]
    assert len(first) <= tasks
    read = [(job.language, name) for task in first for job in task for name in job.inputs]
    wanted = [(language, str(path)) for language, paths in files.items() for path in paths]
    assert sorted(read) == sorted(wanted)
    paths = map(str, chain.from_iterable(files.values()))
    size_of = dict(zip(paths, chain.from_iterable(sizes.values()), strict=True))
    loads = [sum(size_of[name] for job in task for name in job.inputs) for task in first]
    assert max(loads) - min(loads) <= max(size_of.values()) or len(first) < tasks


@pytest.mark.parametrize("tasks", [1, 3, 7])
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


def here(stages: Sequence[Stage], *_: object) -> None:
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

    def stage(name: str, blocks: list[Any], tasks: int) -> Stage:
        return Stage(name, [*blocks, *[Deadly(0, signal.SIGKILL)] * (name[0] == "0")], tasks)

    with monkeypatch.context() as patched:
        patched.setattr(count, "Stage", stage)
        with pytest.raises(ModtokError, match="a worker was killed"):
            count_shards(["fi"], data=data, output=many, tasks=3, workers=1)
    assert not (many / "fi.counts").exists()
    written = {path: path.stat().st_mtime_ns for path in many.rglob("0-*.counts")}
    assert written
    after: dict[Path, int] = {}

    def resumed(stages: Sequence[Stage], *_: object) -> None:
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
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("begins\n['en', 'fi']\n", "")


def test_ctrl_c_while_workers_start_is_one_line(tmp_path: Path, data: Path) -> None:
    """The terminal sends it to all processes, of which some do not ignore it yet."""
    command = [sys.executable, "-m", "modtok_cli", "corpus", "count", "--executor", "local"]
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
