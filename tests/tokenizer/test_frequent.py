"""Cutting any Unigram tokenizer to the tokens that a text uses most."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.external_tokenizers import external_tokenizer, sentencepiece_model
from helpers.handmade_tokenizers import write_plain
from helpers.made_tokenizers import of_pieces
from helpers.sample import SAMPLE
from helpers.toy_tokenizers import NASTY, toy
from modtok_cli.base.errors import UsageError
from modtok_cli.learn.pieces import UNKNOWN
from modtok_cli.text.counts import count_documents
from modtok_cli.tokenizer.extract import content_of, extract, frequent_mask, used_mask
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes, open_tokenizer
from modtok_cli.tokenizer.segmenters.sentencepiece_file import read_model
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

LINES = (SAMPLE / "parallel" / "sw.txt").read_text("utf-8").splitlines()


def extract_frequent(spec: str, k: int, texts: list[Path], as_model: bool | None = None) -> bytes:
    suffix = None if as_model is None else (".json", ".model")[as_model]
    return content_of(extract(spec, top=k, texts=texts), suffix)


def test_by_count_then_score_then_id() -> None:
    counts = np.array([0, 0, 5, 7, 5, 5, 0])
    scores = np.array([0.0, 0.0, -2.0, -9.0, -1.0, -2.0, -1.0])
    always = np.array([True, True, False, False, False, False, False])
    kept = [np.flatnonzero(frequent_mask(counts, scores, always, k)).tolist() for k in range(3, 8)]
    assert kept == [[0, 1, 3], [0, 1, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5], list(range(7))]
    with pytest.raises(UsageError, match="are too few"):
        frequent_mask(counts, scores, always, 2)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "sw.txt"
    path.write_text("ab ab ab a b abc\nxx é\n", "utf-8")
    return path


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    pieces = [" ", "a", "b", "c", " ab", "ab", "x", "xx"]
    scores = [-3.0, -4.0, -4.0, -4.0, -3.0, -3.0, -5.0, -5.5]
    found = {piece: (score, "sw") for piece, score in zip(pieces, scores, strict=True)}
    of_pieces(found, ["sw"], (UNKNOWN, "<|endoftext|>")).save(tmp_path / "tok")
    return tmp_path / "tok"


def test_top_k_keeps_order(ours: Path, text: Path) -> None:
    data = extract_frequent(str(ours), 262, [text])
    cut = open_bytes(data, "cut", "cut")
    assert isinstance(cut, Subtokenizer)
    # Used: "ab" 2, " ab" 3, " " 1, "a" 1, "b" 1, "c" 1, "xx" 1. Of the equal the likeliest stays.
    assert cut.size == 262
    kept = cut.vocabulary.tokens()[258:]
    assert kept[:1] == [b" "]
    assert b" ab" in kept
    assert b"ab" in kept
    assert orjson.loads(data)["model"]["modtok"]["top_k"] == 262
    whole = ModularTokenizer.load(ours).full()
    every = extract_frequent(f"{ours}@sw", whole.size, [text])
    assert open_bytes(every, "every", "every").signature == whole.signature
    assert cut.provenance["parent"] == whole.parent_signature
    text_of = text.read_text("utf-8")
    assert cut.decode(cut.encode(text_of)) == text_of
    model = extract_frequent(str(ours), 262, [text], as_model=True)
    again = open_bytes(model, "cut", "cut")
    assert again.signature == cut.signature
    assert (
        tokenizers.Tokenizer.from_buffer(data).encode("ab xx").ids == cut.encode("ab xx").tolist()
    )


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A model with SentencePiece's own settings: NFKC, dummy prefix, begin and end."""
    path = tmp_path / "foreign.model"
    path.write_bytes(sentencepiece_model(LINES, vocab_size=500))
    return path


def test_external_model_stays_a_model(foreign: Path, tmp_path: Path) -> None:
    text, more = tmp_path / "sw.txt", tmp_path / "more.txt"
    text.write_text("\n".join(LINES[:20]), "utf-8")
    more.write_text("\n".join(LINES[20:40]), "utf-8")
    data = extract_frequent(str(foreign), 400, [text, more])
    cut = sentencepiece.SentencePieceProcessor(model_proto=data)
    whole = sentencepiece.SentencePieceProcessor(model_file=str(foreign))
    assert cut.get_piece_size() == 400
    kept = [cut.id_to_piece(i) for i in range(400)]
    assert {"<unk>", "<s>", "</s>", "<0x00>", "<0xFF>"} <= set(kept)
    used: dict[str, int] = {}
    for line in LINES[:40]:
        for piece in whole.encode(line, out_type=str):
            used[piece] = used.get(piece, 0) + 1
    normal = [p for p, kind in zip(kept, read_model(data, "").kinds, strict=True) if kind == 1]
    least = min(used.get(piece, 0) for piece in normal)
    dropped = {whole.id_to_piece(i) for i in range(500)} - set(kept)
    assert all(used.get(piece, 0) <= least for piece in dropped)
    # Everything but the pieces is as it was: the same normalization, the same scores.
    a, b = read_model(foreign.read_bytes(), ""), read_model(data, "")
    assert (a.charsmap, a.normalizer, a.dummy_prefix) == (b.charsmap, b.normalizer, b.dummy_prefix)
    score = dict(zip(a.pieces, a.scores, strict=True))
    assert [score[piece] for piece in b.pieces] == list(b.scores)
    assert cut.decode(cut.encode(LINES[0])) == whole.decode(whole.encode(LINES[0]))
    with pytest.raises(UsageError, match=r"only written as \.model"):
        extract_frequent(str(foreign), 400, [text], as_model=False)
    with pytest.raises(UsageError, match="500 tokens, cannot keep 501"):
        extract_frequent(str(foreign), 501, [text])


