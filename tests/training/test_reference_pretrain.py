"""The engine's losses and weights equal those of `reference.pretrain`, from the same start."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
import torch

from helpers.microbatches import optimizer_step
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.model.architecture.megatron_layout import to_hf
from modtok_cli.reference.pretrain import Llama, Pretraining, Reader, draw, main, read
from modtok_cli.samples.sample import sample
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import load
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import MicroBatch, Model

STEPS, RATE, SEQUENCES, LENGTH = 20, 3e-3, 4, 24


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = sample(tmp_path_factory.mktemp("reference") / "w")
    bpe_seq(data=path / "stories", output=path / "tokenizer", k=400, references=False)
    return path


def batches(
    tokenizer: ModularTokenizer, place: Path, regime: str
) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Inputs, targets and the active vocabulary of each step, of 20 documents of a language."""
    readers = {language: Reader(texts[:20]) for language, texts in read(place / "stories")}
    numbers, found = random.Random(3), []
    for _ in range(STEPS):
        language, languages = draw(list(readers), regime, 0.5, numbers)
        part = tokenizer.full() if languages is None else tokenizer.subset(languages)
        end = tokenizer.get_vocab()["<|endoftext|>"]
        ids = readers[language].batch(part, end, SEQUENCES, LENGTH)
        found.append((*ids, torch.from_numpy(part.global_ids.astype("int64"))))
    return found


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("regime", ["none", "full", "sub:2", "joint"])
def test_the_engine_equals_the_reference(regime: str, tied: bool, place: Path) -> None:
    tokenizer = load(place / "tokenizer")
    shape = replace(llama(2, 32, 4, 88), kv_heads=2, tied=tied)
    model = Model(shape, tokenizer.size, start_ranks(), seed=1)
    sizes = ("layers", "hidden_size", "ffn", "heads", "kv_heads", "head_width", "rope_theta")
    llama_ = Llama(**{name: getattr(shape, name) for name in (*sizes, "norm_epsilon", "tied")})

    def weights() -> dict[str, torch.Tensor]:
        backbone = {name: each.detach() for name, each in model.backbone.parameters.items()}
        tables = {"input": model.input.weight, "output": model.output.weight}
        if tied:
            del tables["output"]
        return to_hf(shape, backbone) | tables

    reference = Pretraining(llama_, weights())
    drawn = batches(tokenizer, place, regime)
    assert len({tuple(active.tolist()) for *_, active in drawn}) > (regime != "joint")
    for inputs, targets, active in drawn:
        share = torch.full((targets.numel(),), 1 / targets.numel())
        batch = MicroBatch(inputs, targets.flatten(), active, share)
        (nll,), _ = optimizer_step(model, [batch], RATE)
        loss = reference.step(inputs, targets, active, RATE)
        assert float(nll.mean()) == pytest.approx(loss, rel=1e-6)
    for name, weight in weights().items():
        torch.testing.assert_close(reference.weights[name], weight, atol=3e-4, rtol=0)


def test_bits_per_byte_and_a_slice(place: Path) -> None:
    """Of a model that knows nothing, every token of V_S is as likely as another."""
    size = Llama(layers=1)
    model = Pretraining(size, size.initial(50, seed=0))
    model.weights["output"].zero_()
    active = torch.tensor([1, 4, 7, 9])
    assert model.slice(active)["input"].equal(model.weights["input"][active])
    texts = [(torch.tensor([0, 1, 2]), 4), (torch.tensor([0, 3, 3, 3]), 6)]
    assert model.bits_per_byte(texts, active) == pytest.approx(5 * log(4, 2) / 10)


def test_it_trains_as_a_program(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [place / name for name in ("tokenizer", "stories", "unseen")]
    main([*map(str, arguments), "--sampling", "full", "--steps", "50"])
    *_, step, english, finnish, french = capsys.readouterr().out.splitlines()
    assert step.startswith("step 50: ")
    for line, language in zip((english, finnish, french), ("en", "fi", "fr"), strict=True):
        assert line.startswith(f"bits per byte of {language}: own ")
        own, pair, full = map(float, re.findall(r"(?:own|pair|full) (\d\.\d+) \(", line))
        assert 0 < own < pair < full < 8
