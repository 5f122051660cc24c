"""`runs/<name>/`: what a run was, and how it went.

config.json      settings, mixture, tokenizer signature, seeds, versions
metrics.jsonl    a line a step, and one an evaluation
checkpoints/     see `checkpoint`
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes

CONFIG = "config.json"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
LATEST = "latest"
_ANOTHER = "put it back as it was, or start another run with --name"
# What those who read a config ask it for.
_ASKED = (
    ("config", "dtype"),
    ("tokenizer", "signature"),
    ("ranks", "threads"),
)


class RunDirectory:
    """A run's directory and the lines that are added to its metrics."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metrics: BinaryIO | None = None
        self._lock: int | None = None

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.path / CHECKPOINTS

    @property
    def metrics(self) -> Path:
        """The metrics, JSON lines."""
        return self.path / METRICS

    def read_config(self) -> dict[str, Any]:
        """What the run was started with.

        Raises:
            UsageError: there is no such run.
            ModtokError: its config cannot be read.
        """
        file = self.path / CONFIG
        try:
            config: dict[str, Any] = orjson.loads(file.read_bytes())
            for table, field in _ASKED:
                if not isinstance(config[table], dict):
                    raise TypeError(f"field '{table}' is not an object")
                config[table][field]
            if not isinstance(config["mixture"], dict):
                raise TypeError("field 'mixture' is not an object")
            threads = config["ranks"]["threads"]
            if type(threads) is not int or not 1 <= threads <= 4096:
                raise ValueError(f"field 'ranks.threads' is {threads!r}")
        except FileNotFoundError as error:
            raise UsageError(
                "no such run", where=str(self.path), remedy="leave --resume out to start it"
            ) from error
        except (OSError, ValueError) as error:
            raise ModtokError(
                f"cannot be read ({error})", where=str(file), remedy=_ANOTHER
            ) from error
        except (KeyError, TypeError) as error:
            raise ModtokError(
                f"is not as pretrain writes it ({error})", where=str(file), remedy=_ANOTHER
            ) from error
        return config

    def lock(self) -> None:
        """Keep other processes from writing this run, until `close` or the end of this one.

        By a lock on the directory itself, which leaves no file behind; a kill ends it too.

        Raises:
            ModtokError: another process holds it.
        """
        try:
            held = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:  # a run that is yet to begin
            return
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(held)
            raise ModtokError(
                "another process is writing this run",
                where=str(self.path),
                remedy="wait for it, or start another run with --name",
            ) from error
        except OSError:  # a file system without locks
            os.close(held)
            return
        self._release()
        self._lock = held

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def start(self, config: Mapping[str, Any]) -> None:
        """Begin a run: its config, no metrics, and `runs/latest` pointing here."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        write_bytes(self.path / CONFIG, orjson.dumps(config, option=options))
        self.metrics.write_bytes(b"")
        self.lock()
        point_latest(self.path)

    def open_metrics(self, step: int) -> None:
        """Go on after `step`: lines beyond it, or half a line, are of work to be done again."""
        kept = []
        with suppress(FileNotFoundError):
            for line in self.metrics.read_bytes().split(b"\n"):
                try:
                    if line and orjson.loads(line)["step"] <= step:
                        kept.append(line + b"\n")
                except (ValueError, KeyError, TypeError):
                    continue
        write_bytes(self.metrics, b"".join(kept))
        self._metrics = open(self.metrics, "ab", buffering=0)  # noqa: SIM115 - lives with the run

    def add(self, line: Mapping[str, Any]) -> None:
        """One line of metrics; in the file when this returns.

        Raises:
            ModtokError: the file system refused.
        """
        assert self._metrics is not None
        try:
            self._metrics.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise ModtokError(
                f"cannot write: {error.strerror}",
                where=str(self.metrics),
                remedy="free space, then go on with --resume",
            ) from error

    def close(self) -> None:
        """No more lines; others may go on with the run."""
        self._release()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None


def point_latest(path: Path) -> None:
    """Make `runs/latest` a link to `path`, at once; not where links are refused."""
    beside = path.parent / f".{LATEST}-{os.getpid()}"
    with suppress(OSError):
        for left in path.parent.glob(f".{LATEST}-*"):  # of killed runs
            left.unlink()
        beside.symlink_to(path.name, target_is_directory=True)
        beside.replace(path.parent / LATEST)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics; a line cut short by a kill is left out."""
    lines = []
    for line in (path / METRICS).read_bytes().split(b"\n"):
        with suppress(ValueError):
            if line:
                lines.append(orjson.loads(line))
    return lines
