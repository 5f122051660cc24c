"""`modtok doctor` and what it reads: requirements, and the native core."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from packaging.requirements import Requirement

from modtok_cli.cli import doctor as module
from modtok_cli.cli.doctor import PURPOSES, doctor
from modtok_cli.cli.main import ORDER

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
DEVELOPMENT = {"dev", "docs", "all"}


def test_every_extra_says_what_it_is_for() -> None:
    assert set(PURPOSES) - {""} == set(PROJECT["optional-dependencies"]) - DEVELOPMENT
    for extra in ("lm", "corpus"):
        names = {part.partition(" --")[0] for part in PURPOSES[extra].split(", ")}
        assert names - {""} <= {*ORDER, "--executor"}, extra


def test_every_package_of_the_project_is_looked_at() -> None:
    found = {finding.name for finding in doctor() if finding.part == "package"}
    extras = [
        line
        for extra, lines in PROJECT["optional-dependencies"].items()
        if extra not in DEVELOPMENT
        for line in lines
    ]
    assert {Requirement(line).name for line in (*PROJECT["dependencies"], *extras)} <= found


def test_what_is_missing_or_old_is_said_with_its_remedy(here, monkeypatch) -> None:
    absent = {"torch"}

    def version(name: str) -> str:
        if name in absent:
            raise PackageNotFoundError(name)
        return "0.1" if name == "matplotlib" else "999"

    monkeypatch.setattr(module, "version", version)
    found = {finding.name: finding for finding in doctor() if finding.part == "package"}
    assert (found["torch"].state, found["torch"].remedy) == ("missing", "pip install 'modtok[lm]'")
    assert "pretrain" in found["torch"].detail
    assert found["matplotlib"].state == "old"
    assert found["matplotlib"].detail.startswith("0.1, requires >=3")
    assert found["numpy"].state == "ok"
    assert here("doctor", "-q")[0] == 0
    absent.add("zstandard")  # every command needs it
    status, out, err = here("doctor", "--json")
    assert (status, '"name":"zstandard","state":"missing"' in out) == (1, True)
    assert "every command needs" in err.splitlines()[-1]


def test_no_gpu_is_no_failure(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [f.state for f in doctor() if f.name == "gpu"] == ["none"]


def test_gpus_are_listed_as_the_driver_says(monkeypatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA X, 1 MiB, 5'; echo 'NVIDIA Y, 2 MiB, 5'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert [f.detail[:8] for f in doctor() if f.name == "gpu"] == ["NVIDIA X", "NVIDIA Y"]
