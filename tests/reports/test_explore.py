"""The page of `modtok explore`: its program gives our ids, in Node; what it refuses."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest

from helpers.external_tokenizers import external_tokenizer
from helpers.sample import SAMPLE
from helpers.toy_tokenizers import ALPHABET, LANGUAGES, NASTY, toy
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import GENERATOR
from modtok_cli.base.membership import Membership
from modtok_cli.core import backend
from modtok_cli.learn.pieces import make_pieces
from modtok_cli.learn.prune import LanguageTokens
from modtok_cli.learn.unite import unite
from modtok_cli.reports.explore.page import explore, samples
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.languages import Label
from modtok_cli.text.pretokenizer import BPE, PHRASES, pretokenizers
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.adopted.adopt import adopt_counts
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.formats.tiktoken import RANK_PATTERNS, RankTokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.segmenters.merges import Merges
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


def version_of(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


NODE = shutil.which("node")
in_node = pytest.mark.skipif(not NODE, reason="needs Node to run modtok.wasm")
ZIG = "0.17.1"
PROGRAM = Path(__file__).parents[1] / "helpers" / "run_page.mjs"
TEXTS = [
    *(text for text in NASTY if text),
    *samples().values(),
    "I'LL don'T 12345 x\u017f's\r\n\r\n  \tend  ",
    "a\ufeffb\u0085c\u180ed\u2028e\u00a0f",
    *("".join(random.Random(i).choices(ALPHABET.decode(), k=12 * i)) for i in range(15)),
]


def answers(page: Path, requests: list[Any]) -> list[Any]:
    """Ids that the program of a page gives, run by Node."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(PROGRAM), str(page)],
        input="\n".join(map(json.dumps, requests)),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


Case = tuple[int, list[int] | None, str, Any]
"""Number of a tokenizer of the page, columns of languages or None, a text, its ids."""


def agree(place: Path, tokenizers: Sequence[Any], cases: Sequence[Case]) -> None:
    """Check that the program of a page gives these ids."""
    explore(tokenizers, place / "page.html")
    found = answers(place / "page.html", [case[:3] for case in cases])
    assert found == [case[3].tolist() for case in cases]


def scored(seed: int) -> list[ModularTokenizer]:
    """Fewest tokens with very different counts, and Unigram pieces with ties of scores.

    With seed 2, tokens of several words.
    """
    rng = random.Random(seed)
    first = 2 + 256
    splitter = PHRASES if seed == 2 else BPE
    pool = sorted({bytes(rng.choices(ALPHABET, k=rng.randint(2, 5))) for _ in range(150)})
    parts = {}
    for language in LANGUAGES:
        tokens = sorted(rng.sample(pool, 60), key=lambda token: (len(token), token))
        counts = rng.choices([0, 1, 2, 50, 51, 10**6, 2**45], k=first + len(tokens))
        counts[:2] = [0, 0]
        parts[language] = LanguageTokens(tuple(tokens), np.array(counts, dtype=np.int64))
    learned, counts = unite(parts, ("<s>", "</s>"), None)
    fewest = ModularTokenizer.from_learned(
        learned, algorithm="bpe-merge", k=300, token_counts=counts, pretokenizer=splitter
    )
    pieces = sorted({"".join(rng.choices("abcdeé क😀▁", k=rng.randint(1, 4))) for _ in range(150)})
    pieces = [text for text in pieces if " " not in text[1:]]
    members = np.array([[rng.random() < 0.5 for _ in LANGUAGES] for _ in pieces])
    members[0] = True
    unigram = ModularTokenizer.from_learned(
        make_pieces(
            list(LANGUAGES),
            ("<unk>", "</s>"),
            [text.encode() for text in pieces],
            [rng.choice([-1.0, -2.5, -np.pi, -7.1]) for _ in pieces],
            Membership.of(
                np.hstack([members[:, :3] | ~members.any(axis=1, keepdims=True), members[:, 3:]])
            ),
        ),
        algorithm="unigram-merge",
        k=300,
    )
    return [fewest, unigram]


