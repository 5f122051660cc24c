"""The page of `modtok explore`: its program gives our ids, in Node; what it refuses."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helpers.external_tokenizers import external_tokenizer
from helpers.sample import SAMPLE
from helpers.toy_tokenizers import ALPHABET, LANGUAGES, NASTY, toy
from modtok_cli.base.errors import UsageError
from modtok_cli.learn.pieces import make_pieces
from modtok_cli.learn.prune import LanguageTokens
from modtok_cli.learn.unite import unite
from modtok_cli.measure.explore.page import explore
from modtok_cli.measure.explore.pattern import js_classes, js_pattern
from modtok_cli.measure.explore.samples import samples
from modtok_cli.modular.adopt import adopt_counts
from modtok_cli.modular.formats.hugging_face import LibraryTokenizer
from modtok_cli.modular.formats.tiktoken import RANK_PATTERNS
from modtok_cli.modular.ranks import RankTokenizer
from modtok_cli.modular.segmenters.merges import Merges
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.modular.tokenizer_file import TokenizerFile
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.language_names import language_name
from modtok_cli.text.pretokenizer import pretokenizers
from modtok_cli.text.workspace import language_files

NODE = shutil.which("node")
PROGRAM = Path(__file__).parents[1] / "helpers" / "run_page.mjs"
TEXTS = [
    *(text for text in NASTY if text),
    *samples().values(),
    "I'LL don'T 12345 x\u017f's\r\n\r\n  \tend  ",
    "a\ufeffb\u0085c\u180ed\u2028e\u00a0f",
]


def answers(page: Path, requests: list[Any]) -> list[list[int]]:
    """Ids that the program of a page gives, run by Node."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, str(PROGRAM), str(page)],
        input="\n".join(map(json.dumps, requests)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(NODE is None, reason="needs Node to run the page's program")
def test_program_gives_the_ids_of_every_subset(tmp_path: Path) -> None:
    modular = toy(5, merges_each=80)
    plain = toy(6).subset(["fi"])
    explore([modular, plain], tmp_path / "page.html")
    requests, expected = [], []
    for columns in ([0], [1, 3], [0, 1, 2, 3], None):
        names = [LANGUAGES[column] for column in columns or range(4)]
        subset = modular.full() if columns is None else modular.subset(names)
        for text in TEXTS:
            requests.append([0, columns, text])
            expected.append(subset.global_ids[subset.encode(text)].tolist())
    for text in TEXTS:
        requests.append([1, None, text])
        expected.append(plain.encode(text).tolist())
    assert answers(tmp_path / "page.html", requests) == expected


def scored(seed: int) -> list[ModularTokenizer]:
    """Fewest tokens with very different counts, and Unigram pieces with ties of scores."""
    rng = random.Random(seed)
    first = 2 + 256
    pool = sorted({bytes(rng.choices(ALPHABET, k=rng.randint(2, 5))) for _ in range(150)})
    parts = {}
    for language in LANGUAGES:
        tokens = sorted(rng.sample(pool, 60), key=lambda token: (len(token), token))
        counts = rng.choices([0, 1, 2, 50, 51, 10**6, 2**45], k=first + len(tokens))
        counts[:2] = [0, 0]
        parts[language] = LanguageTokens(tuple(tokens), np.array(counts, dtype=np.int64))
    learned, counts = unite(parts, ("<s>", "</s>"), None)
    fewest = ModularTokenizer.from_learned(
        learned, algorithm="bpe-merge", k=300, token_counts=counts
    )
    pieces = sorted({"".join(rng.choices("abcdeé क😀▁", k=rng.randint(1, 4))) for _ in range(150)})
    pieces = [text for text in pieces if " " not in text[1:]]
    members = np.array([[rng.random() < 0.5 for _ in LANGUAGES] for _ in pieces])
    members[0] = True
    unigram = ModularTokenizer.from_pieces(
        make_pieces(
            list(LANGUAGES),
            ("<unk>", "</s>"),
            [text.encode() for text in pieces],
            [rng.choice([-1.0, -2.5, -np.pi, -7.1]) for _ in pieces],
            np.hstack([members[:, :3] | ~members.any(axis=1, keepdims=True), members[:, 3:]]),
        ),
        algorithm="unigram-merge",
        k=300,
    )
    return [fewest, unigram]


@pytest.mark.skipif(NODE is None, reason="needs Node to run the page's program")
@pytest.mark.parametrize("seed", range(3))
def test_program_gives_the_ids_of_searches(tmp_path: Path, seed: int) -> None:
    found = scored(seed)
    alone = [each.subset(["fi", "el"]) for each in found]
    explore([*found, *alone], tmp_path / "page.html")
    requests, expected = [], []
    for columns in ([0], [1, 3], [0, 1, 2, 3], None):
        names = [LANGUAGES[column] for column in columns or range(4)]
        for number, modular in enumerate(found):
            subset = modular.full() if columns is None else modular.subset(names)
            for text in [*TEXTS, "abc deé😀 dcab  cब", "e" * 300]:
                requests.append([number, columns, text])
                expected.append(subset.global_ids[subset.encode(text)].tolist())
    for number, tokenizer in enumerate(alone, len(found)):
        for text in TEXTS:
            requests.append([number, None, text])
            expected.append(tokenizer.encode(text).tolist())
    assert answers(tmp_path / "page.html", requests) == expected


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
]


