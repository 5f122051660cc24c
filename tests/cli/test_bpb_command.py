"""`modtok eval bpb` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.sample import SAMPLE
from helpers.small_run import small_run
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.run import run
from modtok_cli.reports.collect import read_result
from modtok_cli.reports.kinds import kinds


@pytest.fixture(scope="module")
def few_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory)


def modtok(words: list[str]) -> int:
    return run(command_tree(), words)


def test_rows_and_their_presentation(
    few_steps: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = str(SAMPLE / "parallel" / "fr.txt")
    line = ["eval", "bpb", text, str(few_steps), "--limit", "3"]
    plot = ["--infer", "full", "--batch-size", "2", "--plot", "b.svg"]
    assert modtok([*line, "--json"]) == 0
    assert modtok([*line, *plot, "--json"]) == 0
    out = capsys.readouterr().out
    rows = [json.loads(each) for each in out.splitlines()]
    assert [(row["infer"], row["documents"]) for row in rows] == [("lang", 3), ("full", 3)]
    assert Path("b.svg").exists()
    Path("rows.jsonl").write_text(out)
    found = read_result(Path("rows.jsonl"), None)  # type: ignore[arg-type]
    assert found is not None
    assert found.kind == "bpb"
    assert found.command == (
        f"modtok eval bpb {text} --infer lang\nmodtok eval bpb {text} --infer full"
    )
    *_, table = kinds()["bpb"].tables(rows)
    assert [cells[2] for cells in table.rows] == ["--infer lang", "--infer full"]
    (chart,) = kinds()["bpb"].charts(rows)
    assert list(chart.series) == ["--infer lang", "--infer full"]  # type: ignore[union-attr]


def test_wrong_usage(few_steps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = [str(few_steps)]
    text = str(SAMPLE / "parallel" / "fr.txt")
    assert modtok(["eval", "bpb", *model]) == 2
    assert "no text given; as in: modtok eval bpb MODEL fr.txt" in capsys.readouterr().err
    assert modtok(["eval", "bpb", "nowhere.txt", *model]) == 2
    assert modtok(["eval", "bpb", text, *model, "--infer", "src"]) == 2
    assert modtok(["eval", "bpb", str(SAMPLE / "parallel" / "sw.txt"), *model]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert "or use --infer full" in said[2]
