"""Full disks, read-only directories, little memory and Ctrl-C."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from modtok_cli.base import memory
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, check_new, write_bytes
from modtok_cli.base.progress import Silent
from modtok_cli.base.read_file import read_bounded
from modtok_cli.cli.execute import _thread_failed, explain
from modtok_cli.cli.session import Session
from modtok_cli.corpus.executors import _is_managed
from modtok_cli.corpus.fasttext_file import FastText
from modtok_cli.model.slice.slice_directory import read_facts
from modtok_cli.reports.collect import read_result
from modtok_cli.training.checkpoint.checkpoint_files import check
from modtok_cli.training.opening import _has_content
from modtok_cli.training.rundir import RunDirectory

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libx.so: failed to map segment from shared object"),
    ],
)
def test_memory_errors_are_recognized(error: BaseException) -> None:
    status, said = explain(error, None, Session(args=("nsl",)))
    assert status == 1
    assert said.startswith("out of memory")


def test_read_only_error_names_the_users_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the temporary file beside it, which cannot be removed either."""

    def refuse(path: Path, *args: Any, **options: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ModtokError) as caught:
        write_bytes(tmp_path / "out.json", b"x")
    assert str(caught.value).startswith(f"{tmp_path / 'out.json'}: cannot write: Read-only")


def test_output_to_a_pipe_keeps_the_pipe(tmp_path: Path) -> None:
    """As root, `-o /dev/null --force` would replace the device by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_bytes(pipe, b"content")
    reader.join(timeout=600)
    assert found == [b"content"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_output_replaces_a_link_not_its_target(tmp_path: Path) -> None:
    large = tmp_path / "large"
    (large / "old").mkdir(parents=True)
    (large / "file").write_bytes(b"kept")
    (tmp_path / "file").symlink_to(large / "file")
    (tmp_path / "directory").symlink_to(large / "old")
    (tmp_path / "dangling").symlink_to(large / "nothing")
    for name in ("file", "directory", "dangling"):
        with pytest.raises(UsageError, match=f"{name}: already exists"):
            check_new(tmp_path / name)
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    for name in ("directory", "dangling"):
        with atomic_directory(tmp_path / name) as beside:
            (beside / "part").write_bytes(b"new")
        assert (tmp_path / name / "part").read_bytes() == b"new"
    assert (large / "file").read_bytes() == b"kept"
    assert list((large / "old").iterdir()) == []


def test_output_to_dev_stdout_keeps_the_device(tmp_path: Path) -> None:
    """It is a link to the file that output is redirected to."""
    code = "from pathlib import Path; from modtok_cli.base.files import write_bytes; "
    code += "write_bytes(Path('/dev/stdout'), b'content')"
    before = Path("/dev/stdout").readlink()
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, cwd=ROOT)
    assert (tmp_path / "out").read_bytes() == b"content"
    assert Path("/dev/stdout").readlink() == before


@pytest.mark.parametrize("place", ["text/page.html", "text/more/page.html"])
def test_an_output_below_a_file_names_the_file(tmp_path: Path, place: str) -> None:
    (tmp_path / "text").write_text("not a directory")
    with pytest.raises(ModtokError) as caught:
        write_bytes(tmp_path / place, b"")
    assert str(caught.value) == (
        f"{tmp_path / place}: cannot write: {tmp_path / 'text'} is a file, not a directory; "
        "nothing was changed; choose another path"
    )


def test_ctrl_c_during_imports() -> None:
    """No handler is installed yet."""
    code = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'modtok_cli.cli.commands': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['modtok', '--version']\n"
        "from modtok_cli.__main__ import main\n"
        "main()\n"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "modtok: interrupted; no partial output remains\n"


def test_damaged_language_model_is_one_line(tmp_path: Path) -> None:
    """Its values are read when it predicts."""

    class Damaged:
        def predict(self, text: str) -> None:
            raise RuntimeError("Encountered NaN.")

    with pytest.raises(ModtokError, match=r"q.bin: damaged fastText model \(Encountered NaN"):
        FastText(Damaged(), tmp_path / "q.bin").predict("text")


def test_run_killed_before_its_first_file_starts_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert not _has_content(run)
    run.mkdir()
    (run / ".config.json.partial-4").write_bytes(b"{")
    assert not _has_content(run)
    (run / "notes.txt").touch()
    assert _has_content(run)
    assert _has_content(run / "notes.txt")


def test_full_disk_in_safetensors_is_one_line(tmp_path: Path) -> None:
    """It raises an error of its own type."""
    said = "Error while serializing: I/O error: No space left on device (os error 28)"
    with (
        pytest.raises(ModtokError, match="out: cannot write: No space left on device; nothing was"),
        atomic_directory(tmp_path / "out"),
    ):
        raise SafetensorError(said)
    with pytest.raises(SafetensorError, match="header"), atomic_directory(tmp_path / "out"):
        raise SafetensorError("header too large")
    assert list(tmp_path.iterdir()) == []


def test_pool_without_its_manager_thread_is_detected() -> None:
    """If no further thread can be started it dies, and its tasks would never finish."""
    pool = ProcessPoolExecutor(1)  # it starts nothing before the first task
    assert pool._executor_manager_thread is None  # the name that is looked at
    assert _is_managed(pool)
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    pool._executor_manager_thread = ended  # type: ignore[assignment]
    assert not _is_managed(pool)
    pool._executor_manager_thread = threading.current_thread()  # type: ignore[assignment]
    assert _is_managed(pool)
    pool._executor_manager_thread = None


def test_failing_thread_is_one_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a traceback where that of an error is wanted."""
    error = RuntimeError("can't start\nnew thread")
    failure = threading.ExceptHookArgs((RuntimeError, error, None, None))
    line = "modtok: warning: a thread failed (RuntimeError: can't start new thread)\n"
    for debug, variable in ((False, "0"), (False, "1"), (True, "")):
        monkeypatch.setenv("MODTOK_DEBUG", variable)
        _thread_failed(Session(debug=debug), failure)
        said = capfd.readouterr().err
        assert said.endswith(line)
        assert (said == line) == (not debug and variable == "0")


def test_address_space_limit_counts_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    free = memory.available()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (used + (1 << 30), -1))
    limited = memory.available()
    # This process may use less than before, by the memory of a thread that has ended.
    assert free is None or (limited is not None and limited < 5 << 28)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, -1))
    with pytest.raises(ModtokError, match=r"training needs about 0\.2 GiB of memory, 0\.0 GiB"):
        memory.check_memory(1 << 28, "training", "use less")


def huge(path: Path) -> Path:
    """A sparse file of 4 GiB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as handle:
        handle.truncate(4 << 30)
    return path


def test_huge_files_of_runs_slices_and_rows_are_refused(tmp_path: Path) -> None:
    huge(tmp_path / "modtok.json")
    huge(tmp_path / "runs" / "it" / "config.json")
    rows = huge(tmp_path / "rows.jsonl")
    for read in (
        lambda: read_facts(tmp_path),
        lambda: RunDirectory(tmp_path / "runs" / "it").read_config(),
    ):
        with pytest.raises(ModtokError, match="1,073,741,824 bytes"):
            read()
    said = Silent()
    assert read_result(rows, said) is None
    assert "more than 1,073,741,824 bytes" in said.warnings[0]
    assert "damaged" in check(huge(tmp_path / "step-00000001" / "state.json").parent)[0]
    with pytest.raises(OSError, match="is a device"):
        read_bounded(Path("/dev/zero"))
