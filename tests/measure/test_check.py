"""`measure.check`: numbers by hand, verdicts, texts of all scripts, no references."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.cli.commands.check import columns
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.check import MEASURED, check, split_arguments
from modtok_cli.reports.kinds import kinds
from modtok_cli.text import identify
from modtok_cli.text.counts import count_documents
from modtok_cli.text.scripts import scripts_of


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of Finnish and English, and one that has bytes only."""
    place = tmp_path_factory.mktemp("check")
    bpe_seq(("en", "fi"), data=SAMPLE / "data", output=place / "tok", k=900)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    other = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    other.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
    other.decoder = decoders.ByteLevel()
    other.save(str(place / "bytes.json"))
    (place / "tok" / "references").rename(place / "references")
    return place


def text(place: Path, name: str, content: str) -> Path:
    path = place / name
    path.write_text(content, encoding="utf-8")
    return path


def test_numbers_by_hand(place: Path, tmp_path: Path) -> None:
    (row,) = check([str(place / "bytes.json")], [text(tmp_path, "el.txt", "να η ώρα\n")])
    assert (row["language"], row["name"], row["words"]) == ("el", "Greek", 3)
    # 6 letters of two bytes, 2 spaces, and the space that this tokenizer puts in front.
    assert (row["tokens"], row["characters"], row["bytes"]) == (15, 8, 14)
    assert row["tokens_per_word"] == 5
    assert row["tokens_per_character"] == 15 / 8
    assert row["byte_tokens"] == 12 / 15
    assert row["verdict"] == "bad"
    own = "a monolingual tokenizer (k = 24,000)"
    assert row["reason"].startswith(f"about 7.0 times the tokens of {own}; 80% byte")
    assert row["reason"].endswith("changes 1 of 1 lines")  # the space in front
    assert "modtok bpe-seq --langs en,el --data DIR -k" in row["hint"]
    assert f"--append el -t {place / 'bytes.json'} --data DIR -k 8000" in row["hint"]


def test_unknown_tokens_lose_text(tmp_path: Path) -> None:
    """One token per word, most of them unknown: few tokens, but not a good tokenizer."""
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "talo": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "words.json"))
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁talo", -1.0)], unk_id=0))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.save(str(tmp_path / "unigram.json"))
    source = text(tmp_path, "fi.txt", "talo kirjastossa ilmastonmuutoksesta\n")
    for name in ("words.json", "unigram.json"):
        (row,) = check([str(tmp_path / name)], [source])
        assert (row["tokens"], row["unknown_tokens"], row["verdict"]) == (3, 2 / 3, "bad")
        assert row["reason"] == "loses text: 67% unknown tokens; changes 1 of 1 lines"
    assert kinds()["check"].finding([row]) is None  # few tokens, but not the best tokenizer


