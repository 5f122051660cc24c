"""check, nsl, explore, origin and report on the command line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from helpers.external_tokenizers import external_tokenizer

from .conftest import rows


@pytest.mark.parametrize("line", ["check / tokenizer", "nsl / -t tokenizer", "bpe --data /"])
def test_the_whole_disk_is_no_text(at, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[Path] = []
    monkeypatch.setattr(Path, "iterdir", lambda path: walked.append(path) or iter(()))
    status, _, err = at(*line.split())
    said = "/: is the root of the file system; name the directory of the text"
    assert (status, said in err, [path for path in walked if str(path) == "/"]) == (2, True, [])


def test_check_takes_tokenizers_and_texts_in_any_order(at, learned: Path) -> None:
    status, out, err = at("check", "parallel", "tokenizer", "-t", "tokenizer@each")
    assert status == 0, err
    found = rows(out)
    assert {row["tokenizer"] for row in found} == {"tokenizer", "tokenizer@each"}
    assert {row["name"] for row in found} == {"English", "French", "Greek"}
    status, out, err = at("check", "tokenizer@en", "parallel/el.txt", "--table")
    assert "Greek" in out
    assert "bad: about" in out
    assert "tokenizer@en: include Greek: tokenizer@en,el" in err


def test_explore_takes_tokenizers_as_arguments_and_options(at, learned: Path) -> None:
    status, _, err = at("explore", "tokenizer", "-t", "tokenizer@en", "-o", "two.html")
    assert status == 0, err
    page = (learned / "two.html").read_text("utf-8")
    assert page.index('"tokenizer"') < page.index('"tokenizer@en"')


def test_nsl_without_references_points_to_check(at, learned: Path) -> None:
    (learned / "alone").mkdir(exist_ok=True)
    shutil.copy(learned / "tokenizer" / "references" / "en.json", learned / "alone" / "en.json")
    status, _, err = at("nsl", "-t", "alone/en.json", "parallel", "--references", "none")
    assert status == 2
    assert "'modtok check' needs none" in err


def test_inspect_shows_size_of_external_tokenizers(at, learned: Path) -> None:
    Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, "<unk>")).save(str(learned / "words.json"))
    (learned / "characters.json").write_bytes(external_tokenizer("characters"))
    status, out, err = at("inspect", "-t", "words.json")
    assert status == 0, err
    (row,) = rows(out)
    assert (row["format"], row["tokens"]) == ("hugging_face", 2)
    found = {row["fault"]: row["count"] for row in rows(at("inspect", "words.json", "--check")[1])}
    assert (found["unreached"], found["missing bytes"], found["gaps"]) == (None, 256, 0)
    (token,) = rows(at("inspect", "words.json", "--find", "^a")[1])
    assert token == {"id": 0, "token": "a"}
    (learned / "bytes.json").write_bytes(external_tokenizer("byte-level"))
    (verdict,) = rows(at("inspect", "characters.json", "bytes.json")[1])
    assert verdict["relation"] == "different"
    never = [*range(0xC0, 0xC2), *range(0xF5, 0x100)]  # bytes that no text in UTF-8 has
    for options, count in (([], 3), (["--json"], len(never))):
        (row, *_) = rows(at("inspect", "bytes.json", "--check", *options)[1])
        assert (row["fault"], row["count"], len(row["ids"])) == ("not in UTF-8", len(never), count)


def test_inspect_checks_references(at, learned: Path, tmp_path: Path) -> None:
    shutil.copytree(learned / "tokenizer", tmp_path / "tok")
    changed = tmp_path / "tok" / "references" / "fr.json"
    shutil.copy(changed.with_name("en.json"), changed)
    status, _, err = at("inspect", str(tmp_path / "tok"), "--check")
    assert status == 1
    assert err.startswith(f"modtok: error: {changed}: changed after it was written")


def test_rows_are_kept_for_the_report(at, learned: Path, tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(learned / "parallel", tmp_path / "parallel")
    monkeypatch.chdir(tmp_path)
    line = ("nsl", "-t", str(learned / "tokenizer"), "parallel")
    assert "kept" not in at(*line)[2]  # not a workspace
    (tmp_path / "modtok.toml").touch()
    status, out, err = at(*line)
    (kept,) = (tmp_path / "results").iterdir()
    assert f"kept in {kept.relative_to(tmp_path)} for modtok report" in err
    assert kept.read_text() == out
    at(*line, "--table", "--plot", "-")  # the same measurement
    _, out, err = at("fairness", *line[1:], "--no-keep", "--plot", "-")
    assert "Parity premium" in err
    table = at("fairness", *line[1:], "--no-keep", "--table")[1]
    *languages, whole = rows(out)
    figures = [*(row["tokens_per_character"] for row in languages), whole["tokens_gini"]]
    assert all(f" {value:.3f}" in table for value in figures)
    assert list((tmp_path / "results").iterdir()) == [kept]
    at("check", *line[2:])
    assert len(list((tmp_path / "results").iterdir())) == 2
    status, out, _ = at("report")
    assert {row["section"] for row in rows(out)} >= {
        "Tokens relative to monolingual tokenizers",
        "Tokenizers judged by language",
    }
    kept.unlink()
    command = [sys.executable, "-m", "modtok_cli", *line]
    with open("results/mine.jsonl", "wb") as file:
        subprocess.run(command, check=True, stdout=file, stderr=subprocess.DEVNULL)
    assert (tmp_path / "results" / "mine.jsonl").read_text()
    assert not kept.exists()
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "results").touch()
    status, out, err = at(*line)
    assert (status, len(rows(out))) == (0, 3)
    assert "warning: the rows are not kept: results/" in err
    assert "cannot write: results is a file, not a directory" in err


def test_plots_as_text_and_png_and_wrong_names(at, learned: Path) -> None:
    status, out, err = at("nsl", "-t", "tokenizer@each", "parallel", "--plot", "-")
    assert status == 0
    assert len(rows(out)) == 3  # standard output holds data and nothing else
    assert "● tokenizer@each" in err
    assert at("origin", "parallel", "--plot", "origin.png")[0] == 0
    assert (learned / "origin.png").read_bytes().startswith(b"\x89PNG")
    status, _, err = at("origin", "parallel", "--plot", "origin.png")
    assert (status, "already exists; choose another --plot, or pass" in err) == (2, True)
    assert at("origin", "parallel", "--plot", "origin.png", "--force")[0] == 0
