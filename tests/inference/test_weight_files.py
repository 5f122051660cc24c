"""safetensors files rewritten as streams, against the library."""

from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file

from modtok_cli.architectures.hf_directory import INDEX, HfDirectory
from modtok_cli.base.errors import ModtokError
from modtok_cli.inference.hf import weight_files
from modtok_cli.inference.hf.weight_files import Cut, cut_tensor, rewrite


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "embed.weight": torch.randn(40, 6).to(torch.bfloat16),
        "norm": torch.randn(6),
        "head.bias": torch.randn(40),
        "logits.bias": torch.randn(1, 40),
        "turned": torch.randn(3, 40, 2),
        "flags": torch.tensor([True, False]),
        "one": torch.tensor(3.0),
        "none": torch.zeros(0, 4),
        "eight": torch.randn(4, 4).to(torch.float8_e4m3fn),
        "scales": torch.ones(4, 1).to(torch.float8_e8m0fnu),
        "four": torch.zeros(4, 6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    }


@pytest.fixture
def single(tmp_path: Path) -> Path:
    save_file(tensors(), tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path


@pytest.mark.parametrize("chunk", [1 << 24, 7, 30])
def test_chosen_rows_and_all_else_untouched(
    single: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, chunk
) -> None:
    monkeypatch.setattr(weight_files, "_CHUNK", chunk)
    out = tmp_path_factory.mktemp("out")
    ids = np.array([0, 1, 2, 7, 9, 10, 39])
    model = HfDirectory(single)
    axes = {"embed.weight": 0, "head.bias": 0, "logits.bias": 1, "turned": 1}
    cuts = {name: cut_tensor(model.tensors[name], Cut(axis, ids)) for name, axis in axes.items()}
    written = rewrite(model, out, cuts)
    found = load_file(out / "model.safetensors")
    for name, tensor in tensors().items():
        keep = torch.from_numpy(ids)
        expected = tensor.index_select(axes[name], keep) if name in axes else tensor
        one, other = (each.flatten().view(torch.uint8) for each in (found[name], expected))
        assert torch.equal(one, other)
    assert written == HfDirectory(out).tensor_bytes < model.tensor_bytes


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        (2).to_bytes(8, "little") + b"{",
        (4).to_bytes(8, "little") + b"[1] ",
        (1 << 40).to_bytes(8, "little") + b"{}",
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModtokError, match=r"model\.safetensors: is not a valid safetensors file"):
        HfDirectory(tmp_path).tensors  # noqa: B018


@pytest.mark.parametrize(
    "change",
    [
        {"data_offsets": [0, 1 << 50]},
        {"data_offsets": [8, 4]},
        {"shape": [-1, 6]},
        {"shape": [41, 6]},
        {"dtype": "X9"},
    ],
)
def test_a_header_is_checked(single: Path, change: dict) -> None:
    file = single / "model.safetensors"
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = orjson.loads(data[8 : 8 + length])
    header["embed.weight"] |= change
    head = orjson.dumps(header)
    file.write_bytes(len(head).to_bytes(8, "little") + head + data[8 + length :])
    with pytest.raises(ModtokError, match=r"is not a valid safetensors file|dtype X9, which"):
        HfDirectory(single).tensors  # noqa: B018


def test_an_index_leads_to_no_other_directory(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(orjson.dumps({"weight_map": {"a": "../secret"}}))
    with pytest.raises(ModtokError, match="weight_map"):
        HfDirectory(tmp_path).files  # noqa: B018


def test_a_directory_without_weights(tmp_path: Path) -> None:
    with pytest.raises(ModtokError, match=r"has no model\.safetensors"):
        HfDirectory(tmp_path).files  # noqa: B018
