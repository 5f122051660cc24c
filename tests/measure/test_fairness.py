"""Fairness and origin: every number by hand on texts of a few words, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from helpers.handmade_tokenizers import write_plain, write_ranks, write_tekken, write_text
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.fairness import fairness, gini, spread
from modtok_cli.measure.nsl import nsl
from modtok_cli.measure.origin import origin
from modtok_cli.reports.kinds.tokenizers import summary_title
from modtok_cli.text.corpus import write_counts
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References and tokenizers are looked for in an empty directory."""
    monkeypatch.chdir(tmp_path)


def test_gini_by_hand() -> None:
    assert gini([0, 0, 0, 5]) == pytest.approx(0.75)
    assert spread([2.0, 3.0]) == {"mean": 2.5, "min": 2, "max": 3, "max_min": 1.5, "gini": 0.1}
    with pytest.raises(ValueError, match="0 or more"):
        gini([-1.0, 2.0])


def test_texts_in_unknown_languages(tmp_path: Path) -> None:
    bpe_seq(["en"], data=SAMPLE / "data", output=tmp_path / "tok", k=300)
    write_plain(tmp_path / "sw.json", [])  # a reference, so that there would be an NSL
    for measure in (fairness, nsl):
        with pytest.raises(ModtokError, match="no tokenizer for any text"):
            measure([f"{tmp_path}/tok@each"], [SAMPLE / "parallel" / "sw.txt"],
                    references=tmp_path)  # fmt: skip


def test_summaries_are_over_the_languages_measured_with_all_tokenizers(tmp_path: Path) -> None:
    """`tok@each` has no Swahili, so the summary of the other tokenizer must leave it out too."""
    bpe_seq(["en", "fi"], data=SAMPLE / "data", output=tmp_path / "tok", k=300)
    plain = write_plain(tmp_path / "plain.json", [])
    texts = write_text(tmp_path / "x", en=["the"], fi=["talo"], sw=["nyumbani kwetu"])
    said = Silent()
    rows = fairness(["tok@each", plain], texts, progress=said)
    totals = [row for row in rows if row["kind"] == "tokenizer"]
    assert [row["languages"] for row in totals] == [["en", "fi"]] * 2
    assert totals[1]["tokens_max"] == 4  # talo, not the 14 bytes of Swahili
    assert totals[1]["premium_max_language"] == "fi"
    lines = [row for row in rows if row["kind"] == "language" and row["tokenizer"] == plain]
    assert [row["language"] for row in lines] == ["en", "fi", "sw"]
    title = "Over the 2 of 3 languages measured with all tokenizers: en, fi"
    assert summary_title(rows) == title
    assert any("summary is over the 2 of 3 languages" in line for line in said.warnings)
    said = Silent()
    rows = fairness(["tok", "tok@each"], texts[:2], progress=said)
    assert said.warnings == []
    rows = fairness(["tok", plain], texts, progress=said)
    assert rows[-1]["languages"] == ["en", "fi", "sw"]
    assert said.warnings[:1] == [
        "tok has no sw; it is measured on this text with the tokens of its languages"
    ]


def test_tokenizers_without_a_common_language_have_no_summary(tmp_path: Path) -> None:
    for language in ("en", "fi"):
        bpe_seq([language], data=SAMPLE / "data", output=tmp_path / language, k=300)
    texts = write_text(tmp_path / "x", en=["the"], fi=["talo"])
    said = Silent()
    rows = fairness(["en@each", "fi@each"], texts, progress=said)
    assert {row["kind"] for row in rows} == {"language"}
    assert any("no language in common" in line for line in said.warnings)


def test_pivot(tmp_path: Path) -> None:
    tokenizer = write_plain(tmp_path / "t.json", [])
    texts = write_text(tmp_path / "x", da=["ab"], fi=["abcd"])
    assert [row["premium"] for row in fairness([tokenizer], texts)[:2]] == [1, 2]  # da: first
    rows = fairness([tokenizer], texts, pivot="fin_Latn")
    assert [row["premium"] for row in rows[:2]] == [0.5, 1]
    with pytest.raises(UsageError, match="no text in the pivot language 'sv'; there are: da, fi"):
        fairness([tokenizer], texts, pivot="sv")


def test_texts_that_cannot_be_compared(tmp_path: Path) -> None:
    tokenizer = write_plain(tmp_path / "t.json", [])
    lines = ["a" * n for n in (9, 1, 7, 30, 2, 12, 5, 25)]
    (english, finnish) = write_text(tmp_path / "x", en=lines, fi=[*lines[:3], *lines[4:]])
    second, empty = write_text(tmp_path / "y", en=["a"], fi=[])
    (tmp_path / "story.txt").write_text("a\n")
    for texts, said in (
        ([english, finnish], r"fi.txt:4: not line-aligned: 7 lines in fi, 8 in en"),
        ([english, second], "a second text in en"),
        ([empty], r"fi.txt: .*(empty|no text)"),
        ([tmp_path / "story.txt"], "unknown language"),
    ):
        with pytest.raises(ModtokError, match=said):
            fairness([tokenizer], texts)
    assert fairness([tokenizer], [tmp_path / "story.txt"], language="en")[0]["tokens"] == 1


