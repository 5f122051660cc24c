"""What a tokenizer holds, its faults, differences of two, and proofs that one contains another."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
from tokenizers import Tokenizer

from helpers.external_tokenizers import external_tokenizer
from helpers.handmade_tokenizers import global_merges
from helpers.made_tokenizers import of_pieces
from helpers.toy_tokenizers import LANGUAGES, rebuilt, slow_word, toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.text.pretokenizer import BPE as PRETOKENIZER
from modtok_cli.text.pretokenizer import UNIGRAM, find_pretokenizer
from modtok_cli.tokenizer.adopted.adopt import of_masks
from modtok_cli.tokenizer.adopted.file_ids import odd_ids
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.comparison import Difference, compare, containment, diff, text_of
from modtok_cli.tokenizer.faults import faults
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.inspect import describe
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.tokenizer.segmenters.merges import Merges, ModularMerges
from modtok_cli.tokenizer.subset_check import check_single, check_subsets
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.trace import token_owners, trace
from modtok_cli.tokenizer.vocabulary import Vocabulary, spell

from .test_scored import random_parts, united


def built(
    merges: list[tuple[bytes, bytes]], owners: list[str], languages: tuple[str, ...] = ("en", "fi")
) -> ModularTokenizer:
    """A tokenizer of these merges; `owners[m]` names the languages of merge m by initials."""
    made = global_merges(merges)
    vocabulary = Vocabulary((), made.token_data, made.token_offsets)
    of_merges = np.array([[language[0] in who for language in languages] for who in owners])
    members = np.ones((len(vocabulary), len(languages)), dtype=bool)
    members[256:] = False
    np.logical_or.at(members, made.merges[:, 2], of_merges)
    return ModularTokenizer(
        algorithm="bpe-seq",
        languages=languages,
        k=300,
        segmenter=ModularMerges(vocabulary, PRETOKENIZER, made.merges, Membership.of(of_merges)),
        token_membership=Membership.of(members),
    )


def test_faults_of_a_published_tokenizer() -> None:
    """Each kind once, with its ids; none of them is found in the tokenizer as it was made."""
    document = orjson.loads(external_tokenizer("byte-level"))
    made = LibraryTokenizer("t", orjson.dumps(document), "t")
    plain = {row["fault"]: row for row in faults(made)}
    assert [name for name, row in plain.items() if row["count"]] == ["not in UTF-8"]
    assert (plain["not in UTF-8"]["count"], plain["not in UTF-8"]["examples"][0]) == (13, "\\xc0")
    model, added = document["model"], document["added_tokens"]
    tokens = [b"nevermade", b" b a", "e\u0301x".encode(), b"\xe0\xa4", b"\xc3a", b"zq"]
    model["vocab"] |= {spell(each): 700 + 2 * i for i, each in enumerate(tokens)}
    model["merges"].append(["z", "q"])
    del model["vocab"][spell(b"\x07")]
    model["vocab"] |= {"shadow": 720, "[MASK]": 722}
    names = {"shadow": 720, "zq": 721, "[MASK]": 722}
    like = {**added[0], "special": False}
    added += [{**like, "id": i, "content": name, "special": i == 722} for name, i in names.items()]
    document["normalizer"] = {"type": "NFC"}

    def found(**settings: bool) -> dict[str, list[int]]:
        data = orjson.dumps({**document, "model": {**model, **settings}})
        return {row["fault"]: row["ids"] for row in faults(LibraryTokenizer("t", data, "t"))}

    ids = found()
    # A token of two words, which no merge makes; one that NFC changes; a part of a character.
    assert ids["unreached"] == [700, 702, 704, 706, 721]
    assert (ids["not in UTF-8"][-1], len(ids["not in UTF-8"])) == (708, 14)
    assert ids["duplicates"] == [710, 721]
    assert ids["shadows text"] == [720, 721]
    assert 701 in ids["gaps"]
    whole = found(ignore_merges=True)
    assert (whole["whole words only"], whole["unreached"]) == ([700, 710], [702, 704, 706, 721])


def test_ids_that_the_library_gives_by_position_are_found(tmp_path: Path) -> None:
    """Three added tokens follow 599 tokens; after a 600th the library gives them the next ids."""
    document = orjson.loads(external_tokenizer("byte-level"))
    document["model"]["vocab"]["new"] = 700
    row = faults(LibraryTokenizer("t", external_tokenizer("byte-level"), "t"))[-1]
    assert (row["fault"], row["count"]) == ("other ids", 0)
    data = orjson.dumps(document)
    library = Tokenizer.from_str(data.decode())
    expected = [
        f"'{name}' is {library.token_to_id(name)}, not {index}"
        for name, index in (("<|im_end|>", 599), ("<unused0>", 600), ("<unused1>", 601))
    ]
    found = {row["fault"]: row for row in faults(LibraryTokenizer("t", data, "t"))}["other ids"]
    assert found["examples"][:3] == expected
    twice = orjson.loads(external_tokenizer("byte-level"))
    twice["added_tokens"].append({**twice["added_tokens"][1], "lstrip": True})
    assert [*odd_ids(orjson.dumps(twice), "t")] == ["'<s>' is no such added token"]
    file = TokenizerFile(document, "t")
    whole = of_masks(file, {"en": np.array(list(map(bool, file.names)))}, settings={}, corpora={})
    report = check_subsets(whole)
    assert not report.sound
    assert list(report.odd_ids[:3]) == expected
    with pytest.raises(ModtokError, match=re.escape("; ".join(expected))):
        whole.save(tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_describe_counts_shared_and_own_tokens() -> None:
    tokenizer = toy(4)
    members = tokenizer.token_membership[:]
    for i, row in enumerate(describe(tokenizer)):
        assert row["language"] == LANGUAGES[i]
        assert row["tokens"] == members[:, i].sum() == row["own"] + row["shared"]
        others = np.delete(members, i, axis=1).any(axis=1)
        assert row["own"] == (members[:, i] & ~others).sum()
        assert row["merges"] == tokenizer.merge_membership[:, i].sum()
        sizes = (row["documents"], row["bytes"], row["fingerprint"])
        assert sizes == (10 + i, 200 + i, f"{i:012x}")
    some = describe(tokenizer, LANGUAGES[2:0:-1])
    assert [row["language"] for row in some] == list(LANGUAGES[1:3])
    for i, row in zip((1, 2), some, strict=True):
        assert row["own"] == (members[:, i] & ~members[:, 3 - i]).sum()
        assert row["merges"] == describe(tokenizer)[i]["merges"]
    bare = built([(b"a", b"b")], ["ef"])
    assert [row["fingerprint"] for row in describe(bare)] == [None, None]


def test_check_finds_what_the_slow_encoder_finds() -> None:
    seen = 0
    for seed in range(3):
        tokenizer = toy(seed)
        report = check_subsets(tokenizer, [["en", "el"]], samples=5)
        found = {subset.languages for subset in report.subsets}
        assert found >= {LANGUAGES, ("en", "el"), *((language,) for language in LANGUAGES)}
        for subset in report.subsets:
            local = tokenizer.subset(subset.languages)
            merges, byte_ids = local.merges.tolist(), local.vocabulary.byte_ids
            unreachable = [
                int(local.global_ids[i])
                for i, token in enumerate(local.vocabulary.tokens())
                if i >= 2 and slow_word([int(byte_ids[b]) for b in token], merges) != [i]
            ]
            assert list(subset.unreachable) == unreachable
            # Of its languages none: a merge of another one cuts its bytes in another way.
            seen += len(unreachable)
            assert subset.improper == ()
            assert (subset.tokens, subset.merges) == (local.size, len(merges))
    assert seen


def test_check_single_uses_local_ids() -> None:
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b"abc", b"xy"]
    proper = [[97, 98, 256], [256, 99, 257], [120, 121, 258]]
    vocabulary = Vocabulary.from_tokens((), tokens)

    def checked(rows: list[list[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        merges = np.array(rows, dtype=np.int32)
        found = check_single(Subtokenizer(Merges(vocabulary, PRETOKENIZER, merges)))
        assert found.sound == (not found.improper and not found.unreachable)
        return found.improper, found.unreachable

    assert checked(proper) == ((), ())
    assert checked([proper[1], proper[0], proper[2]]) == ((0,), ())
    assert checked(proper[1:]) == ((0,), (256, 257))


def test_difference_shows_bytes_exactly() -> None:
    """Cut characters by their bytes, each once; spaces are not folded together."""
    tokens = (b"\xe2\x80", b"a   b", "é".encode(), b"\\n", b"\n")
    (line,) = Difference(only_b=tokens).lines()
    assert line == r"+ 5 tokens: '\xe2\x80', 'a   b', 'é', '\\n', '\n'"


def test_token_owners() -> None:
    tokenizer = built([(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")], ["ef", "f", "f"])
    assert list(token_owners(tokenizer, "^.b")) == [
        {"id": 256, "token": "ab", "languages": ("en", "fi")},
        {"id": 258, "token": "abc", "languages": ("fi",)},
    ]
    with pytest.raises(UsageError, match="not a regular expression"):
        list(token_owners(tokenizer, "("))


def test_diff_names_every_difference() -> None:
    a = built([(b"a", b"b"), (b"b", b"c"), (b"c", b"d")], ["e", "ef", "f"])
    b = built([(b"a", b"b"), (b"b", b"c"), (b"b", b"d")], ["ef", "f", "f"])
    found = diff(a, b)
    assert found.only_a == (b"cd",)
    assert found.only_b == (b"bd",)
    assert found.merges_only_a == ((b"c", b"d"),)
    assert found.merges_only_b == ((b"b", b"d"),)
    assert found.parts_at == 2
    assert found.joined == {"fi": (b"ab",)}
    assert found.left == {"en": (b"bc",)}
    assert found.lines() == [
        "- 1 tokens: 'cd'",
        "+ 1 tokens: 'bd'",
        "- 1 merges: 'c' 'd'",
        "+ 1 merges: 'b' 'd'",
        "the merges are the same up to rank 2",
        "- en: 1 tokens: 'bc'",
        "+ fi: 1 tokens: 'ab'",
    ]


def test_diff_of_equals_and_of_subsets() -> None:
    a = toy(4)
    assert diff(a, toy(4)).empty
    assert diff(a, toy(4)).lines() == ["no difference"]
    one, two = a.subset(["en"]), a.subset(["en", "fr"])
    found = diff(one, two)
    assert found.only_a == ()
    assert found.languages_only_b == ("fr",)
    assert set(found.only_b) == set(two.vocabulary.tokens()) - set(one.vocabulary.tokens())
    assert found.joined == found.left == {}
    other = built([(b"a", b"b")], ["f"], languages=("de", "fi"))
    assert diff(built([(b"a", b"b")], ["e"]), other).joined == {"fi": (b"ab",)}
    longer = built([(b"a", b"b"), (b"b", b"c")], ["e", "f"])
    shorter = built([(b"a", b"b")], ["ef"])
    assert diff(shorter, longer).parts_at == 1
    some = diff(one, two)
    assert any(line.endswith("…") for line in some.lines(limit=2))


@pytest.mark.parametrize("seed", range(5))
def test_a_trace_ends_in_the_tokens_of_the_encoder(seed: int) -> None:
    """The pieces of each step are those before it with its merge applied once."""
    tokenizer = toy(seed).subset(LANGUAGES[2:])
    names = [text_of(token) for token in toy(seed).vocabulary.tokens()]
    text = "abba cab  baab\nüä bcc"
    last: dict[int, list[str]] = {}
    before: list[str] = []
    for row in trace(tokenizer, text):
        after = row["pieces"]
        if "rank" in row:
            left, right, _ = toy(seed).merges[row["rank"]]
            assert (names[left], names[right]) == (row["left"], row["right"])
            places = [
                place
                for place in range(len(after))
                if before == [*after[:place], row["left"], row["right"], *after[place + 1 :]]
            ]
            assert places
        before = last[row["word"]] = after
    tokens = list(tokenizer.vocabulary.tokens())
    expected = [text_of(tokens[index]) for index in tokenizer.encode(text)]
    assert [piece for word in sorted(last) for piece in last[word]] == expected


def test_the_trace_of_the_paper_shows_who_learned_a_merge() -> None:
    learned = built([(b"i", b"n"), (b"m", b"in")], ["ef", "f"])
    rows = list(trace(learned.subset(["fi"]), "min"))
    assert [row.get("rank") for row in rows] == [None, 0, 1]
    assert [row["pieces"] for row in rows] == [["m", "i", "n"], ["m", "in"], ["min"]]
    assert [row["pieces"] for row in trace(learned.subset(["en"]), "min")][-1] == ["m", "in"]
    with pytest.raises(ModtokError, match="lone surrogate at character 1"):
        list(trace(learned.subset(["en"]), "a\udcff"))


PARENT = toy()
OLD = ("en", "fi")


CHILD = toy(languages=OLD)  # as it was before the other languages were appended


def test_tokenizer_contains_the_one_before_an_append() -> None:
    proof = containment(PARENT, CHILD)
    assert proof.holds
    assert (proof.tokens, proof.merges) == (CHILD.size, len(CHILD.merges))
    assert str(proof) == f"all {CHILD.size} token ids and {len(CHILD.merges)} merges unchanged"
    assert CHILD.size < PARENT.size
    assert len(CHILD.merges) < len(PARENT.merges)
    for languages in (("en",), ("fi",), OLD):
        before, after = CHILD.subset(languages), PARENT.subset(languages)
        assert before.signature == after.signature
        assert before.global_ids.tolist() == after.global_ids.tolist()


def changed(**changes: Any) -> Any:
    """The parent with other fields, some of which no valid tokenizer could have."""
    names = ["pretokenizer", "segmentation", "vocabulary", "languages", "size", "merges"]
    names += ["segmenter", "token_membership", "merge_membership"]
    return SimpleNamespace(
        **{name: getattr(PARENT, name) for name in names} | {"signature": ""} | changes
    )


def other_token(tokenizer: ModularTokenizer, index: int, more: bytes) -> Vocabulary:
    tokens = tokenizer.vocabulary.tokens()
    tokens[index] = bytes(len(tokens[index])) + more
    return Vocabulary.from_tokens(tokenizer.vocabulary.specials, tokens[2:])


def flipped(members: Membership, row: int, column: int) -> Membership:
    changed = members[:]
    changed[row, column] ^= True
    return Membership.of(changed)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "pre-tokenizer": ({"pretokenizer": UNIGRAM}, "pre-tokenizer changed from 'bpe' to 'unigram'"),
    "segmentation": (
        {"segmentation": "unigram"},
        "segmentation changed from 'merges' to 'unigram'",
    ),
    "specials": (
        {"vocabulary": Vocabulary(("<s>",), PARENT.vocabulary.data, PARENT.vocabulary.offsets)},
        "special tokens changed from <s>, </s> to <s>",
    ),
    "order": ({"languages": ("fi", "en", "fr", "el")}, "the order of the languages changed"),
    "token": ({"vocabulary": other_token(PARENT, 270, b"!")}, "token 270 of "),
    "token of that length": ({"vocabulary": other_token(PARENT, 271, b"")}, "token 271 of "),
    "merge": ({"merges": PARENT.merges[:, [1, 0, 2]]}, "merge "),
    "token of a language": (
        {"token_membership": flipped(PARENT.token_membership, 260, 1)},
        "'fi' has other tokens",
    ),
    "new token of an old language": (
        {"token_membership": flipped(PARENT.token_membership, PARENT.size - 1, 0)},
        "'en' has other tokens",
    ),
    "merge of a language": (
        {"merge_membership": flipped(PARENT.merge_membership, len(PARENT.merges) - 1, 1)},
        "'fi' has other merges",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_is_found(change: str) -> None:
    fields, reason = CHANGES[change]
    proof = containment(changed(**fields), CHILD)
    assert not proof.holds
    assert proof.reason is not None
    assert proof.reason.startswith(reason)


def test_fewest_tokens_with_an_appended_language() -> None:
    parts = random_parts(3)
    base = united({name: parts[name] for name in ("en", "fr")})
    longer = united({name: parts[name] for name in ("fi", "sv")}, base)
    assert containment(longer, base).holds
    counts = (longer.token_counts[0] + 1, *longer.token_counts[1:])
    other = ModularTokenizer.from_learned(
        longer.learned(), algorithm="bpe-merge", k=300, token_counts=counts
    )
    assert containment(other, base).reason == "'en' has other token counts"


def test_unigram_scores_are_compared() -> None:
    child = of_pieces({"a": (-1.0, "en"), " ab": (-2.0, "en")}, ["en"])
    more = {"a": (-1.0, "en fi"), " ab": (-2.0, "en"), "c": (-3.0, "fi")}
    parent = of_pieces(more, ["en", "fi"])
    assert containment(parent, child).holds
    assert parent.subset(["en"]).signature == child.subset(["en"]).signature
    other = of_pieces({**more, "a": (-1.5, "en fi")}, ["en", "fi"])
    assert containment(other, child).reason == "token 257 of 259 has another score"


def test_same_tokens_in_another_order_are_not_equal() -> None:
    """A language that is appended or learned with the others: nothing differs but the ids."""
    parts = random_parts(3)
    one = united({name: parts[name] for name in ("en", "fr")})
    two = united({"en": parts["en"]}, united({"fr": parts["fr"]}))
    assert {*one.vocabulary.tokens()} == {*two.vocabulary.tokens()}
    found = compare(one, two, ("a", "b"))
    assert (found.relation, found.reason) == (
        "different", "b does not contain a: the order of the languages changed"
    )  # fmt: skip
    pairs = zip(one.vocabulary.tokens(), two.vocabulary.tokens(), strict=True)
    renumbered = sum(token != other for token, other in pairs)
    assert renumbered
    assert {"difference": "ids", "tokens": renumbered} in found.rows()
    assert f"{renumbered:,} tokens have another id" in found.lines()
    subsets = one.subset("fr"), two.subset("fr")
    assert (compare(*subsets, ("a", "b")).relation == "equal") == (
        subsets[0].signature == subsets[1].signature
    )


def test_another_pretokenizer_is_not_equal() -> None:
    one = PARENT.subset("fi")
    two = rebuilt(PARENT, pretokenizer=find_pretokenizer("gpt2")).subset("fi")
    found = compare(one, two, ("a", "b"))
    assert found.relation == "different"
    assert [*found.rows()][1:] == [
        {"difference": "pre-tokenizer", "first": "bpe", "second": "gpt2"}
    ]
    assert found.lines()[1:] == ["pre-tokenizer: bpe → gpt2"]
    file = open_bytes(one.to_json(), "a", "a")
    assert isinstance(file, Subtokenizer)
    assert compare(file, one, ("a", "b")).relation == "equal"