@in_node
@pytest.mark.parametrize("seed", range(3))
def test_program_gives_the_ids_of_every_subset(tmp_path: Path, seed: int) -> None:
    """Of merges, of fewest tokens and of Unigram, as a part of T and on its own."""
    found = [toy(5, merges_each=80), *scored(seed)]
    alone = [each.subset(["fi", "el"]) for each in found]
    # Ways of as few tokens, between which the counts of the languages decide.
    tokens = [token.decode(errors="ignore") for token in found[1].vocabulary.tokens()[258:]]
    ties = ["".join(random.Random(i).choices(tokens, k=40)) for i in range(5)]
    cases: list[Case] = []
    for columns in ([0], [1, 3], [0, 1, 2, 3], None):
        names = [LANGUAGES[column] for column in columns or range(4)]
        for number, modular in enumerate(found):
            subset = modular.full() if columns is None else modular.subset(names)
            for text in [*TEXTS, *ties, "abc deé😀 dcab  cब", "e" * 300]:
                cases.append((number, columns, text, subset.global_ids[subset.encode(text)]))
    for number, tokenizer in enumerate(alone, len(found)):
        cases += [(number, None, text, tokenizer.encode(text)) for text in TEXTS]
    agree(tmp_path, [*found, *alone], cases)


NFC = {"type": "NFC"}
PREFIX = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
}
CHANGED = [
    *("e\u0301te\u0301 \u1100\u1161\u11a8", "a<think>b <think><|im_end|> ka</think>", "<thin"),
    *("a▁b ▁", "  two  spaces ", "한글 кот 😀"),
    *("a<unk>b <unk>한<unk> 한<unk>", "<0x41>б <unk><unk>", "", " "),
]


