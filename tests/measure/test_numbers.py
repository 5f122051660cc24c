"""Every number of `nsl`, `fairness`, `origin` and `corpus stats`, counted document by document."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.worlds import OFTEN, World, worlds, write
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.core.binding import PADDING
from modtok_cli.core.text import hash_spans
from modtok_cli.measure.corpus_stats import corpus_stats
from modtok_cli.measure.fairness import fairness
from modtok_cli.measure.nsl import nsl
from modtok_cli.measure.origin import origin
from modtok_cli.reference.splitting import split
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer

HERE, LACKING = ("en", "fi", "sw"), "de"
WORLDS = worlds(("en", LACKING, "fi"))
Documents = Mapping[str, list[str]]


@pytest.fixture(scope="module")
def tok(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Languages that share some tokens; one of the texts is in none of them."""
    place = tmp_path_factory.mktemp("measure")
    world = {"en": [OFTEN[:5] * 2], "fi": [["kala", *OFTEN[2:5]] * 2], "sw": [OFTEN[4:] * 2]}
    bpe_seq(data=write(world, place / "data"), output=place / "tok", k=270, progress=Silent())
    return place / "tok"


def ids(tokenizer: Any, documents: Sequence[str]) -> list[int]:
    return [int(index) for text in documents for index in tokenizer.encode(text)]


def sizes(documents: Sequence[str], tokenizer: Any, with_whole: bool = True) -> dict[str, Any]:
    """What rows say of a text; a word has a letter, a mark or a digit.

    A word is one token if the tokens of its document begin and end where it does, and not within.
    """
    text, tokens = "".join(documents), len(ids(tokenizer, documents))
    words: list[tuple[bytes, bool]] = []
    for document in documents:
        parts = [tokenizer.token_bytes(index) for index in ids(tokenizer, [document])]
        cuts, place = {0, *accumulate(map(len, parts))}, 0
        for word in split(BPE.pattern, document.encode()):
            if any(unicodedata.category(c)[0] in "LMN" for c in word.decode()):
                words.append((word, cuts.isdisjoint(range(place + 1, place + len(word)))))
            place += len(word)
    letters = [c for c in text if unicodedata.category(c)[0] in "LM"]
    spaced = 2 * sum(c in "日本" for c in letters) < max(1, len(letters))
    number = len(words) if spaced else None
    shares = {
        f"one_token_{name}": sum(whole for _, whole in those) / len(those) if number else None
        for name, those in (("words", words), ("types", {*words}))
    }  # fmt: skip
    return (shares if with_whole else {}) | {
        "documents": len(documents), "characters": len(text), "bytes": len(text.encode()),
        "words": number, "tokens": tokens, "tokens_per_character": tokens / len(text),
        "tokens_per_byte": tokens / len(text.encode()),
        "tokens_per_word": number and tokens / number,
    }  # fmt: skip


def reference_tokens(tok: Path, language: str, documents: Sequence[str]) -> int | None:
    if language == LACKING:
        return None
    return len(ids(open_tokenizer(str(tok / "references" / f"{language}.json")), documents))


