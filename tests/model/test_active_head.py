"""The active vocabulary in models of transformers, against the whole model with masked logits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

transformers = pytest.importorskip("transformers")

from helpers.sample import SAMPLE  # noqa: E402
from modtok_cli.base.errors import ModtokError, UsageError  # noqa: E402
from modtok_cli.construct.bpe import bpe  # noqa: E402
from modtok_cli.model.architecture.logit_scales import logit_scales  # noqa: E402
from modtok_cli.model.head import ActiveHead  # noqa: E402

SIZE, IDS = 97, [0, 3, 5, 8, 13, 21, 34, 55, 60, 61, 89, 96]
OTHERS = sorted({*range(SIZE)} - {*IDS})
SMALL = {
    "vocab_size": SIZE,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "untied": ("Llama", {"tie_word_embeddings": False}),
    "bias": ("Phi", {"tie_word_embeddings": False, "num_key_value_heads": 2}),
    "scaled input": ("Gemma3Text", {"tie_word_embeddings": True}),
    "scaled logits": ("Cohere", {"tie_word_embeddings": True, "logit_scale": 0.25}),
    "divided logits": ("Granite", {"tie_word_embeddings": True, "logits_scaling": 4.0}),
}


def build(kind: str) -> Any:
    name, settings = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**SMALL | settings)
    torch.manual_seed(1)
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():  # biases too
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.train()


def batch(active: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs with some tokens that are not active, and labels with ignored ones."""
    torch.manual_seed(2)
    inputs = torch.tensor(IDS)[torch.randint(len(IDS), (3, 10))]
    labels = inputs.clone()
    labels[0, :6] = labels[2, 4] = -100
    if not active:
        inputs[1, 2:5] = torch.tensor([1, 2, 95])
        labels[1, 2:5] = -100
    return inputs, labels


def masked_loss(model: Any, inputs: torch.Tensor, labels: torch.Tensor, smoothing: float) -> Any:
    """The definition: all logits, those of other tokens left out of the softmax."""
    logits = model(input_ids=inputs).logits[:, :-1, IDS].flatten(0, 1).float()
    columns = torch.searchsorted(torch.tensor(IDS), labels[:, 1:].clamp(min=0)).flatten()
    columns = torch.where(labels[:, 1:].flatten() == -100, -100, columns)
    return F.cross_entropy(logits, columns, label_smoothing=smoothing)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("smoothing", "active"), [(0.0, True), (0.1, False)])
def test_loss_and_gradients_are_those_of_the_masked_softmax(
    kind: str, smoothing: float, active: bool
) -> None:
    model, inputs_labels = build(kind), batch(active)
    whole = build(kind)
    expected = masked_loss(whole, *inputs_labels, smoothing)
    expected.backward()
    head = ActiveHead.attach(model, IDS, label_smoothing=smoothing, chunk=4)
    inputs, labels = inputs_labels
    shifted = F.pad(labels[:, 1:], (0, 1), value=-100)  # as loops of training may give them too
    output = model(input_ids=inputs, labels=labels, shift_labels=shifted)
    assert output.logits is None
    torch.testing.assert_close(output.loss, model(input_ids=inputs, labels=labels).loss)
    output.loss.backward()
    torch.testing.assert_close(output.loss, expected, rtol=1e-5, atol=1e-6)
    found = dict(model.named_parameters(remove_duplicate=False))
    rows = torch.tensor(IDS)
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        own = found[name].grad
        there = parameter.grad
        if len(parameter) == SIZE:
            there = there[rows]
        assert own is not None, name
        torch.testing.assert_close(own, there, rtol=1e-4, atol=1e-6, msg=name)
    whole_input = model.get_input_embeddings().whole_weight
    assert head.weight.shape == (len(IDS), 16)
    assert not whole_input.requires_grad


@pytest.mark.parametrize("kind", ["tied", "untied", "bias"])
def test_training_changes_active_rows_only_and_files_hold_the_whole(
    kind: str, tmp_path: Path
) -> None:
    model, (inputs, labels) = build(kind), batch()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    head = ActiveHead.attach(model, IDS)
    optimizer = torch.optim.AdamW(
        [each for each in model.parameters() if each.requires_grad], lr=0.01, weight_decay=0.1
    )
    for _ in range(2):
        model(input_ids=inputs, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(tmp_path)
    attached = model.state_dict()
    assert set(attached) == set(before)
    again = type(model).from_pretrained(tmp_path)
    loaded = build(kind)
    second = ActiveHead.attach(loaded, IDS)
    loaded.load_state_dict(attached)
    torch.testing.assert_close(second.weight, head.weight, rtol=0, atol=0)
    head.detach()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, attached[name], rtol=0, atol=0)
        torch.testing.assert_close(value, again.state_dict()[name], rtol=0, atol=0)
        if len(value) == SIZE:
            assert torch.equal(value[OTHERS], before[name][OTHERS])
            assert not torch.equal(value[IDS], before[name][IDS])
    assert all(each.requires_grad for each in model.parameters())
    assert [*dict(model.named_parameters())] == [*dict(build(kind).named_parameters())]