def published(kind: str, normalizer: object, *added: str) -> bytes:
    """A file like those of models, with its own normalizer and ordinary added tokens."""
    document = orjson.loads(external_tokenizer(kind))
    if normalizer:
        document["normalizer"] = normalizer
    first = max(token["id"] for token in document["added_tokens"]) + 1
    flags = {"special": False, "normalized": False, "lstrip": False, "rstrip": False}
    document["added_tokens"] += [
        {"id": first + number, "content": text, "single_word": False, **flags}
        for number, text in enumerate(added)
    ]
    return orjson.dumps(document)


@pytest.mark.skipif(NODE is None, reason="needs Node to run the page's program")
@pytest.mark.parametrize(
    ("kind", "normalizer", "added"),
    [
        ("byte-level", None, ()),
        ("byte-level", NFC, ("<think>", "</think>")),
        ("characters", None, ("<think>", "  ")),
        ("characters", PREFIX, ()),
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
    explore([modular, modular.subset(["fi"]), plain], tmp_path / "page.html")
    fi, whole = modular.subset(["fi"]), modular.full()
    texts = [*TEXTS, *CHANGED]
    cases = ((0, [1]), (0, None), (1, None), (2, None))
    requests = [[number, columns, text] for text in texts for number, columns in cases]
    expected = [
        ids.tolist()
        for text in texts
        for ids in (
            *(fi.global_ids[fi.encode(text)], whole.encode(text), fi.encode(text)),
            plain.encode(text),
        )
    ]
    assert answers(tmp_path / "page.html", requests) == expected


def test_files_that_the_page_does_not_run_are_refused(tmp_path: Path) -> None:
    shifted = published("characters", PREFIX, "<think>")
    for data in (shifted, external_tokenizer("unigram")):
        with pytest.raises(UsageError, match="odd: the page does not run this kind"):
            explore([LibraryTokenizer("odd", data, "odd")], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.skipif(NODE is None, reason="needs Node to run the page's program")
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
    explore(found, tmp_path / "page.html")
    requests = [[i, None, text] for i in range(len(found)) for text in TEXTS]
    expected = [tokenizer.encode(text).tolist() for tokenizer in found for text in TEXTS]
    assert answers(tmp_path / "page.html", requests) == expected


@pytest.mark.skipif(NODE is None, reason="needs Node to run the page's program")
def test_program_gives_the_ids_of_rank_files(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    words = ["th", "the", " t", " the", "in", "ing", "12", "\r\n", "  ", "ка", "ко"]
    tokens = [bytes([byte]) for byte in range(256)] + [word.encode() for word in words]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    found = [
        RankTokenizer(name, b"", name, ranks=ranks, pattern=pattern, first=3)
        for name, pattern in RANK_PATTERNS.items()
    ]
    explore(found, tmp_path / "page.html")
    texts = [*TEXTS, "the thing, 12 in the\r\n кака ко"]
    requests = [[i, None, text] for i in range(len(found)) for text in texts]
    expected = [tokenizer.encode(text).tolist() for tokenizer in found for text in texts]
    assert answers(tmp_path / "page.html", requests) == expected


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
    with pytest.raises(UsageError, match="already exists"):
        explore([toy(2)], page)


def test_every_sample_has_a_name() -> None:
    assert all(language_name(code) != code for code in samples())
    assert list(samples()) == sorted(samples())
    assert {path.stem for path in (SAMPLE / "data").glob("*.jsonl")} <= set(samples())


def test_patterns() -> None:
    assert js_pattern(r" ?\p{N}+|\p{N}{1,3}+|[^\s]?+a++") == r" ?\p{N}+|\p{N}{1,3}|[^\s]?a+"
    assert js_pattern("'(?i:[s]|ll)?") == "'(?:[sS\u017f]|[lL][lL])?"
    assert r"\u{85}" in js_classes()["s"]
    assert r"\u{feff}" not in js_classes()["s"]
