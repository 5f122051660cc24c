"""`measure.nsl`: the numbers by hand, languages found, what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.base.version import __version__
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.check import check
from modtok_cli.measure.fairness import fairness
from modtok_cli.measure.nsl import nsl
from modtok_cli.measure.origin import origin
from modtok_cli.measure.references import References, identify
from modtok_cli.reports.charts import Dots
from modtok_cli.reports.kinds import kinds
from modtok_cli.text.counts import count_documents
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_subset, subset_spec

LANGUAGES = ["el", "en", "fi", "fr", "ne", "sw"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("nsl") / "tok"
    bpe_seq(data=SAMPLE / "data", output=place, k=900)
    return place


def lines(language: str) -> list[str]:
    return (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").split("\n")[:-1]


def test_lines_of_several_languages_are_identified(place: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "flores.txt"
    mixed.write_text("\n".join("\n".join(lines(language)) for language in LANGUAGES) + "\n")
    progress = Silent()
    rows = nsl([str(place)], [mixed], progress=progress)
    found = {row["language"]: row["documents"] for row in rows}
    assert sum(found.values()) == 6 * len(lines("en"))
    for language in LANGUAGES:
        assert found[language] == pytest.approx(len(lines(language)), abs=4)


def test_identification_chooses_the_shortest_code_length(place: Path) -> None:
    references = References(place / "references").all()
    texts = [line.encode() for line in lines("ne")[:20]]
    assert identify(texts, references) == ["ne"] * 20
    # Hundreds of references would fill gigabytes with the words that they encoded.
    assert all(one.tokenizer.encoder.spent.slots == 0 for one in references.values())


def test_signature_names_what_was_measured(place: Path) -> None:
    """Every field: a row is that of another call if what the field stands for is the same."""
    text = SAMPLE / "parallel" / "fr.txt"
    english = text.with_name("en.txt")
    subset, whole = ModularTokenizer.load(place).subset("fr"), ModularTokenizer.load(place)
    reference = References(place / "references")["fr"].tokenizer
    counts = count_documents([[line.encode() for line in lines("fr")]])
    marks = {"tok": subset.signature, "ref": reference.signature, "lang": "fr",
             "text": counts.fingerprint(), "modtok": __version__}  # fmt: skip

    def fields(row: dict[str, Any]) -> dict[str, str]:
        name, *parts = row["signature"].split("|")
        found = dict(part.split(":", 1) for part in parts)
        return {"": name, **found}

    (row,) = nsl([f"{place}@fr"], [text])
    assert fields(row) == {"": "nsl", **marks}
    row, total = fairness([f"{place}@fr"], [text], pivot="fr")
    assert fields(row) == {"": "fairness", **marks, "pivot": "fr"}
    assert {**fields(total), "tok": "", "rows": ""} == {
        "": "fairness", "tok": "", "langs": "fr", "pivot": "fr", "rows": "", "modtok": __version__
    }  # fmt: skip
    del marks["ref"]
    (row,) = origin(f"{place}@fr", [text])
    assert fields(row) == {"": "origin", **marks, "of": whole.signature}
    (row,) = check([f"{place}@fr"], [text])
    assert fields(row) == {"": "check", **marks}
    rows = check([f"{place}@fr"], [text, english], robust=True)
    (row,) = (row for row in rows if row["language"] == "fr")
    assert fields(row).keys() == {"", *marks, "en", "seed"}


def test_language_without_reference(place: Path, tmp_path: Path) -> None:
    for name in ("da", "de", "fr", "nl"):
        (tmp_path / f"{name}.txt").write_text("Das ist ein Haus.\n")
    with pytest.raises(ModtokError, match="no reference for language 'de'"):
        nsl([str(place)], [tmp_path / "de.txt"])
    with pytest.raises(ModtokError, match=r"language: 'german' is the name .* use language de"):
        nsl([str(place)], [tmp_path / "de.txt"], language="german")
    progress = Silent()
    rows = nsl([str(place), f"{place}@each"], [tmp_path], progress=progress)
    found = [(row["language"], row["nsl"] is None) for row in rows]
    assert set(found) == {(name, name != "fr") for name in ("da", "de", "fr", "nl")}
    # One line for all languages: there may be many.
    each, references = progress.warnings
    assert each == f"{place}@each: no subtokenizer for da, de, nl"
    assert references == f"no reference for da, de, nl in {place / 'references'}: no NSL for them"
    (chart,) = kinds()["nsl"].charts(rows)
    assert isinstance(chart, Dots)
    assert list(chart.rows) == ["French"]


def test_a_language_of_two_scripts_is_named(tmp_path: Path) -> None:
    for script, text in (("Hans", "汉语"), ("Hant", "漢語")):
        (tmp_path / f"zho_{script}.txt").write_text(text)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "cmn_Hani.txt").write_text("漢語")
    bpe_seq(data=tmp_path, output=tmp_path / "t", k=258)
    progress = Silent()
    with pytest.raises(ModtokError, match="no tokenizer has zh"):
        nsl([f"{tmp_path / 't'}@each"], [tmp_path / "more"], progress=progress)
    assert progress.warnings[-1].endswith("for zh (name one with --lang: zh-Hans or zh-Hant)")


def test_no_references_at_all(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModtokError, match="modtok bpe-seq"):
        nsl([str(place / "references" / "fr.json")], [SAMPLE / "parallel" / "fr.txt"])


def test_references_of_another_tokenizer_are_refused(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piped subset knows its parent; the workspace's references are of another."""
    bpe_seq(data=SAMPLE / "data", output=tmp_path / "tokenizer", languages=["fr"], k=400)
    monkeypatch.chdir(tmp_path)
    text = SAMPLE / "parallel" / "fr.txt"
    Path("fr.json").write_bytes(open_subset(place, ["fr"]).to_json())
    Path("own.json").write_bytes(open_subset(Path("tokenizer"), ["fr"]).to_json())
    shutil.copytree(place, "bare", ignore=lambda *_: ["references"])
    with pytest.raises(ModtokError, match=r"^fr\.json: was extracted from another .* than token"):
        nsl(["fr.json"], [text])
    progress = Silent()
    (row, _) = fairness(["fr.json"], [text], pivot="fr", progress=progress)
    assert row["nsl"] is None
    assert "fr.json: was extracted from another" in progress.warnings[0]
    (expected,) = nsl([f"{place}@fr"], [text])
    (row,) = nsl(["fr.json"], [text], references=place / "references")
    assert row["nsl"] == expected["nsl"]
    for name in ("own.json", "tokenizer/references/fr.json"):
        (row,) = nsl([name], [text])
        assert row["nsl"] == 1.0
    # One without references of its own, such as a joint BPE, is compared with the workspace's.
    (row,) = nsl(["bare@fr"], [text])
    (small,) = nsl([str(place) + "@fr"], [text], references=Path("tokenizer/references"))
    assert row["nsl"] == small["nsl"] < 1


