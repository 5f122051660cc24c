"""A subset opened by itself is that of the whole tokenizer, and is checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from helpers.made_tokenizers import MADE
from helpers.toy_tokenizers import LANGUAGES, toy
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.modular import manifest as manifests
from modtok_cli.modular.open import open_subset
from modtok_cli.modular.tokenizer import ModularTokenizer

TEXT = "abc ab é 1 किe"


@pytest.fixture(params=MADE)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    MADE[request.param]().save(tmp_path / "t")
    return tmp_path / "t"


def test_it_is_the_subset_of_the_whole_tokenizer(directory: Path) -> None:
    whole = ModularTokenizer.load(directory)
    (directory / "tokenizer.json").unlink()  # not needed
    for size in range(1, len(LANGUAGES) + 1):
        for languages in combinations(LANGUAGES, size):
            ours, expected = open_subset(directory, languages), whole.subset(languages)
            assert ours.to_json() == expected.to_json()
            assert (ours.languages, ours.name) == (expected.languages, expected.name)
            assert ours.global_ids.tolist() == expected.global_ids.tolist()
            assert ours.encode(TEXT).tolist() == expected.encode(TEXT).tolist()
    ours, full = open_subset(directory, None, name="x"), whole.full("x")
    assert ours.to_json() == full.to_json()
    assert (ours.languages, ours.name) == (full.languages, "x")
    with pytest.raises(UsageError, match="no language 'ru'"):
        open_subset(directory, ["ru"])


def sign(directory: Path, **arrays: np.ndarray) -> None:
    """Replace arrays, and checksums as someone who knows how would."""
    path = directory / manifests.ARRAYS
    path.write_bytes(save_tensors({**load_tensors(path.read_bytes()), **arrays}))
    manifest = json.loads((directory / manifests.NAME).read_bytes())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest["files"][manifests.ARRAYS]["sha256"] = digest
    manifest["checksum"] = manifests._checksum(manifest)
    (directory / manifests.NAME).write_text(json.dumps(manifest))


Change = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def with_row(array: np.ndarray, row: int, value: object) -> np.ndarray:
    array = array.copy()
    array[row] = value
    return array


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: {"merge_table": with_row(t["merge_table"], -1, 10**6)}, "unknown token id"),
        (lambda t: {"merge_table": with_row(t["merge_table"], -1, -1)}, "unknown token id"),
        (lambda t: {"merge_table": t["merge_table"][::-1].copy()}, "field 'merge"),
        (lambda t: {"token_lengths": with_row(t["token_lengths"], 9, 0)}, "token_lengths"),
        (lambda t: {"token_lengths": with_row(t["token_lengths"], 9, 9)}, "token_lengths"),
        (lambda t: {"token_data": t["token_data"][:-1].copy()}, "token_lengths"),
        (lambda t: {"token_data": with_row(t["token_data"], 0, 65)}, "specials"),
        (lambda t: {"token_data": with_row(t["token_data"], -1, 0)}, "does not give its result"),
        (lambda t: {"tokens": with_row(t["tokens"], -1, 0xFF)}, "bits beyond|field 'tokens'"),
        (lambda t: {"tokens": with_row(t["tokens"], 300, 0)}, "field 'tokens'"),
    ],
)
def test_wrong_arrays_with_right_checksums(change: Change, said: str, tmp_path: Path) -> None:
    toy(5).save(tmp_path / "t")
    arrays = load_tensors((tmp_path / "t" / manifests.ARRAYS).read_bytes())
    sign(tmp_path / "t", **change(arrays))
    for languages in (LANGUAGES, None):
        if languages is None and "tokens" in said and "bits" not in said:
            continue  # T does not look at the membership
        with pytest.raises(ModtokError, match=said):
            open_subset(tmp_path / "t", languages)


def test_any_flipped_bit_of_the_arrays_is_found(directory: Path) -> None:
    path = directory / manifests.ARRAYS
    good = path.read_bytes()
    for place in [*range(0, 600, 13), *range(600, len(good), len(good) // 40)]:
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        path.write_bytes(bytes(bad))
        with pytest.raises(ModtokError, match=r"arrays\.safetensors: "):
            open_subset(directory, ["en"])
    for length in (0, 7, 8, 100, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(ModtokError, match=r"arrays\.safetensors: "):
            open_subset(directory, ["en"])
