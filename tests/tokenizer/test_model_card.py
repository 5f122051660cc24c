"""Cards: metadata that the hub reads, and cards of users, which are kept."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from helpers.toy_tokenizers import toy
from modtok_cli.base.errors import UsageError
from modtok_cli.tokenizer.hf_directory import write_hf_directory
from modtok_cli.tokenizer.model_card import Card, is_own

huggingface_hub = pytest.importorskip("huggingface_hub")


def read(directory: Path) -> huggingface_hub.ModelCard:
    return huggingface_hub.ModelCard.load(directory / "README.md")


def test_metadata_are_those_that_the_hub_reads(tmp_path: Path) -> None:
    card = Card(
        title="A: b # c",
        about="It is.",
        languages=["no", "zh-Hant", "zh-Hans", "fra_Latn", "code", "math", "x-law"],
        metadata={"license": "other", "license_name": "a: 'b'", "base_model": "a/b"},
        tables=[(("a", "b"), [("x|y", 12345)])],
    )
    (tmp_path / "README.md").write_text(card.text(), "utf-8")
    data = read(tmp_path).data
    assert data.language == ["code", "fr", "no", "zh"]  # and not false
    assert (data.license, data.license_name, data.base_model) == ("other", "a: 'b'", "a/b")
    assert (data["library_name"], data.tags) == ("transformers", ["modtok", "modular-tokenizer"])
    assert "| x\\|y | 12,345 |" in read(tmp_path).text


def test_what_is_not_known_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(Card(title="T", about="It is.").text(), "utf-8")
    fields = read(tmp_path).data.to_dict()
    assert fields == {"library_name": "transformers", "tags": ["modtok", "modular-tokenizer"]}
    assert "How" not in read(tmp_path).text


def test_cards_of_users_are_kept(tmp_path: Path) -> None:
    place = tmp_path / "tokenizer"
    toy(2).save(place)
    made = (place / "README.md").read_bytes()
    assert is_own(made.decode())
    toy(3).save(place)  # its own card is replaced
    assert (place / "README.md").read_bytes() not in (made, b"")
    changed = (place / "README.md").read_text().replace("One vocabulary", "My vocabulary")
    for own in (changed, "mine\n", ""):
        (place / "README.md").write_text(own)
        toy(2).save(place)
        assert (place / "README.md").read_text() == own
    part = toy(3).subset(["en"]).to_json()
    write_hf_directory(tmp_path / "part", part)
    (tmp_path / "part" / "README.md").write_text("mine")
    write_hf_directory(tmp_path / "part", part, force=True)
    assert (tmp_path / "part" / "README.md").read_text() == "mine"
    (place / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"contains other files \(notes.txt\)"):
        toy(2).save(place)


def test_a_card_is_the_same_in_any_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        toy(3).save(tmp_path / name)
    first, second = ((tmp_path / name / "README.md").read_bytes() for name in ("a", "b"))
    assert first == second


def test_the_card_of_a_tokenizer(tmp_path: Path) -> None:
    whole = toy(3)
    whole.save(tmp_path / "whole")
    card = read(tmp_path / "whole")
    assert (card.data["library_name"], card.data.language) == ("modtok", sorted(whole.languages))
    for name, size in zip(whole.languages, whole.token_membership.sizes(), strict=True):
        assert f"| {name} | {size:,} |" in card.text
    assert whole.signature in card.text
    part = whole.subset(whole.languages[:1])
    row = write_hf_directory(tmp_path / "part", part.to_json())
    card = read(tmp_path / "part")
    assert card.data.language == [whole.languages[0]]
    assert f"{row['tokens']:,} tokens" in card.text
    assert whole.signature in card.text


def test_the_code_of_the_cards_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = toy(3)
    whole.save(tmp_path / "NAME")
    code = read(tmp_path / "NAME").text.split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(code, names)
    assert list(names["ids"]) == list(whole.subset([whole.languages[0]]).encode("..."))
    pytest.importorskip("transformers")
    write_hf_directory(tmp_path / "part", whole.subset(["en"]).to_json())
    code = read(tmp_path / "part").text.split("```python\n")[1].split("```")[0]
    exec(code.replace("NAME", "part"), names)
    assert names["tokenizer"]("a b").input_ids == list(whole.subset(["en"]).encode("a b"))
    assert "modtok" in orjson.loads((tmp_path / "part" / "tokenizer.json").read_bytes())["model"]