def test_exchanged_references_are_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path / "tok")
    en, fr = (tmp_path / "tok" / "references" / f"{name}.json" for name in ("en", "fr"))
    old = fr.read_bytes()
    fr.write_bytes(en.read_bytes())
    en.write_bytes(old)
    text = SAMPLE / "parallel" / "fr.txt"
    for arguments in ({}, {"references": fr.parent}):
        with pytest.raises(ModtokError, match=r"fr\.json: changed after .*; restore the file"):
            nsl([str(tmp_path / "tok")], [text], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("measure", [nsl, fairness])
def test_missing_text_is_reported_first(
    measure: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the references nor the tokenizer, of which there is none either."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModtokError, match=r"fr\.txt: does not exist"):
        measure(["tokenizer"], ["fr.txt"])
    with pytest.raises(ModtokError, match=r"fr\.txt: does not exist"):
        origin("tokenizer", ["fr.txt"])


def test_skipped_documents_are_reported(place: Path, tmp_path: Path) -> None:
    (tmp_path / "fr.txt").write_bytes(b"C'est une maison.\n\xff\n")
    for errors, said in (("skip", "1 document skipped"), ("replace", "1 document read")):
        progress = Silent()
        nsl([str(place)], [tmp_path / "fr.txt"], reading=Reading(errors), progress=progress)
        assert [said in warning for warning in progress.warnings] == [True]


def test_empty_file_in_a_directory_is_skipped(place: Path, tmp_path: Path) -> None:
    (tmp_path / "fr").mkdir()
    (tmp_path / "fr" / "a.txt").write_text("C'est une maison.\n")
    (tmp_path / "fr" / "b.txt").touch()
    (row,) = nsl([str(place)], [tmp_path / "fr"])
    assert row["documents"] == 1
    with pytest.raises(ModtokError, match=r"b\.txt: holds no text"):
        nsl([str(place)], [tmp_path / "fr" / "a.txt", tmp_path / "fr" / "b.txt"])


def test_directory_with_an_at_sign_in_its_path(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(place, "me@home/tok@fr")
    text = SAMPLE / "parallel" / "fr.txt"
    for spec in ("me@home/tok@fr", "me@home/tok@fr@fr,en", "me@home/tok@fr@each"):
        (row,) = nsl([spec], [text])
        assert row["nsl"] is not None
    for spec, size in (("me@home/tok@fr", 6), ("me@home/tok@fr@fr,en", 2)):
        (row,) = origin(spec, [text])
        assert len(row["languages"]) == size
    assert subset_spec("me@home/tok@fr", "en") == "me@home/tok@fr@en"


def test_loaded_tokenizer_is_measured_against_its_own_references(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not against those of the workspace, which has another tokenizer."""
    monkeypatch.chdir(tmp_path)
    bpe_seq(["en", "fr"], data=SAMPLE / "data", output="tokenizer", k=400)
    text = SAMPLE / "parallel" / "fr.txt"
    (row,) = nsl(f"{place}@fr", [text])
    subset = ModularTokenizer.load(place).subset("fr")
    assert nsl(subset, [text]) == [{**row, "tokenizer": "fr"}]


def test_damaged_reference_counts(place: Path, tmp_path: Path) -> None:
    (tmp_path / "refs").mkdir()
    data = (place / "references" / "fr.json").read_text()
    start = data.index('"counts":[') + len('"counts":[')
    numbers, rest = data[start:].split("]", 1)
    first, others = numbers.split(",", 1)
    for wrong in (f'"x",{numbers}', f"-1,{others}", f"{first}.5,{others}", others):
        (tmp_path / "refs" / "fr.json").write_text(f"{data[:start]}{wrong}]{rest}")
        with pytest.raises(ModtokError, match=r"fr\.json: model\.modtok\.counts is invalid"):
            nsl([str(place)], [SAMPLE / "parallel" / "fr.txt"], references=tmp_path / "refs")