def test_missing_reference_is_reported(tmp_path: Path) -> None:
    references = tmp_path / "refs"
    references.mkdir()
    write_plain(references / "en.json", [])
    tokenizer = write_plain(tmp_path / "t.json", [(b"a", b"a")])
    texts = write_text(tmp_path / "x", en=["aa"], fi=["aa"])
    said = Silent()
    english, finnish, total = fairness([tokenizer], texts, references=references, progress=said)
    assert (english["nsl"], finnish["nsl"]) == (0.5, None)
    assert total["nsl_mean"] == 0.5
    assert any("no reference for fi" in line for line in said.warnings)
    with pytest.raises(ModtokError, match="does not exist; train monolingual references"):
        fairness([tokenizer], texts, references=tmp_path / "none")


def test_lossy_tokenizer_is_reported(tmp_path: Path) -> None:
    """A lower-casing tokenizer.json gives "ABC" back as "abc"."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(tmp_path / "lower.json"))
    said = Silent()
    texts = write_text(tmp_path / "x", en=["abc"] * 200 + ["ABC", "abc"])
    row, total = fairness(["lower.json"], texts, progress=said)
    assert (row["lossy_lines"], total["lossy_lines"]) == (1, 1)
    assert row["measured_on"] == "text"
    assert "1 of 101 tested lines changed, the first is line 201" in said.warnings[0]


def test_rank_files_and_modular_tokenizers_in_one_table(tmp_path: Path) -> None:
    """The same merges as a rank file give the same tokens; its merges it does not tell."""
    ours = write_plain(tmp_path / "t.json", [(b"t", b"h"), (b"th", b"e"), (b"the", b"y")])
    ranks = write_ranks(tmp_path / "t.tiktoken", [b"th", b"the", b"they"])
    tokens = [*(bytes([byte]) for byte in range(256)), b"th", b"the", b"they"]
    tekken = write_tekken(tmp_path / "tekken.json", tokens, r" ?\p{L}+|\s+|.", 3)
    texts = write_text(tmp_path / "x", en=["they they"], fi=["abc a"])
    rows = fairness([ours, ranks, tekken], texts)
    lines = [row for row in rows if row["kind"] == "language"]
    assert [row["tokens"] for row in lines] == [3, 5] * 3
    assert [row["measured_on"] for row in lines] == ["words"] * 2 + ["text"] * 4
    totals = rows[6:]
    assert [row["merge_only"] for row in totals] == [2 / 259, None, None]  # th, and the of they
    assert totals[1]["utilization"] == 5 / 259
    assert totals[2]["size"] == 262


def test_word_counts_equal_text(tmp_path: Path) -> None:
    bpe_seq(data=SAMPLE / "data", output=tmp_path / "tokenizer", k=600)
    write_counts(["en", "fr"], data=SAMPLE / "parallel", output=tmp_path / "counts")
    specs = ["tokenizer", "tokenizer@each"]
    text = fairness(specs, [SAMPLE / "parallel" / f"{name}.txt" for name in ("en", "fr")])
    table = fairness(specs, [tmp_path / "counts" / f"{name}.counts" for name in ("en", "fr")])
    assert [{**row, "text": ""} for row in text] == [{**row, "text": ""} for row in table]
    ranks = write_ranks(tmp_path / "t.tiktoken", [])
    with pytest.raises(ModtokError, match="word counts"):
        fairness([ranks], [tmp_path / "counts" / "en.counts"])


def test_origin_of_what_is_opened_and_of_other_languages(tmp_path: Path) -> None:
    bpe_seq(data=SAMPLE / "data", output=tmp_path / "tokenizer", k=600)
    modular = ModularTokenizer.load(tmp_path / "tokenizer")
    text = SAMPLE / "parallel" / "fi.txt"
    said = Silent()
    (only,) = origin("tokenizer@fi", [text.with_name("en.txt"), text], progress=said)
    assert said.warnings == [f"{text.with_name('en.txt')}: skipped, tokenizer@fi does not have en"]
    assert only["outside"] == 0.0
    (row,) = origin("tokenizer@en,fi,fr", [text])
    assert origin(modular.subset(["en", "fi", "fr"]), [text]) == [{**row, "tokenizer": "en,fi,fr"}]
    (whole,) = origin(modular, [text])
    assert origin("tokenizer", [text]) == [{**whole, "tokenizer": "tokenizer"}]


def test_origin_requires_a_modular_tokenizer(tmp_path: Path) -> None:
    tokenizer = write_plain(tmp_path / "t.json", [])
    (text,) = write_text(tmp_path / "x", en=["a"])
    with pytest.raises(UsageError, match="expected a modular tokenizer"):
        origin(tokenizer, [text])
    bpe_seq(["en", "fi"], data=SAMPLE / "data", output=tmp_path / "tokenizer", k=400)
    loaded = ModularTokenizer.load(tmp_path / "tokenizer")
    bpe_seq(["en"], data=SAMPLE / "data", output=tmp_path / "tokenizer", k=300, force=True)
    with pytest.raises(UsageError, match="en,fi: expected a modular tokenizer"):
        origin(loaded, [text])  # another one is there now
    loaded.save(tmp_path / "tokenizer")
    (greek,) = write_text(tmp_path / "y", el=["α"])
    with pytest.raises(ModtokError, match=r"no text is in a language .* the tokenizer has: en, fi"):
        origin("tokenizer", [greek])
