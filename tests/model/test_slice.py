"""The sliced directory is a plain Llama to transformers; two vocabularies are not."""

import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import orjson
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT
from modtok_cli.evaluate.bits import compare_directories
from modtok_cli.measure.texts import load_texts
from modtok_cli.model.architecture.families.llama import Llama
from modtok_cli.model.load import load
from modtok_cli.model.slice import run_source
from modtok_cli.model.slice.run_source import open_run
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.text.reading import Reading

PROBES = [
    "Il était une fois un roi. The king was old.",
    "  spaces \n\n\tand tabs  ",
    "l'eau, d'accord; it's 1234 €",
    "日本語 ▁ λόγος ♥ \u0301",
    "",
]


def test_without_bos_the_tokenizer_adds_nothing(run: Path, tmp_path: Path) -> None:
    slice_model(run, ["fr"], output=tmp_path / "fr", bos=False)
    ours = load(run, ["fr"])
    theirs = AutoTokenizer.from_pretrained(tmp_path / "fr")
    assert theirs(PROBES[0]).input_ids == ours.encode_in(PROBES[0])
    slice_model(tmp_path / "fr", append=["en"], output=tmp_path / "wide", origin=run)
    assert orjson.loads((tmp_path / "wide" / "modtok.json").read_bytes())["bos"] is False
    data = (tmp_path / "fr" / "tokenizer.json").read_bytes()
    assert data == ours.tokenizer_in.to_json()


def test_what_it_says_of_itself(french_english: Path, run: Path) -> None:
    facts = orjson.loads((french_english / "modtok.json").read_bytes())
    assert facts["outputs"] == ["en", "fr"]
    model = load(run, ["fr", "en"])
    assert facts["signature"] == model.tokenizer_in.signature
    assert facts["ids"] == model.tokenizer_in.global_ids.tolist()
    card = (french_english / "README.md").read_text()
    assert f"{model.tokenizer_in.size:,} tokens" in card
    assert facts["signature"] in card
    data = ModelCard.load(french_english / "README.md").data
    assert (data["library_name"], data.pipeline_tag) == ("transformers", "text-generation")
    assert (data.language, data.license, data.base_model) == (["en", "fr"], None, None)
    assert facts["run"] == "it"  # no path of this machine
    config = orjson.loads((french_english / "config.json").read_bytes())
    assert config["torch_dtype"] == config["dtype"] == "float32"
    assert (french_english / "model.safetensors").stat().st_mode & 0o044


def test_bytes_saved_by_part(run: Path, tmp_path: Path) -> None:
    report = slice_model(run, ["fr"], output=tmp_path / "fr")
    rows = {row["part"]: row for row in report.rows()}
    assert list(rows) == ["backbone", "input rows", "output rows", "all"]
    assert rows["backbone"]["saved"] == 0
    assert rows["input rows"]["bytes"] == 600 * 64 * 4
    size = (tmp_path / "fr" / "model.safetensors").stat().st_size
    assert 0 <= size - rows["all"]["bytes"] < 5000  # its header


def test_append(french_english: Path, run: Path, tied_run: Path, tmp_path: Path) -> None:
    slice_model(french_english, append=["fi"], output=tmp_path / "three", origin=run)
    slice_model(run, ["fi", "fr", "en"], output=tmp_path / "anew")
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "three" / name).read_bytes() == (tmp_path / "anew" / name).read_bytes()
    slice_model(tmp_path / "three", append=["el"], output=tmp_path / "three", origin=run)
    assert load(tmp_path / "three").source.languages == ("el", "en", "fi", "fr")
    with pytest.raises(UsageError, match="three already has fi"):
        slice_model(tmp_path / "three", append="fi", origin=run)
    with pytest.raises(ModtokError, match="was extracted from other weights than"):
        slice_model(french_english, append=["fi"], output=tmp_path / "mixed", origin=tied_run)


def test_two_vocabularies_are_ours_alone(run: Path, tmp_path: Path) -> None:
    slice_model(run, inputs="full", outputs=["fr"], output=tmp_path / "to-fr")
    found, ours = load(tmp_path / "to-fr"), load(run, "full", ["fr"])
    rows = torch.tensor([ours.encode_in(PROBES[0])])
    assert torch.equal(found.logits(rows), ours.logits(rows))
    assert found.encode_out(" roi") == ours.encode_out(" roi")
    with pytest.raises(ValueError, match="modtok"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "to-fr")
    for inputs, outputs in (("full", ["fr"]), (["full"], None), (None, "fr")):
        languages = load(tmp_path / "to-fr", inputs, outputs).source.languages
        assert languages == load(run).source.languages
    with pytest.raises(UsageError, match="has fr only, not full"):
        load(tmp_path / "to-fr", "full", "full")
    slice_model(run, ["en", "el", "fi", "fr"], output=tmp_path / "all")
    load(tmp_path / "all", "full")


