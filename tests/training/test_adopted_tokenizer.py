"""A model continued with its own tokenizer, adopted: sampled subtokenizers of its vocabulary."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import orjson
import pytest
import tokenizers
import torch
from safetensors.torch import load_file

from helpers.external_models import build
from helpers.metrics import read_metrics
from helpers.microbatches import plan_of
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.evaluate.evaluate import evaluate_bpb
from modtok_cli.model.load import load
from modtok_cli.model.slice.graft import graft
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.encoding.encoder import Encoder
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.training.data.slot_packer import SlotPacker
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.loop import pretrain
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE

LANGUAGES = ("en", "fr")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with two tables, and its adopted tokenizer."""
    path = tmp_path_factory.mktemp("adopted")
    build(path / "model")
    adopt(path / "model", LANGUAGES, data=SAMPLE).save(path / "tokenizer")
    return path


def settings(path: Path, runs: Path) -> RunSettings:
    """Steps that change no weight: the rate is below what float32 can add."""
    return RunSettings(
        init_from=path / "model", langs=LANGUAGES, sampling="sub:1", data=SAMPLE,
        tokenizer=path / "tokenizer", runs=runs, workers=0, steps=4, lr=1e-30, final_lr=0.0,
        seq_length=32, batch_size=2, micro_batch=1, eval_bytes=600, name="it", weight_decay=0.0,
    )  # fmt: skip


def packers(path: Path, runs: Path, stores: dict[str, TextStore]) -> list[SlotPacker]:
    """The packers of the run of `settings`."""
    config = resolve(settings(path, runs), gpu=False)
    chosen = {language: stores[language] for language in LANGUAGES}
    plan = plan_of(config, path / "tokenizer", chosen)
    return plan.packers(range(config.data.batch_size), {})


def test_the_end_of_text_is_the_model_s_and_in_every_language(model: Path) -> None:
    whole = ModularTokenizer.load(model / "tokenizer")
    assert whole.settings["end_of_text"] == "</s>"
    cache = SubtokenizerCache.load(model / "tokenizer")
    cache.check_dropout()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Encoder, "can_drop", False)  # as of one that the library runs
        for change, where in (
            ({"dropout": 0.1}, "--set data.dropout"),
            ({"stages": ({"steps": 1, "lr": 1e-30, "dropout": 0.1},)}, "[[stage]] dropout"),
        ):
            with pytest.raises(UsageError, match=f"^{re.escape(where)}: the tokenizer is run by"):
                pretrain(settings(model, model / "runs").changed(**change))  # type: ignore[arg-type]
    document = orjson.loads((model / "model" / "tokenizer.json").read_bytes())
    written = {token["content"]: token["id"] for token in document["added_tokens"]}
    assert cache.end_of_text == written["</s>"]
    for languages in (("fr",), ("en",), LANGUAGES, None):
        part = cache.of(languages)
        assert part.decode([cache.end_in(part)]) == "</s>"
    other = adopt(model / "model", ("fr",), data=SAMPLE, end_of_text="<|im_end|>")
    last = SubtokenizerCache(other)
    assert last.end_of_text == written["<|im_end|>"]
    part = last.of(("fr",))
    assert last.end_in(part) < last.end_of_text
    assert part.decode([last.end_in(part)]) == "<|im_end|>"


def test_batches_are_the_text(model: Path, tmp_path: Path, stores: dict[str, TextStore]) -> None:
    cache = SubtokenizerCache.load(model / "tokenizer")
    for packer in packers(model, tmp_path, stores):
        text, language = b"", ""
        for step in range(1, 20):
            batch = packer.batch(step)
            part = cache.of(batch.draw.languages)
            assert batch.end_of_text == cache.end_in(part)
            assert batch.inputs[0, 0] == cache.end_of_text
            assert np.array_equal(batch.inputs[0, 1:], part.global_ids[batch.targets[0, :-1]])
            language = language or batch.draw.language
            if batch.draw.language == language:
                text += part.decode_bytes(batch.targets[0])
        store = stores[language]
        documents = [
            store.document(store.training_document(2 * number + packer.slot, 0))
            for number in range(20)
        ]
        assert b"</s>".join(documents).startswith(text)


