"""`make gpu-check` runs where nobody watches: each part by itself, and what fails is said."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import gpu_check


def checked(target: Path, parts: str, limit: float = 300) -> tuple[bool, list[dict[str, Any]]]:
    options = argparse.Namespace(cpu=limit > 540, parts=parts.split(","), limit=limit)
    good = gpu_check.check(options, target)
    return good, [json.loads(line) for line in target.read_text().splitlines()]


@pytest.mark.usefixtures("forked_executable")
def test_a_rehearsal(tmp_path: Path) -> None:
    good, rows = checked(tmp_path / "rows.jsonl", "machine,2.5b", limit=900)
    assert good, rows
    assert rows[0]["megatron-core"]
    assert rows[1] == {"part": "machine", "ok": True, "seconds": rows[1]["seconds"]}
    assert [row["what"] for row in rows[2:-1]] == [
        *(f"sliced, {count} languages" for count in (21, 100, 250)),
        "masked, 21 languages",
    ]
    made = [row["made_in_a_step_bytes"] for row in rows[2:5]]
    assert made == [made[0]] * 3  # what a step makes does not depend on the size of T
    assert rows[-1]["ok"]


def test_parts_that_fail_do_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part(name: str, options: Any, limit: float) -> Any:
        if name == "tests":
            yield {"before": "it failed"}
            raise gpu_check.Failed("exit status 1: CUDA out of memory")
        if name == "run":
            raise ZeroDivisionError("a mistake")
        yield {"limit": limit}

    monkeypatch.setattr(gpu_check, "part", part)
    good, rows = checked(tmp_path / "rows.jsonl", "tests,run,0.5b")
    assert not good
    assert [row["part"] for row in rows] == ["tests", "tests", "run", "0.5b", "0.5b"]
    assert rows[0]["before"] == "it failed"
    assert rows[1]["error"] == "exit status 1: CUDA out of memory"
    assert rows[2]["error"] == "ZeroDivisionError: a mistake"
    assert rows[3]["limit"] == gpu_check.PARTS["0.5b"]
    assert rows[4]["ok"]
    _, rows = checked(tmp_path / "late.jsonl", "machine,run", limit=1)
    assert [row["error"] for row in rows] == ["no time was left for it"] * 2


def test_a_command_past_its_limit_is_ended(tmp_path: Path) -> None:
    code = "print('began', flush=True); import time; time.sleep(600)"
    options = argparse.Namespace(cpu=True)
    status, text = gpu_check.run([sys.executable, "-c", code], options, 2)
    assert status == 124
    assert text in ("began\n", "")  # a machine under load may not come so far