def check(row: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    assert {name: row[name] for name in expected} == pytest.approx(dict(expected)), row


def of_each(tok: Path, language: str) -> dict[str, Any]:
    """The tokenizers that are measured with a language, by their names."""
    modular = ModularTokenizer.load(tok)
    own = {} if language == LACKING else {f"{tok}@each": modular.subset([language])}
    return {**own, f"{tok}@fi,en": modular.subset(["fi", "en"])}


def specs(tok: Path) -> list[str]:
    return [f"{tok}@each", f"{tok}@fi,en"]


@settings(max_examples=examples(25), deadline=None)
@given(WORLDS, st.booleans())
def test_nsl(
    tok: Path, tmp_path_factory: pytest.TempPathFactory, world: World, single: bool
) -> None:
    """Of a directory in which a language has no word, or of each file by itself."""
    world = {**world, "sw": [[""]]}
    data = write(world, tmp_path_factory.mktemp("nsl") / "data")
    parts = [(str(data), name, [t for each in those for t in each]) for name, those in
             sorted(world.items())]  # fmt: skip
    if single:
        parts = [
            (str(data / name / f"{number}.jsonl" if len(those) > 1 else data / f"{name}.jsonl"),
             name, list(each))
            for name, those in world.items() for number, each in enumerate(those) if any(each)
        ]  # fmt: skip
    sources = list(dict.fromkeys(source for source, *_ in parts))
    rows = nsl(specs(tok), sources, progress=Silent())
    expected = [
        (source, name, each, label, tokenizer) for source, name, each in parts
        for label, tokenizer in of_each(tok, name).items()
    ]  # fmt: skip
    assert len(rows) == len(expected)
    for row, (source, name, documents, label, tokenizer) in zip(rows, expected, strict=True):
        reference = reference_tokens(tok, name, documents)
        names = {"text": source, "language": name, "tokenizer": label, "size": tokenizer.size}
        assert {key: row[key] for key in names} == names
        if not "".join(documents).strip():
            continue
        expected_sizes = sizes(documents, tokenizer)
        check(row, expected_sizes)
        assert row["reference_tokens"] == reference
        assert row["nsl"] == (expected_sizes["tokens"] / reference if reference else None)


@settings(max_examples=examples(25), deadline=None)
@given(WORLDS, st.booleans(), st.sampled_from([None, "de", "fi"]))
def test_fairness(
    tok: Path, tmp_path_factory: pytest.TempPathFactory, world: World, both: bool, pivot: str | None
) -> None:
    lines = {name: [t for each in those for t in each] for name, those in world.items()}
    least = min(map(len, lines.values()))
    lines = {name: sorted(each, key=str.strip)[::-1][:least] for name, each in lines.items()}
    pivot = pivot if pivot in lines else None
    data = write({name: [each] for name, each in lines.items()}, tmp_path_factory.mktemp("f") / "d")
    names = specs(tok)[: 1 + both]
    rows = fairness(names, [data], pivot=pivot, progress=Silent())
    pivot = pivot or "en"
    measured = {
        label: {name: of_each(tok, name)[label] for name in sorted(lines)
                if label in of_each(tok, name)} for label in names
    }  # fmt: skip
    found = {(row["tokenizer"], row.get("language")): row for row in rows}
    common = [name for name in sorted(lines) if all(name in own for own in measured.values())]
    assert len(found) == len(rows) == sum(map(len, measured.values())) + len(names)
    for label, own in measured.items():
        tokens = {name: len(ids(each, lines[name])) for name, each in own.items()}
        values: dict[str, list[float]] = {
            name: [] for name in ("tokens", "per_character", "per_byte", "nsl")
        }
        for name, tokenizer in own.items():
            row, reference = found[label, name], reference_tokens(tok, name, lines[name])
            expected = sizes(lines[name], tokenizer, with_whole=False)
            check(row, expected)
            assert row["premium"] == (tokens[name] / tokens[pivot] if pivot in tokens else None)
            assert row["nsl"] == (tokens[name] / reference if reference else None)
            assert row["used_tokens"] == len({*ids(tokenizer, lines[name])})
            for key in values if name in common else ():
                value = (
                    row["nsl"]
                    if key == "nsl"
                    else expected[f"{'tokens_' * (key != 'tokens')}{key}"]
                )
                values[key] += [] if value is None else [value]
        total = found[label, None]
        for key, numbers in values.items():
            differences = sum(abs(a - b) for a, b in product(numbers, numbers))
            check(total, {
                f"{key}_mean": fmean(numbers), f"{key}_min": min(numbers),
                f"{key}_max": max(numbers), f"{key}_max_min": max(numbers) / min(numbers),
                f"{key}_gini": differences / (2 * len(numbers) * sum(numbers)),
            } if numbers else {})  # fmt: skip
        counts = [
            len(ids(measured[each][n], lines[n])) for each in (label, names[0]) for n in common
        ]
        mean, base = sum(counts[: len(common)]), sum(counts[len(common) :])
        assert total["tokens_relative"] == pytest.approx(mean / base)
        worst = max(common, key=tokens.__getitem__)
        assert total["premium_max_language"] == worst
        assert total["premium_max"] == found[label, worst]["premium"]
        assert total["languages"] == common
        used, junk = vocabulary({name: (own[name], lines[name]) for name in common})
        check(total, {"utilization": used, "merge_only": junk,
                      "size": max(own[name].size for name in common)})  # fmt: skip


def vocabulary(measured: Mapping[str, tuple[Any, Sequence[str]]]) -> tuple[float, float]:
    """Shares of a vocabulary that is used, and of tokens that are only parts; means of several."""
    by_tokenizer: dict[tuple[str, ...], tuple[Any, list[str]]] = {}
    for tokenizer, documents in measured.values():
        by_tokenizer.setdefault(tokenizer.languages, (tokenizer, []))[1].extend(documents)
    shares = []
    for tokenizer, documents in by_tokenizer.values():
        used = {*ids(tokenizer, documents)}
        parts, queue = set(), [*used]
        while queue:
            token = queue.pop()
            for left, right, result in tokenizer.merges.tolist():
                new = {left, right} - parts if result == token else set()
                parts |= new
                queue += new
        specials = len(tokenizer.vocabulary.specials)
        junk = {token for token in parts - used if token >= specials + 256}
        shares.append((len(used), len(junk), tokenizer.size - specials))
    return fmean(n / size for n, _, size in shares), fmean(n / size for _, n, size in shares)


@settings(max_examples=examples(20), deadline=None)
@given(WORLDS, st.sampled_from([("en", "fi"), ("sw", "en"), HERE]))
def test_origin(
    tok: Path, tmp_path_factory: pytest.TempPathFactory, world: World, names: tuple[str, ...]
) -> None:
    data = write(world, tmp_path_factory.mktemp("origin") / "data")
    modular = ModularTokenizer.load(tok)
    subset, column = modular.subset(names), modular.languages.index
    rows = origin(f"{tok}@{','.join(names)}", [data], progress=Silent())
    assert [row["language"] for row in rows] == [name for name in sorted(world) if name in names]
    for row in rows:
        own = row["language"]
        documents = [text for each in world[own] for text in each]
        tokens = [int(subset.global_ids[index]) for index in ids(subset, documents)]
        has = [{n for n in names if modular.token_membership[t, column(n)]} for t in tokens]
        outside = [owners for owners in has if own not in owners]
        share = {name: 0.0 for name in names if name != own}
        check(row, {"tokens": len(tokens), "outside": len(outside) / len(tokens),
                    "several": sum(len(o) > 1 for o in outside) / len(tokens)})  # fmt: skip
        for name in share:
            alone = sum(owners == {name} for owners in outside) / len(tokens)
            assert row["exclusive"][name] == pytest.approx(alone)
            member = sum(name in owners for owners in outside) / len(tokens)
            assert row["member"][name] == pytest.approx(member)
        assert row["exclusive"].keys() == row["member"].keys() == share.keys()


@settings(max_examples=examples(40), deadline=None)
@given(WORLDS, st.integers(0, 9), st.booleans(), st.integers(1, 2))
def test_statistics(
    tok: Path,
    tmp_path_factory: pytest.TempPathFactory,
    world: World,
    samples: int,
    each: bool,
    threads: int,
) -> None:
    data = write(world, tmp_path_factory.mktemp("stats") / "data")
    of = dict.fromkeys(world, f"{tok}@{'each' if each else 'fi,en'}")
    rows = corpus_stats(data=data, tokenizer=of["en"], samples=samples, threads=threads,
                        progress=Silent())  # fmt: skip
    assert [row["language"] for row in rows] == sorted(world)
    for row in rows:
        documents = [text for those in world[row["language"]] for text in those]
        words = Counter(w for text in documents for w in split(BPE.pattern, text.encode()))
        filled, text = [one for one in documents if one], "".join(documents)
        tokenizer = of_each(tok, row["language"]).get(of[row["language"]])
        by_hash = sorted({*filled}, key=hashed)
        assert row == {
            "language": row["language"], "documents": len(documents), "characters": len(text),
            "bytes": len(text.encode()), "words": words.total(), "unique_words": len(words),
            "duplicates": len(filled) - len({*filled}), "samples": (*by_hash[:samples],),
            "tokens": None if tokenizer is None else len(ids(tokenizer, documents)),
        }  # fmt: skip


def hashed(text: str) -> int:
    data = np.frombuffer(text.encode() + bytes(PADDING), dtype=np.uint8)
    return int(hash_spans(data, np.array([0]), np.array([len(text.encode())]))[0])
