"""`runs/<name>/`: the files of a run.

config.json      options, mixture, division and checksums of the text, tokenizer signature, versions
tokenizer/       a copy of the tokenizer
metrics.jsonl    a line per step, and one per evaluation
profile.json.gz  of --profile, see `profiling`
checkpoints/     see `checkpoint`
"""

import os
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.locks import alone
from modtok_cli.base.read_file import read_bounded
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.modular_directory import signature_at
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training.settings import SECTIONS

CONFIG = "config.json"
METRICS = "metrics.jsonl"
GRAFTED = "grafted"
"""Field of the config of a run that `modtok graft` wrote: the languages that were trained."""
CHAT = "chat"
"""Field of its "initial" with the chat template and special tokens of the model."""
NEW_ROWS = "new_rows"
"""Field of its "initial" with a bit for each token, see `new_rows`."""
CHECKPOINTS = "checkpoints"
LATEST = "latest"
STEP = re.compile(r"step-\d{8,}")
_RESTORE = "restore the file, or start another run with --name"
# Fields that readers of a config need.
_NEEDED = (
    *(("config", section) for section in SECTIONS),
    ("tokenizer", "signature"),
    ("ranks", "threads"),
)


def is_run(path: Path) -> bool:
    """Whether `path` has the files of a run, or is a checkpoint of one."""
    return (run_of(path) / CONFIG).is_file() and (run_of(path) / CHECKPOINTS).is_dir()


def run_of(path: Path) -> Path:
    """The directory of the run, of a path to it or to `…/checkpoints/step-…`."""
    return path.parent.parent if STEP.fullmatch(path.name) else path


def trained_languages(config: Mapping[str, Any], tokenizer: ModularTokenizer) -> tuple[str, ...]:
    """The languages of T whose rows a run has trained, or has from a trained model.

    `config` is the content of its config.json. Rows of other languages are as initialized.
    """
    initial = config.get("initial", {})
    trained = {name for name, share in config["mixture"].items() if share}
    trained.update(initial.get("languages", ()), config.get(GRAFTED, {}).get("languages", ()))
    if NEW_ROWS in initial:
        new = np.flatnonzero(new_rows(initial, tokenizer.size))
        for column, name in enumerate(tokenizer.languages):
            if not tokenizer.token_membership[new, column].any():
                trained.add(name)
    return tuple(name for name in tokenizer.languages if name in trained)


def new_rows(initial: Mapping[str, Any], size: int) -> BoolArray:
    """Which tokens of T the model of --init-from lacks, (V,); `initial` is of config.json."""
    try:
        packed = np.frombuffer(b64decode(initial[NEW_ROWS], validate=True), np.uint8)
        if len(packed) != (size + 7) // 8:
            raise ValueError
    except (KeyError, TypeError, ValueError, Base64Error) as error:
        raise ModtokError(f"field 'initial.{NEW_ROWS}' is damaged", where=CONFIG) from error
    return np.unpackbits(packed, count=size).astype(np.bool_)


