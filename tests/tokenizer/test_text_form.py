"""Adopted tokenizers: ids and counts are those of the library; derivations as in a replay."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.external_tokenizers import external_tokenizer
from modtok_cli.text.counts import count_documents
from modtok_cli.text.pretokenizer import find_pretokenizer, restore_pretokenizer
from modtok_cli.tokenizer.adopted.adopt import adopt_counts
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.adopted.tokenizer_file import (
    GIVEN,
    UNREACHED,
    TokenizerFile,
    closed,
    derivation,
    prune,
    symbols_of,
)
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

PARTS_OF_LLAMA2 = [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
]
LLAMA2 = {
    "normalizer": {"type": "Sequence", "normalizers": PARTS_OF_LLAMA2},
    "pre_tokenizer": None,
}
FIRST = {"type": "Metaspace", "replacement": "▁", "split": False, "prepend_scheme": "first"}
MISTRAL = {"normalizer": None, "pre_tokenizer": FIRST}
QWEN = {
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": find_pretokenizer("qwen2").to_json(byte_level=True),
}
FORMS = {
    "gemma": ({}, "gemma"),
    "llama2": (LLAMA2, "gemma+prefix"),
    "mistral": (MISTRAL, "gemma+space"),
    "superwords": ({}, "none"),
    "added": ({}, "gemma"),
    "qwen2": (QWEN, "qwen2+nfc"),
    "bytes-missing": ({}, "gpt2"),
    "whole-words": ({}, "gpt2"),
    "unigram": ({}, "gemma"),
    "qwen3": (QWEN, 'qwen2+nfc+["<b>","  "]'),
    "mistral-added": (MISTRAL, 'gemma+space+["\\n","<b>"]'),
}
ADDED = {
    "added": ["\n", "\n\n", "<b>"],
    "qwen3": ["<b>", "  "],
    "mistral-added": ["\n", "<b>"],
}
FIRST_MERGES = {"superwords": [["e", "▁l"]], "added": [[">", "▁"], ["\n", "\n"]]}
PARTS = [
    " ", "  ", "▁", " ▁", ">", "> ", "</", "\n", "\n\n\n", "\t", "<b>", "<b", "<s>", "</s>", "a",
    "e\u0301", "é", "\u0301", "ệ", "e\u0323\u0302", "the", " the", "la", "mai", "sonœ", "☃",
    "𝒳", "\U0010ffff", "<0x41>", "\u1aeb", "\U00016d68", "\U000113c5",
]  # fmt: skip


MORE = "la <b>mai  "


@cache
def source(form: str) -> tuple[Subtokenizer, tokenizers.Tokenizer]:
    kinds = dict.fromkeys(("qwen2", "qwen3", "bytes-missing", "whole-words"), "byte-level")
    kind = kinds.get(form, "unigram" if form == "unigram" else "characters")
    document = {**orjson.loads(external_tokenizer(kind)), **FORMS[form][0]}
    model = document["model"]
    document["post_processor"], document["added_tokens"] = None, document["added_tokens"][:4]
    vocab, merges = model["vocab"], FIRST_MERGES.get(form, [])
    for left, right in merges:
        for name in (left, right, left + right):
            vocab.setdefault(name, len(vocab))
    model["merges"] = [*merges, *model.get("merges", [])]
    like = {**document["added_tokens"][0], "special": False}
    for name in ADDED.get(form, []):
        index = vocab.setdefault(name, len(vocab))
        document["added_tokens"].append({**like, "id": index, "content": name})
    if form == "whole-words":  # as in Llama 3: a word that is a token is not merged
        model["ignore_merges"] = True
        for name in ("sonÅĵ", "Ġla", "Ġmai", "</", "<s>x"):
            model["vocab"].setdefault(name, max(model["vocab"].values()) + 100)
        model["merges"] = [pair for pair in model["merges"] if "".join(pair) != "Ġla"]
    if form == "bytes-missing":
        # As in SmolLM2, which has no token for some bytes: the library leaves them out.
        names = [*sorted(model["vocab"], key=model["vocab"].get)]
        kept = [name for name in names if not {"ĉ", "ð"} & set(name)]
        model["vocab"] = {name: index for index, name in enumerate(kept)}
        model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]
    data = orjson.dumps(document)
    library = tokenizers.Tokenizer.from_buffer(data)
    library.encode_special_tokens = True
    file = TokenizerFile(orjson.loads(library.to_str()), form)
    assert file.form.is_native == (form != "unigram")
    return Subtokenizer(Library(file)), library


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_recognized(form: str) -> None:
    pretokenizer = source(form)[0].pretokenizer
    assert pretokenizer.name == FORMS[form][1]
    assert restore_pretokenizer(pretokenizer.name) is pretokenizer


@pytest.mark.parametrize("form", FORMS)
def test_adopted_tokenizers_of_every_form_are_saved_and_loaded(form: str, tmp_path: Path) -> None:
    """A directory names a pre-tokenizer such as `qwen2+nfc`, which no learner has."""
    segmenter = source(form)[0].segmenter
    assert isinstance(segmenter, Library)
    counts = {"en": count_documents([[b"la maison"]], segmenter.pretokenizer)}
    adopted = adopt_counts(segmenter.file, counts)
    adopted.save(tmp_path / "t")
    loaded = ModularTokenizer.load(tmp_path / "t")
    assert (loaded.signature, loaded.pretokenizer) == (adopted.signature, adopted.pretokenizer)


def subsequence(part: str, whole: str) -> bool:
    left = iter(whole)
    return all(each in left for each in part)


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from(PARTS), st.characters(codec="utf-8")), min_size=0, max_size=12
    ).map("".join)
)
@example("")
@example("a\tb\tla \t t𝒳he")
@example(" ")
@example("▁ a > b>  </ c")
@example("a<b>c  d\u212a")
@example(" la maison  <b>\n\n\n x\n")
@example("e\u0301e\u0323\u0302 \u1aeb\u0301")
@example("la</s>maison <s>")
def test_ids_and_counts_are_those_of_the_library(text: str) -> None:
    for form in FORMS:
        ours, library = source(form)
        expected = library.encode(text, add_special_tokens=False).ids
        if form == "unigram" and {*expected} & {1, 2, 3}:
            # The library finds <s>, </s> and <pad> in a text; of these, ours has the characters.
            expected = ours.encode(text).tolist()
            assert not {*expected} & {1, 2, 3}
            kept = [index for index in expected if index]  # beside unknown ones
            assert subsequence(ours.decode(kept).replace(" ", ""), text)
        assert ours.encode(text).tolist() == expected, form
        documents = [text, text, MORE]
        counts = count_documents([list(map(str.encode, documents))], ours.pretokenizer)
        expected += [*expected, *library.encode(MORE, add_special_tokens=False).ids]
        found = ours.token_occurrences(counts)
        assert found.tolist() == np.bincount(expected, minlength=ours.size).tolist(), form
        size = sum(map(len, documents)), sum(len(each.encode()) for each in documents)
        assert (counts.size.documents, counts.size.characters, counts.size.bytes) == (3, *size)


def test_everything_of_a_file_changes_the_signature() -> None:
    """Also what decides texts that are decoded, and what stands around them."""
    document = orjson.loads(external_tokenizer("characters"))
    model, added = document["model"], document["added_tokens"]
    changes: list[dict[str, Any]] = [
        {},
        {"normalizer": {"type": "NFKC"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"decoder": {"type": "ByteFallback"}},
        {"post_processor": None},
        {"added_tokens": [*added[:-1], {**added[-1], "lstrip": not added[-1]["lstrip"]}]},
        {"model": {**model, "ignore_merges": True}},
        {"model": {**model, "fuse_unk": not model.get("fuse_unk")}},
        {"model": {**model, "merges": model["merges"][::-1]}},
    ]
    files = [TokenizerFile({**document, **change}, "x") for change in changes]
    unigram = orjson.loads(external_tokenizer("unigram"))
    rows = unigram["model"]["vocab"]
    for vocab in (rows, [*rows[:-1], [rows[-1][0], -50.0]]):
        files.append(TokenizerFile({**unigram, "model": {**unigram["model"], "vocab": vocab}}, "x"))
    assert len({Subtokenizer(Library(file)).signature for file in files}) == len(files)


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFKC"}},
        {"normalizer": None},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"pre_tokenizer": {**FIRST, "split": True}, "normalizer": None},
        {"pre_tokenizer": {k: v for k, v in FIRST.items() if k != "split"}, "normalizer": None},
        {"pre_tokenizer": {**FIRST, "replacement": "_"}, "normalizer": None},
    ],
    ids=str,
)
def test_other_forms_are_left_to_the_library(change: dict) -> None:
    document = {**orjson.loads(external_tokenizer("characters")), **change}
    file = TokenizerFile(document, "x")
    assert not file.form.is_native
    library = tokenizers.Tokenizer.from_buffer(orjson.dumps(document))
    text = "l'été dernier, une  maison"
    expected = library.encode(text, add_special_tokens=False).ids
    assert Subtokenizer(Library(file)).encode(text).tolist() == expected


Rows = list[tuple[str, str]]


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[dict[str, int], Rows]:
    """Tokens over three letters, and merges between them in any order, several for a token."""
    names = ["a", "b", "c"]
    for _ in range(draw(st.integers(1, 12))):
        name = draw(st.sampled_from(names)) + draw(st.sampled_from(names))
        if len(name) <= 8 and name not in names:
            names.append(name)
    ids = {name: index for index, name in enumerate(names)}
    splits = [
        (name[:cut], name[cut:])
        for name in names
        for cut in range(1, len(name))
        if name[:cut] in ids and name[cut:] in ids
    ]
    chosen = draw(st.permutations(splits))
    return ids, chosen[: draw(st.integers(0, len(chosen)))]


def replay(text: str, rows: Rows) -> tuple[list[str], list[int]]:
    """Tokens of a text, and the ranks of the merges that were applied."""
    symbols, applied = list(text), []
    while True:
        found = [
            (rows.index(pair), at) for at, pair in enumerate(pairwise(symbols)) if pair in rows
        ]
        if not found:
            return symbols, applied
        rank, at = min(found)
        symbols[at : at + 2] = ["".join(rows[rank])]
        applied.append(rank)


def arrays(ids: dict[str, int], rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    merges = np.array([[ids[a], ids[b], ids[a + b]] for a, b in rows], np.int32).reshape(-1, 3)
    flat, offsets = symbols_of(list(ids), ids, fallback=False)
    return merges, derivation(flat, offsets, np.arange(len(ids), dtype=np.int32), merges)


@settings(max_examples=examples(80))
@given(vocabularies(), st.text("abc", max_size=12), st.data())
def test_derivations_are_those_of_the_replay(made, text: str, data: st.DataObject) -> None:
    ids, rows = made
    merges, ranks = arrays(ids, rows)
    for name, index in ids.items():
        symbols, applied = replay(name, rows)
        expected = UNREACHED if symbols != [name] else applied[-1] if applied else GIVEN
        assert ranks[index] == expected
    # The tokens of a text, closed, give the same tokens without all other tokens and merges.
    whole = replay(text, rows)[0]
    mask = np.zeros(len(ids), dtype=np.bool_)
    mask[[ids[name] for name in whole]] = True
    mask[data.draw(st.lists(st.integers(0, len(ids) - 1), max_size=3))] = True
    kept = closed(mask, ranks, merges)
    left = [rows[rank] for rank in np.flatnonzero(kept[merges].all(axis=1))]
    assert replay(text, left)[0] == whole
    for name, index in ids.items():
        if kept[index] and ranks[index] >= 0:
            assert replay(name, left)[0] == [name]


def test_symbols_of_characters_without_a_token_are_bytes() -> None:
    ids = {"a": 0, "<0xC3>": 1, "<0xA9>": 2}
    flat, offsets = symbols_of(["aé", "", "ü", "a"], ids, fallback=True)
    # "ü" lacks the token of its second byte.
    assert flat.tolist() == [0, 1, 2, -1, 0]
    assert offsets.tolist() == [0, 3, 3, 4, 5]


def test_pruning_removes_what_costs_least() -> None:
    ids = {name: index for index, name in enumerate(["a", "b", "c", "ab", "abc", "cc"])}
    merges, ranks = arrays(ids, [("a", "b"), ("ab", "c"), ("c", "c")])
    counts = np.array([5, 5, 1, 3, 2, 4])
    pieces = np.where(ranks >= 0, 2, 0)
    everything = np.ones(6, dtype=np.bool_)

    def left(size: int, loss: int) -> list[str]:
        kept = prune(everything, counts, ranks, merges, pieces, size, loss)
        return [name for name, index in ids.items() if kept[index]]

    assert left(6, 100) == ["a", "b", "c", "ab", "abc", "cc"]
    assert left(5, 100) == ["a", "b", "c", "ab", "cc"]
    # Its two occurrences passed to "ab", which is now used 5 times: "cc" is next.
    assert left(4, 100) == ["a", "b", "c", "ab"]
    assert left(0, 100) == ["a", "b", "c"]
    assert left(0, 1) == ["a", "b", "c", "ab", "abc", "cc"]
    assert left(0, 6) == ["a", "b", "c", "ab"]