def test_bfloat16(run: Path, tmp_path: Path) -> None:
    slice_model(run, ["fr"], output=tmp_path / "fr", dtype="bfloat16")
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "fr").dtype == torch.bfloat16
    assert load(tmp_path / "fr").dtype == torch.bfloat16
    file = tmp_path / "fr" / "model.safetensors"
    stored = load_file(file)
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}  # tables too
    tuned = {name: tensor.float() * 1.001 for name, tensor in stored.items()}
    save_file(tuned, file, metadata={"format": "pt"})  # trained further, in float32
    model = load(tmp_path / "fr", dtype=torch.float32)
    assert torch.equal(model.embedding, tuned["model.embed_tokens.weight"])


@pytest.mark.parametrize("language", ["fr", "sv"])
def test_bytes_of_a_run_are_those_of_a_slice_of_everything(
    run: Path, tied_run: Path, tmp_path: Path, language: str
) -> None:
    """In `--report`: tied tables count once. A text in a language that a run lacks is T's."""
    texts = load_texts([SAMPLE / "parallel" / "fr.txt"], language=language, references=None,
                       keep_documents=True, reading=Reading(), progress=SILENT)  # fmt: skip
    texts[0].documents = (texts[0].documents or [])[:1]
    for model in (run, tied_run):
        whole = slice_model(model, inputs="full", outputs="full", output=tmp_path / model.name)
        (row,) = compare_directories(model, whole.output, texts)
        assert row["full_weight_bytes"] == pytest.approx(row["weight_bytes"], rel=0.02)
        assert row["full_rows"] == row["rows"] == whole.tokens[0]
        assert (row["full_tokens"] == row["tokens"]) == (language == "sv")


def test_what_is_wrong(french_english: Path, run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        slice_model(run, ["fr"], output=french_english)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists but is not a slice of a run"):
        slice_model(run, ["fr"], output=tmp_path / "notes", force=True)
    with pytest.raises(UsageError, match="no language 'xx'"):
        slice_model(run, ["fr", "xx"], output=tmp_path / "q")
    with pytest.raises(UsageError, match="is not a run"):
        slice_model(french_english, ["fr"], output=tmp_path / "q")
    with pytest.raises(UsageError, match="append is for slices of runs, not for runs"):
        slice_model(run, append=["fi"], output=tmp_path / "q")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "modtok.json").write_text('{"format": 4}')
    with pytest.raises(ModtokError, match="is damaged"):
        load(broken)
    # What applies to other models only is not ignored.
    for other in (
        {"data": "other"}, {"top": 500}, {"coverage": 0.9}, {"texts": "t.txt"},
        {"must_have": "ids.txt"},
    ):  # fmt: skip
        with pytest.raises(UsageError, match="is for Hugging Face models, not for runs"):
            slice_model(run, ["fr"], output=tmp_path / "q", **other)
    with pytest.raises(UsageError, match=r"Hugging Face models only: omit reading\.field"):
        slice_model(run, ["fr"], output=tmp_path / "q", reading=Reading(field="body"))
    assert not (tmp_path / "q").exists()
    # A default is as if it were not given.
    slice_model(run, ["fr"], output=tmp_path / "q", data="data", texts=[], verify=True)


def test_append_from_another_run_that_is_named(
    french_english: Path, run: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    shutil.rmtree(other / "checkpoints" / "step-00000008")
    place = tmp_path / "wide"
    said = Said()
    slice_model(french_english, append=["fi"], output=place, origin=other, progress=said)
    assert said.notes == [f"all rows are from step 4 of {other}"]
    assert orjson.loads((place / "modtok.json").read_bytes())["step"] == 4
    with pytest.raises(UsageError, match=r"has no checkpoint of step 8; choose from 4"):
        slice_model(french_english, append=["fi"], output=place, origin=other, step=8, force=True)


@pytest.mark.parametrize(("layers", "cap"), [(True, None), (False, 0.25)])
def test_a_family_that_is_another_model_in_transformers_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: bool, cap: float | None
) -> None:
    """Its layers or the model cap outputs; a Llama, which it says it is, does not."""

    class Capped(Llama):
        own_layer = layers
        logit_cap = cap

        def megatron_layer(self, parts: Any) -> None:
            plain = parts.mlp.submodules.linear_fc2

            class CappedOutput(plain):
                def forward(self, x: torch.Tensor) -> Any:
                    output, bias = super().forward(x)
                    return 0.1 * (10 * output).tanh(), bias

            parts.mlp.submodules.linear_fc2 = CappedOutput

    source = open_run(run)
    sizes = {each.name: getattr(source.shape, each.name) for each in fields(source.shape)}
    monkeypatch.setattr(run_source, "stored_shape", lambda stored, where: Capped(**sizes))
    with pytest.raises(ModtokError, match="of transformers it differs from the trained model"):
        slice_model(run, ["fr"], output=tmp_path / "fr")
    assert not (tmp_path / "fr").exists()
    slice_model(run, ["fr"], output=tmp_path / "fr", verify=False)
