"""Strings for paths and languages, tokenizer objects for directories."""

from __future__ import annotations

import linecache
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import modtok_cli as modtok
from modtok_cli.base.public import PythonWarnings

SAMPLE = Path(__file__).parents[2] / "modtok_cli" / "samples"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("api") / "tokenizer"
    modtok.bpe_seq("fi,fr", data=str(SAMPLE / "data"), output=str(output), k=600)
    return output


def test_subset_takes_strings_and_lists(directory: Path) -> None:
    tokenizer = modtok.load(str(directory))
    assert tokenizer.subset(["fr"]).languages == ("fr",)
    for languages in ("fr,fi", "fra_Latn, fi", ("fi", "fr")):
        assert tokenizer.subset(languages).languages == ("fi", "fr")
    with pytest.raises(modtok.UsageError, match="languages is empty"):
        tokenizer.subset("")


def test_saved_subset_equals_extracted_file(directory: Path, tmp_path: Path) -> None:
    tokenizer = modtok.load(directory)
    tokenizer.subset("fi").save(str(tmp_path / "one.json"))
    modtok.extract(directory, "fi", tmp_path / "two.json")
    modtok.extract(tokenizer, ["fi"], tmp_path / "three.json")
    contents = {path.read_bytes() for path in tmp_path.iterdir()}
    assert contents == {tokenizer.subset("fi").to_json()}
    kept = tmp_path / "fi.model"
    kept.write_bytes(b"old")
    with pytest.raises(modtok.UsageError):
        tokenizer.subset("fi").save(kept)  # a format that cannot hold it
    assert kept.read_bytes() == b"old"


def test_repr_names_what_it_is(directory: Path) -> None:
    tokenizer = modtok.load(directory)
    assert repr(tokenizer) == (
        "ModularTokenizer(algorithm='bpe-seq', segmentation='merges', "
        f"size={tokenizer.size}, k=600, languages=['fi', 'fr'])"
    )
    assert repr(tokenizer.subset("fr")) == (
        "Subtokenizer(name='fr', segmentation='merges', size=600, languages=['fr'])"
    )


def test_objects_measure_like_their_paths(directory: Path) -> None:
    text, references = str(SAMPLE / "parallel" / "fi.txt"), str(directory / "references")
    tokenizer = modtok.load(directory)
    objects = modtok.nsl([tokenizer.subset("fi"), tokenizer], text, references=references)
    paths = modtok.nsl([f"{directory}@fi", directory], [text], references=references)
    assert len(objects) == len(paths) == 2
    for ours, theirs in zip(objects, paths, strict=True):
        assert ours | {"tokenizer": ""} == theirs | {"tokenizer": ""}


def test_contents_and_comparison(directory: Path, tmp_path: Path) -> None:
    tokenizer = modtok.load(directory)
    tokenizer.subset("fi").save(tmp_path / "fi.json")
    rows = modtok.inspect(tokenizer)
    assert [row["language"] for row in rows] == ["fi", "fr", "union"]
    assert rows == modtok.inspect(str(directory))
    (own, union) = modtok.inspect(f"{directory}@fi")
    assert [own, union] == modtok.inspect(directory, "fi")
    (one,) = modtok.inspect(tmp_path / "fi.json")
    assert one["signature"] == union["signature"]
    with pytest.raises(
        modtok.UsageError, match=r"fi\.json: languages requires a modular directory"
    ):
        modtok.inspect(tmp_path / "fi.json", "fi")
    same = modtok.compare_tokenizers(tokenizer.subset("fi"), tmp_path / "fi.json")
    assert (same.relation, same.reason) == (
        "equal", f"the first and {tmp_path / 'fi.json'} are equal"
    )  # fmt: skip
    both = modtok.compare_tokenizers(directory, f"{directory}@fi")
    assert {row["difference"] for row in both.rows()} >= {"language", "token", "verdict"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: modtok.bpe("fi", k="3000"), "k: expected a whole number, got '3000'"),  # type: ignore[arg-type]
        (lambda: modtok.bpe_seq("fi", k=True), "k: expected a number, or LANG=N, got True"),
        (lambda: modtok.bpe_seq("fi", k="fi=3,3,4"), "k: expected one budget for each language, got"
         " 'fi=3,3,4'"),
        (lambda: modtok.bpe("fi", k=True), "k: expected a whole number, got True"),
        (lambda: modtok.bpe(joint="yes"), "joint: expected true or false, got 'yes'"),  # type: ignore[arg-type]
        (lambda: modtok.nsl("t", "x", language=3), "language: expected text, got 3"),  # type: ignore[arg-type]
        (lambda: modtok.check("t", 3), "texts: expected a path or a list of paths, got 3"),  # type: ignore[arg-type]
        (
            lambda: modtok.nsl([], "x"),
            "tokenizers: expected a path or a tokenizer or a list of these, got []",
        ),
        (lambda: modtok.load(3), "spec: expected a path, got 3"),  # type: ignore[arg-type]
        (lambda: modtok.extract("t", 3), "languages: expected codes, a string or list, got 3"),  # type: ignore[arg-type]
        (lambda: modtok.generate("t", 3), "prompts: expected a text or a list of texts, got 3"),  # type: ignore[arg-type]
        (lambda: modtok.pretrain({"steps": 3}), "settings: expected RunSettings, got {'steps': 3}"),  # type: ignore[arg-type]
        (lambda: modtok.RunSettings(steps="3"), "steps: expected a whole number, got '3'"),  # type: ignore[arg-type]
        (
            lambda: modtok.load_generator("t", "f,f"),
            "languages repeats 'f'; give it once",
        ),
    ],
)  # fmt: skip
def test_wrong_types_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(modtok.UsageError) as caught:
        call()
    assert str(caught.value) == message