class RunDirectory:
    """A run's directory, and the open file of its metrics."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metrics: BinaryIO | None = None
        self._lock = ExitStack()

    @property
    def checkpoints(self) -> Path:
        """Directory of the checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def metrics(self) -> Path:
        """The metrics, JSON lines."""
        return self.path / METRICS

    def read_config(self) -> dict[str, Any]:
        """Read config.json.

        Raises:
            UsageError: there is no such run.
            ModtokError: its config cannot be read.
        """
        file = self.path / CONFIG
        try:
            config: dict[str, Any] = orjson.loads(read_bounded(file))
            for table, field in _NEEDED:
                if not isinstance(config[table], dict):
                    raise TypeError(f"field '{table}' is not an object")
                if table == "config" and not isinstance(config[table][field], dict):
                    raise TypeError(f"field '{table}.{field}' is not an object")
                config[table][field]
            for text in (config, *config["stages"]):
                for table in ("mixture", "text"):
                    if not isinstance(text[table], dict):
                        raise TypeError(f"field '{table}' is not an object")
            for places in config["places"].values():
                if not all(isinstance(places[key], str) for key in ("absolute", "relative")):
                    raise TypeError("field 'places' is not pairs of paths")
            for field in ("threads", "world", "shards"):
                count = config["ranks"][field]
                if type(count) is not int or not 1 <= count <= 1 << 20:
                    raise ValueError(f"field 'ranks.{field}' is {count!r}")
        except FileNotFoundError as error:
            raise UsageError(
                "no such run", where=self.path, remedy="leave out --resume to start it"
            ) from error
        except (OSError, ValueError) as error:
            raise ModtokError(f"cannot be read ({error})", where=file, remedy=_RESTORE) from error
        except (AttributeError, KeyError, TypeError) as error:
            raise ModtokError(
                f"is not the configuration of a run of this version ({error})",
                where=file,
                remedy=_RESTORE,
            ) from error
        return config

    def lock(self) -> None:
        """Lock the run against other writers, until `close` or the end of this process.

        A run that does not exist yet has no lock.

        Raises:
            ModtokError: another process has locked it.
        """
        self._lock.close()  # of a directory that was replaced
        lock = ExitStack()
        if not lock.enter_context(alone(self.path, absent=True)):
            lock.close()
            raise ModtokError(
                "another process writes to this run",
                where=self.path,
                remedy="wait for it, or start another run with --name",
            )
        self._lock = lock

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write config.json, completely or not at all."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        write_bytes(self.path / CONFIG, orjson.dumps(config, option=options))

    def open_metrics(self, step: int) -> None:
        """Continue after `step`: later lines, and partial lines, are removed."""
        lines = []
        with suppress(FileNotFoundError):
            for line in self.metrics.read_bytes().split(b"\n"):
                try:
                    if line and orjson.loads(line)["step"] <= step:
                        lines.append(line + b"\n")
                except (ValueError, KeyError, TypeError):
                    continue
        write_bytes(self.metrics, b"".join(lines))
        self._metrics = open(self.metrics, "ab", buffering=0)  # noqa: SIM115 - lives with the run

    def has_line(self, step: int, field: str) -> bool:
        """Whether a line of the last step, which is `step`, has a field."""
        for line in reversed(self.metrics.read_bytes().split(b"\n")[:-1]):
            read = orjson.loads(line)
            if read["step"] != step:
                return False
            if field in read:
                return True
        return False

    def steps(self) -> Iterator[dict[str, Any]]:
        """The lines of training steps, without evaluations."""
        with open(self.metrics, "rb") as lines:
            yield from (read for line in lines if "loss" in (read := orjson.loads(line)))

    def add(self, line: Mapping[str, Any]) -> None:
        """Append a line of metrics; it is in the file when this returns."""
        assert self._metrics is not None
        try:
            self._metrics.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise ModtokError(
                f"cannot write: {error.strerror}",
                where=self.metrics,
                remedy="free space, then continue with --resume",
            ) from error

    def close(self) -> None:
        """Close the metrics and release the lock."""
        self._lock.close()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None


def point_latest(path: Path) -> None:
    """Make `runs/latest` a link to `path`, atomically; no-op without support for links."""
    beside = path.parent / f".{LATEST}-{os.getpid()}"
    with suppress(OSError):
        for left in path.parent.glob(f".{LATEST}-*"):  # from killed runs
            left.unlink()
        beside.symlink_to(path.name, target_is_directory=True)
        beside.replace(path.parent / LATEST)


def find_tokenizer(
    run: Path,
    facts: Mapping[str, Any],
    path: Path | None = None,
    *,
    remedy: str = "give its directory with -t",
) -> Path:
    """The modular directory with the run's signature: `path`, or one in the usual places.

    These are the run, its workspace and the current directory. If `path` contains the run's
    tokenizer (a language was appended to it), the run's own is returned. `facts` is "tokenizer"
    of the run's config.json.
    """
    real, name, signature = run.resolve(), str(facts.get("path", "tokenizer")), facts["signature"]
    usual = [real / name, real.parent.parent / name, Path(name)]
    others = []
    for place in [path] if path else usual:
        other = signature_at(place)
        if other == signature:
            return place
        if other:
            others.append(f"{place} is {other}")
    if path is not None and others:
        own = next((place for place in usual if signature_at(place) == signature), None)
        if own and containment(ModularTokenizer.load(path), ModularTokenizer.load(own)).holds:
            return own
    seen = f" ({'; '.join(dict.fromkeys(others))})" if others else ""
    raise UsageError(
        f"was trained with tokenizer {signature}, which was not found{seen}",
        where=run,
        remedy=remedy,
    )
