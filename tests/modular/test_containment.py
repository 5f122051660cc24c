"""Containment: the proof holds after an append, and fails after any single change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from helpers.made_tokenizers import of_pieces
from helpers.toy_tokenizers import rebuilt, toy
from modtok_cli.base.membership import Membership
from modtok_cli.modular.comparison import compare, containment
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.vocabulary import Vocabulary
from modtok_cli.text.pretokenizer import UNIGRAM, find_pretokenizer

from .test_fewest_tokens import random_parts, united

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
    names = (
        "signature",
        "pretokenizer",
        "segmentation",
        "vocabulary",
        "languages",
        "size",
        "merges",
    )
    names += ("token_membership", "merge_membership", "segmenter")
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