def test_generation_samples_active_tokens_only() -> None:
    model, (inputs, _) = build("tied"), batch()
    whole = build("tied").eval()
    ActiveHead.attach(model, IDS)
    model.eval()
    logits = model(input_ids=inputs).logits
    expected = whole(input_ids=inputs).logits
    torch.testing.assert_close(logits[..., IDS], expected[..., IDS])
    assert torch.isinf(logits).sum() == (SIZE - len(IDS)) * inputs.numel()
    out = model.generate(inputs, max_new_tokens=5, do_sample=True, pad_token_id=0)
    assert set(out[:, inputs.shape[1] :].flatten().tolist()) <= set(IDS)


def test_labels_outside_are_an_error_or_ignored() -> None:
    model, (inputs, labels) = build("tied"), batch()
    head = ActiveHead.attach(model, IDS)
    for other in (-1, 7):  # -100 is the only number that is no token
        labels[1, 3] = other
        with pytest.raises(
            UsageError, match=f"1 labels are not active, the first is token {other}"
        ):
            model(input_ids=inputs, labels=labels)
    head.detach()
    ActiveHead.attach(model, IDS, ignore_outside=True)
    loss = model(input_ids=inputs, labels=labels).loss
    labels[1, 3] = -100
    found, *others = model(input_ids=inputs, labels=labels, return_dict=False, use_cache=True)
    torch.testing.assert_close(loss, found)
    assert [type(each).__name__ for each in others] == ["DynamicCache"]  # and no logits


@pytest.mark.parametrize("own", [True, False])
def test_a_model_gets_its_own_loss_back(own: bool) -> None:
    model, (inputs, labels) = build("tied"), batch()
    if own:
        model.loss_function = lambda logits, labels, **_: logits.sum()
    before = model(input_ids=inputs, labels=labels).loss
    head = ActiveHead.attach(model, IDS, verify=False)
    assert model(input_ids=inputs, labels=labels).loss.item() != before.item()
    head.detach()
    torch.testing.assert_close(model(input_ids=inputs, labels=labels).loss, before)


def test_wrong_ids_are_one_line(tmp_path: Path) -> None:
    bpe(["fi"], data=SAMPLE / "data", output=tmp_path / "mono", k=300)
    plain = str(tmp_path / "mono" / "fi.json")
    wrong: dict[str, Any] = {
        "between 0 and 96": [], "0 and 96": [5, 97], "x": "x@y", "is not a subset": plain
    }  # fmt: skip
    for message, ids in wrong.items():
        with pytest.raises(ModtokError, match=message):
            ActiveHead.attach(build("tied"), ids)
    model = build("untied")
    model.set_input_embeddings(torch.nn.Identity())
    with pytest.raises(UsageError, match="are Linear and Identity"):
        ActiveHead.attach(model, IDS)
    model = build("untied")
    model.set_output_embeddings(torch.nn.Identity())
    with pytest.raises(UsageError, match="are Identity and Embedding"):
        ActiveHead.attach(model, IDS)


@pytest.mark.parametrize(
    ("family", "fields", "expected"),
    [
        ("Llama", {}, (1.0, None)),
        ("Cohere", {"logit_scale": 0.0625}, (0.0625, None)),
        ("Granite", {"logits_scaling": 3.0}, (1 / 3, None)),
        ("HyperCLOVAX", {"logits_scaling": 3.0}, (3.0, None)),  # the same field, multiplied
        ("FalconH1", {"lm_head_multiplier": 0.02}, (0.02, None)),
        ("Gemma2", {"final_logit_softcapping": 30.0}, (1.0, 30.0)),
    ],
)
def test_factor_and_bound_of_logits(
    family: str, fields: dict[str, Any], expected: tuple[float, float | None]
) -> None:
    """As each family's configuration says, under a name of its own."""
    config = getattr(transformers, f"{family}Config")(**SMALL | fields)
    model = getattr(transformers, f"{family}ForCausalLM")(config).to(torch.bfloat16)
    found = logit_scales(model)
    assert found.factor == pytest.approx(expected[0], rel=1e-6)
    assert found.cap == (None if expected[1] is None else pytest.approx(expected[1]))


def test_a_loss_with_a_part_for_the_router_of_a_mixture() -> None:
    config = transformers.MixtralConfig(
        **SMALL, num_local_experts=4, output_router_logits=True, router_aux_loss_coef=0.5
    )
    torch.manual_seed(1)
    model = transformers.MixtralForCausalLM(config).eval()
    inputs, labels = batch()
    with torch.no_grad():
        output = model(input_ids=inputs, labels=labels)
        expected = masked_loss(model, inputs, labels, 0.0) + 0.5 * output.aux_loss
        assert output.aux_loss > 0.1
        ActiveHead.attach(model, IDS)
        torch.testing.assert_close(model(input_ids=inputs, labels=labels).loss, expected)


