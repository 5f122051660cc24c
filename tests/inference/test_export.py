"""GGUF: every weight and the tokenizer are there, in llama.cpp's order; refusals say why."""

from pathlib import Path

import numpy as np
import pytest
import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.inference.export.export import (
    ExportReport,
    disagreements,
    export,
)
from modtok_cli.inference.export.gguf_tokenizer import MergesTokenizer
from modtok_cli.inference.load import load
from modtok_cli.inference.run.backbone import check_range
from modtok_cli.inference.slice.slice import slice as slice_model

gguf = pytest.importorskip("gguf")


def test_what_is_written_reads_back(french_english: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"other ids to 3 of \d+ probe lines"):
        export(french_english, tmp_path / "m.gguf")  # lines that are hard to split
    export(french_english, tmp_path / "half.gguf", inexact=True)
    reader = gguf.GGUFReader(tmp_path / "half.gguf")
    assert reader.fields["general.file_type"].contents() == 1
    assert {tensor.data.dtype for tensor in reader.tensors} == {np.dtype("f2"), np.dtype("f4")}
    report = export(french_english, tmp_path / "m.gguf", dtype="float32", inexact=True)
    assert report.different == 3
    assert report.bytes == (tmp_path / "m.gguf").stat().st_size
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    model = load(french_english)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["llama.attention.head_count_kv"] == 4
    assert fields["llama.rope.freq_base"] == 100_000
    assert fields["tokenizer.ggml.pre"] == "gpt-2"
    assert fields["tokenizer.ggml.add_bos_token"] is True
    assert fields["tokenizer.ggml.tokens"] == model.tokenizer_in.vocabulary.spellings()
    assert len(fields["tokenizer.ggml.merges"]) == len(model.tokenizer_in.merges)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert np.array_equal(tensors["output.weight"].data, model.head.numpy())
    assert np.array_equal(tensors["token_embd.weight"].data, model.embedding.numpy())
    backbone = model.backbone.state_dict()
    assert np.array_equal(
        tensors["blk.1.ffn_gate.weight"].data, backbone["layers.1.mlp.gate_proj.weight"].numpy()
    )
    # Of each head the rows go in pairs that turn together: 0 4 1 5 2 6 3 7 of eight.
    rows = backbone["layers.0.self_attn.k_proj.weight"][torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])]
    assert np.array_equal(tensors["blk.0.attn_k.weight"].data[:8], rows.numpy())
    assert len(tensors) == 3 + 9 * 2


def test_other_ids_are_refused(french_english: Path, tmp_path: Path) -> None:
    output = tmp_path / "m.gguf"
    spaces = tmp_path / "spaces.txt"
    spaces.write_text("plain words\ntwo  spaces before a word\n", encoding="utf-8")
    with pytest.raises(UsageError, match="other ids to 1 of 2 probe lines"):
        export(french_english, output, probe=spaces)
    assert not output.exists()
    assert export(french_english, output, probe=spaces, inexact=True).different == 1
    with pytest.raises(UsageError, match="already exists"):
        export(french_english, output)
    tokenizer = load(french_english).tokenizer_in
    gpt2 = MergesTokenizer(tokenizer, "gpt-2")
    assert disagreements(tokenizer, gpt2, ["l'homme, it's 12 ans.", "« non »"]) == 0


def test_bounded_logits_are_read_back(
    french_english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's key bounds them; the comparison finds that transformers' Llama does not."""
    model = load(french_english)
    ids = torch.tensor([[model.end_of_text, *model.encode_in("Bonjour")]])
    plain = model.logits(ids)
    monkeypatch.setattr(type(model.source.shape), "logit_cap", 0.25)
    assert torch.allclose(model.logits(ids), 0.25 * torch.tanh(plain / 0.25))
    assert not torch.allclose(model.logits(ids), plain, atol=1e-3)
    with pytest.raises(ModtokError, match="logits of its tensors differ"):
        export(french_english, tmp_path / "m.gguf", dtype="float32", inexact=True)


def test_weights_out_of_range_of_the_dtype_are_refused() -> None:
    """float16 ends at 65,504."""
    weights = {"a": torch.zeros(2), "b": torch.tensor([1.0, -7e4])}
    with pytest.raises(UsageError, match="'b' has values beyond 65504, which float16"):
        check_range(weights, "float16")
    check_range(weights, "bfloat16")


def test_unknown_formats_are_refused(french_english: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="format 'onnx' is not supported; choose gguf"):
        export(french_english, tmp_path / "m", format="onnx")


def test_two_vocabularies_are_refused(run: Path, tmp_path: Path) -> None:
    slice_model(run, inputs="full", outputs=["fr"], output=tmp_path / "to-fr")
    with pytest.raises(UsageError, match="which gguf cannot represent"):
        export(tmp_path / "to-fr", tmp_path / "m.gguf")


def test_a_file_for_each_language(run: Path, tmp_path: Path) -> None:
    """Each file is the one that its languages alone give; all of them or none are written."""
    reports = export(run, tmp_path / "each", each=True, inexact=True)
    assert isinstance(reports, list)
    assert [each.languages for each in reports] == [("el",), ("en",), ("fi",), ("fr",)]
    names = ["el.gguf", "en.gguf", "fi.gguf", "fr.gguf"]
    assert sorted(path.name for path in (tmp_path / "each").iterdir()) == names
    some = export(run, tmp_path / "some", each=True, languages="fi", inexact=True)
    assert isinstance(some, list)
    alone = export(run, tmp_path / "alone.gguf", languages="fi", inexact=True)
    for each in (reports[2].output, some[0].output):
        assert each.read_bytes() == (tmp_path / "alone.gguf").read_bytes()
    assert isinstance(alone, ExportReport)
    assert reports[2].bytes == alone.bytes == reports[2].output.stat().st_size
    with pytest.raises(UsageError, match="sv"):
        export(run, tmp_path / "new", each=True, languages="fi,sv", inexact=True)
    assert not (tmp_path / "new").exists()
    (tmp_path / "each" / "mine").touch()
    with pytest.raises(UsageError, match="mine"):
        export(run, tmp_path / "each", each=True, inexact=True, force=True)
