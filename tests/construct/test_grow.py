"""Published tokenizers grow: old ids and texts stay, the library has the ids of the new ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import orjson
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.external_tokenizers import external_tokenizer, sentencepiece_model
from helpers.handmade_tokenizers import Merge, write_ranks
from helpers.said import Said
from helpers.sample import SAMPLE
from helpers.worlds import END, write
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.base.public import ModtokWarning
from modtok_cli.construct import held_out
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.reference.sequential_bpe import (
    Language,
    SequentialBpe,
    byte_order,
    bytes_of,
    segment,
)
from modtok_cli.reference.splitting import split
from modtok_cli.text.counts import count_documents
from modtok_cli.text.pretokenizer import find_pretokenizer, restore_pretokenizer, split_json
from modtok_cli.text.table_files import save_counts
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.open import load
from modtok_cli.tokenizer.vocabulary import spell, unspell

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
    return numbered(document)


def numbered(document: dict) -> dict:
    """The document with contiguous ids: the library numbers added tokens by their position."""
    ids = {name: index for index, name in enumerate(document["model"]["vocab"])}
    document["model"]["vocab"] = dict(ids)
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
        data=DATA, append="fi,sw", tokenizer=tmp_path / "adopted", output=tmp_path / "two",
        k={"sw": NEW - 9, "fi": NEW},
    )  # fmt: skip
    assert [row["new_tokens"] for row in report.lines] == [NEW, NEW - 9]
    card = (tmp_path / "two" / "README.md").read_text()
    assert f"modtok bpe-seq --append fi,sw -t TOKENIZER -k fi={NEW},sw={NEW - 9}\n" in card
    whole = load(tmp_path / "two")
    assert load(tmp_path / "one").languages == ("base", "fi")
    bpe_seq(data=DATA, append="sw", tokenizer=tmp_path / "one", output=tmp_path / "again", k=9)
    assert load(tmp_path / "again").budgets == {"fi": NEW, "sw": 9}
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
    assert sorted(added.values()) == list(range(len(before), len(before) + 2 * NEW - 9))
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


@pytest.mark.parametrize("k", [9, 200])
def test_a_character_that_bytes_spell_is_a_token_before_longer_ones(k: int, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(orjson.dumps(published("gemma")))
    text = SAMPLE / "parallel" / "el.txt"
    report = bpe_seq(append="el", tokenizer=tmp_path / "t.json", data=text, k=k,
                     output=tmp_path / "o")  # fmt: skip
    before, whole = tokenizers.Tokenizer.from_file(str(tmp_path / "t.json")), load(tmp_path / "o")
    after = tokenizers.Tokenizer.from_file(str(tmp_path / "o" / "tokenizer.json"))
    old = before.get_vocab()
    new = {index: name for name, index in after.get_vocab().items() if name not in old}
    names = [new[index] for index in sorted(new)]
    assert sorted(new) == [*range(len(old), len(old) + k)]
    characters = Counter(text.read_text("utf-8").replace("\n", ""))
    spelled = [each for each in characters if each.encode()[1:] and each not in old]
    ranked = sorted(spelled, key=lambda each: (-characters[each], each))
    found = [name for name in names if len(name) == 1]
    assert names[: len(found)] == found == ranked[: len(found)]
    if k > 9:
        left = sum(characters[each] for each in ranked[len(found) :])
        assert left <= 0.0005 * characters.total() < left + characters[found[-1]]
    else:
        assert len(found) == k
    lines = [line for those in LINES.values() for line in those]
    ids = [each.ids for each in after.encode_batch(lines, add_special_tokens=False)]
    assert [each.tolist() for each in whole.encode_batch(lines)] == ids
    base = whole.subset("base")
    assert [base.global_ids[each].tolist() for each in base.encode_batch(lines)] == [
        each.ids for each in before.encode_batch(lines, add_special_tokens=False)
    ]
    [row] = report.lines
    assert row["tokens_per_word_whole"] < row["tokens_per_word_before"] / (1 if k == 9 else 2)


def test_bytes_that_the_file_leaves_out_are_told(tmp_path: Path) -> None:
    document = published("gpt2")
    lost, model = {spell(b"\xce"), spell(b"\xcf")}, document["model"]
    model["merges"] = [pair for pair in model["merges"] if not lost & {*"".join(pair)}]
    parts = {name for pair in model["merges"] for name in (*pair, "".join(pair))}
    names = [name for name in model["vocab"] if name in parts or len(name) == 1]
    model["vocab"] = {name: place for place, name in enumerate(names) if name not in lost}
    (tmp_path / "t.json").write_bytes(orjson.dumps(numbered(document)))
    text, progress = SAMPLE / "parallel" / "el.txt", Silent()
    bpe_seq(append="el", tokenizer=tmp_path / "t.json", data=text, k=9, output=tmp_path / "o",
            progress=progress)  # fmt: skip
    data = text.read_bytes().replace(b"\n", b"")
    left_out = data.count(b"\xce") + data.count(b"\xcf")
    line = f"el: {left_out:,} of {len(data):,} bytes of the text have no token"
    assert any(each.startswith(line) for each in progress.warnings)


def test_text_is_normalized_before_it_is_counted(tmp_path: Path) -> None:
    """By the file's own normalizer: the new tokens are those that it lets the library make."""
    document = published("gpt2")
    document["normalizer"] = {
        "type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}],
    }  # fmt: skip
    (tmp_path / "tokenizer.json").write_bytes(orjson.dumps(document))
    lines = [f"TALOSSANI ON \ufb01ksu {number} Talossani" for number in range(400)]
    held = [line for line in lines if crc32(line.encode()) % 10 == 0]
    (tmp_path / "fi.txt").write_text("\n".join(lines), "utf-8")
    report = bpe_seq(
        append="fi", tokenizer=tmp_path, output=tmp_path / "grown", k=8, data=tmp_path / "fi.txt"
    )
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "grown" / "tokenizer.json"))
    old = tokenizers.Tokenizer.from_str(orjson.dumps(document).decode())
    new = sorted(library.get_vocab().keys() - old.get_vocab().keys())
    assert len(new) == 8
    assert "talossani" in new
    assert not re.search("[A-Z]", "".join(new))
    words = sum(len(line.split()) for line in held)
    assert words
    for name, each in (("before", old), ("whole", library)):
        count = sum(len(each.encode(line, add_special_tokens=False).ids) for line in held)
        assert report.lines[0][f"tokens_per_word_{name}"] == round(count / words, 3)


