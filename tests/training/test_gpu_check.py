"""`make gpu-check` runs where nobody watches: each part by itself, and what fails is said."""

import argparse
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu import gpu_bundle, gpu_check

from .conftest import SAMPLE


def options(call: int, parts: list[str], limit: float = 300) -> argparse.Namespace:
    return argparse.Namespace(call=call, tiny=limit > 540, gpu=False, parts=parts, limit=limit)


def checked(target: Path, call: int, *parts: str, limit: float = 300) -> tuple[bool, list[Any]]:
    good = gpu_check.check(options(call, list(parts), limit), target)
    return good, [json.loads(line) for line in target.read_text().splitlines()]


@pytest.mark.usefixtures("forked_executable")
def test_a_rehearsal(tmp_path: Path) -> None:
    good, rows = checked(tmp_path / "rows.jsonl", 2, "machine", "2.5b", limit=900)
    assert good, rows
    assert {"mfu", "mfu_whole_attention"} <= rows[2].keys()
    assert rows[0]["megatron-core"]
    assert rows[1] == {"call": 2, "part": "machine", "ok": True, "seconds": rows[1]["seconds"]}
    steps = {row["sampling"]: row for row in rows[2:-1]}
    assert list(steps) == ["none", "sub:2", "full"]
    flops = [row["flops_against_none"] for row in steps.values()]
    assert flops[0] == 1 < flops[1] < flops[2]
    planned = [row["planned_bytes"] for row in steps.values()]
    assert planned == sorted(planned)
    assert rows[-1]["ok"]


@pytest.mark.usefixtures("forked_executable")
def test_a_run_on_packed_text_beside_a_plain_decoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "gpu-data"
    gpu_bundle.pack_text(SAMPLE, data, 400, 3000)
    whole = (SAMPLE / "fi.jsonl").stat().st_size
    assert 3000 < (data / "data" / "fi.jsonl").stat().st_size < whole / 2
    monkeypatch.setattr(gpu_check, "DATA", data)
    good, rows = checked(tmp_path / "rows.jsonl", 1, "peer", "run", limit=900)
    assert good, rows
    variants = [row["variant"] for row in rows if "variant" in row]
    assert variants == ["modtok, V_S of T", "plain, V_S", "plain, T"]
    resumed = next(row for row in rows if row.get("run") == "resumed")
    assert resumed["largest_loss_difference"] == 0


def test_parts_that_fail_do_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(part: Any) -> Any:
        yield {"before": "it failed"}
        raise gpu_check.Failed("exit status 1: CUDA out of memory")

    def is_wrong(part: Any) -> Any:
        raise ZeroDivisionError("a mistake")
        yield

    monkeypatch.setitem(gpu_check.MEASURES, "peer", fails)
    monkeypatch.setitem(gpu_check.MEASURES, "run", is_wrong)
    good, rows = checked(tmp_path / "rows.jsonl", 1)
    assert not good
    assert [row["part"] for row in rows] == ["machine", "machine", "peer", "peer", "run"]
    assert rows[2]["before"] == "it failed"
    assert rows[3]["error"] == "exit status 1: CUDA out of memory"
    assert rows[4]["error"] == "ZeroDivisionError: a mistake"
    _, rows = checked(tmp_path / "late.jsonl", 1, "machine", "run", limit=1)
    assert [row["error"] for row in rows] == ["no time was left for it"] * 2


def test_lines_arrive_before_a_command_ends_and_it_is_killed_at_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: list[Any] = []
    timer = partial(SimpleNamespace, start=int, cancel=int)
    monkeypatch.setattr(
        gpu_check.threading, "Timer",
        lambda seconds, work: timers.append((seconds, work)) or timer(),
    )  # fmt: skip
    part = gpu_check.Part("run", options(1, []), 1)
    lines = part.lines(["sh", "-c", "echo began; exec sleep 600"])
    assert next(lines) == "began"
    ((seconds, kill),) = timers
    assert seconds == 1
    kill()
    with pytest.raises(gpu_check.Failed, match="killed at its limit: began"):
        next(lines)


def test_a_call_has_nine_minutes_every_part_a_measure_and_its_tests_exist() -> None:
    here = Path(__file__).parent
    assert all((here / f"test_{name}.py").exists() for name in gpu_check.TESTS)
    for call, parts in gpu_check.CALLS.items():
        assert set(parts) <= set(gpu_check.MEASURES)
        # No part is starved by one other.
        assert sum(parts.values()) - max(parts.values()) < gpu_check.LIMITS[call] <= 540


def test_results_of_pytest_are_read_from_one_process_and_from_several() -> None:
    lines = [
        "tests/a/test_it.py::test_letter[a b] FAILED                     [ 25%]",
        "tests/a/test_it.py::test_skipped SKIPPED (not here)             [ 75%]",
        "[gw0] [ 50%] PASSED tests/a/test_it.py::test_letter[c] ",
        "[gw1] [100%] ERROR tests/a/test_it.py::test_broken",
    ]
    found = [gpu_check.RESULT.match(line) for line in lines]
    assert [(m["test"], m["early"] or m["late"]) for m in found if m] == [
        ("tests/a/test_it.py::test_letter[a b]", "FAILED"),
        ("tests/a/test_it.py::test_skipped", "SKIPPED"),
        ("tests/a/test_it.py::test_letter[c]", "PASSED"),
        ("tests/a/test_it.py::test_broken", "ERROR"),
    ]
    assert gpu_check.RESULT.match("4 passed in 1.2s") is None