def test_methods_name_what_is_wrong(directory: Path) -> None:
    tokenizer = modtok.load(directory)
    finnish: Any = tokenizer.subset("fi")
    wrong = "12", None, [1.5], [True], 2**70, [[1], [2, 3]]
    for ids in wrong:
        with pytest.raises(modtok.UsageError, match=r"^ids: expected token ids, got "):
            finnish.decode(ids)
        with pytest.raises(modtok.UsageError, match=r"^ids: expected token ids, got "):
            finnish.decode_bytes(ids)
    ids = finnish.encode("talo")
    for fine in (ids, ids.tolist(), tuple(ids), ids.astype(np.uint16), torch.tensor(ids)):
        assert finnish.decode(fine) == "talo"
    assert finnish.decode([]) == ""
    with pytest.raises(modtok.UsageError, match=r"^max_length: expected 0 or more, got '3'$"):
        finnish.encode("talo", max_length="3")
    for languages in (None, 5, [5]):
        with pytest.raises(modtok.UsageError, match=r"^languages: expected codes, a string or li"):
            tokenizer.subset(languages)  # type: ignore[arg-type]
    with pytest.raises(modtok.UsageError, match=r"^languages repeats 'fi'; "):
        tokenizer.encode("talo", languages="fi,fi")


@pytest.mark.parametrize("wrong", [3, None, b"t"])
def test_what_is_no_tokenizer_is_named(wrong: Any) -> None:
    either = "a path or a tokenizer"
    for call, message in (
        (lambda: modtok.compare_tokenizers("t", wrong), f"second: expected {either}"),
        (lambda: modtok.extract(wrong, "fi"), "tokenizer: expected a path or a modular tokenizer"),
        (lambda: modtok.check(["t", wrong], "x"), f"tokenizers: expected {either} or a list of"),
        (lambda: modtok.nsl(wrong, "x"), f"tokenizers: expected {either} or a list of these, got"),
    ):
        with pytest.raises(modtok.UsageError) as caught:
            call()
        assert str(caught.value).startswith(message)


def test_warnings_have_the_line_of_the_caller(directory: Path) -> None:
    progress = PythonWarnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        modtok.check(directory, SAMPLE / "parallel" / "en.txt", language="und")
        thread = threading.Thread(target=progress.warn, args=["from a thread"])
        thread.start()
        thread.join()
    caught = [each for each in caught if each.category is modtok.ModtokWarning]
    assert [warning.filename for warning in caught] == [__file__] * 2
    assert "modtok.check(" in linecache.getline(__file__, caught[0].lineno)
    assert "PythonWarnings()" in linecache.getline(__file__, caught[1].lineno)


def test_messages_have_names_of_parameters(directory: Path, tmp_path: Path) -> None:
    """Warnings as errors, and what the command line would refuse."""
    options: dict[str, Any] = {"data": SAMPLE / "data", "output": directory}
    with pytest.warns(modtok.ModtokWarning, match="these settings; force builds it again"):
        modtok.bpe_seq("fi,fr", k=600, **options)
    with pytest.raises(modtok.UsageError, match=r"^passes: .* with 1, not .*; omit passes, or"):
        modtok.bpe_seq(append="sw", passes=2, **options)
    body = modtok.Reading(field="body", errors="skip")
    with pytest.raises(modtok.UsageError, match=r"^without size, .*: omit reading.errors, reading"):
        modtok.tokens(directory, "fi", reading=body)
    with pytest.raises(
        modtok.UsageError, match=r"read without texts: omit reading.errors, reading"
    ):
        modtok.extract(directory, "fi", reading=body)
    with pytest.raises(modtok.UsageError, match=r"no text given: omit reading.errors, reading"):
        modtok.cost(reading=body)


def test_unigram_weights_may_be_a_mapping(tmp_path: Path) -> None:
    kept = []
    for name, weights in (("one", {"fi": 2.0}), ("two", {"fi": 1.0}), ("three", None)):
        output = tmp_path / name
        modtok.unigram_merge(
            "fi,fr", data=SAMPLE / "data", output=output, k=400, weights=weights, iterations=1
        )
        kept.append(modtok.load(output).signature)
    assert kept[0] != kept[1]
    assert kept[1] == kept[2]


def test_load_takes_what_commands_take(directory: Path, tmp_path: Path) -> None:
    whole = modtok.load(directory)
    subset = modtok.load(f"{directory}@fi")
    subset.save(file := tmp_path / "fi.json")
    assert isinstance(whole, modtok.ModularTokenizer)
    assert subset == whole.subset("fi") == modtok.load(file)
    with pytest.raises(modtok.UsageError, match="does not exist"):
        modtok.load(tmp_path / "none.json")