@pytest.mark.parametrize(
    ("kind", "name", "digits"),
    [("gpt2", "apart", "7654"), ("gpt2", "joined", "7654"), ("gpt2", "apart", "७६५४"),
     ("gemma", "apart", "▁7654")],
)  # fmt: skip
def test_digits_stay_apart_where_the_file_keeps_them_apart(
    kind: str, name: str, digits: str, tmp_path: Path
) -> None:
    document = published(kind)
    model = document["model"]
    apart = {n for n in model["vocab"] if n[0] == "<" or not re.search(r"\d.|.\d", n)}
    model["vocab"] = {n: i for n, i in model["vocab"].items() if n in apart}
    model["merges"] = [each for each in model["merges"] if "".join(each) in model["vocab"]]
    if name == "joined":
        model["vocab"]["12"] = 900
        model["merges"].append(["1", "2"])
    (tmp_path / "t.json").write_bytes(orjson.dumps(numbered(document)))
    (tmp_path / "fi.txt").write_text(f"vuonna {digits} zzz " * 99 + "\n", "utf-8")
    bpe_seq(append="fi", tokenizer=tmp_path / "t.json", output=tmp_path / "o", k=20,
            data=tmp_path / "fi.txt")  # fmt: skip
    grown = load(tmp_path / "o").subset("fi")
    tokens = b"\n".join(grown.vocabulary.tokens()).decode(errors="replace")
    digits = digits.lstrip("▁")  # which the file takes for a space
    assert set(digits) <= set(tokens)
    ids = grown.encode(f" {digits}")
    assert (re.search(r"\d\d", tokens) is not None) == (name == "joined")
    assert bytes(grown.decode_bytes(ids)).decode() == f" {digits}"


