"""Checkpoints: the file format against the library, background writing, what is kept."""

import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import orjson
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from helpers.microbatches import optimizer_step
from helpers.same_models import assert_same
from helpers.saved import save
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training import checkpoint
from modtok_cli.training.checkpoint import checkpoint_files as files
from modtok_cli.training.checkpoint import saving
from modtok_cli.training.checkpoint.checkpoint_files import write_safetensors
from modtok_cli.training.checkpoint.read import JoinedRows
from modtok_cli.training.distributed.ranks import Ranks, start_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows import host_tables
from modtok_cli.training.rows.copies import Copies
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.table import RowTable

from .test_model import microbatches

SHAPE = llama(1, 32, 8, 88)


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "a": torch.randn(7, 3),
        "b": torch.randn(5).to(torch.bfloat16),
        "empty": torch.zeros(0, 4),
        "steps": torch.arange(9, dtype=torch.int32),
        "ids": torch.arange(3),
        "view": torch.randn(6, 4)[1:5, ::2],
    }


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    facts = write_safetensors(file, tensors())
    data = file.read_bytes()
    assert facts == {"bytes": len(data), "crc": zlib.crc32(data)}
    found = load_file(file)
    assert set(found) == set(tensors())
    for name, tensor in tensors().items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize(("written", "read"), [(1, 2), (1, 4), (2, 4), (4, 2), (4, 9), (3, 4)])
