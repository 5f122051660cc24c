"""Damaged files of every format are read, or refused with one line.

Twelve mutations of each format; `python -m benchmarks damaged_files` makes a thousand.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helpers.damaged import damage, formats, samples
from helpers.damaged.formats import FORMATS
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.base.records import from_json
from modtok_cli.construct.states import _is_valid, merges_from_arrays, merges_to_arrays
from modtok_cli.learn.pieces import LearnedPieces
from modtok_cli.model.architecture.families.llama import Llama, llama
from modtok_cli.model.slice.slice_directory import SliceFacts, read_facts
from modtok_cli.reports.report import report
from modtok_cli.text.counts import CorpusSize, WordCounts
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.table_files import check_counts
from modtok_cli.tokenizer.encoding.external import LibraryEncoder
from modtok_cli.tokenizer.formats.hugging_face import LibraryTokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.training import checkpoint
from modtok_cli.training.checkpoint import checkpoint_files as files
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.stored_config import config_as_json, config_from_json

# Others take long to make, or their libraries may end the process: the benchmark tries them.
LIGHT = [form for form in FORMATS if form.needs == "light"]
TRIED = 12


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    samples.light_samples(root)
    formats.SAMPLES = root
    return root


def test_damaged_files_of_every_format(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = 0
    for number, form in enumerate(LIGHT):
        place = tmp_path / str(number)
        data = (sound / form.file).read_bytes()
        path = formats.place(form, sound, place)
        path.write_bytes(data)
        form.read(path)  # the sound one is read
        for index in range(TRIED):
            formats.place(form, sound, place)
            path.write_bytes(damage.damaged(form, data, 1, index))
            if form.repair:
                form.repair(path)
            row = damage.attempt(form, path, index)
            assert row["end"] in ("refused", "loaded"), (form.name, index, row)
            refused += row["end"] == "refused"
    assert refused > len(LIGHT) * TRIED // 3  # the damage is real


def test_from_json_checks_every_field() -> None:
    sizes = ("layers", "hidden_size", "ffn", "heads", "kv_heads", "head_width")
    shape = dict(zip(sizes, (2, 64, 96, 8, 4, 8), strict=True))
    assert from_json(Llama, shape, "here") == llama(2, 64, 8, 96)
    for change, message in (
        ({"layers": "2"}, "field 'shape.layers' is not a whole number"),
        ({"layers": True}, "field 'shape.layers' is not a whole number"),
        ({"layers": 1 << 70}, "field 'shape.layers' is out of range"),
        ({"more": 1}, "field 'shape.more' is not known"),
    ):
        with pytest.raises(ModtokError, match=f"here: {message}"):
            from_json(Llama, shape | change, "here", "shape.")
    with pytest.raises(ModtokError, match="field 'ffn' is missing"):
        from_json(Llama, {name: 8 for name in sizes if name != "ffn"}, "here")
    config = resolve(RunSettings(mix="en=0.5", langs=("en", "fi")), gpu=False)
    again = orjson.loads(orjson.dumps(config_as_json(config)))
    assert config_as_json(config_from_json(again)) == config_as_json(config)
    for name, value in (("p", float("nan")), ("mix", {"en": "x"}), ("langs", [1]), ("dtype", "x")):
        table = OPTIONS[name].section
        with pytest.raises(ModtokError, match=f"field 'config.{table}.{name}': expected"):
            config_from_json(again | {table: again[table] | {name: value}})
    del again["optimizer"]["clip"]
    with pytest.raises(ModtokError, match=r"field 'config\.optimizer\.clip': is missing"):
        config_from_json(again)


def test_merge_without_its_prefix_is_refused(sound: Path) -> None:
    """`tokenizers` aborts the process on it."""
    document = json.loads((sound / "bpe.json").read_bytes())
    document["model"]["continuing_subword_prefix"] = "é"
    with pytest.raises(ModtokError, match=r"model.merges\[0\]': the second part does not begin"):
        open_bytes(json.dumps(document).encode(), "x", "x.json")


def test_work_stops_where_a_pattern_backtracks_without_end(
    sound: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The library panics after ten million steps, in each text, and prints that each time."""
    document = json.loads((sound / "external.json").read_bytes())
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$|."}, "behavior": "Isolated"}
    after = document["pre_tokenizer"]
    splits = [{**pattern, "invert": False}, *([after] if after else [])]
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splits}
    data = json.dumps(document).encode()
    texts = [f"{'a' * 40}b {number}" for number in range(200)]
    message = "the tokenizers library cannot encode: Onig: Regex search error"
    with pytest.raises(ModtokError, match=message):
        LibraryTokenizer("x", data, "x").encode_batch(texts)
    with pytest.raises(ModtokError, match=message):
        LibraryEncoder(data, "x").texts([text.encode() for text in texts])
    assert capfd.readouterr().err.count("panicked") <= 2


