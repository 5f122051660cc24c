"""`modtok doctor`: check the machine, installed packages and the native core.

Optional packages are not imported, since a broken one could fail: versions come from package
metadata.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from modtok_cli.base.memory import available
from modtok_cli.base.public import public
from modtok_cli.base.version import __version__

State = Literal["ok", "missing", "old", "none", "invalid"]

# The purpose of the packages of each extra; `tests/cli/test_doctor.py` checks it against the
# extras of pyproject.toml and the existing commands.
PURPOSES = {
    "": "every command",
    "published": "tokenizers of other programs: tokenizer.json and tiktoken files",
    "plot": "plots in files (--plot x.svg), report",
    "data": "text in Parquet and Arrow files",
    "corpus": "corpus build, corpus train-quality, --executor",
    "lm": "pretrain, generate, slice, export, cost --time",
    "gpu": "fused kernels and FP8 of pretrain on GPUs",
    "eval": "every command of modtok eval",
    "log": "pretrain --log tensorboard,wandb",
}
_FEATURES = ("sse4_2", "avx2", "avx512f", "asimd", "sve")


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        part: machine, settings, package or core.
        name: name of the package or device.
        state: ok; missing or old (a package); none (no such device); invalid (settings).
        detail: version, size or purpose.
        remedy: command that fixes it, or "".
        extra: extra that installs the package; "" for packages that every command needs.
    """

    part: str
    name: str
    state: State
    detail: str
    remedy: str = ""
    extra: str = ""


@public
def doctor(settings_error: str = "") -> list[Finding]:
    """Check the installation and show how to fix problems.

    Lists packages by extra, with the commands that need them; processor, memory and GPUs; and
    the instruction set of the native core.

    Returns:
        A `Finding` per line, `settings_error`, the error of modtok.toml, among them.

    Examples:
        >>> {finding.part for finding in modtok.doctor()} >= {"machine", "core"}
        True
    """
    settings = []
    if settings_error:
        settings = [Finding("settings", "modtok.toml", "invalid", settings_error)]
    return [*_machine(), *settings, *_packages(), *_core()]


def healthy(findings: list[Finding]) -> bool:
    """Whether no package is missing that every command needs; extras may be."""
    return not any(f.state in ("missing", "old") and not f.extra for f in findings)


def _machine() -> list[Finding]:
    findings = [
        Finding("machine", "modtok", "ok", f"{__version__} in {Path(__file__).parents[2]}"),
        Finding("machine", "python", "ok", f"{platform.python_version()} {sys.executable}"),
        Finding("machine", "cpu", "ok", f"{_cores()} cores; {_features()}"),
    ]
    free = available()
    if free is not None:
        findings.append(Finding("machine", "memory", "ok", f"{free / 2**30:.1f} GiB free"))
    return [*findings, *_gpus()]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _features() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    lines = [line.split(":")[1].split() for line in text.splitlines() if line[:5] in _FLAG_LINES]
    has = set(lines[0]) if lines else set()
    return " ".join([platform.machine(), *(name for name in _FEATURES if name in has)])


_FLAG_LINES = ("flags", "Featu")


def _gpus() -> list[Finding]:
    """GPUs as nvidia-smi reports them; torch is slow to import and may lack CUDA."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode != 0 or not done.stdout.strip():
        return [Finding("machine", "gpu", "none", "not found; models run on the CPU")]
    return [Finding("machine", "gpu", "ok", line) for line in done.stdout.strip().splitlines()]


def _packages() -> list[Finding]:
    try:
        declared = requires("modtok") or []
    except PackageNotFoundError:
        remedy = "pip install ."
        return [
            Finding("package", "modtok", "missing", "not installed; run from a checkout", remedy)
        ]
    findings = []
    for extra, purpose in PURPOSES.items():
        for line in declared:
            need = Requirement(line)
            if need.name != "modtok" and _applies(need, extra):
                findings.append(_package(need, extra, purpose))
    return findings


def _applies(need: Requirement, extra: str) -> bool:
    """Whether `need` belongs to `extra` on this Python, and not to the base packages."""
    if need.marker is None:
        return extra == ""
    return need.marker.evaluate({"extra": extra}) and (
        extra == "" or not need.marker.evaluate({"extra": ""})
    )


def _package(need: Requirement, extra: str, purpose: str) -> Finding:
    remedy = f"pip install 'modtok[{extra}]'" if extra else "pip install modtok"
    try:
        there = version(need.name)
    except PackageNotFoundError:
        return Finding("package", need.name, "missing", f"for {purpose}", remedy, extra)
    if need.specifier and not need.specifier.contains(there, prereleases=True):
        detail = f"{there}, requires {need.specifier}, for {purpose}"
        return Finding("package", need.name, "old", detail, remedy, extra)
    return Finding("package", need.name, "ok", there, extra=extra)


def _core() -> list[Finding]:
    from modtok_cli.core import backend
    from modtok_cli.core.binding import VERSION, native

    path = Path(native._name)
    sets = {2: "SSE4.2", 3: "AVX2", 4: "AVX-512"}
    compiled = sets.get(native.mt_compiled_for(), platform.machine())
    purpose = "for the page of modtok explore"
    page = Finding("core", backend.WASM, "ok", purpose)
    if not (backend.CORE / backend.WASM).is_file():
        page = Finding("core", backend.WASM, "missing", purpose, backend.REMEDY, "explore")
    return [
        Finding("core", path.name, "ok", f"version {VERSION}, for {compiled}, in {path.parent}"),
        page,
    ]