def test_the_first_loss_is_the_model_s(
    model: Path, tmp_path: Path, stores: dict[str, TextStore]
) -> None:
    """The softmax is over the sampled subset of the model's logits, as transformers has them."""
    import transformers

    pretrain(settings(model, tmp_path))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(model / "model").eval()
    cache = SubtokenizerCache.load(model / "tokenizer")
    steps = [row for row in read_metrics(tmp_path / "it") if "loss" in row]
    assert len(steps) == 4
    assert {len(draw.split(",")) for row in steps for draw in row["draws"]} == {1, 2}
    slots = packers(model, tmp_path, stores)
    for row in steps:
        nats = []
        for packer in slots:
            batch = packer.batch(row["step"])
            chosen = torch.from_numpy(cache.of(batch.draw.languages).global_ids).long()
            with torch.no_grad():
                logits = theirs(torch.from_numpy(batch.inputs).long()).logits[0]
            targets = torch.from_numpy(batch.targets[0]).long()
            nats.append(torch.nn.functional.cross_entropy(logits[:, chosen], targets).item())
        assert row["loss"] == pytest.approx(sum(nats) / len(nats), rel=1e-5)

    # A slice of the run, in transformers and in modtok.
    slice_model(tmp_path / "it", output=tmp_path / "fr", inputs=["fr"], outputs=["fr"])
    part = cache.of(("fr",))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "fr")
    ids = tokenizer("La maison est grande.").input_ids
    assert ids == [cache.end_in(part), *part.encode("La maison est grande.").tolist()]
    sliced = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "fr").eval()
    stops = [cache.end_in(part), part.get_vocab()["<|im_end|>"]]  # as of the model
    assert sliced.config.eos_token_id == stops
    with torch.no_grad():
        found = sliced(torch.tensor([ids])).logits[0]
        whole = theirs(torch.from_numpy(part.global_ids[ids]).long()[None]).logits[0]
    torch.testing.assert_close(found, whole[:, part.global_ids], atol=1e-4, rtol=1e-4)
    for loaded in (load(tmp_path / "it", ["fr"]), load(tmp_path / "it", "full", ["fr"])):
        row = loaded.end_of_text
        assert loaded.vocabularies.ids[row] == cache.end_of_text
        assert loaded.tokenizer_out.decode([*loaded.ends_of_output]) == "</s>"


def test_a_grown_tokenizer_trains_its_new_rows(model: Path, tmp_path: Path) -> None:
    """Old rows are those of the model; a new one is the mean of what merges make it of."""
    from safetensors.numpy import load_file

    grown = tmp_path / "grown"
    bpe_seq(append="el", tokenizer=model / "tokenizer", output=grown, k=40, data=SAMPLE)
    tokenizer = ModularTokenizer.load(grown)
    old = tokenizer.size - 40
    begun = settings(model, tmp_path)
    notes = Said()
    chosen = begun.changed(tokenizer=grown, langs=("el", "fr"), train="rows", data=SAMPLE)
    pretrain(chosen, progress=notes)
    said = f"{old:,} of {old + 40:,} embedding rows carried over; modtok transplant --distill"
    assert any(said in line for line in notes.notes)
    every = tokenizer.languages
    slice_model(tmp_path / "it", output=tmp_path / "all", inputs=every, outputs=every)
    before = load_file(model / "model" / "model.safetensors")
    after = load_file(tmp_path / "all" / "model.safetensors")
    library = tokenizers.Tokenizer.from_file(str(model / "model" / "tokenizer.json"))
    tables = ("model.embed_tokens.weight", "lm_head.weight")
    for row, index in enumerate(tokenizer.subset(every).global_ids.tolist()):
        name = str(tokenizer.id_to_token(index))
        new = index >= old
        spelled = [each.id for each in library.model.tokenize(name)] if new else [index]
        assert (len(spelled) > 1) == new
        for table in tables:
            expected = before[table][spelled].mean(axis=0)
            np.testing.assert_allclose(after[table][row], expected, rtol=1e-5, atol=1e-7)
    for name in before.keys() - {*tables}:
        assert np.array_equal(after[name], before[name]), name

    # A second language, from the run; its slice, the tokenizer of it, and back into the run.
    bpe_seq(append="fi", tokenizer=grown, output=tmp_path / "bigger", k=30, data=SAMPLE)
    more = chosen.changed(init_from=tmp_path / "it", tokenizer=tmp_path / "bigger", name="more")
    pretrain(more.changed(langs=("fi", "fr")))
    slice_model(tmp_path / "more", output=tmp_path / "fi", inputs=["fi"], outputs=["fi"])
    part = ModularTokenizer.load(tmp_path / "bigger").subset("fi")
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "fi" / "tokenizer.json"))
    line = "Kirjasto on avoinna joka päivä."
    assert theirs.encode(line, add_special_tokens=False).ids == part.encode(line).tolist()
    assert part.size > len(part.segmenter.needed.nonzero()[0]) + 30
    part.save(tmp_path / "fi.json")
    assert open_tokenizer(str(tmp_path / "fi.json")).signature == part.signature
    graft(tmp_path / "fi", tmp_path / "more", output=tmp_path / "grafted")
    for words in ("tokens DIR --langs fi", "inspect -t DIR --check"):
        place = {"DIR": str(tmp_path / "bigger")}
        assert run(command_tree(), [place.get(word, word) for word in words.split()]) == 0