def test_a_rank_reads_what_it_would_write(
    subtokenizers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, read: int
) -> None:
    """Ranks one after the other: what they send each other stays away. Every third row is late."""
    monkeypatch.setattr(host_tables, "raise_together", lambda *_: None)

    def rank_of(world: int, rank: int) -> Model:
        place = {"rank": rank, "replica": rank, "world": world, "replicas": world}
        ranks = replace(start_ranks(), **place)
        return Model(SHAPE, subtokenizers.size, ranks, offload=Offload())

    def late_of(table: RowTable) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.arange(table.shard, table.size, table.shards)
        ids = ids[ids % 3 == 0]
        return ids, ids[:, None].expand(-1, 32) + 0.5

    for rank in range(written):
        model = rank_of(written, rank)
        for table in model.tables.values():  # each row is another one
            table.moment1[:] = torch.arange(table.shard, table.size, written)[:, None]
        model.offloaded.resume({name: late_of(table) for name, table in model.tables.items()})
        name = files.shard_name(0, 1, rank, written)
        write_safetensors(tmp_path / name, dict(saving._own_rows(model)))
    taken: list[int] = []
    whole = JoinedRows.__getitem__

    def counted(rows: JoinedRows, index: Any) -> torch.Tensor:
        found = whole(rows, index)
        if index != slice(None):  # late rows, of which a rank takes its own
            taken.append(found.numel() * found.element_size())
        return found

    monkeypatch.setattr(JoinedRows, "__getitem__", counted)
    state, sizes, own = {"step": 3, "shards": 1, "parts": written}, [], []
    for rank in range(read):
        taken.clear()
        model = rank_of(read, rank)
        checkpoint.load(tmp_path, state, model)
        sizes.append(sum(taken))
        tensors = [each for name, each in saving._own_rows(model) if ".late." not in name]
        own.append(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
        for name, table in model.tables.items():
            ids = torch.arange(table.shard, table.size, read)
            assert torch.equal(table.moment1, ids[:, None].expand(-1, 32).float())
            for found, expected in zip(model.offloaded.late[name], late_of(table), strict=True):
                assert torch.equal(found, expected)
    assert sizes == own


class Held(Copies):
    """The thread of a checkpoint copies as late as it may, after training has gone on."""

    def __init__(self) -> None:
        super().__init__()
        self.go = Event()

    def enter_thread(self) -> None:
        assert self.go.wait(600)


def test_training_continues_while_a_checkpoint_is_written(
    subtokenizers, stores, tmp_path: Path
) -> None:
    model, twin, loaded = (Model(SHAPE, subtokenizers.size, start_ranks()) for _ in range(3))
    model.copies = Held()
    batches = microbatches(subtokenizers, stores, 4)
    for batch in batches[:2]:
        optimizer_step(model, batch, 1e-2)
        optimizer_step(twin, batch, 1e-2)
    saver = checkpoint.Checkpointer(tmp_path, model.ranks)
    saver.save(model, 2, {"positions": {}})
    for batch in batches[2:]:
        optimizer_step(model, batch, 1e-2)
    assert checkpoint.newest(tmp_path, SILENT) is None  # not before it is complete
    model.copies.go.set()
    saver.wait()
    found = checkpoint.newest(tmp_path, SILENT)
    assert found is not None
    checkpoint.load(*found, loaded)
    assert_same(loaded, twin)
    with pytest.raises(AssertionError):
        assert_same(loaded, model)


def test_without_memory_for_a_copy_save_waits(
    subtokenizers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "available", lambda: 1000)
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    checkpoint.Checkpointer(tmp_path, model.ranks).save(model, 1, {})
    assert checkpoint.newest(tmp_path, SILENT) is not None


def test_an_error_of_the_background_is_raised(
    subtokenizers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    saver = checkpoint.Checkpointer(tmp_path, model.ranks)
    saver.save(model, 1, {})
    saver.wait()

    def full(path: Path, tensors: Any) -> dict[str, int]:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_safetensors", full)
        saver.save(model, 2, {})
        with pytest.raises(ModtokError, match=r"No space left .*previous .* complete.*--resume"):
            saver.save(model, 3, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    saver.save(model, 4, {})
    saver.wait()
    assert len(list(tmp_path.iterdir())) == 2


def test_a_rank_leaves_the_directory_once_its_part_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rank may rename the directory at that moment."""
    beside, final = tmp_path / "beside", tmp_path / "step-00000001"
    beside.mkdir()
    real = Path.replace

    def replace_and_rename(self: Path, target: Path) -> Path:
        found = real(self, target)
        if target.name.endswith(saving._WRITTEN):
            real(beside, final)
        return found

    monkeypatch.setattr(Path, "replace", replace_and_rename)
    writer = saving.Checkpointer(tmp_path, replace(start_ranks(), rank=1))
    writer._write_part(beside, {"a": torch.ones(3)})
    assert [path.suffix for path in sorted(final.iterdir())] == [".safetensors", ".json"]


# A step of nine digits is later than one of eight.
STEPS = st.lists(
    st.integers(1, 30) | st.sampled_from([2 * 10**7, 10**8]), min_size=1, max_size=8, unique=True
)


@given(STEPS, st.integers(1, 4), st.sampled_from([None, 1, 3, 4]), st.data())
def test_which_checkpoints_are_kept(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[int],
    keep: int,
    every: int | None,
    data: st.DataObject,
) -> None:
    """Those after the latest may be damaged ones, which a resumed run went back behind."""
    place, latest = tmp_path_factory.mktemp("kept"), data.draw(st.sampled_from(steps))
    for step in steps:
        files.step_directory(place, step).mkdir()
    files.prune(place, files.step_directory(place, latest), keep, every)
    before = sorted(step for step in steps if step <= latest)
    expected = {*before[-keep:], *(step for step in steps if step > latest)}
    expected |= {step for step in before if every and step % every == 0}
    assert {int(path.name[5:]) for path in place.iterdir()} == expected


DAMAGES = ["", "absent", "short", "byte", "state", "positions", "name"]


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.integers(1, 12) | st.sampled_from([2 * 10**7, 10**8]),
        st.sampled_from(DAMAGES),
        max_size=4,
    )
)
def test_the_last_sound_checkpoint_is_read(
    tmp_path_factory: pytest.TempPathFactory, damages: dict[int, str]
) -> None:
    place, said = tmp_path_factory.mktemp("newest"), Silent()
    for step, damage in damages.items():
        path = files.step_directory(place, step)
        path.mkdir()
        facts = {}
        for part in range(2):
            file = path / files.shard_name(0, 1, part, 2)
            facts[file.name] = write_safetensors(file, {"a": torch.ones(3)})
        positions: Any = {"0": {"en:1": [step, 0]}, "1": {"en:1": [2, 3]}}
        if damage == "name":
            facts = {f"../{name}": each for name, each in facts.items()}
        state = {"step": step, "shards": 1, "parts": 2, "files": facts, "positions": positions}
        if damage == "positions":
            positions["1"]["en:1"] = [2, -1]
        state["crc"] = files.state_crc(state)
        if damage == "state":
            positions["1"]["en:1"] = [3, 3]
        (path / files.STATE).write_bytes(orjson.dumps(state))
        content = file.read_bytes()  # the second one
        if damage == "absent":
            file.unlink()
        elif damage in ("short", "byte"):
            file.write_bytes(content[:-1] + b"x" * (damage == "byte"))
    sound = [step for step, damage in damages.items() if not damage]
    if damages and not sound:
        with pytest.raises(ModtokError, match=r"no sound checkpoint: .*damaged or missing"):
            checkpoint.newest(place, said)
        return
    found = checkpoint.newest(place, said)
    assert (found is None) == (not damages)
    if found is not None:
        assert (found[0].name, found[1]["step"]) == (f"step-{max(sound):08d}", max(sound))
        assert len(said.warnings) == sum(step > max(sound) for step in damages)
        assert checkpoint.last_step(place) == max(damages)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_not_saved(subtokenizers, tmp_path: Path, value: float) -> None:
    """One number of any tensor."""
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    named = [
        (name, tensor) for name, tensor in saving._own_rows(model) if tensor.is_floating_point()
    ]
    assert len(named) == 2 * 3 + 3 * len(model.backbone.parameters)
    for name, tensor in named:
        kept = tensor.view(-1)[-1].clone()
        tensor.view(-1)[-1] = value
        with pytest.raises(checkpoint.NotFinite, match=re.escape(f"'{name}' is not finite")):
            save(tmp_path, model, 1)
        tensor.view(-1)[-1] = kept
    assert list(tmp_path.iterdir()) == []


def test_ranks_check_a_share_of_the_files_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = [replace(start_ranks(), rank=rank, world=2) for rank in range(2)]
    for step in (1, 2):
        path = files.step_directory(tmp_path, step)
        path.mkdir()
        facts = {
            files.shard_name(0, 1, part, 3): write_safetensors(
                path / files.shard_name(0, 1, part, 3), tensors()
            )
            for part in range(3)
        }
        state = {"step": step, "shards": 1, "parts": 3, "files": facts}
        state["crc"] = files.state_crc(state)
        (path / files.STATE).write_bytes(orjson.dumps(state))
    said: dict[int, list[Any]] = {0: [], 1: []}
    meet, read, crc = Barrier(2, timeout=600), [], files._crc

    def gather(ranks: Ranks, item: Any) -> list[Any]:
        said[ranks.rank].append(item)
        meet.wait()
        both = [said[0][-1], said[1][-1]]
        meet.wait()
        return both

    def counted(path: Path) -> int:
        read.append(path)
        return crc(path)

    monkeypatch.setattr(files, "gather_json", gather)
    monkeypatch.setattr(files, "_crc", counted)

    def chosen() -> list[str]:
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda one: checkpoint.newest(tmp_path, SILENT, one), ranks))
        return [path.name for path, _ in filter(None, found)]

    assert chosen() == ["step-00000002"] * 2
    assert sorted(read) == sorted((tmp_path / "step-00000002").glob("*.safetensors"))
    damaged = tmp_path / "step-00000002" / files.shard_name(0, 1, 1, 3)  # the second rank's
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert chosen() == ["step-00000001"] * 2
    assert checkpoint.last_step(tmp_path) == 2


def test_what_replicas_send_each_other_is_not_kept_whole(
    subtokenizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the distributed optimizer `state` makes whole tensors; a rank keeps its rows."""
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    for distributed in (False, True):
        monkeypatch.setattr(model.optimizer, "distributed", distributed, raising=False)
        for replica in range(3):
            model.ranks = replace(model.ranks, replica=replica, replicas=3)
            for name, tensor in saving._own_rows(model):
                if name.startswith("backbone."):
                    part, _, own = name.removeprefix("backbone.").partition("/")
                    state = model.optimizer.state(own)[part]
                    rows = len(state)
                    assert torch.equal(
                        tensor, state[rows * replica // 3 : rows * (replica + 1) // 3]
                    )
                    kept = tensor.untyped_storage().nbytes()
                    assert kept == (tensor if distributed else state).numel() * 4