DIGIT = re.compile(r"\d")


GROWN_TEXT = st.lists(
    st.sampled_from(["ab", "aab", "bab", "a1b", "ab1ba", "ba12", "1ba", "🯳ab", "é日", f"a{END}"]),
    min_size=1, max_size=20,
).map(" ".join)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> tuple[list[Merge], list[bytes]]:
    """Merges of a file, not always in an order that uses them, and tokens that no merge makes."""
    made, merges = bytes_of("aabb 1é".encode()), []
    for _ in range(draw(st.integers(0, 8))):
        pair = draw(st.sampled_from(made)), draw(st.sampled_from(made))
        if b"".join(pair) not in made:
            made.append(b"".join(pair))
            merges.append(pair)
    alone = st.sets(st.sampled_from([b"ab a", b"bab", b" ab", b"ba", b"c1"]), max_size=2)
    return merges, sorted(draw(alone) - {*made})


def written(
    path: Path, merges: Sequence[Merge], alone: Sequence[bytes], pattern: str
) -> dict[str, int]:
    """A file of tokens that spell bytes, and an end of text; its tokens by name."""
    tokens = [*bytes_of(bytes(byte_order())), *(a + b for a, b in merges), *alone]
    document = orjson.loads(external_tokenizer("byte-level")) | {"post_processor": None}
    names = {spell(token): index for index, token in enumerate(tokens)}
    document["model"] |= {"vocab": names, "merges": [[spell(a), spell(b)] for a, b in merges]}
    level = document["pre_tokenizer"] | {"use_regex": False}
    steps = [split_json(pattern), level]
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    end = document["added_tokens"][0] | {"id": len(names), "content": END}
    path.write_bytes(orjson.dumps(document | {"added_tokens": [end]}))
    return names | {END: len(names)}


def parts_of(word: bytes, merges: Sequence[Merge], apart: bool) -> Iterator[list[bytes]]:
    """A word by the merges; cut at both ends of a digit, without tokens of a digit and more."""
    text = word.decode()
    spans = [
        (len(text[: m.start()].encode()), len(text[: m.end()].encode()))
        for m in DIGIT.finditer(text)
    ]
    spans, part, at = spans if apart else [], [], 0
    for token in segment(bytes_of(word), merges):
        start, at = at, at + len(token)
        crosses = any(a < at and start < b and not a <= start < at <= b for a, b in spans)
        if crosses or any(start in span for span in spans):
            yield part
            part = []
        part += [] if crosses else [token]
    yield part


