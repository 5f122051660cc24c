"""GGUF of runs, slices and models of transformers: tables, ids, special tokens, refusals."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
import transformers

from helpers.external_tokenizers import external_tokenizer
from helpers.gguf_graph import check
from helpers.hf_models import FAMILIES, LLAMA3, save_model
from helpers.olmo2 import Olmo2
from modtok_cli.base import plugins
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.architecture.registry import architecture
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.export.export import ExportReport, disagreements, export
from modtok_cli.model.export.gguf_tokenizer import MergesTokenizer
from modtok_cli.model.generate.backbone import check_range
from modtok_cli.model.load import load
from modtok_cli.model.slice.slice import slice as slice_model

from .test_sliced_families import build

gguf = pytest.importorskip("gguf")


def read(file: Path) -> tuple[dict, dict]:
    reader = gguf.GGUFReader(file)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    return fields, {tensor.name: tensor.data for tensor in reader.tensors}


def test_what_is_written_reads_back(french_english: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"other ids to 3 of \d+ probe lines"):
        export(french_english, tmp_path / "m.gguf")  # lines that are hard to split
    export(french_english, tmp_path / "half.gguf", inexact=True)
    fields, tensors = read(tmp_path / "half.gguf")
    assert fields["general.file_type"] == 1
    assert {data.dtype for data in tensors.values()} == {np.dtype("f2"), np.dtype("f4")}
    report = export(french_english, tmp_path / "m.gguf", dtype="float32", inexact=True)
    assert report.different == 3
    assert report.bytes == (tmp_path / "m.gguf").stat().st_size
    fields, tensors = read(tmp_path / "m.gguf")
    model = load(french_english)
    assert fields["llama.attention.head_count_kv"] == 4
    assert fields["llama.rope.freq_base"] == 100_000
    assert fields["tokenizer.ggml.pre"] == "gpt-2"
    assert fields["tokenizer.ggml.add_bos_token"] is True
    assert fields["tokenizer.ggml.tokens"] == model.tokenizer_in.vocabulary.spellings()
    assert len(fields["tokenizer.ggml.merges"]) == len(model.tokenizer_in.merges)
    assert np.array_equal(tensors["output.weight"], model.head.numpy())
    assert np.array_equal(tensors["token_embd.weight"], model.embedding.numpy())
    backbone = model.backbone.state_dict()
    assert np.array_equal(
        tensors["blk.1.ffn_gate.weight"], backbone["layers.1.mlp.gate_proj.weight"].numpy()
    )
    # Of each head the rows go in pairs that turn together: 0 4 1 5 2 6 3 7 of eight.
    rows = backbone["layers.0.self_attn.k_proj.weight"][torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])]
    assert np.array_equal(tensors["blk.0.attn_k.weight"][:8], rows.numpy())
    assert len(tensors) == 3 + 9 * 2
    check(tmp_path / "m.gguf", model.logits)


def test_other_ids_are_refused(french_english: Path, tmp_path: Path) -> None:
    output = tmp_path / "m.gguf"
    spaces = tmp_path / "spaces.txt"
    spaces.write_text("plain words\ntwo  spaces before a word\n", encoding="utf-8")
    with pytest.raises(UsageError, match="other ids to 1 of 2 probe lines"):
        export(french_english, output, probe=spaces)
    with pytest.raises(UsageError, match="format 'onnx' is not supported; choose gguf"):
        export(french_english, output, format="onnx")
    assert not output.exists()
    assert export(french_english, output, probe=spaces, inexact=True).different == 1
    with pytest.raises(UsageError, match="already exists"):
        export(french_english, output)
    tokenizer = load(french_english).tokenizer_in
    gpt2 = MergesTokenizer(tokenizer, "gpt-2")
    assert disagreements(tokenizer, gpt2, ["l'homme, it's 12 ans.", "« non »"]) == 0


def test_bounded_logits(
    french_english: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(french_english)
    ids = torch.tensor([[model.end_of_text, *model.encode_in("Bonjour")]])
    plain = model.logits(ids)
    monkeypatch.setattr(type(model.source.shape), "logit_cap", 0.25)
    assert torch.allclose(model.logits(ids), 0.25 * torch.tanh(plain / 0.25))
    assert not torch.allclose(model.logits(ids), plain, atol=1e-3)
    export(french_english, tmp_path / "m.gguf", dtype="float32", inexact=True)
    check(tmp_path / "m.gguf", model.logits)


def test_weights_out_of_range_of_the_dtype_are_refused() -> None:
    """float16 ends at 65,504."""
    weights = {"a": torch.zeros(2), "b": torch.tensor([1.0, -7e4])}
    with pytest.raises(UsageError, match="'b' has values beyond 65504, which float16"):
        check_range(weights, "float16")
    check_range(weights, "bfloat16")


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


# --- models of transformers ---


TOKENS, ROWS = 602, 640
TEMPLATE = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"


def save(path: Path, family: str, kind: str = "byte-level", **fields) -> dict:
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
    model = save_model(family, path, external_tokenizer(kind), rows=ROWS, **ends, **fields)
    (path / "chat_template.jinja").write_text(TEMPLATE)
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


def by_transformers(path: Path) -> Callable[[torch.Tensor], torch.Tensor]:
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    return lambda ids: model(ids).logits


@pytest.mark.parametrize("family", FAMILIES)
def test_a_whole_model(family: str, tmp_path: Path) -> None:
    state = save(tmp_path / "m", family)
    report = export(tmp_path / "m", tmp_path / "m.gguf", dtype="float32")
    assert (report.vocabulary, report.tokenizer, report.different) == (TOKENS, "gpt-2", 0)
    check(tmp_path / "m.gguf", by_transformers(tmp_path / "m"))
    fields, tensors = read(tmp_path / "m.gguf")
    # Rows that only fill the table up are left out.
    assert np.array_equal(tensors["token_embd.weight"], state["model.embed_tokens.weight"][:TOKENS])
    if "output.weight" in tensors:
        assert np.array_equal(tensors["output.weight"], state["lm_head.weight"][:TOKENS])
    norm = state["model.layers.1.post_attention_layernorm.weight"]
    assert np.array_equal(tensors["blk.1.ffn_norm.weight"], norm)
    document = orjson.loads(external_tokenizer("byte-level"))
    assert fields["tokenizer.ggml.pre"] == "gpt-2"
    assert fields["tokenizer.ggml.tokens"][100] == list(document["model"]["vocab"])[100]
    assert fields["tokenizer.ggml.tokens"][599] == "<|im_end|>"
    types = fields["tokenizer.ggml.token_type"]
    assert [types[index] for index in (0, 3, 100, 599)] == [3, 3, 1, 3]
    merges = [" ".join(pair) for pair in document["model"]["merges"]]
    assert fields["tokenizer.ggml.merges"] == merges
    names = ("bos", "eos", "padding")
    assert [fields[f"tokenizer.ggml.{name}_token_id"] for name in names] == [1, 2, 3]
    assert fields["tokenizer.ggml.add_bos_token"] is True
    assert fields["tokenizer.chat_template"] == TEMPLATE


def test_a_family_with_norms_in_other_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = EntryPoint("olmo2", "helpers.olmo2:ARCHITECTURE", "modtok.architectures")
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {other.name: other})
    save(tmp_path / "m", "olmo2")
    export(tmp_path / "m", tmp_path / "m.gguf", dtype="float32")
    check(tmp_path / "m.gguf", by_transformers(tmp_path / "m"))
    right = Olmo2.layer_tensors.fget  # type: ignore[attr-defined]

    def exchanged(shape: Olmo2) -> dict[str, tuple[str, str, tuple[int, ...]]]:
        tensors = right(shape)
        one, two = (
            tensors[name] for name in ("self_attention.linear_proj.norm", "mlp.linear_fc2.norm")
        )
        return tensors | {
            "self_attention.linear_proj.norm": (one[0], two[1], one[2]),
            "mlp.linear_fc2.norm": (two[0], one[1], two[2]),
        }

    monkeypatch.setattr(Olmo2, "layer_tensors", property(exchanged))
    export(tmp_path / "m", tmp_path / "m.gguf", dtype="float32", force=True)
    with pytest.raises(AssertionError, match="logits differ"):  # so the check is sharp
        check(tmp_path / "m.gguf", by_transformers(tmp_path / "m"))


def test_other_architectures_are_refused_first(tmp_path: Path) -> None:
    """Not by a tensor that they name otherwise, which would seem to be missing."""
    build(tmp_path / "m", "GPT2LMHeadModel")
    with pytest.raises(UsageError, match="architecture 'gpt2' is not supported"):
        export(tmp_path / "m", tmp_path / "m.gguf")


def test_sentencepiece_merges(tmp_path: Path) -> None:
    save(tmp_path / "m", "mistral", kind="characters")
    report = export(tmp_path / "m", tmp_path / "m.gguf")
    assert (report.tokenizer, report.different) == ("llama", 0)
    with pytest.raises(UsageError, match="is a model with one vocabulary"):
        export(tmp_path / "m", tmp_path / "x.gguf", languages=["fr"])
    fields, _ = read(tmp_path / "m.gguf")
    document = orjson.loads(external_tokenizer("characters"))
    vocab, merges = document["model"]["vocab"], document["model"]["merges"]
    assert fields["tokenizer.ggml.tokens"][: len(vocab)] == list(vocab)
    scores, kinds = (fields[f"tokenizer.ggml.{name}"] for name in ("scores", "token_type"))
    results = [vocab["".join(pair)] for pair in merges]
    assert [scores[result] for result in results] == sorted(
        (scores[result] for result in results), reverse=True
    )
    assert [kinds[index] for index in (0, 1, vocab["<0x41>"], vocab["e"])] == [2, 3, 6, 1]
    assert fields["tokenizer.ggml.add_space_prefix"] is False


def test_what_is_not_exported(tmp_path: Path) -> None:
    save(tmp_path / "m", "llama", kind="unigram")
    with pytest.raises(UsageError, match=r"m.onnx: names another format; .* ends in .gguf"):
        export(tmp_path / "m", tmp_path / "m.onnx")
    with pytest.raises(UsageError, match="m: has no languages; give a run of modtok pretrain"):
        export(tmp_path / "m", tmp_path / "each", each=True)
    with pytest.raises(UsageError, match="no equivalent of this tokenizer"):
        export(tmp_path / "m", tmp_path / "m.gguf")
    document = orjson.loads(external_tokenizer("characters"))
    merges = document["model"]["merges"]
    document["model"]["merges"] = merges[1::2] + merges[::2]
    (tmp_path / "m" / "tokenizer.json").write_bytes(orjson.dumps(document))
    with pytest.raises(UsageError, match=r"other ids to .*: its search joins other pairs"):
        export(tmp_path / "m", tmp_path / "m.gguf")
    config = orjson.loads((tmp_path / "m" / "config.json").read_bytes())
    (tmp_path / "m" / "config.json").write_bytes(orjson.dumps({**config, "vocab_size": 600}))
    (tmp_path / "m" / "tokenizer.json").write_bytes(external_tokenizer("byte-level"))
    with pytest.raises(ModtokError, match=r"is \(640, 48\), config.json says \(600, 48\)"):
        export(tmp_path / "m", tmp_path / "m.gguf")
    assert not (tmp_path / "m.gguf").exists()


LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2"])
def test_rotary_scaling_is_what_llama_cpp_reads(family: str, tmp_path: Path) -> None:
    save(tmp_path / "m", family, rope_parameters=LINEAR)
    export(tmp_path / "m", tmp_path / "m.gguf", dtype="float32")
    check(tmp_path / "m.gguf", by_transformers(tmp_path / "m"))
    fields, tensors = read(tmp_path / "m.gguf")
    name = fields["general.architecture"]
    assert (fields[f"{name}.rope.scaling.type"], fields[f"{name}.rope.scaling.factor"]) == (
        "linear", 4.0,
    )  # fmt: skip
    assert "rope_freqs.weight" not in tensors
    save(tmp_path / "m", family, rope_parameters=LLAMA3)
    if name == "llama":
        export(tmp_path / "m", tmp_path / "m3.gguf", dtype="float32")
        check(tmp_path / "m3.gguf", by_transformers(tmp_path / "m"))
        assert "rope_freqs.weight" in read(tmp_path / "m3.gguf")[1]
    else:  # its graph has no factors
        with pytest.raises(UsageError, match=f"no rotary scaling 'llama3' for {name}"):
            export(tmp_path / "m", tmp_path / "m3.gguf")


def test_the_file_has_what_the_models_files_say(tmp_path: Path) -> None:
    path = tmp_path / "m"
    save(path, "llama")
    more = path / "additional_chat_templates"
    more.mkdir()
    (more / "tool_use.jinja").write_text("T")
    generation = {"eos_token_id": [599, 2, 1], "do_sample": True, "temperature": 0.5, "top_k": 7}
    (path / "generation_config.json").write_bytes(orjson.dumps(generation))
    (path / "README.md").write_text("---\nlicense: mit\nlanguage: [fr]\nbase_model: org/x\n---\n")
    (path / "tokenizer_config.json").write_bytes(orjson.dumps({"unk_token": "<unk>"}))
    export(path, tmp_path / "m.gguf")
    fields, _ = read(tmp_path / "m.gguf")
    expected = {
        "tokenizer.chat_template": TEMPLATE, "tokenizer.chat_template.tool_use": "T",
        "tokenizer.ggml.eos_token_id": 599, "tokenizer.ggml.eot_token_id": 2,
        "tokenizer.ggml.eom_token_id": 1, "tokenizer.ggml.unknown_token_id": 0,
        "general.sampling.temp": 0.5, "general.sampling.top_k": 7, "general.license": "mit",
        "general.languages": ["fr"], "general.base_model.0.repo_url": "https://huggingface.co/org/x",
    }  # fmt: skip
    assert {name: fields.get(name) for name in expected} == expected
    generation |= {"do_sample": False, "repetition_penalty": 1.25}
    (path / "generation_config.json").write_bytes(orjson.dumps(generation))
    export(path, tmp_path / "m.gguf", force=True)
    found, prefix = read(tmp_path / "m.gguf")[0], "general.sampling."
    assert {n: v for n, v in found.items() if n.startswith(prefix)} == {
        f"{prefix}penalty_repeat": 1.25
    }


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("llama", {"gguf_pairs": False}, "logits differ"),
        ("qwen3", {"gguf_pairs": True}, "logits differ"),
        ("qwen2", {"gguf_factors": True}, r"has no tensor \['rope_freqs.weight'\]"),
        ("qwen2", {"gguf_name": "qwen3"}, "tensor 'blk.0.attn_q_norm.weight' is missing"),
        ("llama", {"rope_divisors": lambda self: None}, "logits differ"),
        ("qwen2", {"tied": True}, "logits differ"),
    ],
)
def test_the_check_finds_wrong_files(
    family: str,
    change: dict[str, object],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaled = {"rope_parameters": LLAMA3} if family == "llama" or "gguf_factors" in change else {}
    save(tmp_path / "m", family, **scaled)
    if "tied" in change:  # the table of outputs is lost
        monkeypatch.setattr(HfDirectory, "tied", True)
    else:
        for name, value in change.items():
            monkeypatch.setattr(architecture(family), name, value)
    export(tmp_path / "m", tmp_path / "m.gguf", dtype="float32")
    with pytest.raises(AssertionError, match=message):
        check(tmp_path / "m.gguf", by_transformers(tmp_path / "m"))
