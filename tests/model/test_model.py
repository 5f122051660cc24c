"""Models of a run: vocabularies, steps, tokenizers; refusals, each a line that says what to do."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import modtok_cli as modtok
from helpers.sample import SAMPLE
from helpers.small_run import LANGUAGES, NAME, TOY
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture.sizes import shape_of
from modtok_cli.model.cost.cost import cost
from modtok_cli.model.generate.generate import Generator, answer_all, read_prompts
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.load import load, open_model
from modtok_cli.model.slice.slice import slice as slice_model


@pytest.fixture
def copy(french_english: Path, tmp_path: Path) -> Path:
    """A slice to be harmed."""
    return Path(shutil.copytree(french_english, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.embed_tokens.weight", lambda t: t[:-1], "'model.embed_tokens.weight' is"),
        ("lm_head.weight", lambda t: t[:-1], "'lm_head.weight' is"),
        ("lm_head.weight", lambda t: torch.cat([t, t[:1]]), "'lm_head.weight' is"),
        ("lm_head.weight", lambda t: t[:, 1:], "'lm_head.weight' is"),
        ("lm_head.weight", lambda t: t.to(torch.int32), "'lm_head.weight' is int32"),
        ("model.norm.weight", lambda t: t[1:], "does not fit the model"),
        ("model.norm.weight", None, "does not fit the model (parameter 'norm.weight')"),
        ("lm_head.weight", None, "'lm_head.weight' is missing"),
    ],
)
def test_tables_of_another_shape(
    copy: Path, name: str, change: Callable[[torch.Tensor], torch.Tensor] | None, message: str
) -> None:
    weights = load_file(copy / "model.safetensors")
    tensor = weights.pop(name)
    if change is not None:
        weights[name] = change(tensor).contiguous()
    (copy / "model.safetensors").unlink()  # still mapped
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModtokError) as caught:
        load(copy)
    line = str(caught.value)
    assert line.startswith(str(copy / "model.safetensors"))
    assert (message in line, "; " in line, "\n" in line) == (True, True, False)


def test_a_tokenizer_of_another_size(copy: Path, run: Path, tmp_path: Path) -> None:
    slice_model(run, ["fi"], output=tmp_path / "fi")
    shutil.copy(tmp_path / "fi" / "tokenizer.json", copy)
    with pytest.raises(ModtokError, match=r"field 'ids' has \d+ entries, .*; slice the run again"):
        load(copy)
    slice_model(run, inputs=["en"], outputs=["fr"], output=tmp_path / "two")
    for name, field in (("tokenizer.json", "row_of_in"), ("tokenizer_out.json", "row_of_out")):
        harmed = Path(shutil.copytree(tmp_path / "two", tmp_path / field))
        whole = tmp_path / "fr-en"
        slice_model(run, ["fr", "en"], output=whole, force=True)
        shutil.copy(whole / "tokenizer.json", harmed / name)
        with pytest.raises(ModtokError, match=f"field '{field}' has .*; slice the run again"):
            load(harmed)


def test_transformers_of_before_read_it_too(french_english: Path) -> None:
    # 4.x reads the base of rotary embeddings here, and takes 10,000 if it is not there.
    config = json.loads((french_english / "config.json").read_bytes())
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"] == TOY["rope_theta"]
    # Its tokenizers give token_type_ids by default, which its Llama's `generate` refuses.
    told = json.loads((french_english / "tokenizer_config.json").read_bytes())
    assert told["model_input_names"] == ["input_ids", "attention_mask"]


def test_the_code_of_the_model_card_runs(french_english: Path) -> None:
    code = (french_english / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(code.replace('"NAME"', repr(str(french_english))), names)
    model, ids = names["model"], names["ids"]
    assert len(model.generate(**ids, max_new_tokens=2)[0]) == ids["input_ids"].shape[1] + 2


def test_append_by_a_link_and_with_a_tokenizer_from_elsewhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent.parent)  # the run is found by its name in the workspace
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    slice_model(run, ["fr"], output=deep / "fr")
    (tmp_path / "link").symlink_to(deep / "fr")
    slice_model(tmp_path / "link", append=["en"], output=tmp_path / "wide")
    assert load(tmp_path / "wide").source.languages == ("en", "fr")
    monkeypatch.chdir(tmp_path)
    alone = Path(shutil.copytree(run, tmp_path / "alone"))
    tokenizer = Path(shutil.move(alone / "tokenizer", tmp_path / "elsewhere"))
    slice_model(alone, ["fr"], output=tmp_path / "fr", tokenizer=tokenizer)
    with pytest.raises(UsageError, match="give its directory with tokenizer"):
        slice_model(tmp_path / "fr", append=["en"], output=tmp_path / "wider")
    slice_model(tmp_path / "fr", append=["en"], output=tmp_path / "wider", tokenizer=tokenizer)
    shutil.rmtree(alone)
    with pytest.raises(UsageError, match="its run 'alone' was not found; pass the run with"):
        slice_model(tmp_path / "fr", append=["en"], output=tmp_path / "widest")
    with pytest.raises(UsageError, match="nowhere is not a run; pass the run with origin"):
        slice_model(
            tmp_path / "fr", append=["en"], output=tmp_path / "widest", origin=Path("nowhere")
        )


def prompts(*rows: dict[str, Any]) -> Any:
    return read_prompts([json.dumps(row).encode() for row in rows])


def test_a_prompt_that_asks_too_late_for_a_choice(french_english: Path) -> None:
    asked = prompts({"prompt": "a"}, {"prompt": "b", "languages": "auto"})
    with pytest.raises(UsageError, match="there is nothing to choose"):
        list(answer_all(Generator(french_english), asked, SamplingOptions(max_tokens=1), batch=1))


def test_missing_language_is_reported_with_its_line(run: Path) -> None:
    asked = prompts({"prompt": "a"}, {"prompt": "b", "languages": "xx"})
    with pytest.raises(UsageError, match=r"line 2: .*no language 'xx'; it has: el, en, fi, fr"):
        list(answer_all(Generator(run, ["fr"]), asked, SamplingOptions(max_tokens=1)))


def test_seeds_fit_64_bits(french_english: Path) -> None:
    with pytest.raises(UsageError, match="--seed: expected between 0 and 2"):
        SamplingOptions(seed=1 << 62)
    options = SamplingOptions(max_tokens=1, temperature=1.0, seed=(1 << 62) - 1)
    list(answer_all(Generator(french_english), prompts({"prompt": "a"}, {"prompt": "b"}), options))


def test_the_memory_of_a_run_is_that_of_its_own_tokenizer(run: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(run, root / "runs" / "it")
    shutil.rmtree(root / "runs" / "it" / "tokenizer")
    with pytest.raises(UsageError, match="which was not found; name others with tokenizers"):
        cost(root / "runs" / "it")
    bpe_seq(LANGUAGES, data=SAMPLE / "data", output=root / "tokenizer", k=500, references=False)
    with pytest.raises(UsageError, match=r"which was not found \(.*tokenizer is .*\)"):
        cost(root / "runs" / "it")
    named = cost(root / "runs" / "it", tokenizers=str(root / "tokenizer"))
    assert [row["model"] for row in named] == [NAME]
    rows = cost(run)
    assert len(rows) == 1 + len(LANGUAGES)


def test_cost_of_blank_lines(workspace: Path, tmp_path: Path) -> None:
    blank = tmp_path / "fr.txt"
    blank.write_text("  \n \n")
    with pytest.raises(ModtokError, match=r"fr.txt: language 'fr' has only blank lines; give"):
        cost([workspace / "tokenizer", blank], models={"toy": shape_of(TOY)})


def test_a_slice_below_a_name_that_is_no_text(run: Path, tmp_path: Path) -> None:
    strange = tmp_path / os.fsdecode(b"caf\xe9")
    slice_model(run, ["fr"], output=strange / "fr")
    assert json.loads((strange / "fr" / "modtok.json").read_bytes())["inputs"] == ["fr"]


def test_what_a_model_cannot_use_is_refused(french_english: Path, run: Path) -> None:
    for given in ({"step": 8}, {"tokenizer": run / "tokenizer"}):
        with pytest.raises(UsageError, match="is for runs, not for slices"):
            load(french_english, **given)
    with pytest.raises(UsageError, match="outputs: the model is loaded; give it load_generator"):
        modtok.generate(Generator(french_english), ["a"], outputs="fr")


def test_ends_of_a_slice_without_a_template(copy: Path) -> None:
    """Of a run that began from a model with several: an export has them too."""
    assert open_model(copy).spoken(load(copy).vocabularies)[1].turn is None
    file = copy / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"eos_token_id": [0, 300]}))
    assert open_model(copy).spoken(load(copy).vocabularies)[1].turn == 300


def test_other_weights_have_another_digest(copy: Path) -> None:
    before, weights = open_model(copy).digest, load_file(copy / "model.safetensors")
    weights["lm_head.weight"][-1, -1] += 1
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    other = open_model(copy).digest
    (copy / "README.md").write_text("Decides nothing.")
    (copy / "runs.json").mkdir()
    assert open_model(copy).digest == other != before


def test_a_slice_knows_its_languages_by_any_code(french_english: Path) -> None:
    assert load(french_english, ["fra", "eng_Latn"]).source.languages == ("en", "fr")
    with pytest.raises(UsageError, match="has en,fr only, not fi"):
        load(french_english, ["fin"])


# --- models of a run ---


def test_any_step_and_what_is_wrong(run: Path, tmp_path: Path) -> None:
    checkpoint = run / "checkpoints" / "step-00000004"
    older = load(checkpoint, ["fr"])
    assert older.source.step == load(run, ["fr"], step=4).source.step == 4
    assert not torch.equal(older.head, load(run, ["fr"]).head)
    with pytest.raises(UsageError, match="is the checkpoint of step 4, not 8; leave --step out"):
        load(checkpoint, ["fr"], step=8)
    with pytest.raises(UsageError, match="has no checkpoint of step 5; choose from 4, 8"):
        load(run, step=5)
    with pytest.raises(UsageError, match=r"no language 'xx'; it has: el, en, fi, fr"):
        load(run, ["xx"])
    with pytest.raises(UsageError, match="neither a run nor a model"):
        load(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        load(tmp_path / "nothing")


def test_a_run_needs_its_own_tokenizer(run: Path, workspace: Path, tmp_path: Path) -> None:
    alone = tmp_path / "it"
    shutil.copytree(run, alone)
    assert load(alone, ["fr"]).tokenizer_in.size > 256  # a run contains its tokenizer
    grown = tmp_path / "grown"
    bpe_seq(append=["sw"], data=SAMPLE / "data", tokenizer=workspace / "tokenizer", output=grown)
    assert load(alone, ["fr"], tokenizer=grown).tokenizer_in.size > 256  # contains the run's own
    shutil.rmtree(alone / "tokenizer")
    with pytest.raises(UsageError, match="was not found"):
        load(alone, ["fr"], tokenizer=grown)
    with pytest.raises(UsageError, match="not found; give its directory with"):
        load(alone, ["fr"])
    assert load(alone, ["fr"], tokenizer=workspace / "tokenizer").tokenizer_in.size > 256
