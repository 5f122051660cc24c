"""The same tasks by Slurm (a stand-in for its commands), and counting as tasks."""

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.robustness.engine.crawl import DATA, records_of
from helpers.python_processes import write_command
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.count import count_shards, jobs_of
from modtok_cli.corpus.report import load_report
from modtok_cli.text.corpus import write_counts

SBATCH = """#!/bin/sh
# Runs an array job at once and here, as sbatch would later and elsewhere.
for word in "$@"; do script="$word"; done
echo "$@" >> "$SLURM_LOG"
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$script")
grep -q merge_stats "$script" && { echo "Submitted batch job 9"; exit 0; }
for task in $(seq 0 "$last"); do
    SLURM_ARRAY_TASK_ID=$task SLURM_NODELIST=here bash "$script" >> "$SLURM_LOG" 2>&1 || exit 1
done
echo "Submitted batch job 7"
"""
SRUN = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do [ "$1" = -n ] && shift; shift; done
exec "$@"
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with sbatch, srun and scontrol first on the path."""
    place = tmp_path / "bin"
    place.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("scontrol", "#!/bin/sh\necho here\n")):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    write_command(place / "launch_pickled_pipeline", "-m datatrove.tools.launch_pickled_pipeline")
    path = f"{place}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("SLURM_LOG", str(tmp_path / "slurm.log"))
    return tmp_path


OPTIONS = {"partition": "cpu", "time": "1:00:00", "cpus_per_task": "2"}


def test_slurm_equals_the_local_executor(slurm: Path) -> None:
    inputs = [DATA / "fi.jsonl", DATA / "en.jsonl"]
    near = {"near_duplicates": "language", "near_buckets": 1, "near_hashes": 1}
    corpus_build(inputs, output=slurm / "local", shard_bytes=1, **near)
    options = {"executor": "slurm", "executor_options": OPTIONS, **near}
    submitted = corpus_build(inputs, output=slurm / "data", shard_bytes=1, **options)
    assert submitted is None
    report = corpus_build(inputs, output=slurm / "data", shard_bytes=1, **options)
    assert report is not None
    assert report.languages == load_report(slurm / "local").languages
    for language in ("fi", "en"):
        assert records_of(slurm / "data" / language) == records_of(slurm / "local" / language)
    log = (slurm / "slurm.log").read_text()
    assert "--dependency=afterok:7" in log
    script = (slurm / "data/.corpus-build/logs/7-corpus/launch_script.slurm").read_text()
    assert "#SBATCH --partition=cpu" in script
    assert "#SBATCH --cpus-per-task=2" in script


def test_missing_slurm_or_ray_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    options = {"executor": "slurm", "executor_options": OPTIONS}
    with pytest.raises(UsageError, match="sbatch not found"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "data", **options)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        UsageError, match=r"requires the package ray; pip install 'datatrove\[ray\]'"
    ):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "other", executor="ray")
    with pytest.raises(UsageError, match="expected one of local, slurm, ray, got 'dask'"):
        corpus_build([DATA / "fi.jsonl"], output=tmp_path / "none", executor="dask")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Finnish in eleven files, English in one."""
    place = tmp_path / "data"
    (place / "fi").mkdir(parents=True)
    lines = (DATA / "fi.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for n in range(11):
        (place / "fi" / f"{n:02d}.jsonl").write_text(lines[n], encoding="utf-8")
    shutil.copy(DATA / "en.jsonl", place)
    return place


def test_tree_merged_counts_equal_one_process(tmp_path: Path, data: Path) -> None:
    write_counts(data=data, output=tmp_path / "one")
    rows = count_shards(data=data, output=tmp_path / "many", workers=2)
    assert rows is not None
    assert [row["language"] for row in rows] == ["en", "fi"]
    for name in ("en.counts", "fi.counts"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "many" / name).read_bytes()
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == ["en.counts", "fi.counts"]
    said = Silent()
    again = count_shards(data=data, output=tmp_path / "many", progress=said)
    assert again == [row | {"unchanged": True} for row in rows]
    assert "already counted" in said.warnings[0]
    (data / "fi" / "03.jsonl").write_text('{"text": "uusi teksti"}\n')
    changed = count_shards(data=data, output=tmp_path / "many", workers=1)
    write_counts(data=data, output=tmp_path / "one")
    assert changed != rows
    assert (tmp_path / "one/fi.counts").read_bytes() == (tmp_path / "many/fi.counts").read_bytes()


def test_failed_count_resumes(tmp_path: Path, data: Path) -> None:
    bad = data / "fi" / "05.jsonl"
    good = bad.read_bytes()
    bad.write_bytes(b"\xff\xfe no JSON\n")
    with pytest.raises(ModtokError, match=r"05\.jsonl:1: not JSON"):
        count_shards(data=data, output=tmp_path / "counts", workers=2)
    assert not (tmp_path / "counts" / "fi.counts").exists()
    bad.write_bytes(good)
    with pytest.raises(UsageError, match="unfinished count of other files"):
        count_shards(data=data, output=tmp_path / "counts", workers=2)
    count_shards(data=data, output=tmp_path / "counts", workers=2, force=True)
    write_counts(data=data, output=tmp_path / "one")
    assert (tmp_path / "one/fi.counts").read_bytes() == (tmp_path / "counts/fi.counts").read_bytes()


def test_slurm_counts_too(slurm: Path, data: Path) -> None:
    for path in sorted((data / "fi").iterdir())[2:]:
        path.unlink()
    options = {"executor": "slurm", "executor_options": OPTIONS}
    assert count_shards(data=data, output=slurm / "counts", **options) is None
    rows = count_shards(data=data, output=slurm / "counts", **options)
    assert rows is not None
    assert [row["language"] for row in rows] == ["en", "fi"]
    assert sorted(path.name for path in (slurm / "counts").iterdir()) == ["en.counts", "fi.counts"]


def test_count_tree() -> None:
    files = {"fi": [Path(f"{n}.txt") for n in range(65)], "en": [Path("en.txt")]}
    stages = jobs_of(files, Path("work"), Path("out"))
    assert [len(stage) for stage in stages] == [66, 9, 2, 1]
    assert [job.output for job in stages[0] if job.last] == ["out/en.counts"]
    assert [(job.output, job.last) for job in stages[-1]] == [("out/fi.counts", True)]
    for earlier, later in pairwise(stages):
        made = [job.output for job in earlier if not job.last]
        assert [name for job in later for name in job.inputs] == made


def test_sandbox_module_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "modtok_cli.corpus.sandbox", "1", "2147483648"],
        input=b"",
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