def test_ranks_out_of_range_are_refused(sound: Path) -> None:
    lines = (sound / "ranks.tiktoken").read_bytes().splitlines()
    lines[3] = lines[3].split()[0] + b" 4294967296"
    with pytest.raises(ModtokError, match="a rank is out of range"):
        open_bytes(b"\n".join(lines), "x", "x")
    tekken = json.loads((sound / "tekken.json").read_bytes())
    tekken["vocab"][300 - 44]["rank"] = 7
    with pytest.raises(ModtokError, match="two tokens have one rank"):
        open_bytes(json.dumps(tekken).encode(), "x", "x")
    tekken["config"]["default_num_special_tokens"] = -3
    with pytest.raises(ModtokError, match="control tokens"):
        open_bytes(json.dumps(tekken).encode(), "x", "x")
    assert base64.b64decode(lines[0].split()[0])


def test_overflowing_offsets_are_refused() -> None:
    """Their differences wrap around and seem to ascend."""
    far = np.int64(2**62)
    offsets = np.array([0, far, -far, 3], dtype=np.int64)
    table = WordCounts(
        np.frombuffer(b"abc", dtype=np.uint8), offsets, np.ones(3, dtype=np.int64), BPE,
        CorpusSize(1, 3, 3),
    )  # fmt: skip
    for moved in (offsets, np.array([0, 5, 4, 3]), np.array([0, 2**63 - 1, 2, 3])):
        with pytest.raises(ModtokError, match="damaged count table: field 'offsets'"):
            check_counts(replace(table, offsets=moved), "x")
    halves = replace(table, data=np.frombuffer("éz".encode(), np.uint8), offsets=np.arange(4))
    with pytest.raises(ModtokError, match="field 'data' has words that are not UTF-8"):
        check_counts(halves, "x")


def test_arrays_of_a_journal_are_checked_each(sound: Path) -> None:
    """The core trusts shapes, types and ids of merges and of pieces."""
    learned = ModularTokenizer.load(sound / "bpe").learned()
    good = merges_to_arrays(learned)
    merges_from_arrays(good, learned.languages, learned.specials)
    data, offsets, merges = good["token_data"], good["token_offsets"], good["merges"]
    size = len(offsets) - 1
    wrong: dict[str, list[Any]] = {
        "token_data": [data.astype(np.int8), data[:-1], data[None]],
        "token_offsets": [
            offsets.astype(np.int32), offsets[::-1], offsets + 1, offsets[:200], offsets[:, None],
            np.where(np.arange(size + 1) == 9, offsets[-1], offsets), np.maximum(offsets, 1),
        ],
        "merges": [merges.astype(np.int64), merges[:, :2], merges[0], merges - size, merges + size],
    }  # fmt: skip
    for name in ("token_membership", "merge_membership"):
        planes = good[name]
        wrong[name] = [planes.astype(np.int32), planes[:, 1:], planes[0], np.vstack([planes] * 2)]
    for name, values in wrong.items():
        for value in values:
            with pytest.raises((ValueError, LookupError)):
                merges_from_arrays({**good, name: value}, learned.languages, learned.specials)
    few = {
        "token_data": data[: offsets[200]], "token_offsets": offsets[:201], "merges": merges[:0],
        "token_membership": good["token_membership"][:, :200],
        "merge_membership": good["merge_membership"][:, :0],
    }  # fmt: skip
    with pytest.raises(ValueError, match="do not hold learned merges"):
        merges_from_arrays(few, learned.languages, learned.specials)
    with pytest.raises(ValueError, match="do not hold learned merges"):
        merges_from_arrays(good, ["../en", *learned.languages[1:]], learned.specials)
    scores = np.zeros(size)
    pieces = LearnedPieces(
        ("en",), learned.specials, data, offsets, scores, learned.token_membership
    )
    assert _is_valid(pieces)
    del wrong["merges"], wrong["token_membership"], wrong["merge_membership"]
    wrong["token_offsets"].append(np.where(np.arange(size + 1) == 9, offsets[8], offsets))
    wrong["scores"] = [scores.astype(np.float32), scores[1:], scores[None], scores - np.inf]
    for name, values in wrong.items():
        assert not any(_is_valid(replace(pieces, **{name: value})) for value in values)


