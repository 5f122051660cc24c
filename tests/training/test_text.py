"""Stores and packers: which bytes become which batch."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.python_processes import Python
from helpers.text_store import text_store
from modtok_cli.base.errors import ModtokError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.text import parallel
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Spans
from modtok_cli.training.data import text_store as storing
from modtok_cli.training.data import unpack as unpacking
from modtok_cli.training.data.sources import Sources
from modtok_cli.training.data.text_store import permuted, text_stores
from modtok_cli.training.heldout import first_texts
from modtok_cli.training.resolve import resolve
from modtok_cli.training.run_texts import text_files
from modtok_cli.training.settings import RunSettings


@given(st.integers(1, 500), st.integers(0, 10), st.integers(0, 3))
def test_a_permutation_holds_each_place_once(size: int, seed: int, epoch: int) -> None:
    assert sorted(permuted(i, size, seed, epoch) for i in range(size)) == list(range(size))


def test_store_keeps_documents_and_holds_some_out(tmp_path: Path) -> None:
    file = tmp_path / "fi.txt"
    file.write_text("".join(f"teksti {i}\n" for i in range(250)) + "\n", encoding="utf-8")
    store = text_store("fi", [file], tmp_path / "cache")
    assert len(store) == 250
    assert store.document(7) == b"teksti 7"
    assert store.document(7, 2, 5) == b"kst"
    assert list(store.held_out) == [99, 199]
    for epoch in range(2):
        positions = range(epoch * 248, (epoch + 1) * 248)
        read = [store.training_document(p, 1) for p in positions]
        assert sorted(read) == sorted(set(range(250)) - {99, 199})


def test_text_has_the_labels_of_the_tokenizer(tmp_path: Path) -> None:
    for name in ("both", "one"):
        (tmp_path / name).mkdir()
    for label, text in (("sr-Latn", "jedan dva tri"), ("sr-Cyrl", "један два три")):
        (tmp_path / "both" / f"{label}.txt").write_text(text + "\n", encoding="utf-8")
    shutil.copy(tmp_path / "both" / "sr-Latn.txt", tmp_path / "one")
    bpe_seq(data=tmp_path / "both", output=tmp_path / "tokenizer", k=262, references=False)
    settings = RunSettings(data=tmp_path / "one", tokenizer=tmp_path / "absent")
    assert list(text_files(resolve(settings, gpu=False))) == ["sr"]
    settings = RunSettings(data=tmp_path / "one", tokenizer=tmp_path / "tokenizer")
    assert list(text_files(resolve(settings, gpu=False))) == ["sr-Latn"]


class Killed(BaseException):
    """Instead of a kill of the process."""


def test_unpacking_continues_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any change of a file; what is unpacked is not read again."""
    files = []
    for part in range(2):
        files.append(tmp_path / f"{part}.txt")
        text = "".join(f"osa {part} rivi {i}\n\n" for i in range(3 + part))
        files[-1].write_text(text, encoding="utf-8")
    sources = Sources({"fi"}, tmp_path)
    whole = text_store("fi", files, tmp_path / "whole", sources=sources)
    assert whole.document(3) == b"osa 1 rivi 0"
    (tmp_path / "one.txt").write_bytes(b"".join(file.read_bytes() for file in files))
    one = text_store("fi", [tmp_path / "one.txt"], tmp_path / "one")
    assert one.checksum == whole.checksum  # the same text in other files
    changes, kill_at, read = [0], [0], []

    def counted(change: Any) -> Any:
        def counting(*args: Any, **options: Any) -> Any:
            changes[0] += 1
            if changes[0] == kill_at[0]:
                raise Killed
            return change(*args, **options)

        return counting

    for owner, name in (
        (unpacking, "_sync"), (Path, "replace"), (Path, "rename"), (Path, "unlink")
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    reader = unpacking.read_spans
    monkeypatch.setattr(
        unpacking, "read_spans", lambda file, *args, **options:
        read.append(file) or reader(file, *args, **options),
    )  # fmt: skip
    monkeypatch.setattr(parallel, "cores", lambda: 1)
    text_store("fi", files, tmp_path / "cache", sources=sources)
    for kill_at[0] in range(1, changes[0] + 1):
        shutil.rmtree(tmp_path / "cache")
        changes[0], read[:] = 0, []
        with pytest.raises(Killed):
            text_store("fi", files, tmp_path / "cache", sources=sources)
        again = text_store("fi", files, tmp_path / "cache", sources=sources)
        assert len(read) <= 3
        assert sorted(set(read)) == files
        assert [*(tmp_path / "cache").iterdir()] == [again.directory]
        names = sorted(path.name for path in whole.directory.iterdir())
        assert sorted(path.name for path in again.directory.iterdir()) == names
        for each in names:
            assert (again.directory / each).read_bytes() == (whole.directory / each).read_bytes()
    assert kill_at[0] > 10


def test_a_store_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("a\nb\n")
    (tmp_path / "runs").write_text("")
    with pytest.raises(ModtokError, match=r"cannot write: .*; choose another --runs"):
        text_store("en", [tmp_path / "en.txt"], tmp_path / "runs" / ".text")


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_documents(tmp_path: Path, count: int) -> None:
    file = tmp_path / "fi.txt"
    file.write_text("yksi\n" * count + "\n", encoding="utf-8")
    with pytest.raises(ModtokError, match=f"has {count} document{'s' * (count != 1)};"):
        text_store("fi", [file], tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", ""])
def test_sources_are_told_apart(tmp_path: Path, suffix: str) -> None:
    """By a field, or by files and directories; documents that are held out stay so."""
    rows = [
        {"text": f"teksti {i}", "from": {"name": "wiki" if i % 3 else "web"}} for i in range(250)
    ]
    (tmp_path / "fi" / "web").mkdir(parents=True)
    if suffix:
        write(tmp_path / f"fi.{suffix}", rows)
        files, field = [tmp_path / f"fi.{suffix}"], "from.name"
    else:
        files, field = [tmp_path / "fi" / "web" / "1.txt", tmp_path / "fi" / "wiki.txt"], None
        for file, part in zip(files, (rows[::3], rows[1::3] + rows[2::3]), strict=True):
            file.write_text("".join(f"{row['text']}\n" for row in part))
    sources = Sources({"fi"}, tmp_path, field)
    store = text_stores({"fi": files}, tmp_path / "cache", sources=sources)["fi"]
    expected = {"web": {row["text"] for row in rows[::3]}, "wiki": set()}
    expected["wiki"] = {row["text"] for row in rows} - expected["web"]
    held_out = {store.document(index).decode() for index in store.held_out}
    for name, texts in expected.items():
        own = replace(store, source=name)
        order = [own.training_document(i, 5) for i in range(2 * own.training_size)]
        for epoch in (order[: own.training_size], order[own.training_size :]):
            assert {store.document(i).decode() for i in epoch} == texts - held_out
            assert len(set(epoch)) == own.training_size
        assert order[: own.training_size] != order[own.training_size :]
        assert own.training_bytes == sum(map(len, texts - held_out))
    assert len({replace(store, source=name).checksum for name in ("", "web", "wiki")}) == 3
    if suffix:
        del rows[6]["from"]["name"]
        write(files[0], rows)
        message = rf"fi.{suffix}:7: no source in field 'from.name'; write the source of every"
    else:
        files.append(tmp_path / "fi.txt")
        files[-1].write_text("teksti\n")
        message = (
            r"fi.txt: is all text of 'fi', whose sources are weighted; put each source into fi/"
        )
    with pytest.raises(ModtokError, match=message):
        text_stores({"fi": files}, tmp_path / "cache", sources=sources)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".parquet":
        pa, pq = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@given(st.lists(st.binary(max_size=5), max_size=8), st.sampled_from(["joined", "lines", "any"]))
def test_packed_documents_are_one_after_the_other(documents: list[bytes], layout: str) -> None:
    order = range(len(documents)) if layout != "any" else reversed(range(len(documents)))
    data, starts, stops = b"+", [0] * len(documents), [0] * len(documents)
    for index in order:
        starts[index] = len(data)
        data += documents[index] + (b"\n" if layout == "lines" else b"")
        stops[index] = starts[index] + len(documents[index])
    padded = np.frombuffer(data + bytes(64), dtype=np.uint8)
    spans = Spans(padded, np.array(starts, np.int64), np.array(stops, np.int64))
    assert bytes(unpacking.packed(spans)) == b"".join(documents)


UNPACK = """
import sys
from pathlib import Path
from modtok_cli.training.data.sources import Sources
from modtok_cli.training.data.text_store import text_stores
root = Path(sys.argv[1])
files = {name: sorted((root / name).iterdir()) for name in ("fi", "fr")}
for store in text_stores(files, root / "cache", sources=Sources({"fi"}, root)).values():
    print(store.directory.name, store.checksum)
"""


def test_processes_share_the_files_and_survive_kills(tmp_path: Path) -> None:
    for name in ("fi", "fr"):
        (tmp_path / name).mkdir()
        for part in range(6):
            lines = "".join(f"{name} {part} {i}\n" for i in range(2000))
            (tmp_path / name / f"{part}.txt").write_text(lines)
    files = {name: sorted((tmp_path / name).iterdir()) for name in ("fi", "fr")}
    whole = text_stores(files, tmp_path / "whole", sources=Sources({"fi"}, tmp_path))
    call = ["-c", UNPACK, str(tmp_path)]
    running = [Python(call, stdout=subprocess.PIPE) for _ in range(3)]
    running[0].kill()  # before, while or after it unpacks
    said = [process.communicate()[0] for process in running]
    expected = "".join(f"{one.directory.name} {one.checksum}\n" for one in whole.values())
    assert said[1:] == [expected.encode()] * 2
    for store in whole.values():
        again = tmp_path / "cache" / store.directory.name
        names = sorted(path.name for path in store.directory.iterdir())
        assert names == sorted(path.name for path in again.iterdir())
        assert not [name for name in names if name.endswith(".sources")]
        for each in names:
            assert (again / each).read_bytes() == (store.directory / each).read_bytes()
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_store_that_another_process_completes_at_once_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may rename the directory between the rename of the last part and what follows it."""
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_text("yksi\nkaksi\n")
    other = storing._Wanted.of("fi", files, tmp_path / "cache", Reading(), Sources(), 2)
    real, completed = Path.replace, []

    def replace_and_join(self: Path, target: Path) -> Path:
        found = real(self, target)
        if target.parent == other.working and not completed:
            completed.extend([True] * other.join())
        return found

    monkeypatch.setattr(Path, "replace", replace_and_join)
    store = text_store("fi", files, tmp_path / "cache")
    assert completed == [True]
    assert len(store) == 4


def test_each_part_of_reading_and_changed_text_give_another_store(tmp_path: Path) -> None:
    """Text that was unpacked in another way is not taken for it; the same is not unpacked again."""
    line = b'{"text": "a", "lang": "fi", "body": "b", "language": "fi"}\n'
    (tmp_path / "fi.jsonl").write_bytes(3 * line)
    readings = [
        Reading(),
        Reading(errors="replace"),
        Reading(field="body"),
        Reading(lang_field="language"),
        Reading(renderer=SimpleNamespace(key="other")),  # type: ignore[arg-type]
    ]

    def made(reading: Reading) -> Path:
        files = [tmp_path / "fi.jsonl"]
        return text_store("fi", files, tmp_path / "cache", reading=reading).directory

    found = [made(reading) for reading in readings[:4]]
    assert len(set(found)) == 4
    assert made(readings[0]) == found[0]
    (tmp_path / "fi.jsonl").write_bytes(4 * line)
    assert made(readings[0]) not in found
    assert len({str(reading.as_json()) for reading in readings}) == 5


def test_an_evaluation_reads_so_many_bytes_of_all_documents_together(tmp_path: Path) -> None:
    (tmp_path / "fi.txt").write_text(5 * ("a" * 40 + "\n"))
    store = text_store("fi", [tmp_path / "fi.txt"], tmp_path / "cache")
    assert [len(text) for text in first_texts(store, range(5), 100)] == [40, 40, 20]
    assert [len(text) for text in first_texts(store, range(5), 90)] == [40, 40]  # 10 are too few
