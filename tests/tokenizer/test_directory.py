"""Modular directories: what is written is read, whole or of some languages, and damage is found."""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from helpers.made_tokenizers import MADE, fewest_tokens, unigram
from helpers.toy_tokenizers import LANGUAGES, NASTY, toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.tokenizer import manifest as manifests
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_subset, open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

REFERENCES = {"fi": toy(8).full().to_json(), "en": toy(9).full().to_json()}
# Nine languages: the packed bits of a row need a second byte.
MANY = ("en", "fi", "fr", "el", "sv", "da", "de", "nl", "it")


@pytest.fixture
def tokenizer() -> ModularTokenizer:
    return toy(7, merges_each=15, languages=MANY)


@pytest.fixture
def directory(tmp_path: Path, tokenizer: ModularTokenizer) -> Path:
    tokenizer.save(tmp_path / "tok", REFERENCES)
    return tmp_path / "tok"


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


EACH_SEGMENTATION = pytest.mark.parametrize(
    "tokenizer",
    [toy(7, merges_each=15, languages=MANY), unigram(), fewest_tokens()],
    ids=lambda tokenizer: tokenizer.segmentation,
)


@EACH_SEGMENTATION
def test_save_load_roundtrip(directory: Path, tokenizer: ModularTokenizer) -> None:
    loaded = ModularTokenizer.load(directory)
    names = "algorithm", "segmentation", "languages", "k", "pretokenizer", "settings", "corpora"
    for name in names:
        assert getattr(loaded, name) == getattr(tokenizer, name)
    assert loaded.signature == tokenizer.signature
    assert (loaded.merges == tokenizer.merges).all()
    for name in ("token_membership", "merge_membership"):
        assert getattr(loaded, name).equals(getattr(tokenizer, name))
    assert loaded.vocabulary.tokens() == tokenizer.vocabulary.tokens()
    assert loaded.full().to_json() == (directory / "tokenizer.json").read_bytes()
    assert read_references(directory) == REFERENCES
    assert list(read_references(directory)) == ["en", "fi"]
    files = [
        "README.md",
        "arrays.safetensors",
        "manifest.json",
        "references/en.json",
        "references/fi.json",
    ]
    files += ["tokenizer.json", *["tokenizer.model"] * (tokenizer.segmentation == "unigram")]
    assert sorted(files_of(directory)) == files
    if tokenizer.segmentation == "unigram":
        assert (directory / "tokenizer.model").read_bytes() == loaded.full().to_model()


@EACH_SEGMENTATION
def test_saving_is_deterministic(directory: Path, tokenizer: ModularTokenizer) -> None:
    before = files_of(directory)
    loaded = ModularTokenizer.load(directory)
    loaded.save(directory, read_references(directory))
    assert files_of(directory) == before
    tokenizer.save(directory.parent / "other", dict(reversed(REFERENCES.items())))
    assert files_of(directory.parent / "other") == before
    assert sorted(path.name for path in directory.parent.iterdir()) == ["other", "tok"]


def test_directories_with_other_files_are_refused(
    tmp_path: Path, tokenizer: ModularTokenizer
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"home: contains other files \(thesis.txt\)"):
        tokenizer.save(home)
    with pytest.raises(UsageError, match=r"fi.json: names a file, .* such as fi"):
        tokenizer.save(tmp_path / "fi.json")
    with pytest.raises(UsageError, match="is a file, and a directory is written"):
        tokenizer.save(home / "thesis.txt")
    assert files_of(home) == {"thesis.txt": b"years of work"}


def test_saving_again_keeps_the_references(directory: Path) -> None:
    ModularTokenizer.load(directory).save(directory)
    assert read_references(directory) == REFERENCES
    toy(1).save(directory)  # another tokenizer
    assert read_references(directory) == {}


def test_references_of_unknown_languages_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown languages: sw"):
        toy(1).save(tmp_path / "tok", {"sw": b"{}"})
    assert list(tmp_path.iterdir()) == []


def test_references_are_checked(directory: Path) -> None:
    path = directory / "references" / "fi.json"
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))
    with pytest.raises(ModtokError, match=r"fi.json: changed after it was written"):
        read_references(directory)
    path.unlink()
    with pytest.raises(ModtokError, match=r"fi.json: does not exist"):
        read_references(directory)


