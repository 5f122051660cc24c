"""Token boundaries against morpheme boundaries, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.handmade_tokenizers import write_plain, write_text
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.measure.morphology import Alignment, Morphemes, Segmented, align, read_morphemes
from modtok_cli.measure.nsl import nsl
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.reports.kinds.tokenizers import nsl_tables

WORDS = [Segmented("talon", ("talo", "n")), Segmented("äidin", ("äidi", "n"))]
# " talo" is one token, so " talon" is talo + n; "äidin" is bytes.
TALO = [(b"t", b"a"), (b"l", b"o"), (b"ta", b"lo"), (b" ", b"talo")]


def test_by_hand(tmp_path: Path) -> None:
    tokenizer = open_tokenizer(write_plain(tmp_path / "t.json", TALO))
    assert align(tokenizer, WORDS[:1], "fi") == Alignment(1, 1, 1, 1, 1, 1)
    # Five letters, six bytes: five inner boundaries, that before "n" among them.
    found = align(tokenizer, WORDS, "fi")
    assert found == Alignment(2, 2, 2, 2, 2, 6)
    assert (found.morph_score, found.precision, found.recall) == (1.0, 2 / 6, 1.0)
    assert found.f1 == pytest.approx(2 * (1 / 3) / (4 / 3))


def test_example_of_the_documentation() -> None:
    """talo|ssa as tal ossa, talo|n as talo n, auto|t as autot."""
    found = Alignment(words=3, split=2, shared=1, expected=3, expected_split=2, placed=2)
    assert (found.morph_score, found.precision, found.recall, found.f1) == (
        1 / 2,
        1 / 2,
        1 / 3,
        0.4,
    )
    nothing = Alignment(1, 0, 0, 1, 0, 0)
    assert (nothing.morph_score, nothing.precision, nothing.recall) == (None, None, 0.0)


def test_single_tokens_are_excluded_from_morphscore(tmp_path: Path) -> None:
    merges = [*TALO, (b" talo", b"n")]
    tokenizer = open_tokenizer(write_plain(tmp_path / "t.json", merges))
    found = align(tokenizer, WORDS[:1], "fi")
    assert (found.split, found.morph_score, found.recall) == (0, None, 0.0)
    # Without a space before it, the word is not that token.
    assert align(tokenizer, WORDS[:1], "th").split == 1


@given(st.text("abcä ", min_size=2, max_size=9).filter(lambda text: not text.startswith(" ")))
def test_byte_tokens_have_every_boundary(word: str) -> None:
    tokenizer = _BYTES
    morphemes = Segmented(word, tuple(word))
    found = align(tokenizer, [morphemes], "fi")
    assert found.recall == 1.0
    assert found.placed == len(word.encode()) - 1


class _Bytes:
    """A token per byte."""

    def encode_batch(self, texts: list[str]) -> list[np.ndarray]:
        return [np.frombuffer(text.encode(), dtype=np.uint8) for text in texts]

    def token_bytes(self, index: int) -> bytes:
        return bytes([index])


_BYTES: object = _Bytes()


def test_boundaries_of_unigram_tokenizers(tmp_path: Path) -> None:
    """Their tokens begin with a mark for the space, which decoding may drop."""
    unigram_merge(["fi"], data=SAMPLE / "data", output=tmp_path / "t", k=400, references=False)
    tokenizer = ModularTokenizer.load(tmp_path / "t").subset(["fi"])
    word = Segmented("talossa", ("talo", "ssa"))
    ids = tokenizer.encode(" talossa")
    only_space = not tokenizer.decode_bytes(ids[:1]).strip()
    assert len(ids) > 2
    assert align(tokenizer, [word], "fi").placed == len(ids) - 1 - only_space


def test_files(tmp_path: Path) -> None:
    (tmp_path / "fi.tsv").write_text("talossa\ttalo|ssa\n\ntalo\ttalo\n", "utf-8")
    (tmp_path / "hun_Latn.csv").write_text("full_word,pt1,rest\nházak,háza,k\n", "utf-8-sig")
    (tmp_path / "README").write_text("no words")
    found = Morphemes(tmp_path)
    assert found.of("fi") == [Segmented("talossa", ("talo", "ssa")), Segmented("talo", ("talo",))]
    assert found.of("hu") == [Segmented("házak", ("háza", "k"))]
    assert found.of("en") is None
    assert found.fingerprint("fi") != found.fingerprint("hu")
    (tmp_path / "words.tsv").write_text("talon\ttalo|n\n")
    assert Morphemes(tmp_path / "words.tsv", "fin_Latn").of("fi") is not None
    with pytest.raises(UsageError, match=r"words\.tsv: unknown language"):
        Morphemes(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        Morphemes(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "line", ["talossa\ttalo|sa", "talossa", "\t|", "talossa\ttalo||ssa", "a\tb"]
)
def test_damaged_lines_are_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "fi.tsv"
    path.write_text(f"talo\ttalo\n{line}\n")
    with pytest.raises(ModtokError, match=r"fi\.tsv:2: the morphemes .* do not spell the word"):
        read_morphemes(path)


def test_rows_of_nsl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refs").mkdir()
    for language in ("en", "fi"):
        write_plain(tmp_path / "refs" / f"{language}.json", [])
    tokenizer = write_plain(tmp_path / "t.json", TALO)
    texts = write_text(tmp_path / "x", en=["the"], fi=["talon"])
    (tmp_path / "fi.tsv").write_text("talon\ttalo|n\n")
    settings = {"references": tmp_path / "refs"}
    english, finnish = nsl([tokenizer], texts, morphemes=tmp_path / "fi.tsv", **settings)
    assert (finnish["morph_score"], finnish["boundary_f1"], finnish["morph_words"]) == (1.0, 1.0, 1)
    assert english["morph_score"] is None
    assert "|morph:" in finnish["signature"]
    assert finnish["tokens_per_word"] == 2.0  # talo, n
    assert [table.caption for table in nsl_tables([english, finnish])][-1] == "MorphScore"
    (plain, _) = nsl([tokenizer], texts, **settings)
    assert "morph_score" not in plain
    assert "|morph:" not in plain["signature"]
