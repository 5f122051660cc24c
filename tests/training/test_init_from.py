"""Initial weights: of a run whose tokenizer has grown, and of models of transformers.

Models come with their own tokenizer or another.
"""

import shlex
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.gguf_graph import GgufFile
from helpers.hf_models import save_model
from helpers.metrics import numbers, read_metrics
from helpers.microbatches import microbatch
from modtok_cli.base import plugins
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture.registry import shape_of_hf
from modtok_cli.model.architecture.stored_model import open_hf_directory
from modtok_cli.model.export.export import export
from modtok_cli.model.load import load
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.initial import InitialModel
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model.model import Model
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE, TOY, interrupt

OLD = ("el", "en", "fi")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a tokenizer and a run of three languages."""
    place = tmp_path_factory.mktemp("finished") / "workspace"
    bpe_seq(OLD, data=SAMPLE, output=place / "tokenizer", k=500, references=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(PRESETS, "toy", TOY)
        pretrain(settings_of(place))
    return place


def settings_of(place: Path) -> RunSettings:
    return RunSettings(
        model="toy", langs=OLD, sampling="sub:1", data=SAMPLE, tokenizer=place / "tokenizer",
        runs=place / "runs", workers=0, steps=12, eval_every=6, save_every=4, name="old",
        eval_bytes=600,
    )  # fmt: skip


@pytest.fixture
def old(finished: Path, tmp_path: Path) -> RunSettings:
    """A finished run of three languages, in the workspace `tmp_path`."""
    shutil.copytree(finished, tmp_path, symlinks=True, dirs_exist_ok=True)
    return settings_of(tmp_path)


@pytest.fixture
def grown(old: RunSettings, tmp_path: Path) -> RunSettings:
    """Settings that continue it with French appended."""
    larger = tmp_path / "larger"
    shutil.copytree(Path(str(old.data.tokenizer)), larger)
    bpe_seq(append=("fr",), output=larger, data=SAMPLE, references=False)
    return RunSettings(
        init_from=old.runs / "old", langs=("fr",), sampling="none", data=SAMPLE, tokenizer=larger,
        runs=old.runs, workers=0, steps=8, eval_every=4, save_every=4, lr=1e-2, name="grown",
        eval_bytes=600,
    )  # fmt: skip


def logits(run: Path, tokenizer: Path, languages: list[str]) -> torch.Tensor:
    model = load(run, languages, tokenizer=tokenizer)
    ids = torch.tensor([[model.end_of_text, *model.encode_in("Ja yksi, one, \u03ad\u03bd\u03b1")]])
    return model.logits(ids)


@pytest.mark.parametrize("offload", [False, True])
def test_old_languages_are_unchanged_by_train_rows(
    old: RunSettings, grown: RunSettings, offload: bool
) -> None:
    rows = grown.changed(train="rows", offload=offload or None)
    pretrain(rows)
    for languages in (["fi"], ["el", "en"], list(OLD)):
        before = logits(old.runs / "old", old.data.tokenizer, languages)
        after = logits(old.runs / "grown", grown.data.tokenizer, languages)
        assert torch.equal(before, after)
    bits = [
        line["bits_per_byte"] for line in read_metrics(old.runs / "grown") if "held_out" in line
    ]
    assert bits[-1] < bits[0]
    stored = orjson.loads((old.runs / "grown" / "config.json").read_bytes())
    assert stored["initial"]["languages"] == list(OLD)
    words = shlex.split(stored["command"])
    assert words[words.index("--init-from") + 1] == str(rows.init.init_from)
    assert "--train" in words
    assert "--model" not in words


def test_train_all_changes_everything(old: RunSettings, grown: RunSettings) -> None:
    pretrain(grown.changed(langs=("en", "fr"), sampling="full"))
    before = logits(old.runs / "old", old.data.tokenizer, ["en"])
    after = logits(old.runs / "grown", grown.data.tokenizer, ["en"])
    assert not torch.allclose(before, after)


def test_spelled_rows_start_better_than_random_ones(old: RunSettings, grown: RunSettings) -> None:
    first = {}
    for rows in ("spelling", "random"):
        settings = grown.changed(init_rows=rows, steps=1, lr=1e-9, name=rows)
        pretrain(settings)
        first[rows] = read_metrics(old.runs / rows)[-1]["bits_per_byte"]
    assert first["spelling"] < first["random"]


def test_a_grown_run_resumes_to_the_bit(grown: RunSettings, before_step: Any) -> None:
    rows = grown.changed(train="rows")
    pretrain(rows.changed(name="unbroken"))
    for stop in (2, 7):  # before the first checkpoint; after it the old run is needed no more
        before_step(stop, interrupt)
        name = f"stopped-{stop}"
        with pytest.raises(KeyboardInterrupt):
            pretrain(rows.changed(name=name))
        before_step(0, interrupt)
        if stop == 7:
            shutil.rmtree(Path(str(grown.init.init_from)))
        pretrain(RunSettings(runs=grown.runs, name=name), resume=True)
        assert numbers(grown.runs / name) == numbers(grown.runs / "unbroken")


def test_a_tokenizer_that_does_not_contain_the_old_one(
    old: RunSettings, grown: RunSettings, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    bpe_seq(("en", "fr"), data=SAMPLE, output=other, k=500, references=False)
    with pytest.raises(UsageError, match=r"--train rows: the tokenizer does not contain the one"):
        pretrain(grown.changed(tokenizer=other, train="rows"))
    # Without frozen rows it is a tokenizer like any other: rows are carried over by token.
    pretrain(grown.changed(tokenizer=other, steps=1))
    with pytest.raises(UsageError, match="the tokenizer has no token that is new"):
        pretrain(grown.changed(tokenizer=old.data.tokenizer, langs=("fi",), train="rows", name="x"))


def test_what_does_not_go_together(old: RunSettings, grown: RunSettings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--train: needs --init-from"):
        pretrain(old.changed(train="rows", name="x"))
    with pytest.raises(UsageError, match="nothing: does not exist"):
        pretrain(grown.changed(init_from=tmp_path / "nothing"))
    with pytest.raises(UsageError, match="is not a run, nor a model in safetensors"):
        pretrain(grown.changed(init_from=tmp_path))
    (old.runs / "old" / "checkpoints").rename(tmp_path / "away")
    with pytest.raises(ModtokError, match="has no checkpoint yet"):
        pretrain(grown)


PADDING = 7  # rows without a token


@pytest.fixture
def whole(tokenizer: Path) -> ModularTokenizer:
    return ModularTokenizer.load(tokenizer)


@pytest.fixture
def one_step(tokenizer: Path, tmp_path: Path) -> RunSettings:
    """A step that changes no weight: the rate is below what float32 can add."""
    return RunSettings(
        init_from=tmp_path / "model", langs=("en", "fr"), sampling="none", data=SAMPLE,
        tokenizer=tokenizer, runs=tmp_path / "runs", workers=0, steps=1, lr=1e-30, final_lr=0.0,
        seq_length=32, batch_size=2, micro_batch=2, eval_bytes=600, name="it",
    )  # fmt: skip


def save_own(family: str, tokenizer: Path, path: Path, **fields: Any) -> Any:
    """A model with the tokenizer T itself, and padding."""
    rows = ModularTokenizer.load(tokenizer).size + PADDING
    content = (tokenizer / "tokenizer.json").read_bytes()
    return save_model(family, path, content, rows=rows, **fields)


def initialized(path: Path, new: ModularTokenizer, rows: str = "spelling") -> Model:
    initial = InitialModel(open_hf_directory(path))
    model = Model(initial.origin.shape, new.size, start_ranks(), seed=3)
    initial.initialize(model, new, rows=rows, note=SILENT)
    return model


@pytest.mark.parametrize(
    ("family", "dtype"),
    [("llama", "float32"), ("mistral", "bfloat16"), ("qwen2", "float16"), ("qwen3", "bfloat16")],
)
def test_a_slice_of_the_run_has_the_same_weights(
    family: str, dtype: str, tokenizer: Path, one_step: RunSettings, tmp_path: Path
) -> None:
    save_own(family, tokenizer, tmp_path / "model", dtype=dtype, shard="40KB")
    pretrain(one_step)
    slice_model(one_step.runs / "it", output=tmp_path / "slice", outputs="full", dtype=dtype)
    files = [*(tmp_path / "model").glob("*.safetensors")]
    assert len(files) > 2
    before = {name: tensor for file in files for name, tensor in load_file(file).items()}
    after = load_file(tmp_path / "slice" / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        kept = tensor[:-PADDING] if name.startswith(("model.embed", "lm_head")) else tensor
        assert torch.equal(kept, after[name]), name
    fields = ("model_type", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters")
    configs = [
        orjson.loads((tmp_path / n / "config.json").read_bytes()) for n in ("model", "slice")
    ]
    assert [configs[0][name] for name in fields] == [configs[1][name] for name in fields]
    # transformers before version 5 has no "rope_parameters".
    old = {name: value for name, value in configs[1].items() if name != "rope_parameters"}
    assert shape_of_hf(old, "") == shape_of_hf(configs[1], "")


def test_rows_without_a_token_are_told(tokenizer: Path, tmp_path: Path) -> None:
    save_own("qwen2", tokenizer, tmp_path)
    said: list[str] = []
    note = Silent()
    note.note = said.append  # type: ignore[method-assign]
    new, initial = ModularTokenizer.load(tokenizer), InitialModel(open_hf_directory(tmp_path))
    model = Model(initial.origin.shape, new.size, start_ranks(), seed=3)
    initial.initialize(model, new, rows="spelling", note=note)
    assert f"has {PADDING} rows without a token, which the run leaves out" in said[0]


def test_scaled_input_rows_and_logits_of_a_family(
    tokenizer: Path, one_step: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss and logits of the run, of its slice in transformers, and of the model are the same."""
    other = EntryPoint("granite", "helpers.granite:ARCHITECTURE", "modtok.architectures")
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {other.name: other})
    theirs = save_own(
        "granite", tokenizer, tmp_path / "model", embedding_multiplier=5.0, logits_scaling=0.5,
        attention_multiplier=0.25, residual_multiplier=1.0,
    )  # fmt: skip
    pretrain(one_step)
    size = ModularTokenizer.load(tokenizer).size
    ids = torch.arange(0, 60, 3)[None]
    with torch.no_grad():
        expected = theirs(ids).logits[..., :size]
    run = load(one_step.runs / "it")
    torch.testing.assert_close(run.logits(ids), expected, atol=1e-4, rtol=1e-4)
    slice_model(
        one_step.runs / "it", output=tmp_path / "slice", outputs="full"
    )  # compares Megatron
    torch.testing.assert_close(load(tmp_path / "slice").logits(ids), expected, atol=1e-4, rtol=1e-4)
    shape = shape_of_hf(orjson.loads((tmp_path / "slice" / "config.json").read_bytes()), "")
    model = Model(shape, size, start_ranks(), seed=3)
    InitialModel(open_hf_directory(tmp_path / "model")).initialize(
        model, ModularTokenizer.load(tokenizer), rows="random", note=SILENT
    )
    inputs, every = ids.numpy().astype(np.int32), np.arange(size, dtype=np.int32)
    micro = microbatch(inputs[:, :-1], inputs[:, 1:], every)
    _, nll = model.loss(micro, model.activate([micro]))
    wanted = torch.nn.functional.cross_entropy(expected[0, :-1], ids[0, 1:], reduction="none")
    torch.testing.assert_close(nll, wanted, atol=1e-4, rtol=1e-4)
    export(tmp_path / "slice", tmp_path / "m.gguf", dtype="float32", inexact=True)
    file = GgufFile(tmp_path / "m.gguf")
    assert (file.key("embedding_scale"), file.key("logit_scale")) == (5.0, 0.5)


