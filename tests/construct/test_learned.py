"""Constructions by their definitions, in small workspaces, stopped and continued anywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.said import Said
from helpers.worlds import OFTEN, World, worlds, write
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.journal import JournalDir
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.construct.unigram_models import model_json
from modtok_cli.learn.pieces import UNKNOWN, make_pieces
from modtok_cli.reference import fair_budgets, pruning, unigram
from modtok_cli.reference.sequential_bpe import SequentialBpe, bytes_of, segment
from modtok_cli.reference.splitting import split
from modtok_cli.text.counts import count_documents
from modtok_cli.text.pretokenizer import BPE, UNIGRAM
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subset_check import check_subsets

SPECIALS = ("<|endoftext|>", "<|pad|>", "<s>")


class Stop(BaseException):
    """Instead of a kill."""


@st.composite
def builds(draw: st.DrawFn) -> dict[str, Any]:
    """Text and options, how many languages are appended, and after which journal it is stopped."""
    world = draw(worlds())
    is_often = all(max(counted(each).values()) > 1 for each in texts(world).values())
    return {
        "world": world, "extra": 9 - draw(st.integers(0, 9)), "specials": draw(st.integers(2, 3)),
        "least": 2 if is_often and draw(st.booleans()) else None,
        "limit": draw(st.sampled_from([None, 0, 1])),
        "appended": draw(st.integers(0, len(world) - 1)), "stop": draw(st.integers(0, 2)),
        "order": draw(st.sampled_from(["size", "given", "alphabetical"])),
        "passes": draw(st.integers(1, 2)), "memory": draw(st.sampled_from([None, "1GB"])),
        "segmentation": draw(st.sampled_from(["merges", "fewest-tokens"])),
        "own": draw(st.dictionaries(st.sampled_from([*world]), st.integers(0, 9), max_size=2)),
    }  # fmt: skip


def texts(world: World) -> dict[str, list[bytes]]:
    return {name: [t.encode() for each in those for t in each] for name, those in world.items()}


def extra_of(given: Mapping[str, Any], name: str) -> int:
    """Tokens of a language beside bytes and special tokens."""
    return int(given["own"].get(name, given["extra"]))


def counted(documents: Sequence[bytes]) -> Counter[bytes]:
    return Counter(word for text in documents for word in split(BPE.pattern, text))


def frequent(documents: Sequence[bytes], least: int | None) -> dict[bytes, int]:
    return {word: n for word, n in counted(documents).items() if n >= (least or 1)}


def build(command: Any, given: Mapping[str, Any], place: Path, **options: Any) -> Any:
    """Call a command until it comes through; some languages are then appended."""
    names = list(given["world"])
    kept = len(names) - given["appended"]
    real, left = JournalDir.write, [given["stop"]]
    done = [0]

    def stopping(self: JournalDir, *saved: Any) -> None:
        real(self, *saved)
        left[0] -= 1
        done[0] += 1
        if left[0] == 0:
            raise Stop

    said = Said()
    always = {
        "data": place / "data", "output": place / "tok", "journal_seconds": 0,
        "memory": given["memory"], "progress": said,
    }  # fmt: skip
    basic = 256 + given["specials"]
    own = {name: basic + extra for name, extra in given["own"].items()}
    before, after = (
        {name: k for name, k in own.items() if name in those}
        for those in (names[:kept], names[kept:])
    )
    k = ",".join([str(basic + given["extra"]), *(f"{name}={k}" for name, k in before.items())])
    first = {
        "k": k, "min_count": given["least"],
        "max_unspaced": given["limit"], "specials": SPECIALS[2 : given["specials"]], **options,
    }  # fmt: skip
    reports = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JournalDir, "write", stopping)
        calls = [
            {"languages": names[:kept], **first},
            {"append": names[kept:], "k": after or None},
        ]
        for call in calls[: 1 + bool(names[kept:])]:
            done[0] = 0
            try:
                reports.append(command(**call, **always))
            except Stop:
                learned, said.notes = done[0], []
                reports.append(command(**call, **always))
                (note,) = (one for one in said.notes if one.startswith("resuming after"))
                assert note.count(",") + 1 == learned
    tokenizer = ModularTokenizer.load(place / "tok")
    if "fair" not in options:
        assert tokenizer.k == basic + given["extra"]
        assert tokenizer.budgets == {n: k for n, k in own.items() if k != tokenizer.k}
    return tokenizer, [row for each in reports for row in each.lines]


def check_texts(
    tokenizer: ModularTokenizer, rows: Sequence[Mapping[str, Any]], given: Mapping[str, Any]
) -> None:
    """What the manifest and the report say of the text."""
    for name, documents in texts(given["world"]).items():
        corpus, words = tokenizer.corpora[name], counted(documents)
        size = (len(documents), sum(map(len, documents)), sum(len(t.decode()) for t in documents))
        assert (corpus.documents, corpus.bytes, corpus.characters) == size
        rare = {w: n for w, n in words.items() if n < (given["least"] or 1)}
        left = None if corpus.left_out is None else (corpus.left_out.words, corpus.left_out.bytes)
        rare_bytes = sum(len(word) * number for word, number in rare.items())
        assert left == ((len(rare), rare_bytes) if rare else None)
        (row,) = (row for row in rows if row["language"] == name)
        assert row.get("left_out_words", 0) == len(rare)


def check_references(place: Path, given: Mapping[str, Any]) -> None:
    """The plain BPE of each language, and how often it uses each token."""
    files = {path.stem: path for path in (place / "tok" / "references").iterdir()}
    assert files.keys() == given["world"].keys()
    for name, path in files.items():
        check_plain(path, texts(given["world"])[name], given)


def plain(documents: Sequence[bytes], given: Mapping[str, Any], k: int) -> Any:
    """Plain BPE of text, of k tokens beside the bytes."""
    made = SequentialBpe(256 + k, max_unspaced=limit_of(given))
    made.add("x", frequent(documents, given["least"]))
    return made


def limit_of(given: Mapping[str, Any]) -> int:
    return 16 if given["limit"] is None else int(given["limit"])


def check_plain(path: Path, documents: Sequence[bytes], given: Mapping[str, Any]) -> None:
    expected = plain(documents, given, extra_of(given, path.stem))
    found = open_tokenizer(str(path))
    tokens = found.vocabulary.tokens()
    specials = [text.encode() for text in SPECIALS[: given["specials"]]]
    assert tokens == [*specials, *expected.tokens]
    assert [(tokens[a], tokens[b]) for a, b, _ in found.merges] == expected.merges
    used: Counter[bytes] = Counter()
    for word, number in frequent(documents, given["least"]).items():
        used.update(dict.fromkeys((), number))
        for part in segment(bytes_of(word), expected.merges):
            used[part] += number
    counts = orjson.loads(path.read_bytes())["model"]["modtok"]["counts"]
    assert counts == [0] * len(specials) + [used[token] for token in expected.tokens]


def members(tokenizer: ModularTokenizer, column: int) -> list[bytes]:
    tokens = tokenizer.vocabulary.tokens()
    ids = np.flatnonzero(tokenizer.token_membership[:, column])
    return [tokens[index] for index in ids.tolist()]


@settings(max_examples=examples(40), deadline=None)
@given(builds())
def test_sequential_bpe(tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any]) -> None:
    place, world = tmp_path_factory.mktemp("seq"), given["world"]
    write(world, place / "data")
    options = {name: given[name] for name in ("order", "passes", "segmentation")}
    if given["order"] == "given":
        given["world"] = world = dict(reversed(world.items()))
    tokenizer, rows = build(bpe_seq, given, place, **options)
    documents = texts(world)
    first = list(world)[: len(world) - given["appended"]]
    if given["order"] == "size":
        first.sort(key=lambda name: (-sum(map(len, documents[name])), name))
    order = [*first, *list(world)[len(first) :]]
    assert [*tokenizer.languages] == [row["language"] for row in rows] == order
    number, slow = given["specials"], SequentialBpe(
        256 + given["extra"], passes=given["passes"], max_unspaced=limit_of(given)
    )  # fmt: skip
    for row, name in zip(rows, order, strict=True):
        before, slow.k = slow.tokens, 256 + extra_of(given, name)
        slow.add(name, frequent(documents[name], given["least"]))
        vocabulary = slow.vocabularies[name]
        adopted = len(vocabulary & {*before[256:]})
        assert (row["tokens"], row["adopted"]) == (len(vocabulary) + number, adopted)
        assert row["new_tokens"] == len(slow.tokens) - len(before)
        assert row["total"] == len(slow.tokens) + number
    tokens = tokenizer.vocabulary.tokens()
    assert tokens == [*(text.encode() for text in SPECIALS[:number]), *slow.tokens]
    merges = [(tokens[a], tokens[b]) for a, b, _ in tokenizer.merges]
    assert merges == slow.merges
    for column, name in enumerate(order):
        mine = members(tokenizer, column)
        assert {*mine[number:]} == slow.vocabularies[name]
        kept = np.flatnonzero(tokenizer.merge_membership[:, column])
        assert {merges[rank] for rank in kept} == slow.merge_sets[name]
        if given["segmentation"] == "fewest-tokens":
            check_use(tokenizer, column, frequent(documents[name], given["least"]), number)
    check_texts(tokenizer, rows, given)
    check_references(place, given)
    assert sorted(path.name for path in place.iterdir() if "resume" in path.name) == []


def check_use(
    tokenizer: ModularTokenizer, column: int, words: Mapping[bytes, int], specials: int
) -> None:
    """How often a language uses each of its tokens, from which subsets have their likelihoods."""
    mine = members(tokenizer, column)
    used = pruning.used(words, mine[specials:])
    expected = [0] * specials + [used[token] for token in mine[specials:]]
    assert tokenizer.token_counts[column].tolist() == expected


@settings(max_examples=examples(30), deadline=None)
@given(builds(), st.integers(0, 2))
def test_united_bpe(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any], removed: int
) -> None:
    """With a language removed again, the others stay."""
    place, world = tmp_path_factory.mktemp("merge"), given["world"]
    write(world, place / "data")
    tokenizer, rows = build(bpe_merge, given, place)
    number = given["specials"]
    documents, learned = texts(world), {}
    for name in world:
        k = 256 + number + extra_of(given, name)
        candidates = plain(documents[name], given, int(k * 1.25) - 256 - number).tokens
        learned[name] = pruning.chosen(
            frequent(documents[name], given["least"]), candidates[:256], candidates[256:],
            extra_of(given, name), k // 8, limit=limit_of(given),
        )  # fmt: skip
    kept = len(world) - given["appended"]
    first = {token for name in [*world][:kept] for token in learned[name]}
    new = {token for each in learned.values() for token in each} - first
    expected = [token for some in (first, new) for token in sorted(some, key=lambda t: (len(t), t))]

    def check(tokenizer: ModularTokenizer, languages: Sequence[str]) -> None:
        every = {token for name in languages for token in learned[name]}
        tokens = tokenizer.vocabulary.tokens()
        assert [*tokenizer.languages] == languages
        assert tokens[number + 256 :] == [token for token in expected if token in every]
        for column, name in enumerate(languages):
            mine = members(tokenizer, column)
            assert {*mine[number + 256 :]} == {*learned[name]}
            check_use(tokenizer, column, frequent(documents[name], given["least"]), number)

    check(tokenizer, [*world])
    owners = Counter(token for each in learned.values() for token in each)
    for row in rows:
        if given["appended"] == 0:
            own = sum(owners[token] == 1 for token in learned[row["language"]])
            alone = own + (len(world) == 1) * (256 + number)
            assert (row["own"], row["total"]) == (alone, tokenizer.size)
        assert row["tokens"] == 256 + number + len(learned[row["language"]])
    check_texts(tokenizer, rows, given)
    check_references(place, given)
    if len(world) > 1:
        gone = [*world][removed % len(world)]
        bpe_merge(remove=[gone], output=place / "tok", progress=Silent())
        rest = ModularTokenizer.load(place / "tok")
        check(rest, [name for name in world if name != gone])
        assert rest.corpora == {n: c for n, c in tokenizer.corpora.items() if n != gone}
        assert rest.budgets == {n: k for n, k in tokenizer.budgets.items() if n != gone}
        files = {path.stem for path in (place / "tok" / "references").iterdir()}
        assert files == {*rest.languages}


@settings(max_examples=examples(15), deadline=None)
@given(builds(), st.booleans())
def test_plain_bpe(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any], joint: bool
) -> None:
    place, documents = tmp_path_factory.mktemp("plain"), texts(given["world"])
    given["own"] = {}
    write(given["world"], place / "data")
    bpe(data=place / "data", output=place / "made", joint=joint, min_count=given["least"],
        k=256 + given["specials"] + given["extra"], max_unspaced=given["limit"],
        specials=SPECIALS[2 : given["specials"]], memory=given["memory"],
        progress=Silent())  # fmt: skip
    if not joint:
        for name, each in documents.items():
            check_plain(place / "made" / f"{name}.json", each, given)
        return
    tokenizer = ModularTokenizer.load(place / "made")
    everything = [text for each in documents.values() for text in each]
    expected = plain(everything, given, given["extra"])
    tokens = tokenizer.vocabulary.tokens()
    assert tokens[given["specials"] :] == expected.tokens
    assert [(tokens[a], tokens[b]) for a, b, _ in tokenizer.merges] == expected.merges
    assert tokenizer.token_membership[:].all()
    assert [*tokenizer.languages] == sorted(documents)


@settings(max_examples=examples(30), deadline=None)
@given(builds(), st.sampled_from([bpe_seq, bpe_merge]), st.sampled_from([0.5, 1.0]))
def test_budgets_by_parallel_text(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any], command: Any, share: float
) -> None:
    """As `reference.fair_budgets` says, by plain BPE of the text; stopped and continued."""
    place, given["own"] = tmp_path_factory.mktemp("fair"), {}
    write(given["world"], place / "data")
    documents = texts(given["world"])
    first = sorted([*documents][: len(documents) - given["appended"]])
    lines = {name: [*each, *[b""] * 30][:30] for name, each in documents.items()}
    write({name: [[t.decode() for t in lines[name]]] for name in first}, place / "parallel")
    options = {"fair": place / "parallel", "fair_share": share}
    tokenizer, _ = build(command, given, place, **options)
    base, k = 256 + given["specials"], 256 + given["specials"] + given["extra"]
    tokens = {}
    for name in first:
        merges = plain(documents[name], given, 4 * k - base).merges
        sizes = range(len({a + b for a, b in merges}) + 1)
        tokens[name] = [fair_budgets.tokens_at(counted(lines[name]), merges, n) for n in sizes]
    assume(all(len(each) > 1 for each in tokens.values()))
    fair = fair_budgets.equal_budgets(tokens, base, k * len(first))
    found = {name: tokenizer.k_of(name) for name in tokenizer.languages}
    assert found.keys() - fair.keys() == {*documents} - {*first}
    for name, budget in fair.items():
        assert abs(found[name] - (k + share * (budget - k))) <= (share < 1)
    assert {found[name] for name in found.keys() - fair.keys()} <= {k}
    assert tokenizer.settings["fair"]["share"] == share
    assert all(len(each.improper) == 0 for each in check_subsets(tokenizer).subsets)


PIECES = st.dictionaries(
    st.sampled_from([b"a", b"b", b" a", b"ab", b" ab", b"ba", "é".encode(), b" b", b"aa"]),
    st.integers(-40, -1).map(lambda number: number / 8), min_size=1,
)  # fmt: skip


@settings(max_examples=examples(20), deadline=None)
@given(worlds(), st.data(), st.sampled_from([None, "en=2", "equal"]), st.sampled_from([0, 3, 99]))
def test_united_unigram(
    tmp_path_factory: pytest.TempPathFactory,
    world: World,
    data: st.DataObject,
    weights: str | None,
    iterations: int,
) -> None:
    """From models that are there; stopped after a journal of EM and continued."""
    place, documents = tmp_path_factory.mktemp("unigram"), texts(world)
    write(world, place / "data")
    (place / "models").mkdir()
    specials = (UNKNOWN, *SPECIALS[:2])
    models = {name: data.draw(PIECES) for name in world}
    tables = {name: count_documents([each], UNIGRAM) for name, each in documents.items()}
    for name, own in models.items():
        every = Membership.everywhere(len(own), 1)
        model = make_pieces([name], specials, [*own], [*own.values()], every)
        made = model_json(name, model, tables[name], 300)
        (place / "models" / f"{name}.json").write_bytes(made)
    real, left = JournalDir.write, [data.draw(st.integers(0, 4))]

    def stopping(self: JournalDir, *saved: Any) -> None:
        real(self, *saved)
        left[0] -= 1
        if left[0] == 0:
            raise Stop

    said = Said()
    call: dict[str, Any] = {
        "data": place / "data", "models": place / "models", "output": place / "tok", "k": 300,
        "weights": weights, "iterations": iterations, "journal_seconds": 0, "progress": said,
    }  # fmt: skip
    stop = left[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JournalDir, "write", stopping)
        try:
            unigram_merge(**call)
        except Stop:
            unigram_merge(**call)
            assert f"EM resumes after iteration {stop}" in said.notes
    found = ModularTokenizer.load(place / "tok")
    first, scores = len(specials) + 256, unigram.united(models)
    assert found.vocabulary.tokens()[first:] == [*scores]
    for column, name in enumerate(sorted(world)):
        assert {*members(found, column)[first:]} == {*models[name]}
    sizes = {name: sum(map(len, each)) for name, each in documents.items()}
    factor = dict.fromkeys(world, 1.0) | ({"en": 2.0} if weights == "en=2" else {})
    if weights == "equal":
        factor = {name: fmean(sizes.values()) / size for name, size in sizes.items()}
    words = [(w, n * factor[name]) for name, table in tables.items() for w, n in table.pairs()]
    if iterations:
        ids = {piece: first + number for number, piece in enumerate(scores)}
        expected, likelihoods = unigram.maximized(words, ids, first - 256, 1e-6, iterations)
        em = found.settings["em"]
        assert em["iterations"] == len(likelihoods)
        assert em["log_likelihood"] == pytest.approx(likelihoods[-1])
        least = 1e-3 / max(1.0, sum(expected))
        assert em["floor"] == sum(expected[ids[piece]] < 1e-3 for piece in scores)
        scores = {p: math.log(max(expected[i] / sum(expected), least)) for p, i in ids.items()}
    assert found.segmenter.scores[first:] == pytest.approx([*scores.values()], abs=2**-10)  # type: ignore[attr-defined]


OTHERS: list[tuple[dict[str, Any], bool]] = [
    ({"k": 264}, True), ({"specials": ["<s>"]}, True), ({"default_specials": False}, True),
    ({"segmentation": "fewest-tokens"}, True), ({"pretokenizer": "gpt2"}, True),
    ({"passes": 2}, True), ({"order": "given"}, True), ({"min_count": 2}, True),
    ({"max_unspaced": 2}, True), ({"languages": "en"}, True), ({"references": False}, False),
    ({"k": "262,fi=264"}, True), ({"fair": "p"}, True), ({"fair": "p", "fair_share": 0.5}, True),
    ({"memory": "1GB"}, False), ({"reading": Reading("skip")}, False), ({}, False),
]  # fmt: skip
"""Options, and whether an output that exists records them; the last one is for other text."""


def test_what_changes_a_build_is_in_the_key_of_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a finished output of other settings is not taken for it."""
    keys, real = [], JournalDir.__init__

    def kept(self: JournalDir, output: Path, key: Any, *rest: Any) -> None:
        keys.append(orjson.dumps(key))
        real(self, output, key, *rest)

    monkeypatch.setattr(JournalDir, "__init__", kept)
    data = write({"en": [OFTEN], "fi": [OFTEN[1:]]}, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    write({"en": [OFTEN[1:2]], "fi": [OFTEN[2:3]]}, tmp_path / "p")
    same: dict[str, Any] = {"data": data, "k": 262, "progress": Silent()}
    bpe_seq(**same, output=tmp_path / "tok")
    for number, (others, recorded) in enumerate(OTHERS):
        if not others:
            write({"fi": [OFTEN]}, data)
        bpe_seq(**{**same, **others, "output": tmp_path / str(number)})
        if recorded:
            with pytest.raises(UsageError, match="exists with other settings"):
                bpe_seq(**{**same, **others, "output": tmp_path / "tok"})
    other = write({"en": [OFTEN[2:]]}, tmp_path / "other")
    bpe_seq(**{**same, "data": other}, output=tmp_path / "base")
    for base in ("9", "base"):  # learned from other text
        bpe_seq(append="fi", data=data, tokenizer=tmp_path / base, output=tmp_path / f"more-{base}",
                progress=Silent())  # fmt: skip
    assert len(set(keys)) == len(keys) == 4 + len(OTHERS)