def test_a_tokenizer_without_end_of_text_is_refused(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "alone.json"
    document = orjson.loads((model / "model" / "tokenizer.json").read_bytes())
    for token in document["added_tokens"]:
        token["content"] = token["content"].replace("</s>", "<stop>")
    vocabulary = document["model"]["vocab"]
    vocabulary["<stop>"] = vocabulary.pop("</s>")
    source.write_bytes(orjson.dumps(document))
    made = adopt(source, ("fr",), data=SAMPLE)
    assert made.settings["end_of_text"] is None
    with pytest.raises(ModtokError, match="adopt it again with --end-of-text TOKEN"):
        SubtokenizerCache(made)
    with pytest.raises(UsageError, match="the tokenizer has no token '<end>'"):
        adopt(source, ("fr",), data=SAMPLE, end_of_text="<end>")


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_scores_are_the_model_s_with_rows_without_a_token(family: str, tmp_path: Path) -> None:
    """38 of 640 rows fill the tables up; the second has one table. Texts begin with <s>."""
    build(tmp_path / "model", family)
    adopted = adopt(tmp_path / "model", LANGUAGES, data=SAMPLE, end_of_text="<s>")
    adopted.save(tmp_path / "tokenizer")
    notes, text = Said(), tmp_path / "fr.txt"
    text.write_text("Une phrase, puis une autre.\n", "utf-8")
    pretrain(settings(tmp_path, tmp_path).changed(sampling="full"), progress=notes)
    assert not any("without a token" in line for line in notes.notes)
    run, model = tmp_path / "it", tmp_path / "model"
    rows = [
        evaluate_bpb(each, text, infer=infer).rows[0]["bits_per_byte"]
        for each, infer in ((model, None), (run, "full"))
    ]
    assert rows[0] == pytest.approx(rows[1], abs=1e-5)
    slice_model(run, output=tmp_path / "slice", outputs="full")
    sizes = [
        {name: tuple(each.shape) for name, each in load_file(path / "model.safetensors").items()}
        for path in (model, tmp_path / "slice")
    ]
    assert sizes[0] == sizes[1]
    ids = torch.arange(9)[None]
    assert torch.equal(load(tmp_path / "slice").logits(ids), load(run).logits(ids))
    assert len(load(run, ["en"]).head) < len(load(run, ["en", "fr"]).head) < 602


def test_text_that_the_tokenizer_cannot_write_has_no_bits(tmp_path: Path) -> None:
    """A Unigram tokenizer of en, fr and fi without bytes has no Greek letter."""
    build(tmp_path / "model", kind="unigram")
    adopt(tmp_path / "model", ("el", "fr"), data=SAMPLE).save(tmp_path / "tokenizer")
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "fr.txt").write_text("ελληνικά\n", "utf-8")
    notes = Said()
    chosen = settings(tmp_path, tmp_path).changed(
        langs=("el", "fr"), lr=1e-3, valid={"news": tmp_path / "news"}
    )
    report = pretrain(chosen, progress=notes)
    *steps, last = read_metrics(tmp_path / "it")
    held = last["held_out"]
    assert held["el"]["bits_per_byte"] is None
    assert held["el"]["unknown_tokens"] > 10
    assert held["fr"]["unknown_tokens"] == 0
    assert last["bits_per_byte"] == held["fr"]["bits_per_byte"] > 0
    assert last["valid"]["news"]["fr"]["bits_per_byte"] is None
    trained = [(name, each["bits_per_byte"]) for line in steps for name, each in
               line["languages"].items()]  # fmt: skip
    assert all((bits is None) == (name == "el") for name, bits in trained)
    assert {*dict(trained)} == {"el", "fr"}
    assert [row["bits_per_byte"] is None for row in report.rows()] == [True, False, True]
    said = "bits per byte would be too few and are left out"
    assert [line.partition(":")[0] for line in notes.warnings if said in line] == [
        "held-out el", "news fr",
    ]  # fmt: skip
    assert any("held-out bits per byte el left out, fr" in line for line in notes.notes)
    assert (
        run(command_tree(), ["report", str(tmp_path / "it"), "-o", str(tmp_path / "p.html")]) == 0
    )