def test_another_tokenizer_is_spelled_with_the_model_s(
    whole: ModularTokenizer, tmp_path: Path
) -> None:
    bpe(("en",), data=SAMPLE, output=tmp_path / "old", k=400)
    old = orjson.loads((tmp_path / "old" / "en.json").read_bytes())
    ids = old["model"]["vocab"]
    old["added_tokens"][0]["content"] = "<|start|>"
    ids["<|start|>"] = ids.pop("<|endoftext|>")
    save_model(
        "qwen2", tmp_path, orjson.dumps(old), rows=400, bos_token_id=0, eos_token_id=[5, 6],
        tie_word_embeddings=False,
    )  # fmt: skip
    model = initialized(tmp_path, whole)
    state = load_file(tmp_path / "model.safetensors")
    reading, writing = state["model.embed_tokens.weight"], state["lm_head.weight"]
    assert torch.equal(model.input.weight[0], reading[0])  # the start, under another name
    assert torch.equal(model.output.weight[0], writing[5])
    tied = {"bos_token_id": 0, "eos_token_id": [5, 6], "tie_word_embeddings": True}
    save_model("qwen2", tmp_path / "tied", orjson.dumps(old), rows=400, **tied)
    (table,) = initialized(tmp_path / "tied", whole).tables.values()
    stored = load_file(tmp_path / "tied" / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(table.weight[0], stored[0])  # it is read more often than it is predicted
    both = [index for index, name in enumerate(whole.vocabulary.spellings()) if name in ids]
    assert len(both) > 300
    there = [ids[whole.vocabulary.spellings()[index]] for index in both]
    assert torch.equal(model.input.weight[both], reading[there])
    assert torch.equal(model.output.weight[both], writing[there])
    others = torch.tensor(sorted(set(range(1, whole.size)) - set(both)))
    assert (model.input.weight[others].norm(dim=1) > 0.2).all()  # random rows have 0.02 · √48
    random = initialized(tmp_path, whole, rows="random")
    assert (random.input.weight[others].norm(dim=1) < 0.3).all()
    assert torch.equal(random.input.weight[both], reading[there])


def test_train_rows_changes_new_rows_only(
    tokenizer: Path, one_step: RunSettings, tmp_path: Path
) -> None:
    bpe(("en",), data=SAMPLE, output=tmp_path / "old", k=400)
    save_model("llama", tmp_path / "model", (tmp_path / "old" / "en.json").read_bytes(), rows=400)
    whole = ModularTokenizer.load(tokenizer)
    first = initialized(tmp_path / "model", whole).input.weight
    new = InitialModel(open_hf_directory(tmp_path / "model")).new_rows(whole)
    pretrain(one_step.changed(train="rows", lr=1e-2))
    shutil.rmtree(tmp_path / "model")  # the run needs it no more
    pretrain(RunSettings(runs=one_step.runs, steps=2), resume=True)
    slice_model(one_step.runs / "it", output=tmp_path / "slice", outputs="full")
    table = load_file(tmp_path / "slice" / "model.safetensors")["model.embed_tokens.weight"]
    assert torch.equal(table[~new], first[~new])
    assert not torch.equal(table[new], first[new])


def test_what_a_model_directory_can_have_wrong(
    tokenizer: Path, one_step: RunSettings, tmp_path: Path
) -> None:
    save_own("qwen2", tokenizer, tmp_path / "model")
    path = tmp_path / "model"
    with pytest.raises(UsageError, match="--train rows: the tokenizer has no token that is new"):
        pretrain(one_step.changed(train="rows"))
    for change, message in (
        ({"layers": 3}, "--set architecture.layers: is 3, the model of --init-from has 2"),
        ({"tied": True}, "--set architecture.tied: is True, the model of --init-from has False"),
        ({"model": "tiny"}, "--model: is tiny, the model of --init-from has model"),
    ):
        with pytest.raises(UsageError, match=message):
            pretrain(one_step.changed(**change))

    config = orjson.loads((path / "config.json").read_bytes())
    for change, message in (
        ({"model_type": "gpt_bert"}, "architecture 'gpt_bert' is not supported"),
        ({"quantization_config": {"bits": 4}}, "the weights are quantized"),
        ({"use_sliding_window": True}, "config.json: field 'use_sliding_window' is set"),
        ({"vocab_size": 9}, r"'lm_head.weight' is \(1387, 48\), config.json says \(9, 48\)"),
        ({"intermediate_size": 81}, r"is \(48, 80\), config.json says \(48, 81\)"),
    ):
        (path / "config.json").write_bytes(orjson.dumps(config | change))
        with pytest.raises(ModtokError, match=message):
            pretrain(one_step, force=True)
    (path / "config.json").write_bytes(orjson.dumps(config))

    weights = load_file(path / "model.safetensors")
    for name, tensor, message in (
        ("model.norm.weight", None, "tensor 'model.norm.weight' is missing"),
        ("model.norm.weight", torch.zeros(48, dtype=torch.int8), "'model.norm.weight' is int8"),
        ("model.layers.7.x", torch.zeros(1), "parameter 'layers.7.x' has no counterpart"),
    ):
        changed = weights | {name: tensor}
        save_file({k: v for k, v in changed.items() if v is not None}, path / "model.safetensors")
        with pytest.raises(ModtokError, match=message):
            pretrain(one_step, force=True)
    save_file(weights, path / "model.safetensors")
    (path / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"has no tokenizer.json"):
        pretrain(one_step)
