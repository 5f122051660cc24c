"""Published Unigram tokenizers grow: old ids, scores and texts stay, every new piece is reached."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from zlib import crc32

import numpy as np
import orjson
import pytest
import sentencepiece
import tokenizers

from helpers.external_tokenizers import external_tokenizer, sentencepiece_model
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.grow_pieces import _Pieces, extended
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.open import load

DATA, NEW = SAMPLE / "data", 50
LINES = {
    name: (SAMPLE / "parallel" / f"{name}.txt").read_text("utf-8").split("\n")[:40]
    for name in ("en", "fi", "fr", "sw")
}


def scores_of(path: Path) -> dict[str, float]:
    return dict(orjson.loads(path.read_bytes())["model"]["vocab"])


@pytest.mark.parametrize("normalizer", [None, {"type": "NFKC"}])
def test_a_unigram_tokenizer_grows(normalizer: dict | None, tmp_path: Path) -> None:
    document = orjson.loads(external_tokenizer("unigram"))
    document["normalizer"] = normalizer
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(document))
    before = adopt(tmp_path, "en,fr", data=DATA, output=tmp_path / "adopted")
    report = unigram_merge(
        append="fi,sw", tokenizer=tmp_path / "adopted", data=DATA, output=tmp_path / "two",
        k=f"{NEW},sw={NEW - 9}",
    )  # fmt: skip
    assert [row["new_tokens"] for row in report.lines] == [NEW, NEW - 9]
    whole, file = load(tmp_path / "two"), tmp_path / "two" / "tokenizer.json"
    assert whole.languages == ("en", "fr", "fi", "sw")
    assert str(containment(whole, before)) == "all 602 token ids and their scores unchanged"
    document["model"]["vocab"][5][1] -= 1.0
    (tmp_path / "other.json").write_bytes(orjson.dumps(document))
    other = adopt(tmp_path / "other.json", "en,fr", data=DATA)
    assert "token 5 of 599 has another score" in str(containment(whole, other))
    library = tokenizers.Tokenizer.from_file(str(file))
    library.encode_special_tokens = True
    old, new = scores_of(tmp_path / "tokenizer.json"), scores_of(file)
    assert old.items() <= new.items()
    ids = tokenizers.Tokenizer.from_str(orjson.dumps(document).decode()).get_vocab()
    assert ids.items() <= library.get_vocab().items()
    added = [name for name in library.get_vocab() if name not in ids]
    assert sorted(map(library.token_to_id, added)) == [*range(602, 602 + 2 * NEW - 9)]
    for name in added:
        assert [token.value for token in library.model.tokenize(name)] == [name]
        assert new[name] >= min(old.values())
    for language, lines in LINES.items():
        expected = [library.encode(line, add_special_tokens=False).ids for line in lines]
        found = [each.tolist() for each in whole.encode_batch(lines)]
        assert found == expected
        first = [each.tolist() for each in before.encode_batch(lines)]
        # A text gets other ids where it has a new piece, and nowhere else.
        assert all(max(now) >= 602 for now, then in zip(found, first, strict=True) if now != then)
        parts = [
            [part.global_ids[each] for each in part.encode_batch(lines)]
            for part in (before.subset("en,fr"), whole.subset("en,fr"))
        ]
        assert all(map(np.array_equal, *parts))
        if language in ("fi", "sw"):
            assert sum(map(len, found)) < 0.97 * sum(map(len, first))


def test_a_sentencepiece_model_grows_for_both_libraries(tmp_path: Path) -> None:
    lines = LINES["en"] + LINES["fr"]
    data = sentencepiece_model(lines, vocab_size=500, model_type="unigram")
    (tmp_path / "tokenizer.model").write_bytes(data)
    unigram_merge(append="fi", tokenizer=tmp_path, data=DATA, output=tmp_path / "grown", k=NEW)
    whole = load(tmp_path / "grown")
    proto = whole.full().segmenter.to_sentencepiece()
    old, new = (sentencepiece.SentencePieceProcessor(model_proto=each) for each in (data, proto))
    assert new.get_piece_size() == old.get_piece_size() + NEW
    for index in range(old.get_piece_size()):
        assert new.id_to_piece(index) == old.id_to_piece(index)
        assert new.get_score(index) == old.get_score(index)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "grown" / "tokenizer.json"))
    for line in (line for lines in LINES.values() for line in lines):
        ids = new.encode(line)
        assert ids == whole.full().encode(line).tolist()
        assert ids == library.encode(line, add_special_tokens=False).ids
    assert any(max(new.encode(line)) >= old.get_piece_size() for line in LINES["fi"])


def test_an_unknown_token_for_a_whole_word_is_no_measure(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(external_tokenizer("unigram"))
    text, progress = SAMPLE / "parallel" / "el.txt", Silent()
    options = {"append": "el", "data": text, "k": 300, "output": tmp_path / "o", "force": True}
    report = unigram_merge(tokenizer=tmp_path / "t.json", progress=progress, **options)
    library = tokenizers.Tokenizer.from_str(external_tokenizer("unigram").decode())
    lines = text.read_text("utf-8").splitlines()
    held = library.encode_batch(
        [line for line in lines if crc32(line.encode()) % 10 == 0], add_special_tokens=False
    )
    ids = [index for each in held for index in each.ids]
    [row] = report.lines
    assert row["unknown_before"] == round(ids.count(0) / len(ids), 3) > 0.3
    assert row.get("unknown_whole", 0) < 0.01
    assert row["tokens_per_word_before"] < row["tokens_per_word_whole"]
    [line] = [each for each in progress.warnings if "tokens per word" in each]
    assert f"{row['unknown_before']:.1%} of its tokens in the old file are the unknown" in line


def test_without_an_unknown_token_all_characters_are_pieces_or_the_file_stays(
    tmp_path: Path,
) -> None:
    document = orjson.loads(external_tokenizer("unigram"))
    document["model"]["unk_id"] = None
    (tmp_path / "t.json").write_bytes(orjson.dumps(document))
    text, progress = SAMPLE / "parallel" / "el.txt", Silent()
    options = {"append": "el", "tokenizer": tmp_path / "t.json", "output": tmp_path / "o"}
    with pytest.raises(UsageError, match=r"characters of the text have no token, and 'model.unk_i"):
        unigram_merge(k=20, data=text, **options)
    assert not (tmp_path / "o").exists()
    unigram_merge(k=100, data=text, progress=progress, **options)
    assert any("tokens per word are not measured: the tok" in each for each in progress.warnings)
    lines = text.read_text("utf-8").splitlines()
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "o" / "tokenizer.json"))
    assert [each.ids for each in library.encode_batch(lines, add_special_tokens=False)] == [
        each.tolist() for each in load(tmp_path / "o").encode_batch(lines)
    ]


def test_unknown_characters_have_the_price_that_they_had(tmp_path: Path) -> None:
    """Where an added token needs a row among the pieces, the lowest score stays."""
    document = orjson.loads(external_tokenizer("unigram")) | {"pre_tokenizer": None}
    scores = {"<unk>": 0.0, "ös": -15.0, "t": -15.0, "e": -15.0, "ste": -2.0, "<s>": 0.0}
    document["model"]["vocab"] = [[*row] for row in scores.items()]
    document["added_tokens"] = document["added_tokens"][:2]
    for index, token in enumerate(document["added_tokens"], 6):
        token |= {"id": index, "content": f"<{index}>"}
    document["post_processor"] = None
    grown = extended(TokenizerFile(document, "t.json"), {"new": -3.0}).document
    before, after = (
        tokenizers.Tokenizer.from_str(orjson.dumps(each).decode()) for each in (document, grown)
    )
    assert after.get_vocab() == before.get_vocab() | {"new": 8}
    for text in ("öste", "stös", "x<6>y"):
        assert after.encode(text).ids == before.encode(text).ids
    assert before.encode("öste").ids == [0, 4]


@pytest.mark.parametrize("k", [NEW, 300])
def test_characters_that_the_file_lacks_are_its_first_pieces(k: int, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(external_tokenizer("unigram"))
    progress = Silent()
    unigram_merge(
        append="el",
        tokenizer=tmp_path / "tokenizer.json",
        data=DATA,
        output=tmp_path / "o",
        k=k,
        progress=progress,
    )
    files = tmp_path / "tokenizer.json", tmp_path / "o" / "tokenizer.json"
    old = scores_of(files[0])
    data = (DATA / "el.jsonl").read_text("utf-8")
    text = "".join(orjson.loads(line)["text"] for line in data.split("\n") if line)
    counts = Counter(text).most_common()
    lacking = [(char, n) for char, n in counts if char not in old and not char.isspace()]
    assert len(lacking) > NEW
    pieces = [*scores_of(files[1])][602:]
    assert len(pieces) == k
    if k == NEW:
        assert all(len(piece) == 1 for piece in pieces)
    else:
        lost = sum(n for char, n in lacking if char not in pieces)
        assert lost < 0.001 * len(text)
        assert any(len(piece) > 2 for piece in pieces)
    [warning] = [each for each in progress.warnings if "have no token" in each]
    assert warning.startswith("el: ")


def test_bytes_spell_characters_so_that_longer_pieces_go_first(tmp_path: Path) -> None:
    data = sentencepiece_model(
        LINES["en"], vocab_size=600, model_type="unigram", byte_fallback=True
    )
    (tmp_path / "tokenizer.model").write_bytes(data)
    progress = Silent()
    unigram_merge(
        append="el", tokenizer=tmp_path, data=DATA, output=tmp_path / "o", k=NEW, progress=progress
    )
    pieces = [*scores_of(tmp_path / "o" / "tokenizer.json")][-NEW:]
    assert {len(piece) == 1 for piece in pieces} == {True, False}
    assert not any("have no token" in each for each in progress.warnings)


def test_words_are_segmented_as_by_the_library() -> None:
    document = orjson.loads(external_tokenizer("unigram"))
    library = tokenizers.Tokenizer.from_str(orjson.dumps(document).decode())
    pieces = _Pieces(dict(document["model"]["vocab"]))
    words = {f"▁{word}" for lines in LINES.values() for line in lines for word in line.split()}
    known = [word for word in sorted(words) if not {*word} - {*pieces.scores}]
    assert len(known) > 500
    for word in known:
        assert pieces.segment(word)[1] == [each.value for each in library.model.tokenize(word)]


def test_each_command_grows_its_own_kind(tmp_path: Path) -> None:
    for name in ("unigram", "byte-level"):
        (tmp_path / f"{name}.json").write_bytes(external_tokenizer(name))
    rest = {"append": "fi", "data": DATA, "k": NEW, "output": tmp_path / "o"}
    with pytest.raises(UsageError, match=r"is a Unigram tokenizer; modtok unigram-merge --append"):
        bpe_seq(tokenizer=tmp_path / "unigram.json", **rest)
    with pytest.raises(UsageError, match=r"is a BPE tokenizer; modtok bpe-seq --append"):
        unigram_merge(tokenizer=tmp_path / "byte-level.json", **rest)
    for grow in (bpe_seq, unigram_merge):
        with pytest.raises(UsageError, match=r"nope\.json: does not exist"):
            grow(tokenizer=tmp_path / "nope.json", **rest)
        with pytest.raises(UsageError, match="the directory contains no tokenizer"):
            grow(tokenizer=tmp_path, **rest)
    with pytest.raises(UsageError, match="grows published tokenizers only"):
        unigram_merge(**rest)
    with pytest.raises(UsageError, match=r"weights.* is not for a published tokenizer"):
        unigram_merge(tokenizer=tmp_path / "unigram.json", weights={"fi": 2.0}, **rest)
    with pytest.raises(UsageError, match=r"iterations.* is not for a published tokenizer"):
        unigram_merge(tokenizer=tmp_path / "unigram.json", iterations=3, **rest)
    assert not (tmp_path / "o").exists()
