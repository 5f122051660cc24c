"""Published tokenizers grow: old ids and texts stay, the library has the ids of the new ones."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import orjson
import pytest
import tokenizers

from helpers.external_tokenizers import external_tokenizer
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.modular.adopted.adopt import adopt
from modtok_cli.modular.open import load
from modtok_cli.text.pretokenizer import split_json

DATA, NEW = SAMPLE / "data", 60
LANGUAGES = ("en", "fi", "fr", "el", "ne", "sw")
LINES = {
    name: (SAMPLE / "parallel" / f"{name}.txt").read_text("utf-8").split("\n")[:40]
    for name in LANGUAGES
}


def published(kind: str) -> dict:
    """Files of four families; with `ignore_merges`, " kuin" is a token that no merge makes."""
    document = orjson.loads(external_tokenizer("characters" if kind == "gemma" else "byte-level"))
    if kind == "deepseek":  # a split that modtok does not have, and a token that no text is
        level = document["pre_tokenizer"] | {"use_regex": False}
        patterns = [
            r"\p{N}{1,3}",
            r"[一-龥]+",
            r"[^\r\n\p{L}\p{P}]?[\p{L}\p{M}]+| ?\p{P}+|\s+(?!\S)|\s+",
        ]
        splits = [split_json(each) for each in patterns]
        document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, level]}
        document["normalizer"] = {"type": "Sequence", "normalizers": []}
        like = document["added_tokens"][0] | {"special": False, "content": "<｜x｜>"}
        document["model"]["vocab"]["<｜x｜>"] = len(document["model"]["vocab"])
        document["added_tokens"].append(like)
    if kind == "llama3":
        model = document["model"]
        model["ignore_merges"] = True
        for name in ("Ġmailla", "illä"):
            model["vocab"][name] = len(model["vocab"])
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    document["added_tokens"][-1]["special"] = False
    ids = dict(document["model"]["vocab"])  # the library numbers what is not in it by position
    for token in document["added_tokens"]:
        token["id"] = ids.setdefault(token["content"], len(ids))
    for name, token in document["post_processor"]["special_tokens"].items():
        token["ids"] = [ids[name]]
    return document


@pytest.mark.parametrize("kind", ["gpt2", "gemma", "llama3", "deepseek"])
def test_a_published_tokenizer_grows(kind: str, tmp_path: Path) -> None:
    document = published(kind)
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(document))
    before = adopt(tmp_path, "en,fr", data=DATA, output=tmp_path / "adopted")
    bpe_seq(data=DATA, append="fi", tokenizer=tmp_path, output=tmp_path / "one", k=NEW)
    report = bpe_seq(
        data=DATA, append="fi,sw", tokenizer=tmp_path / "adopted", output=tmp_path / "two", k=NEW
    )
    assert [row["new_tokens"] for row in report.lines] == [NEW, NEW]
    whole = load(tmp_path / "two")
    assert load(tmp_path / "one").languages == ("base", "fi")
    assert whole.languages == ("en", "fr", "fi", "sw")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "two" / "tokenizer.json"))
    library.encode_special_tokens = True

    theirs = tokenizers.Tokenizer.from_str(orjson.dumps(document).decode())
    flags = theirs.get_added_tokens_decoder()
    assert {i: str(token) for i, token in flags.items()} == {
        i: str(token) for i, token in library.get_added_tokens_decoder().items()
    }
    assert theirs.get_vocab().items() <= library.get_vocab().items()
    part = tokenizers.Tokenizer.from_str(whole.subset("sw").to_json().decode())
    mark = part.token_to_id("<|im_end|>")
    assert part.decode([mark], skip_special_tokens=False) == "<|im_end|>"
    assert whole.subset("sw").global_ids[mark] == theirs.token_to_id("<|im_end|>")

    old, new = before.get_vocab(), whole.get_vocab()
    assert old.items() <= new.items()
    added = {name: index for name, index in new.items() if name not in old}
    assert sorted(added.values()) == list(range(len(before), len(before) + 2 * NEW))
    for name, index in added.items():
        assert [token.id for token in library.model.tokenize(name)] == [index], name
    for language, lines in LINES.items():
        lines = [*lines, "a<unused1> b"]
        expected = [library.encode(line, add_special_tokens=False).ids for line in lines]
        assert [ids.tolist() for ids in whole.encode_batch(lines)] == expected
        original = before.encode_batch(lines)
        parts = [
            [part.global_ids[ids] for ids in part.encode_batch(lines)]
            for part in (before.subset("en,fr"), whole.subset("en,fr"))
        ]
        assert all(map(np.array_equal, *parts))
        assert all(map(np.array_equal, load(f"{tmp_path}/one@base").encode_batch(lines), original))
        if language in ("fi", "sw"):
            own = whole.subset(language)
            counted = sum(map(len, own.encode_batch(lines)))
            assert counted < 0.98 * sum(map(len, original))
            texts = [line.encode() for line in lines]
            assert [own.decode(ids).encode() for ids in own.encode_batch(lines)] == texts
            assert not len(own.segmenter.unreachable_tokens())


def test_digits_stay_apart_where_the_file_keeps_them_apart(tmp_path: Path) -> None:
    document = published("gpt2")
    model = document["model"]
    model["vocab"] = {n: i for n, i in model["vocab"].items() if not re.search(r"\d.|.\d", n)}
    model["merges"] = [each for each in model["merges"] if "".join(each) in model["vocab"]]
    (tmp_path / "apart.json").write_bytes(orjson.dumps(document))
    vocab, merges = {**model["vocab"], "12": 900}, [*model["merges"], ["1", "2"]]
    joined = {**model, "vocab": vocab, "merges": merges}
    (tmp_path / "joined.json").write_bytes(orjson.dumps({**document, "model": joined}))
    for name, digits in (("apart", "7654"), ("joined", "7654"), ("apart", "७६५४")):
        (tmp_path / "fi.txt").write_text(f"vuonna {digits} zzz " * 99 + "\n")
        place, file = tmp_path / f"{name}-{digits}", tmp_path / f"{name}.json"
        bpe_seq(append="fi", tokenizer=file, output=place, k=20, data=tmp_path / "fi.txt")
        grown = load(place).subset("fi")
        tokens = b"\n".join(grown.vocabulary.tokens()).decode(errors="replace")
        assert set(digits) <= set(tokens)
        ids = grown.encode(f" {digits}")
        assert (re.search(r"\d\d", tokens) is not None) == (name == "joined")
        assert bytes(grown.decode_bytes(ids)).decode() == f" {digits}"


def test_what_cannot_grow(tmp_path: Path) -> None:
    (tmp_path / "gpt2.json").write_bytes(external_tokenizer("byte-level"))
    (tmp_path / "unigram.json").write_bytes(external_tokenizer("unigram"))
    words = {"type": "WordPiece", "unk_token": "a", "max_input_chars_per_word": 9,
             "continuing_subword_prefix": "##", "vocab": {"a": 0}}  # fmt: skip
    (tmp_path / "words.json").write_bytes(orjson.dumps({"model": words, "added_tokens": []}))
    odd = published("gpt2") | {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    }
    (tmp_path / "odd.json").write_bytes(orjson.dumps(odd))
    for name, options, message in (
        ("unigram", {}, "Unigram tokenizer has no merges to go on from"),
        ("words", {}, "type 'WordPiece' cannot be restricted"),
        ("odd", {}, "how it splits text into words is not known"),
        ("gpt2", {"k": None}, "grows by a number of tokens"),
        ("gpt2", {"output": None}, "is not replaced"),
        ("gpt2", {"passes": 2}, "is not for a published tokenizer"),
        ("gpt2", {"languages": "fi"}, "is not for a published tokenizer"),
    ):
        chosen = {"k": NEW, "output": tmp_path / "o", "append": "fi", "data": DATA, **options}
        with pytest.raises(UsageError, match=message):
            bpe_seq(tokenizer=tmp_path / f"{name}.json", **chosen)
    assert not (tmp_path / "o").exists()