@settings(max_examples=examples(40), deadline=None)
@given(
    files(),
    st.sampled_from([find_pretokenizer("gpt2").pattern, r" ?\S+|\s+"]),
    st.lists(st.lists(GROWN_TEXT, min_size=1, max_size=3), min_size=1, max_size=2),
    st.integers(1, 9),
    st.sampled_from([None, 0, 1]),
)
def test_a_file_grows_by_the_definition(
    tmp_path_factory: pytest.TempPathFactory,
    file: tuple[list[Merge], list[bytes]],
    pattern: str,
    texts: list[list[str]],
    k: int,
    limit: int | None,
) -> None:
    """Algorithm 2 goes on from words as the file segments them; a token of the file stays."""
    place, merges = tmp_path_factory.mktemp("grow"), list(file[0])
    world = dict(zip(("fi", "sw"), ([those] for those in texts), strict=False))
    ids = written(place / "t.json", *file, pattern)
    rows = bpe_seq(
        data=write(world, place / "data"), append=[*world], tokenizer=place / "t.json", k=k,
        max_unspaced=limit, output=place / "o", progress=Silent(),
    ).lines  # fmt: skip
    members = {}
    for row, (language, those) in zip(rows, world.items(), strict=True):
        size, words = len(ids), Counter[bytes]()
        for document in (document.encode() for documents in those for document in documents):
            words.update(split(pattern, document))
        tokens = [
            bytes(data) for name in ids if (data := unspell(name)) is not None and name != END
        ]
        reached = [each for each in tokens if segment(bytes_of(each), merges) == [each]]
        apart = not any(re.search(r"\d\d", each.decode(errors="replace")) for each in tokens)
        before = SequentialBpe(10**6, tokens=reached, merges=list(merges),
                               max_unspaced=16 if limit is None else limit)  # fmt: skip
        learned = Language(before, {}, adopted={*merges})
        parts = [(n, part) for word, n in words.items() for part in parts_of(word, merges, apart)]
        learned.counts = {b"%d" % number: n for number, (n, _) in enumerate(parts)}
        learned.words = {b"%d" % number: part for number, (_, part) in enumerate(parts)}
        while learned.step():
            pass
        new = []
        for a, b in learned.all_merges[len(merges) :]:
            if a in reached and b in reached and spell(a + b) not in ids and len(new) < k:
                new.append((a, b))
                reached.append(a + b)
        merges += new
        ids |= {spell(a + b): size + number for number, (a, b) in enumerate(new)}
        ways = {a + b: (a, b) for a, b in reversed(merges)}
        used = {token for word in words for token in segment(bytes_of(word), merges)}
        while more := {part for token in used for part in ways.get(token, ())} - used:
            used |= more
        members[language] = {END, *map(spell, used), *map(spell, bytes_of(bytes(range(256))))}
        adopted = sum(ids[name] < size for name in members[language])
        assert row["language"] == language
        assert (row["new_tokens"], row["total"]) == (len(new), len(ids))
        assert (row["tokens"], row["adopted"]) == (len(members[language]), adopted)
    made = orjson.loads((place / "o" / "tokenizer.json").read_bytes())["model"]
    assert made["vocab"] | {END: ids[END]} == ids
    assert made["merges"] == [[spell(a), spell(b)] for a, b in merges]
    whole = load(place / "o")
    for column, language in enumerate(whole.languages[1:], 1):
        found = {*np.flatnonzero(whole.token_membership[:, column]).tolist()}
        assert found == {ids[name] for name in members[language]}


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
    pad = published("llama3")
    pad["added_tokens"].append(pad["added_tokens"][0] | {"content": "PAD", "special": True})
    (tmp_path / "pad.json").write_bytes(orjson.dumps(numbered(pad)))
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "pad.json"))
    library.encode_special_tokens = True
    assert len(library.encode("PAD", add_special_tokens=False).ids) > 1
    for name, options, message in (
        ("unigram", {}, "is a Unigram tokenizer; modtok unigram-merge --append"),
        ("words", {}, "'WordPiece' cannot be restricted.* takes the longest token"),
        ("odd", {}, "how it splits text into words is not known"),
        ("pad", {}, "special token 'PAD' must go into model.vocab .* for the word in text"),
        ("gpt2", {"k": None}, "no number of new tokens for the languages; .* grows by a number"),
        ("gpt2", {"k": {"sw": 9}, "append": "fi,sw"}, "no number of new tokens for fi"),
        ("gpt2", {"output": None}, "is not replaced"),
        ("gpt2", {"passes": 2}, "is not for a published tokenizer"),
        ("gpt2", {"languages": "fi"}, "is not for a published tokenizer"),
        ("gpt2", {"specials": ["<x>"]}, "specials '<x>': has no id in the model"),
        ("gpt2", {"specials": ["<s>=900"]}, "is a token, or its id is, already"),
    ):
        chosen = {"k": NEW, "output": tmp_path / "o", "append": "fi", "data": DATA, **options}
        with pytest.raises(UsageError, match=message):
            bpe_seq(tokenizer=tmp_path / f"{name}.json", **chosen)
    assert not (tmp_path / "o").exists()