def failure(directory: Path) -> str:
    with pytest.raises(ModtokError) as caught:
        ModularTokenizer.load(directory)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ["manifest.json", "tokenizer.json", "arrays.safetensors"])
def test_damaged_files_are_reported(directory: Path, name: str) -> None:
    path = directory / name
    good = path.read_bytes()
    rng = random.Random(name)
    for length in (0, 1, 7, 8, 100, len(good) // 2, len(good) - 3):
        path.write_bytes(good[:length])
        assert name in failure(directory)
    for _ in range(60):
        bad = bytearray(good)
        # A flipped length of a header of arrays may ask for more than there is.
        bad[rng.randrange(len(bad) - 1)] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(bad))
        assert str(directory) in failure(directory)
        if name == "arrays.safetensors":
            with pytest.raises(ModtokError, match=r"arrays\.safetensors: "):
                open_subset(directory, ["en"])
    path.unlink()
    assert name in failure(directory)


def leaves(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list):
        items = enumerate(node[:2])
    if path:
        yield path
    for key, value in items:
        yield from leaves(value, (*path, key))


def changed(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return "x"
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return value[:-1] if value else ["x"]
    return {**value, "x": 1}


def edits(document: Any) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """The document with one thing changed, of another type, or missing."""
    for path in leaves(document):
        for kind in ("changed", "wrong type", "missing"):
            copy = json.loads(json.dumps(document))
            node = copy
            for key in path[:-1]:
                node = node[key]
            if kind == "missing":
                del node[path[-1]]
            else:
                old = node[path[-1]]
                node[path[-1]] = changed(old) if kind == "changed" else [[old]]
            yield path, kind, copy


# What decides nothing that other files also say may be edited by who mends the checksum.
FREE = {"written_by", "algorithm", "k", "settings", "corpus", "reference"}
FREE |= {"bytes", "sha256", "files"}


def test_every_edit_of_the_manifest_is_found(directory: Path) -> None:
    """By the checksum, and without it by other checks."""
    path = directory / "manifest.json"
    count = 0
    for place, kind, edited in edits(json.loads(path.read_bytes())):
        path.write_text(json.dumps(edited))
        assert "field '" in failure(directory), (place, kind)
        count += 1
        unknown_key = isinstance(place[-1], int) and kind == "changed" and place[0] == "languages"
        if place[-1] != "checksum" and not FREE & set(place) and not unknown_key:
            edited["checksum"] = manifests._checksum(edited)
            path.write_text(json.dumps(edited))
            assert "field '" in failure(directory), (place, kind)
    assert count > 150


@pytest.mark.parametrize(
    "outside", ["", "../secret", "/etc/passwd", "references/../../x", "a\\..\\b"]
)
def test_paths_outside_the_directory_are_refused(directory: Path, outside: str) -> None:
    path = directory / "manifest.json"
    sound = path.read_bytes()
    for where in ("files", "reference"):
        manifest = json.loads(sound)
        if where == "files":
            manifest["files"][outside] = manifest["files"]["references/fi.json"]
        else:
            manifest["languages"][1]["reference"] = outside
        manifest["checksum"] = manifests._checksum(manifest)
        path.write_text(json.dumps(manifest))
        message = failure(directory)
        assert "manifest.json: field '" in message
        assert "points outside" in message
        with pytest.raises(ModtokError, match="points outside"):
            read_references(directory)


def test_other_directories_are_refused(tmp_path: Path) -> None:
    assert "manifest.json: does not exist" in failure(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    assert "not a JSON object" in failure(tmp_path)


@pytest.mark.parametrize("kind", MADE)
def test_an_opened_subset_is_that_of_the_whole_tokenizer(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "t"
    MADE[kind]().save(directory)
    whole, text = ModularTokenizer.load(directory), "abc ab é 1 किe"
    (directory / "tokenizer.json").unlink()  # not needed
    for size in range(1, len(LANGUAGES) + 1):
        for languages in combinations(LANGUAGES, size):
            ours, expected = open_subset(directory, languages), whole.subset(languages)
            assert ours.to_json() == expected.to_json()
            assert (ours.languages, ours.name) == (expected.languages, expected.name)
            assert ours.global_ids.tolist() == expected.global_ids.tolist()
            assert ours.encode(text).tolist() == expected.encode(text).tolist()
    pair = open_subset(directory, ["fr", "en"])  # its file is opened as what it is
    piped = open_tokenizer("-", stdin=io.BytesIO(pair.to_json()))
    assert isinstance(piped, Subtokenizer)
    assert (piped.name, piped.languages, piped.segmentation) == ("stdin@en,fr", ("en", "fr"), kind)
    assert (piped.signature, piped.parent_signature) == (pair.signature, whole.signature)
    assert piped.to_json() == pair.to_json()
    assert [piped.encode(each).tolist() for each in NASTY] == [
        pair.encode(each).tolist() for each in NASTY
    ]
    ours, full = open_subset(directory, None, name="x"), whole.full("x")
    assert ours.to_json() == full.to_json()
    assert (ours.languages, ours.name) == (full.languages, "x")
    with pytest.raises(UsageError, match="no language 'ru'"):
        open_subset(directory, ["ru"])


def sign(directory: Path, **arrays: np.ndarray | None) -> None:
    """Replace or remove arrays, and mend checksums as someone who knows how would."""
    path = directory / manifests.ARRAYS
    tensors = {**load_tensors(path.read_bytes()), **arrays}
    path.write_bytes(save_tensors({name: t for name, t in tensors.items() if t is not None}))
    manifest = json.loads((directory / manifests.NAME).read_bytes())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest["files"][manifests.ARRAYS]["sha256"] = digest
    manifest["checksum"] = manifests._checksum(manifest)
    (directory / manifests.NAME).write_text(json.dumps(manifest))


def with_row(array: np.ndarray, row: int, value: object) -> np.ndarray:
    array = array.copy()
    array[row] = value
    return array


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("merge_table", lambda t: with_row(t, -1, 10**6), "unknown token id"),
        ("merge_table", lambda t: with_row(t, -1, -1), "unknown token id"),
        ("merge_table", lambda t: t[::-1].copy(), "field 'merge"),
        ("merge_table", lambda t: None, "field 'merge_table': missing"),
        ("token_lengths", lambda t: with_row(t, 9, 0), "token_lengths"),
        ("token_lengths", lambda t: with_row(t, 9, 9), "token_lengths"),
        ("token_data", lambda t: t[:-1].copy(), "token_lengths"),
        ("token_data", lambda t: with_row(t, 0, 65), "specials"),
        ("token_data", lambda t: with_row(t, -1, 0), "does not give its result"),
        *(
            (name, change, said or f"field '{name}'")
            for name in ("tokens", "merges")
            for change, said in (
                (lambda t: with_row(t, -1, 0xFF), "bits beyond"),
                (lambda t: with_row(t, len(t) // 2, 0), ""),
                (lambda t: t ^ 2, ""),
                (lambda t: None, ""),
                (lambda t: t[:-1].copy(), ""),
                (lambda t: np.hstack([t, t]), ""),
                (lambda t: t.astype(np.int16), ""),
            )
        ),
        ("token_counts", lambda t: None, "field 'token_counts': missing"),
        ("token_counts", lambda t: t[:-1].copy(), "field 'token_counts': int64"),
        ("token_counts", lambda t: t.astype(np.float64), "field 'token_counts': float64"),
        ("token_counts", lambda t: t * 2, "field 'signature'"),
    ],
)
def test_wrong_arrays_with_right_checksums(
    name: str, change: Callable, said: str, tmp_path: Path
) -> None:
    """Of a subset the signature of T is not known; T does not look at the membership."""
    made = fewest_tokens() if name == "token_counts" else toy(5)
    made.save(tmp_path / "t")
    arrays = load_tensors((tmp_path / "t" / manifests.ARRAYS).read_bytes())
    sign(tmp_path / "t", **{name: change(arrays[name])})
    assert re.search(said, failure(tmp_path / "t"))
    for languages in (LANGUAGES, None):
        if "signature" in said or (languages is None and name in ("tokens", "merges")):
            continue
        with pytest.raises(ModtokError, match=said):
            open_subset(tmp_path / "t", languages)