def test_models_that_change_logits_are_refused() -> None:
    config = transformers.Gemma2Config(**SMALL, final_logit_softcapping=30.0)
    with pytest.raises(UsageError, match="bounds its logits to 30"):
        ActiveHead.attach(transformers.Gemma2ForCausalLM(config), IDS)
    model = build("tied")
    original = model.forward
    model.forward = lambda **inputs: _positive(original(**inputs))
    with pytest.raises(ModtokError, match="changes its logits"):
        ActiveHead.attach(model, IDS)
    assert len(model.lm_head.weight) == SIZE


def _positive(output: Any) -> Any:
    if output.logits is not None:
        output.logits = output.logits.abs()
    return output


def test_trainer_saves_and_resumes(tmp_path: Path) -> None:
    """Eight steps equal four, a kill and four more, to the bit."""
    inputs, labels = batch()
    data = [{"input_ids": a, "labels": b} for a, b in zip(inputs, labels, strict=True)]

    def train(steps: int, place: Path, resume: bool = False) -> Any:
        model = build("tied")
        head = ActiveHead.attach(model, IDS)
        settings = transformers.TrainingArguments(
            str(place), max_steps=steps, save_steps=4, per_device_train_batch_size=2, seed=1,
            report_to=[], use_cpu=True, disable_tqdm=True, lr_scheduler_type="constant",
            learning_rate=0.01, logging_strategy="no",
        )  # fmt: skip
        trainer = transformers.Trainer(model, settings, train_dataset=data)
        trainer.train(resume_from_checkpoint=resume)
        head.detach()
        return model

    whole = train(8, tmp_path / "whole")
    train(4, tmp_path / "parts")
    parts = train(8, tmp_path / "parts", resume=True)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, parts.state_dict()[name]), name
    saved = type(whole).from_pretrained(tmp_path / "parts" / "checkpoint-8")
    assert torch.equal(saved.lm_head.weight, whole.lm_head.weight)


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="trl is not installed")
def test_trl(tmp_path: Path) -> None:
    """The head of TRL multiplies by the active rows: the loss is that of the masked softmax."""
    import datasets
    import trl

    inputs, labels = batch()
    rows = {"input_ids": inputs.tolist(), "labels": labels.tolist()}
    settings = trl.SFTConfig(
        str(tmp_path), max_steps=2, per_device_train_batch_size=3, report_to=[], use_cpu=True,
        disable_tqdm=True, logging_steps=1, bf16=False, learning_rate=0.01,
        gradient_checkpointing=False, dataset_kwargs={"skip_prepare_dataset": True},
    )  # fmt: skip
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_words(), eos_token="3", pad_token="0"
    )
    trainer = trl.SFTTrainer(
        build("tied"), settings, train_dataset=datasets.Dataset.from_dict(rows),
        processing_class=tokenizer,
    )  # fmt: skip
    head = ActiveHead.attach(trainer.model, IDS)
    before = head.whole_weight.clone()
    trainer.train()
    first = trainer.state.log_history[0]["loss"]
    expected = masked_loss(build("tied"), inputs, labels, 0.0)
    assert first == pytest.approx(float(expected), rel=1e-3)
    head.detach()
    after = trainer.model.lm_head.weight
    assert torch.equal(after[OTHERS], before[OTHERS])
    assert not torch.equal(after[IDS], before[IDS])


def _words() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    return Tokenizer(WordLevel({str(number): number for number in range(SIZE)}, unk_token="0"))


@pytest.mark.parametrize("padding", [None, 0, 5, 1])
def test_the_padding_row_is_the_models(padding: int | None) -> None:
    """A row that the model does not train, by the place of its token; 1 is not active."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**SMALL | {"pad_token_id": padding})
    model = transformers.LlamaForCausalLM(config).train()
    table = model.get_input_embeddings()
    assert table.padding_idx == padding
    head = ActiveHead.attach(model, IDS)
    inputs = torch.tensor([IDS, IDS[::-1]])
    model(input_ids=inputs, labels=inputs).loss.backward()
    still = [index for index, row in zip(IDS, table.weight.grad, strict=True) if not row.any()]
    assert still == [index for index in IDS if index == padding]
    head.detach()
    assert table.padding_idx == padding


@pytest.mark.parametrize("training", [True, False])
def test_dropout_of_every_module_is_as_before(training: bool) -> None:
    model = build("untied").train(training)
    model.model.layers[0].mlp.train(not training)
    before = {name: module.training for name, module in model.named_modules()}
    ActiveHead.attach(model, IDS)
    after = {name: module.training for name, module in model.named_modules()}
    assert {name: after[name] for name in before if name != "lm_head"} == {
        name: mode for name, mode in before.items() if name != "lm_head"
    }