def published(kind: str, normalizer: object, *added: str) -> bytes:
    """A file like those of models, with its own normalizer and ordinary added tokens."""
    kind, _, variant = kind.partition("-") if kind.startswith("unigram") else (kind, "", "")
    document = orjson.loads(external_tokenizer(kind))
    if variant == "never":
        document["pre_tokenizer"]["prepend_scheme"] = "never"
    if variant == "bytes":
        document["model"]["byte_fallback"] = True
        document["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
        for token in document["added_tokens"]:
            token["id"] += 256 * (token["id"] >= 599)
        document["post_processor"] = None
    if kind == "byte-level" and not (normalizer or added):  # a token that no merges make
        document["model"]["ignore_merges"] = True
        document["model"]["vocab"]["Ġkirjasto"] = max(document["model"]["vocab"].values()) + 100
    if normalizer:
        document["normalizer"] = normalizer
    first = max(token["id"] for token in document["added_tokens"]) + 1
    flags = {"special": False, "normalized": False, "lstrip": False, "rstrip": False}
    document["added_tokens"] += [
        {"id": first + number, "content": text, "single_word": False, **flags}
        for number, text in enumerate(added)
    ]
    return orjson.dumps(document)


@in_node
@pytest.mark.parametrize(
    ("kind", "normalizer", "added"),
    [
        ("byte-level", None, ()),
        ("byte-level", NFC, ("<think>", "</think>")),
        ("characters", None, ("<think>", "  ")),
        ("characters", PREFIX, ()),
        ("unigram", None, ()),
        ("unigram-never", None, ()),
        ("unigram-bytes", None, ()),
    ],
)
def test_program_gives_the_ids_of_published_files(
    tmp_path: Path, kind: str, normalizer: object, added: tuple[str, ...]
) -> None:
    """Adopted, a subset of it, and as the library runs it."""
    data = published(kind, normalizer, *added)
    file = TokenizerFile(orjson.loads(data), "t")
    files = language_files(SAMPLE / "parallel", ("en", "fi"))
    modular = adopt_counts(file, count_languages(files, pretokenizer=file.pretokenizer))
    plain = LibraryTokenizer("plain", data, "plain")
    fi, whole = modular.subset(["fi"]), modular.full()
    cases: list[Case] = []
    for text in [*TEXTS, *CHANGED]:
        cases.append((0, [1], text, fi.global_ids[fi.encode(text)]))
        cases += [(n, None, text, each.encode(text)) for n, each in enumerate((whole, fi, plain))]
    agree(tmp_path, [modular, fi, plain], cases)


@in_node
def test_program_leaves_out_bytes_without_a_token(tmp_path: Path) -> None:
    """As the library does, also with a gap in the ids."""
    document = orjson.loads(published("byte-level", None))
    document["post_processor"], document["added_tokens"] = None, document["added_tokens"][:4]
    model = document["model"]
    names = sorted(model["vocab"], key=model["vocab"].get)
    kept = [name for name in names if not {"ĉ", "e", "Ã"} & set(name)]
    model["vocab"] = {name: index + 9 * (index > 300) for index, name in enumerate(kept)}
    model["merges"] = [pair for pair in model["merges"] if "".join(pair) in model["vocab"]]
    lacking = LibraryTokenizer("lacking", orjson.dumps(document), "lacking")
    agree(tmp_path, [lacking], [(0, None, text, lacking.encode(text)) for text in TEXTS])


@in_node
@pytest.mark.parametrize("variant", ["modtok", "large", "nfc", "whole", "lacking"])
def test_a_dropped_file_gives_the_ids_of_the_library(tmp_path: Path, variant: str) -> None:
    """Files of modtok and of others, with NFC, with `ignore_merges`, without some bytes.

    Large: a call of JavaScript takes some 65,000 to 125,000 arguments.
    """
    if variant == "modtok":
        data = toy(5, merges_each=80).subset(["en", "fi"]).to_json()
    else:
        added = ("<think>", "</think>") if variant == "nfc" else ()
        document = orjson.loads(published("byte-level", NFC if variant == "nfc" else None, *added))
        model = document["model"]
        model["ignore_merges"] = variant == "whole"
        if variant == "lacking":
            document["post_processor"], document["added_tokens"] = None, []
            model["vocab"] = {name: i for i, name in enumerate(model["vocab"]) if "e" not in name}
            made = ["".join(pair) for pair in model["merges"]]
            pairs = zip(model["merges"], made, strict=True)
            model["merges"] = [pair for pair, name in pairs if name in model["vocab"]]
        first = max(model["vocab"].values()) + 100
        if variant == "whole":  # a token that no merges make
            model["vocab"]["kirjasto"] = first
        if variant == "large":
            model["vocab"] |= {f"x{number}": first + number for number in range(200_000)}
        data = orjson.dumps(document)
    explore([toy(6)], tmp_path / "page.html")
    library = LibraryTokenizer("file", data, "file")
    texts = TEXTS[:3] if variant == "large" else [*TEXTS, *CHANGED, "kirjasto kirjastossa"]
    requests = [{"drop": "tokenizer.json", "text": data.decode()}, *([1, None, t] for t in texts)]
    number, *found = answers(tmp_path / "page.html", requests)
    assert number == 1
    assert found == [library.encode(text).tolist() for text in texts]


@in_node
def test_a_dropped_file_that_the_page_does_not_run(tmp_path: Path) -> None:
    explore([toy(6)], tmp_path / "page.html")
    lower = orjson.loads(published("byte-level", {"type": "Lowercase"}))
    doubled = orjson.loads(published("byte-level", None))
    doubled["model"]["merges"].append(doubled["model"]["merges"][0])
    other = orjson.loads(published("byte-level", None))
    other["pre_tokenizer"] = {"type": "Whitespace"}
    cases = [
        (published("unigram", None), "BPE of bytes"),
        (published("characters", None), "BPE of bytes"),
        (orjson.dumps(lower), "changes texts"),
        (orjson.dumps(doubled), "merges are damaged"),
        (orjson.dumps(other), "pre-tokenizer is not one of modtok's"),
        (b"[]", "BPE of bytes"),
        (b"{", "JSON"),
    ]
    requests = [{"drop": "a.json", "text": data.decode()} for data, _ in cases]
    for said, (_, why) in zip(answers(tmp_path / "page.html", requests), cases, strict=True):
        assert why in str(said)


@in_node
def test_a_card_counts_all_tokens_and_shows_the_first(tmp_path: Path) -> None:
    modular = toy(5, merges_each=80)
    explore([modular], tmp_path / "page.html")
    text, columns = " ".join(TEXTS), [1, 3]
    subset = modular.subset([LANGUAGES[column] for column in columns])
    (card,) = answers(tmp_path / "page.html", [{"card": [0, columns, text, 7]}])
    ids = subset.global_ids[subset.encode(text)]
    assert (card["count"], card["size"]) == (len(ids), subset.size)
    assert [each[0] for each in card["first"]] == ids[:7].tolist()
    members = modular.token_membership[ids][:, columns]
    sole = members.sum(axis=1) == 1
    own = {column: int((members[sole][:, i]).sum()) for i, column in enumerate(columns)}
    assert dict(card["own"]) == {column: count for column, count in own.items() if count}


def test_files_that_the_page_does_not_run_are_refused(tmp_path: Path) -> None:
    ranks = {bytes([byte]): byte for byte in range(256)}
    for odd in (
        LibraryTokenizer("odd", published("characters", PREFIX, "<think>"), "odd"),
        LibraryTokenizer("odd", published("unigram", NFC), "odd"),
        RankTokenizer("odd", b"", "odd", ranks=ranks, pattern=r"\S+|\s+"),
    ):
        with pytest.raises(UsageError, match="odd: the page does not run this kind"):
            explore([odd], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@in_node
def test_program_splits_as_every_pretokenizer(tmp_path: Path) -> None:
    base = toy(6, merges_each=80).full()
    found = [
        Subtokenizer(
            Merges(base.vocabulary, each, base.merges),
            languages=[],
            parent_signature=None,
            name=each.name,
            provenance={},
        )
        for each in pretokenizers().values()
    ]
    cases = [(i, None, text, each.encode(text)) for i, each in enumerate(found) for text in TEXTS]
    agree(tmp_path, found, cases)


@in_node
def test_program_gives_the_ids_of_rank_files(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    rng = random.Random(1)
    words = ["th", "the", " t", " the", "in", "ing", "12", "\r\n", "  ", "ка", "ко"]
    # Merges of one rank that overlap, and tokens that no merge makes.
    words += sorted({"".join(rng.choices("aab\n ", k=rng.randint(2, 6))) for _ in range(150)})
    rng.shuffle(words)
    tokens = [bytes([byte]) for byte in range(256)]
    tokens += dict.fromkeys(word.encode() for word in words)
    ranks = {token: rank for rank, token in enumerate(tokens)}
    found = [
        RankTokenizer(name, b"", name, ranks=ranks, pattern=pattern, first=3)
        for name, pattern in RANK_PATTERNS.items()
        if name != "kimi"  # which the core does not have
    ]
    texts = [*TEXTS, "the thing, 12 in the\r\n кака ко", "!\n\n \n ", " \n \t", "а \u3000\n"]
    texts += ["".join(rng.choices("aab\n ", k=40)) for _ in range(30)]
    cases = [(i, None, text, each.encode(text)) for i, each in enumerate(found) for text in texts]
    agree(tmp_path, found, cases)


def test_page_is_self_contained_and_safe(tmp_path: Path) -> None:
    tokenizer = toy(2, specials=("</script><script>alert(1)</script>",))
    row = explore([tokenizer], tmp_path / "page.html", languages=["fi"])
    html = (tmp_path / "page.html").read_text("utf-8")
    assert row["bytes"] == len(html.encode())
    assert "alert(1)" not in html
    assert "://" not in html
    assert "src=" not in html
    assert '"chosen":["fi"]' in html
    assert samples()["fi"] in html


def test_requests_that_are_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with pytest.raises(UsageError, match="no language 'xx'"):
        explore([toy(2)], page, languages=["xx"])
    with pytest.raises(UsageError, match="requires a modular directory"):
        explore([toy(2).subset(["en"])], page, languages=["en"])
    assert not page.exists()
    explore([toy(2)], page)
    first = page.read_bytes()
    explore([toy(3)], page)  # its own page is replaced
    assert page.read_bytes() != first
    for other in (GENERATOR.format("report"), "<p>explore</p>"):
        page.write_text(other)
        with pytest.raises(UsageError, match="already exists"):
            explore([toy(2)], page)
        assert page.read_text() == other


def test_every_sample_has_a_name() -> None:
    assert all(Label.of(code).name != code for code in samples())
    assert list(samples()) == sorted(samples())
    assert {path.stem for path in (SAMPLE / "data").glob("*.jsonl")} <= set(samples())


def test_webassembly_is_of_the_sources(tmp_path: Path) -> None:
    if version_of("ziglang") != ZIG:
        pytest.skip(f"needs ziglang {ZIG}, which makes the same bytes")
    backend.compile_wasm(tmp_path / backend.WASM)
    same = (tmp_path / backend.WASM).read_bytes() == (backend.CORE / backend.WASM).read_bytes()
    assert same, "python modtok_cli/core/backend.py, and commit modtok.wasm"


def test_only_machines_without_a_compiler_fetch_one(monkeypatch: pytest.MonkeyPatch) -> None:
    setuptools = {f"get_requires_for_build_{kind}": lambda _: [] for kind in ("wheel", "editable")}
    monkeypatch.setattr(backend, "_hooks", lambda: SimpleNamespace(**setuptools))
    monkeypatch.delenv("MODTOK_TARGET", raising=False)
    for requires in (backend.get_requires_for_build_wheel, backend.get_requires_for_build_editable):
        monkeypatch.setattr(backend, "_cc", lambda: ["cc"])
        assert requires() == []
        monkeypatch.setattr(backend, "_cc", lambda: None)
        assert requires() == [backend.ZIG]