@pytest.mark.parametrize(
    ("prefixes", "tokens", "words", "types"),
    [
        (False, ["talo", "Ġtalo", "Ġ12"], 4 / 6, 3 / 5),
        (True, ["Ġtalo", "Ġ12", "Ġauton"], 5 / 6, 4 / 5),
        (None, ["talo", "12"], 4 / 6, 3 / 5),
    ],
)
def test_words_in_one_token(
    tmp_path: Path, prefixes: bool | None, tokens: list[str], words: float, types: float
) -> None:
    """Of "talo", " talo" twice, " 12", " auton" and "a": with a space in front of all text, none,
    or words without spaces, of which the others are one unknown token."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: i for i, name in enumerate(dict.fromkeys(["[UNK]", *letters, *tokens]))}
    if prefixes is None:
        tokenizer = Tokenizer(
            models.WordLevel({name: i for i, name in enumerate(["[UNK]", *tokens])}, "[UNK]")
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    else:
        scores = [(name, -1.0 if len(name) > 1 else -9.0) for name in vocabulary]
        tokenizer = Tokenizer(models.Unigram(scores, 0))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixes)
        tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "own.json"))
    source = text(tmp_path, "fi.txt", "talo talo talo, 12 (a) auton\n")
    (row,) = check([str(tmp_path / "own.json")], [source], progress=Silent())
    assert (row["words"], row["one_token_words"]) == (6, pytest.approx(words))
    assert row["one_token_types"] == pytest.approx(types)


def test_premium_over_parallel_english_only(place: Path, tmp_path: Path) -> None:
    rows = check([str(place / "tok")], [SAMPLE / "parallel"])
    by = {row["language"]: row for row in rows}
    for name in ("fi", "fr", "el", "ne", "sw"):
        assert by[name]["premium"] == by[name]["tokens"] / by["en"]["tokens"]
    assert by["en"]["premium"] is None
    text(tmp_path, "en.txt", "One two three.\nFour.\nFive six.\n")
    text(tmp_path, "fi.txt", "Yksi kaksi.\n")
    rows = check([str(place / "tok")], [tmp_path])
    found = {row["language"]: row for row in rows}
    assert [each.heading for each in columns(rows)][-1] == "/char vs English"
    assert found["fi"]["premium"] is None
    assert found["fi"]["per_character_premium"] == pytest.approx(
        found["fi"]["tokens_per_character"] / found["en"]["tokens_per_character"]
    )


def test_worst_language_first_and_hint_names_them(place: Path) -> None:
    rows = check([str(place / "tok"), str(place / "bytes.json")], [SAMPLE / "parallel"])
    worst = [row["excess"] for row in rows if row["tokenizer"].endswith("bytes.json")]
    assert worst == sorted(worst, reverse=True)
    nepali = next(r for r in rows if r["language"] == "ne" and r["tokenizer"].endswith("tok"))
    assert nepali["hint"].endswith(
        f"--append ne -t {place / 'tok'} --data {SAMPLE / 'parallel'} -o NEW"
    )
    finnish = next(r for r in rows if r["language"] == "fi" and r["tokenizer"].endswith("tok"))
    assert finnish["verdict"] == "poor"
    assert finnish["hint"].endswith("tok: learn it with a larger -k, or on more text")


def test_each_judges_every_language_with_its_subset(place: Path) -> None:
    rows = check([f"{place / 'tok'}@each"], [SAMPLE / "parallel" / "fi.txt"])
    assert [row["size"] for row in rows] == [900]


def test_text_of_unknown_language(place: Path, tmp_path: Path) -> None:
    source, silent = text(tmp_path, "notes.txt", "Hello, dear reader.\n"), Silent()
    (row,) = check([str(place / "tok")], [source], progress=silent)
    assert (row["language"], row["name"]) == ("und", "unknown language")
    assert silent.warnings == [
        f"{source}: unknown language, judged by an average; name it: --lang fi"
    ]
    (named,) = check([str(place / "tok")], [tmp_path / "notes.txt"], language="en")
    assert (named["language"], named["tokens"]) == ("en", row["tokens"])


def test_files_of_a_directory_are_identified_each(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    for language, name in (("fi", "kirja.txt"), ("sw", "kitabu.md")):
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", tmp_path / name)
    heard = Said()
    rows = check([str(place / "tok")], [tmp_path], progress=heard)
    assert {row["language"] for row in rows} == {"fi", "sw"}
    assert f"{tmp_path}/kitabu.md: identified as sw (name it sw.md to set it)" in heard.notes


def test_references_identify_their_languages_only(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identify, "is_installed", lambda _: False)
    shutil.copytree(place / "tok", tmp_path / "tok")
    shutil.copytree(place / "references", tmp_path / "tok" / "references")
    silent = Said()
    for language, expected in (("fi", "fi"), ("en", "en"), ("sw", "und"), ("el", "und")):
        # The training text: references of 900 tokens need few bits for nothing else.
        documents = SAMPLE / "data" / f"{language}.jsonl"
        shutil.copy(documents, tmp_path / "text.jsonl")
        (row,) = check([str(tmp_path / "tok")], [tmp_path / "text.jsonl"], progress=silent)
        assert row["language"] == expected
    assert len(silent.warnings) == 2
    source = tmp_path / "text.jsonl"
    assert silent.notes == [
        f"{source}: identified as {name} (--lang names another)" for name in ("fi", "en")
    ]
    (tmp_path / "tok" / "references" / "sw.json").write_text("{}")
    silent = Silent()
    (row,) = check([str(tmp_path / "tok")], [tmp_path / "text.jsonl"], progress=silent)
    assert row["language"] == "und"
    assert "sw.json" in silent.warnings[0]
    assert silent.warnings[0].endswith("; languages are not identified")


def test_tokens_per_word_only_where_spaces_separate_words(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text(tmp_path, "zh.txt", "今天天气很好。我们去公园。\n")
    text(tmp_path, "ko.txt", "오늘은 날씨가 좋다.\n")
    silent, notes = Silent(), list[str]()
    monkeypatch.setattr(silent, "note", notes.append)
    found = check([str(place / "tok")], [tmp_path], progress=silent)
    rows = {row["language"]: row for row in found}
    assert {rows["zh"][name] for name in rows["zh"] if "word" in name} == {None}
    assert rows["ko"]["words"] == 3
    assert notes == ["zh: no spaces between words, so no numbers about words"]


def test_estimates_by_language_are_of_languages_with_an_alphabet() -> None:
    assert len(MEASURED) == 24
    assert all(0.2 < value < 0.3 for value in MEASURED.values())


@pytest.mark.parametrize(
    ("sample", "unspaced", "syllabic"),
    [
        ("abc", 0, 0), ("ไทย", 1, 0), ("한국", 0, 1), ("かな漢字", 1, 1), ("ab 漢", 1 / 3, 1 / 4),
        ("ກຂ", 1, 0), ("ཀཁ", 1, 0), ("ကခ", 1, 0), ("កខ", 1, 0), ("ᥐᥑ", 1, 0), ("ᦀᦁ", 1, 0),
        ("ᨠᨡ", 1, 0), ("ㄅㆠ", 1, 1), ("ㇰ㐀", 1, 1), ("ꧠꩠ", 1, 0), ("〇〡〱", 1, 1),
        ("豈ｦ", 1, 1), ("\U0001b000\U00020000", 1, 1), ("አꀀ", 0, 1), ("ᎠᏁ", 0, 1), ("ᢰⶀ", 0, 1),
    ],
)  # fmt: skip
def test_scripts(sample: str, unspaced: float, syllabic: float) -> None:
    found = scripts_of(count_documents([[sample.encode()]]))
    assert found.unspaced == pytest.approx(unspaced)
    assert found.syllabic == pytest.approx(syllabic)


def test_arguments_in_any_order(place: Path, tmp_path: Path) -> None:
    folder = text(tmp_path, "fi.txt", "talo\n").parent
    tokenizer, library = str(place / "tok"), str(place / "bytes.json")
    arguments = [str(folder), tokenizer, "-", library, f"{tokenizer}@fi", "fi.jsonl.zst"]
    assert split_arguments(arguments) == (
        [tokenizer, library, f"{tokenizer}@fi"],
        [str(folder), "-", "fi.jsonl.zst"],
    )


def test_missing_text_or_tokenizer(place: Path, tmp_path: Path) -> None:
    with pytest.raises(ModtokError, match="does not exist"):
        check([str(place / "tok")], [tmp_path / "fi.txt"])
    with pytest.raises(UsageError, match="does not exist"):
        check([str(tmp_path / "none.json")], [text(tmp_path, "fi.txt", "talo\n")])