def test_special_tokens_that_a_rank_file_does_not_list_keep_their_ids(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    options = {"data": DATA, "append": "fi", "k": 20, "tokenizer": tmp_path / "model"}
    write_ranks(tmp_path / "model" / "tokenizer.model", [b" o", b"n "])  # ids 0 to 257

    def grown(name: str, **more: object) -> tokenizers.Tokenizer:
        bpe_seq(output=tmp_path / name, **options, **more)  # type: ignore[arg-type]
        return tokenizers.Tokenizer.from_file(str(tmp_path / name / "tokenizer.json"))

    with pytest.raises(UsageError, match=r"ids from 258 on .* tokenizer_config.json or config"):
        grown("none")
    with pytest.raises(UsageError, match=r"comma .* \['<a>=258', '<b>=259'\]"):
        grown("joined", specials=["<a>=258,<b>=259"])
    last = grown("last", specials=["<|end|>=300"])
    (tmp_path / "model" / "config.json").write_text('{"vocab_size": 320}')
    padded = grown("padded")
    declared = {"content": "<|begin|>", "special": True, "lstrip": True}
    fields = orjson.dumps({"added_tokens_decoder": {"258": declared}})
    (tmp_path / "model" / "tokenizer_config.json").write_bytes(fields)
    listed = grown("listed")
    for library, first in ((last, 301), (padded, 320), (listed, 259)):
        new = sorted(library.get_vocab().values())[-20:]
        assert new == list(range(first, first + 20))
        assert library.get_vocab_size() == 258 + 20 + (library is not padded)
    assert last.token_to_id("<|end|>") == 300
    assert listed.get_added_tokens_decoder()[258].lstrip
    assert listed.encode("x<|begin|>").ids[-1] == 258
    # Another language follows, whose ids are known.
    options["tokenizer"] = tmp_path / "padded"
    options["append"] = "sw"
    assert max(grown("more").get_vocab().values()) == 320 + 40 - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"merges": None}, "the tokenizers library cannot load it"),
        ({"dropout": "x"}, "expected f32"),
        ({"byte_fallback": "yes"}, "expected a boolean"),
        ({"added_tokens": [{"id": 0, "content": "<unk>"}]}, "missing field `single_word`"),
        ({"truncation": {"max_length": "x"}}, "the tokenizers library cannot load it"),
        ({"merges": 24}, "tokens of up to 16,777,216 characters, too long"),
        ({"merges": 3000}, "tokens of up to 3,001 characters, too long"),
    ],
)
def test_what_the_library_does_not_read_is_refused_before_learning(
    change: dict, message: str, tmp_path: Path
) -> None:
    document = orjson.loads(external_tokenizer("byte-level"))
    model = document["model"]
    if count := change.get("merges"):  # doubling, or a chain
        names = ["z" * (2**n if count < 100 else n + 1) for n in range(count + 1)]
        model["vocab"] |= {name: 700 + n for n, name in enumerate(names[1:])}
        model["merges"] += [[a, b[len(a) :]] for a, b in pairwise(names)]
        change = {}
    for name, value in change.items():
        (document if name in document else model)[name] = value
    (tmp_path / "t.json").write_bytes(orjson.dumps(document))
    with pytest.raises(ModtokError, match=message):
        bpe_seq(
            data=tmp_path, append="fi", tokenizer=tmp_path / "t.json", output=tmp_path / "o", k=9
        )


