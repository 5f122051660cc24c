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
from modtok_cli.measure.morphology import Morphemes, align, read_morphemes
from modtok_cli.measure.nsl import nsl
from modtok_cli.reports.kinds.tokenizers import nsl_tables
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer

# " talo" is one token, so " talon" is talo + n.
TALO = [(b"t", b"a"), (b"l", b"o"), (b"ta", b"lo"), (b" ", b"talo")]


def test_example_of_the_documentation(tmp_path: Path) -> None:
    """talo|ssa as tal ossa, talo|n as talo n, auto|t as autot."""
    merges = [(b" ", b"t"), (b" t", b"a"), (b" ta", b"l"), (b"o", b"s"), (b"os", b"s")]
    merges += [(b"oss", b"a"), (b" tal", b"o"), (b" ", b"a"), (b" a", b"u"), (b" au", b"t")]
    merges += [(b" aut", b"o"), (b" auto", b"t")]
    tokenizer = open_tokenizer(write_plain(tmp_path / "t.json", merges))
    words = [("talo", "ssa"), ("talo", "n"), ("auto", "t")]
    assert [*align(tokenizer, words, "fi").values()] == [1 / 2, 1 / 2, 1 / 3, 0.4, 3]
    # Single tokens are excluded from MorphScore; in a script without spaces it is several.
    assert [*align(tokenizer, words[2:], "fi").values()] == [None, None, 0, 0, 1]
    assert align(tokenizer, words[2:], "th")["morph_score"] == 1


@given(st.text("abcä ", min_size=2, max_size=9).filter(lambda text: not text.startswith(" ")))
def test_byte_tokens_have_every_boundary(word: str) -> None:
    found = align(_BYTES, [tuple(word)], "fi")
    assert found["boundary_recall"] == 1
    assert found["boundary_precision"] == (len(word) - 1) / (len(word.encode()) - 1)


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
    ids = tokenizer.encode(" talossa")
    only_space = not tokenizer.decode_bytes(ids[:1]).strip()
    assert len(ids) > 2
    found = align(tokenizer, [tuple("talossa")], "fi")  # each token ends at a boundary
    assert found["boundary_recall"] == (len(ids) - 1 - only_space) / 6


def test_files(tmp_path: Path) -> None:
    (tmp_path / "fi.tsv").write_text("talossa\ttalo|ssa\n\ntalo\ttalo\n", "utf-8")
    (tmp_path / "hun_Latn.csv").write_text("full_word,pt1,rest\nházak,háza,k\n", "utf-8-sig")
    (tmp_path / "README").write_text("no words")
    found = Morphemes(tmp_path)
    assert found.of("fi") == [("talo", "ssa"), ("talo",)]
    assert found.of("hu") == [("háza", "k")]
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
