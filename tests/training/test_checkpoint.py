"""Checkpoints: the file format against the library, background writing, what is kept."""

import zlib
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT
from modtok_cli.training import checkpoint
from modtok_cli.training.checkpoint import saving
from modtok_cli.training.checkpoint.reading import ShardFile
from modtok_cli.training.checkpoint.writing import write_safetensors
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import Model

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


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_rows_in_several_files_read_as_one_tensor(tmp_path: Path, parts: int) -> None:
    whole = torch.randn(11, 2)
    paths = []
    for part in range(parts):
        paths.append(tmp_path / f"{part}.safetensors")
        rows = whole[11 * part // parts : 11 * (part + 1) // parts]
        save_file({"t": rows.contiguous()}, paths[-1])
    file = ShardFile(paths)
    assert torch.equal(file.get_tensor("t"), whole)
    rows = file.get_slice("t")
    assert list(rows.get_shape()) == [11, 2]
    for start in range(12):
        for stop in range(start, 12):
            assert torch.equal(rows[start:stop], whole[start:stop])


def slow_writer(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Writing waits for the event that this returns."""
    go, write = Event(), saving.write_safetensors

    def wait(path: Path, tensors: Any) -> dict[str, int]:
        assert go.wait(60)
        return write(path, tensors)

    monkeypatch.setattr(saving, "write_safetensors", wait)
    return go


def same(one: Model, other: Model) -> bool:
    return all(
        torch.equal(getattr(table, part), getattr(other.tables[name], part))
        for name, table in one.tables.items()
        for part in ("weight", "moment1", "moment2", "steps")
    ) and all(
        torch.equal(tensor, other.optimizer.state(name)[part])
        for name in one.backbone.parameters
        for part, tensor in one.optimizer.state(name).items()
    )


def test_training_continues_while_a_checkpoint_is_written(
    subtokenizers, stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, twin, loaded = (Model(SHAPE, subtokenizers.size, start_ranks()) for _ in range(3))
    batches = microbatches(subtokenizers, stores, 4)
    for batch in batches[:2]:
        model.step(batch, 1e-2)
        twin.step(batch, 1e-2)
    saver = checkpoint.Checkpointer(tmp_path, model.ranks)
    go = slow_writer(monkeypatch)
    saver.save(model, 2, {"positions": {}})
    for batch in batches[2:]:
        model.step(batch, 1e-2)
    assert checkpoint.newest(tmp_path, SILENT) is None  # not before it is complete
    go.set()
    saver.wait()
    found = checkpoint.newest(tmp_path, SILENT)
    assert found is not None
    checkpoint.load(*found, loaded)
    assert same(loaded, twin)
    assert not same(loaded, model)


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
        with pytest.raises(ModtokError, match=r"No space left on device.*--resume"):
            saver.save(model, 3, {})
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    saver.save(model, 4, {})
    saver.wait()
    assert len(list(tmp_path.iterdir())) == 2


def test_which_checkpoints_are_kept(subtokenizers, tmp_path: Path) -> None:
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    saver = checkpoint.Checkpointer(tmp_path, model.ranks, keep=2, keep_every=4)
    for step in range(1, 10):
        saver.save(model, step, {})
    saver.wait()
    kept = sorted(int(path.name.removeprefix("step-")) for path in tmp_path.iterdir())
    assert kept == [4, 8, 9]


def test_nan_is_not_saved(subtokenizers, tmp_path: Path) -> None:
    model = Model(SHAPE, subtokenizers.size, start_ranks())
    model.output.moment2[3, 5] = torch.nan
    with pytest.raises(checkpoint.NotFinite, match=r"output\.moment2"):
        checkpoint.save(tmp_path, model, 1, {})
    assert list(tmp_path.iterdir()) == []