def test_wrong_values_in_rows_omit_only_their_section(sound: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    good = (sound / "shown" / "results" / "nsl.jsonl").read_bytes()
    (results / "good.jsonl").write_bytes(good)
    for number, (field, value) in enumerate(
        (("language", []), ("tokenizer", 0.5), ("nsl", "x"), ("tokens", {}))
    ):
        rows = [json.loads(line) | {field: value} for line in good.splitlines()]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (results / f"bad{number}.jsonl").write_text(text)
    progress = Silent()
    sections = report(tmp_path, tmp_path / "page.html", progress=progress)
    shown = [row["section"] for row in sections]
    assert "Tokens relative to monolingual tokenizers" in shown
    assert "not in the format that modtok writes" in progress.warnings[0]
    assert all("\n" not in line for line in progress.warnings)


def facts(**change: object) -> bytes:
    document = {
        "format": 4, "inputs": ["en"], "outputs": ["en"], "end_of_text": 0, "context": 32,
        "dtype": "float32", "tokenizer": "ab", "signature": "cd", "run": "r",
        "weights": "0", "full_inputs": False, "full_outputs": False, "bos": True,
        "step": 4, "ids": [0, 1, 2],
        "shape": llama(1, 32, 8, 48).as_json(),
    } | change  # fmt: skip
    return json.dumps(document).encode()


def test_slice_facts_are_range_checked(tmp_path: Path) -> None:
    file = tmp_path / "modtok.json"
    file.write_bytes(facts())
    assert isinstance(read_facts(tmp_path), SliceFacts)
    shape = json.loads(facts())["shape"]
    for change, field in (
        ({"dtype": "load"}, "dtype"),  # it is looked up in torch
        ({"ids": [0, 1, -1]}, "ids"),
        ({"end_of_text": 3}, "end_of_text"),
        ({"row_of_in": [0, 9], "row_of_out": [0]}, "row_of_in"),
    ):
        file.write_bytes(facts(**change))
        with pytest.raises(ModtokError, match=f"field '{field}' is out of range"):
            read_facts(tmp_path)
    for change in (
        {"ids": [10**30]},
        {"ids": ["a"]},
        {"inputs": "en"},
        {"shape": []},
        {"shape": shape | {"layers": 10**9}},
        {"shape": shape | {"head_width": 7}},
    ):
        file.write_bytes(facts(**change))
        with pytest.raises(ModtokError, match="is damaged"):
            read_facts(tmp_path)


def written(place: Path, **change: object) -> Path:
    """A checkpoint with the files that `check` reads."""
    step = place / "step-00000004"
    step.mkdir(parents=True, exist_ok=True)
    (step / "shard-0-of-1.safetensors").write_bytes(b"weights")
    size = {"bytes": 7, "crc": files._crc(step / "shard-0-of-1.safetensors")}
    state = {
        "step": 4,
        "shards": 1,
        "parts": 1,
        "files": {"shard-0-of-1.safetensors": size},
        "positions": {},
    }
    state |= change
    (step / "state.json").write_bytes(orjson.dumps({"crc": files.state_crc(state), **state}))
    return step


def test_checkpoint_state_is_checked(tmp_path: Path) -> None:
    assert checkpoint.check(written(tmp_path))[0] == ""
    sound = orjson.loads((written(tmp_path) / "state.json").read_bytes())
    crc = files.state_crc(sound)
    for change in (
        {"crc": None},
        {"crc": crc, "positions": {"0": {"en": [0, 1]}}},  # changed after it was written
        {"step": "4"}, {"shards": 10**12}, {"files": {}},
        {"files": {"shard-0-of-1.safetensors": 1}},
        {"positions": {"0": {"en": [0, -1]}}}, {"positions": {"x": {}}}, {"positions": 3},
    ):  # fmt: skip
        wrong, state = checkpoint.check(written(tmp_path, **change))
        assert wrong.endswith("state.json: damaged or missing"), change
        assert state is None