@pytest.mark.parametrize(("new", "most"), [(1, 32 << 20), (NEW, 32 << 20), (NEW, 2000)])
def test_tokens_per_word_are_measured_in_documents_that_the_subset_lacks(
    new: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the library counts them; a subset of few tokens is longer than the old file."""
    read = held_out.read_batches

    def one_by_one(*given: Any, **how: Any) -> Iterator[list[Any]]:
        yield from ([document] for batch in read(*given, **how) for document in batch)

    monkeypatch.setattr(held_out, "read_batches", one_by_one)
    monkeypatch.setattr(held_out, "_MOST", most)
    document = published("gpt2")
    (tmp_path / "t.json").write_bytes(orjson.dumps(document))
    lines = (SAMPLE / "parallel" / "fi.txt").read_text("utf-8").splitlines()
    before = accumulate((len(line.encode()) for line in lines), initial=0)
    read_lines = [line for line, size in zip(lines, before, strict=False) if size < most]
    held = [line for line in read_lines if crc32(line.encode()) % 10 == 0]
    others = [line for line in lines if line not in held]
    (tmp_path / "fi").mkdir()
    splits_of_file = restore_pretokenizer('gpt2+["<unused1>"]')
    counts = count_documents([[line.encode() for line in others]], splits_of_file)
    save_counts(counts, tmp_path / "fi" / "a.counts", "fi")  # of which nothing is held out
    (tmp_path / "fi" / "b.txt").touch()
    for name, part in (("c.txt", lines[:30]), ("d.txt", lines[30:])):
        (tmp_path / "fi" / name).write_text("\n".join(part), "utf-8")
    (tmp_path / "others.txt").write_text("\n".join(others), "utf-8")
    warned = Silent()
    options = {"data": tmp_path, "append": "fi", "k": new, "progress": warned}
    (row,) = bpe_seq(tokenizer=tmp_path / "t.json", output=tmp_path / "o", **options).lines  # type: ignore[arg-type]
    file = tmp_path / "o" / "tokenizer.json"
    adopt(file, "fi", data=tmp_path / "others.txt", output=tmp_path / "part")
    part = load(tmp_path / "part").subset("fi").to_json().decode()

    splits = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    decode = tokenizers.decoders.ByteLevel().decode
    parts = [decode([word]) for line in held for word, _ in splits.pre_tokenize_str(line)]
    words = sum(any(map(str.isalnum, word)) for word in parts)
    for name, text in (
        ("before", orjson.dumps(document).decode()), ("whole", file.read_text()), ("subset", part),
    ):  # fmt: skip
        encoded = tokenizers.Tokenizer.from_str(text).encode_batch(held, add_special_tokens=False)
        total = sum(len(each.ids) for each in encoded)
        assert row[f"tokens_per_word_{name}"] == round(total / words, 3), name
    longer = [each for each in warned.warnings if "takes more tokens per word" in each]
    assert (
        bool(longer)
        == (row["tokens_per_word_subset"] > row["tokens_per_word_before"])
        == (new == 1)
    )


def test_why_there_are_no_tokens_per_word(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(orjson.dumps(published("gpt2")))
    (tmp_path / "zh.txt").write_text("".join(f"天空{n}花\n" for n in range(50)), "utf-8")
    (tmp_path / "fi.txt").write_text("kukka\n")  # not held out
    for language, why in (("zh", "its script has no spaces"), ("fi", "one document of ten is")):
        progress = Said()
        report = bpe_seq(data=tmp_path / f"{language}.txt", append=language, k=2, force=True,
                         tokenizer=tmp_path / "t.json", output=tmp_path / "o",
                         progress=progress)  # fmt: skip
        assert not [name for name in report.lines[0] if name.startswith("tokens_per_word")]
        assert progress.notes[0].startswith(f"{language}: tokens per word are not measured: {why}")


def test_documents_with_added_tokens_are_told(tmp_path: Path) -> None:
    """The prefix of their words depends on the tokens, so that nothing is learned from them."""
    text = (SAMPLE / "parallel" / "en.txt").read_text().splitlines()
    rules = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    data = sentencepiece_model(
        text, vocab_size=600, model_type="bpe", user_defined_symbols=["[X]"], **rules
    )
    (tmp_path / "t.model").write_bytes(data)
    (tmp_path / "fi.txt").write_text("taivas taivas taivas\n[X] kukka\nkukka [X]\n")
    with pytest.warns(ModtokWarning, match="fi: 2 documents were left out.* added tokens"):
        bpe_seq(data=tmp_path, append="fi", tokenizer=tmp_path / "t.model", k=2,
                output=tmp_path / "o")  # fmt: skip


def test_truncation_of_a_file_is_left_out(tmp_path: Path) -> None:
    short = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    document = orjson.loads(external_tokenizer("byte-level")) | {"truncation": short}
    (tmp_path / "t.json").write_bytes(orjson.dumps(document))
    with pytest.warns(ModtokWarning, match="left out: truncation to 1 tokens"):
        bpe_seq(data=DATA, append="fi", tokenizer=tmp_path / "t.json", output=tmp_path / "o", k=9)
    assert orjson.loads((tmp_path / "o" / "tokenizer.json").read_bytes())["truncation"] is None