def test_external_tokenizer_json(tmp_path: Path) -> None:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.add_special_tokens(["<behind>"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A <behind>",
        special_tokens=[("<s>", 0), ("<behind>", tokenizer.token_to_id("<behind>"))],
    )
    path, text = tmp_path / "foreign.json", tmp_path / "sw.txt"
    tokenizer.save(str(path))
    text.write_text("\n".join(LINES[:40]), "utf-8")
    size = tokenizer.get_vocab_size()
    data = extract_frequent(str(path), 200, [text])
    cut = tokenizers.Tokenizer.from_buffer(data)
    assert cut.get_vocab_size() == 200
    encoded = cut.encode(LINES[0])
    assert encoded.tokens[0] == "<s>"
    assert encoded.tokens[-1] == "<behind>"
    assert encoded.ids[-1] == 199
    assert cut.decode(encoded.ids) == tokenizer.decode(tokenizer.encode(LINES[0]).ids)
    assert size > 200
    with pytest.raises(UsageError, match=r"a SentencePiece \.model cannot hold"):
        extract_frequent(str(path), 200, [text], as_model=True)


def test_bpe_of_others(tmp_path: Path) -> None:
    """Of a .model with a coverage, and of a tokenizer.json with a size: the ids of the owner."""
    path, text = tmp_path / "bpe.model", tmp_path / "sw.txt"
    path.write_bytes(sentencepiece_model(LINES, vocab_size=500, model_type="bpe"))
    (tmp_path / "t.json").write_bytes(external_tokenizer("byte-level"))
    text.write_text("\n".join(LINES[:40]), "utf-8")
    data = content_of(extract(str(path), coverage=0.9, texts=[text]))
    cut = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert cut.get_piece_size() < 450
    extract(str(tmp_path / "t.json"), top=400, texts=[text], output=tmp_path / "cut.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "cut.json"))
    assert library.get_vocab_size() == 400
    for line in LINES[:40]:
        assert open_bytes(data, "m", "m").encode(line).tolist() == cut.encode(line)
        ids = open_tokenizer(str(tmp_path / "cut.json")).encode(line).tolist()
        assert ids == library.encode(line, add_special_tokens=False).ids
        assert library.decode(ids) == line


@settings(max_examples=30)
@given(st.integers(0, 5), st.integers(260, 330), st.lists(st.text("abcde 1é"), min_size=1))
def test_merges_without_rare_tokens(seed: int, k: int, texts: list[str]) -> None:
    """Exact ids by the library, nothing unreachable, lossless; the least used tokens go."""
    whole = toy(seed).subset("en,fr")
    words = count_documents([[text.encode() for text in texts]])
    counts = whole.token_occurrences(words)
    k = min(k, whole.size)
    cut = whole.restricted(used_mask(whole, counts, k, None))
    assert cut.size == k
    assert not len(cut.segmenter.improper_merges())
    assert set(cut.segmenter.unreachable_tokens()) <= {
        cut.local_of_global[whole.global_ids[i]] for i in whole.segmenter.unreachable_tokens()
    }
    library = tokenizers.Tokenizer.from_str(cut.to_json().decode())
    library.encode_special_tokens = True
    for text in [*texts, *NASTY]:
        ids = cut.encode(text)
        assert ids.tolist() == library.encode(text).ids
        assert cut.decode(ids) == text


def test_a_token_stays_with_those_that_are_built_from_it(tmp_path: Path) -> None:
    """The merges a b → ab, ab c → abc, c d → cd: "ab" is never used itself."""
    write_plain(tmp_path / "t.json", [(b"a", b"b"), (b"ab", b"c"), (b"c", b"d")])
    (tmp_path / "text.txt").write_text("abc abc abc cd cd", "utf-8")
    spec, on = str(tmp_path / "t.json"), [tmp_path / "text.txt"]
    with pytest.raises(UsageError, match=r"top: 3 tokens are too few: 256 cannot be removed"):
        extract(spec, top=3, texts=on)
    kept = extract(spec, top=258, texts=on)
    assert isinstance(kept, Subtokenizer)
    assert kept.vocabulary.tokens()[256:] == [b"ab", b"abc"]
    assert len(extract(spec, coverage=1, texts=on).encode("abc")) == 1
    # Four tokens of text more, of nine: cd, then abc would go at a cost of two and of three.
    less = extract(spec, coverage=0.7, texts=on)
    assert isinstance(less, Subtokenizer)
    assert less.vocabulary.tokens()[256:] == [b"ab", b"abc"]


def test_coverage_of_fewest_tokens_and_of_others(ours: Path, text: Path, foreign: Path) -> None:
    cut = extract(str(ours), "sw", coverage=0.9, texts=[text])
    assert isinstance(cut, Subtokenizer)
    assert cut.size < 266
    whole = ModularTokenizer.load(ours)
    assert whole.vocabulary.tokens() != cut.vocabulary.tokens()
    assert [whole.vocabulary.tokens()[index] for index in cut.global_ids] == cut.vocabulary.tokens()
    assert cut.local_of_global.tolist() == [
        cut.global_ids.tolist().index(index) if index in cut.global_ids else -1
        for index in range(whole.size)
    ]
    assert cut.decode(cut.encode("xx ab")) == "xx ab"
    assert extract(str(foreign), coverage=0.9, texts=[text]).size < 500
    with pytest.raises(UsageError, match="require each other"):
        extract(str(ours), coverage=0.9)
    with pytest.raises(UsageError, match="too few"):
        extract(str(ours), "sw", top=257, texts=[text])
