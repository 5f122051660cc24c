"""A fine-tuned slice goes back into its whole: its rows and the backbone, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from helpers.external_models import build
from helpers.sample import SAMPLE
from helpers.small_run import run_settings
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.cli.execute import run as run_words
from modtok_cli.cli.main import command_tree
from modtok_cli.model.architecture.stored_model import INDEX
from modtok_cli.model.hf import weight_files
from modtok_cli.model.hf.model_directory import NAME
from modtok_cli.model.load import load
from modtok_cli.model.slice.graft import graft
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.training.data.conversation import FILE
from modtok_cli.training.initial import open_initial
from modtok_cli.training.loop import pretrain

DATA = SAMPLE / "parallel"


def tune(part: Path, output: Path, dtype: str = "float32", *, shard: str = "5GB") -> Path:
    """What training and `save_pretrained` leave: other weights, and no file of modtok."""
    model = AutoModelForCausalLM.from_pretrained(part, dtype=getattr(torch, dtype))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(output, max_shard_size=shard)
    assert not list(output.glob("modtok*"))
    return output


def modtok(*words: object) -> int:
    return run_words(command_tree(), [str(word) for word in words])


def weights(path: Path) -> dict[str, torch.Tensor]:
    return {
        name: tensor
        for file in sorted(path.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype
        assert torch.equal(tensor.view(torch.uint8), other[name].view(torch.uint8)), name


@pytest.fixture(scope="module", params=["Llama", "Qwen2", "GPTNeoX"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("whole"), request.param)


@pytest.fixture(scope="module")
def part(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("part") / "fr"
    slice_model(whole, "fr", data=DATA, output=output, verify=False)
    return output


def test_a_model_gets_the_backbone_and_the_rows_of_its_slice(
    whole: Path, part: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "_CHUNK", 1000)  # pieces without a row of the slice
    tuned = tune(part, tmp_path / "tuned", shard="20KB")
    report = graft(tuned, whole, original=part, output=tmp_path / "new")
    old, new, theirs = weights(whole), weights(tmp_path / "new"), weights(tuned)
    ids = orjson.loads((part / NAME).read_bytes())["ids"]
    assert new.keys() == old.keys()
    for name, tensor in old.items():
        if tensor.shape == theirs[name].shape:
            assert torch.equal(new[name], theirs[name])
            continue
        expected = tensor.clone()  # the obvious way
        expected[ids] = theirs[name]
        assert torch.equal(new[name], expected)
        assert not torch.equal(expected, tensor)
    again = tmp_path / "again"
    slice_model(tmp_path / "new", "fr", data=DATA, output=again)
    assert_same(weights(again), theirs)
    for file in whole.iterdir():
        if file.suffix != ".safetensors":
            assert (tmp_path / "new" / file.name).read_bytes() == file.read_bytes()
    rows = {row["part"]: row for row in report.rows()}
    assert report.tokens == (640, len(ids))
    assert rows["vocabulary rows"]["bytes"] < rows["vocabulary rows"]["full_bytes"]
    assert rows["all"]["full_bytes"] == sum(each.nbytes for each in old.values())


def test_a_model_in_several_files_and_in_another_dtype(tmp_path: Path) -> None:
    first = build(tmp_path / "first")
    model = AutoModelForCausalLM.from_pretrained(first, dtype=torch.bfloat16)
    whole = tmp_path / "whole"
    shutil.copytree(first, whole, ignore=shutil.ignore_patterns("*.safetensors"))
    model.save_pretrained(whole, max_shard_size="20KB")
    slice_model(whole, "fr", data=DATA, output=tmp_path / "fr")
    tuned = tune(tmp_path / "fr", tmp_path / "tuned", "float32")
    with pytest.raises(
        UsageError, match=r"is F32, the model's is BF16; save it in bfloat16, or pass convert"
    ):
        graft(tuned, whole, original=tmp_path / "fr", output=tmp_path / "new")
    assert not (tmp_path / "new").exists()
    graft(tuned, whole, original=tmp_path / "fr", output=tmp_path / "new", convert=True)
    slice_model(tmp_path / "new", "fr", data=DATA, output=tmp_path / "again")
    assert_same(
        weights(tmp_path / "again"),
        {name: tensor.bfloat16() for name, tensor in weights(tuned).items()},
    )
    index = orjson.loads((tmp_path / "new" / INDEX).read_bytes())
    size = sum(tensor.nbytes for tensor in weights(tmp_path / "new").values())
    assert index["metadata"]["total_size"] == size
    huge = {name: torch.full_like(each, 3.4e38) for name, each in weights(tuned).items()}
    save_file(huge, tuned / "model.safetensors")
    with pytest.raises(ModtokError, match="beyond what bfloat16 can represent"):
        graft(tuned, whole, original=tmp_path / "fr", output=tmp_path / "huge", convert=True)
    assert not (tmp_path / "huge").exists()


def test_a_model_that_stores_its_tied_table_twice(tmp_path: Path) -> None:
    """`save_pretrained` stores the table of the slice once."""
    whole, names = (
        build(tmp_path / "whole", "Qwen2"),
        ("lm_head.weight", "model.embed_tokens.weight"),
    )
    tensors = weights(whole)
    (whole / "model.safetensors").unlink()
    save_file({**tensors, names[0]: tensors[names[1]].clone()}, whole / "model.safetensors",
              {"format": "pt"})  # fmt: skip
    slice_model(whole, "fr", data=DATA, output=tmp_path / "fr")
    tuned = tune(tmp_path / "fr", tmp_path / "tuned")
    graft(tuned, whole, original=tmp_path / "fr", output=tmp_path / "new")
    head, table = (weights(tmp_path / "new")[name] for name in names)
    assert torch.equal(head, table)
    assert not torch.equal(head, tensors[names[1]])


@pytest.mark.parametrize("whole", ["Llama"], indirect=True)
def test_what_does_not_fit_a_model_is_refused_in_a_line(
    whole: Path, part: Path, tmp_path: Path
) -> None:
    tuned, new = tune(part, tmp_path / "tuned"), tmp_path / "new"
    with pytest.raises(UsageError, match=r"has no modtok.json and no modtok-vocabulary.json"):
        graft(tuned, whole, output=new)
    with pytest.raises(UsageError, match="no model given"):
        graft(tuned, output=new)
    with pytest.raises(UsageError, match=r"is not the Hugging Face model that .* is a slice"):
        graft(tuned, tmp_path, original=part, output=new)
    with pytest.raises(UsageError, match="tokenizer is for runs, not for"):
        graft(tuned, whole, original=part, output=new, tokenizer=whole)
    for place in (whole, whole.parent, part, tuned):
        with pytest.raises(UsageError, match=r"would (replace|be lost)"):
            graft(tuned, whole, original=part, output=place, force=True)
    # Another tokenizer, of the same size.
    other = tmp_path / "other"
    shutil.copytree(whole, other)
    text = (other / "tokenizer.json").read_text("utf-8")
    ids = orjson.loads((part / NAME).read_bytes())["ids"]
    vocabulary = orjson.loads(text)["model"]["vocab"]
    token = next(t for t, index in vocabulary.items() if index in ids and len(t) > 3)
    (other / "tokenizer.json").write_text(text.replace(f'"{token}":', '"zzzz":'), "utf-8")
    with pytest.raises(UsageError, match=r"is not a tokenizer of a slice of .*: token '.* or none"):
        graft(tuned, other, original=part, output=new)
    # Other weights of the same shapes.
    moved = tmp_path / "moved"
    shutil.copytree(whole, moved)
    (moved / "model.safetensors").unlink()
    changed = weights(whole)
    changed["lm_head.weight"][-1, -1] += 1
    save_file(changed, moved / "model.safetensors")
    with pytest.raises(UsageError, match="was cut from other weights than"):
        graft(tuned, moved, original=part, output=new)
    # Fewer rows; one tensor more, or less.
    tensors = weights(tuned)
    name = max(tensors, key=lambda each: len(tensors[each]) if "embed" in each else 0)
    for changed, message in (
        ({**tensors, name: tensors[name][1:]}, f"'{name}' is .*, expected"),
        ({**tensors, "more": tensors[name].clone()}, "tensor 'more' is not one of"),
        ({n: t for n, t in tensors.items() if n != name}, f"tensor '{name}' is missing"),
    ):
        save_file(changed, tuned / "model.safetensors")
        with pytest.raises(UsageError, match=f"does not fit: .*{message}"):
            graft(tuned, whole, original=part, output=new)
    (tuned / "model.safetensors").unlink()
    with pytest.raises(UsageError, match="has no weights in safetensors"):
        graft(tuned, whole, original=part, output=new)
    assert not new.exists()


@pytest.mark.parametrize(
    "field",
    [{"ids": [3, 2]}, {"ids": [-1, 2]}, {"ids": [2.5, 3.5]}, {"ids": "no"}, {"rows": None},
     {"weights": 4}],
)  # fmt: skip
def test_damaged_ids_are_an_error(field: dict[str, object], tmp_path: Path) -> None:
    whole = build(tmp_path / "whole")
    slice_model(whole, "fr", data=DATA, output=tmp_path / "fr")
    file = tmp_path / "fr" / NAME
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **field}))
    with pytest.raises(ModtokError, match="is damaged; slice the model again"):
        graft(tmp_path / "fr", whole, output=tmp_path / "new")


@pytest.mark.parametrize(("kind", "dtype"), [("run", "bfloat16"), ("tied_run", "float32")])
def test_a_run_gets_the_backbone_and_the_rows_of_its_slice(
    kind: str, dtype: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run: Path = request.getfixturevalue(kind)
    slice_model(run, "fr,en", output=tmp_path / "part", dtype=dtype)
    tuned = tune(tmp_path / "part", tmp_path / "tuned", dtype)
    new = tmp_path / "runs" / "new"
    report = graft(tuned, run, original=tmp_path / "part", output=new)
    slice_model(new, "fr,en", output=tmp_path / "again", dtype=dtype)
    assert_same(weights(tmp_path / "again"), weights(tuned))
    before, after = load(run, "full"), load(new, "full")
    kept = np.ones(before.tokenizer_in.size, dtype=np.bool_)
    kept[load(run, ["fr", "en"]).vocabularies.ids] = False
    assert kept.any()
    assert torch.equal(before.embedding[kept], after.embedding[kept])
    assert torch.equal(before.head[kept], after.head[kept])
    assert not torch.equal(before.embedding[~kept], after.embedding[~kept])
    assert report.tokens == (len(kept), int((~kept).sum()))
    # What opens a run opens this one; training starts from it, and does not continue it.
    assert modtok("generate", new, "Il", "--langs", "fr", "--max-tokens", 2) == 0
    workspace = run.parents[1]
    settings = run_settings(workspace, f"from-{kind}-{dtype}", tied=kind == "tied_run")
    assert open_initial(new).origin.shape == before.source.shape
    start = settings.changed(model=None, tied=None, init_from=new, steps=2, batch_size=2)
    # The rows of the other languages are trained to fit the backbone again, and nothing else.
    pretrain(start.changed(train="rows", langs=("el",), sampling=None))
    healed = load(settings.runs / settings.name, "full")
    assert torch.equal(healed.embedding[~kept], after.embedding[~kept])
    assert not torch.equal(healed.embedding[kept], after.embedding[kept])
    assert_same(healed.source.parameters(), after.source.parameters())
    resumed = settings.changed(name="new", runs=new.parent)
    with pytest.raises(ModtokError, match="has weights only, no state of the optimizer"):
        pretrain(resumed.changed(steps=20), resume=True)


def test_what_a_run_keeps(run: Path, tmp_path: Path) -> None:
    """Languages, step and conversations of an older checkpoint than the last."""
    whole, new = Path(shutil.copytree(run, tmp_path / "whole")), tmp_path / "new"
    (whole / FILE).write_text('{"eos_token": "<|endoftext|>", "chat_template": "T"}')
    slice_model(whole, "fr,en", step=4, output=tmp_path / "part")
    report = graft(tmp_path / "part", whole, output=new)
    assert report.whole == whole / "checkpoints" / "step-00000004"
    assert (new / FILE).read_bytes() == (whole / FILE).read_bytes()
    config = orjson.loads((new / "config.json").read_bytes())
    assert config["grafted"]["languages"] == ["en", "fr"]


def test_what_does_not_fit_a_run_is_refused_in_a_line(
    run: Path, tied_run: Path, workspace: Path, tmp_path: Path
) -> None:
    part, new = tmp_path / "part", tmp_path / "new"
    slice_model(run, "fr,en", output=part)
    with pytest.raises(UsageError, match=r"was cut from other weights than .* has at step 8"):
        graft(part, tied_run, output=new)
    with pytest.raises(UsageError, match="convert is for Hugging Face models"):
        graft(part, run, output=new, convert=True)
    unnamed = Path(shutil.copytree(part, tmp_path / "unnamed"))
    (unnamed / "modtok.json").unlink()
    with pytest.raises(UsageError, match=r"unnamed: has no modtok.json .*; name the fine-tuned"):
        graft(unnamed, run, output=new, tokenizer=workspace / "tokenizer")
    old = run / "checkpoints" / "step-00000004"
    with pytest.raises(UsageError, match=r"other weights than .* has at step 4"):
        graft(part, old, output=new)
    tensors = load_file(part / "model.safetensors")
    fewer = {**tensors, "lm_head.weight": tensors["lm_head.weight"][:-1]}
    save_file(fewer, part / "model.safetensors")
    with pytest.raises(ModtokError, match=r"'lm_head.weight' is .*config.json says"):
        graft(part, run, output=new)
    save_file({n: t * float("nan") for n, t in tensors.items()}, part / "model.safetensors")
    with pytest.raises(ModtokError, match="is not finite; fine-tune it again"):
        graft(part, run, output=new)
    facts = orjson.loads((part / "modtok.json").read_bytes())
    (part / "modtok.json").write_bytes(orjson.dumps({**facts, "tokenizer": "f00"}))
    with pytest.raises(UsageError, match="was cut from a run with tokenizer f00"):
        graft(part, run, output=new)
    slice_model(run, inputs="full", outputs="fr", output=tmp_path / "two")
    shutil.copy(part / "model.safetensors", tmp_path / "two")
    with pytest.raises(UsageError, match="reads and writes different languages"):
        graft(part, run, original=tmp_path / "two", output=new)
    assert not new.exists()


def test_bits_per_byte_of_every_language(
    run: Path, french_english: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = tune(french_english, tmp_path / "tuned")
    texts = [f"--report={SAMPLE / 'data' / name}.jsonl" for name in ("el", "fr")]
    words = ("graft", tuned, "--slice", french_english, "--onto", run, "-o", tmp_path / "new")
    assert modtok(*words, *texts, "--json") == 0
    rows = [orjson.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {row["language"]: row for row in rows if "language" in row}
    assert found.keys() == {"el", "fr"}
    for language, row in found.items():
        for side, path in (("full_", run), ("", tmp_path / "new")):
            text = SAMPLE / "data" / f"{language}.jsonl"
            assert modtok("eval", "bpb", path, text, "--lang", language, "--json") == 0
            (expected,) = map(orjson.loads, capsys.readouterr().out.splitlines())
            assert row[f"{side}bits_per_byte"] == pytest.approx(expected["bits_per_byte"])
            assert row[f"{side}tokens"] == expected["tokens"]
        change = row["bits_per_byte"] - row["full_bits_per_byte"]
        assert change > 0  # noise was added
        assert row["change"] == pytest.approx(change, abs=1e-4)
        assert row["low"] <= change <= row["high"]
