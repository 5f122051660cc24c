"""Rows of new tokens that are distilled from the model itself."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import orjson
import pytest
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer

from helpers.external_models import build
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.journal import JournalDir, journal_path
from modtok_cli.model.architecture.logit_scales import LogitScales
from modtok_cli.model.architecture.stored_model import open_hf_directory
from modtok_cli.model.hf import distill_rows
from modtok_cli.model.hf.distill_rows import Recipe, Rows, _Training
from modtok_cli.model.hf.transplant import transplant
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.training.initial import InitialModel

LINES = (SAMPLE / "parallel" / "fi.txt").read_text("utf-8").split("\n")[:30]
ENGLISH = (SAMPLE / "parallel" / "en.txt").read_text("utf-8").split("\n")[:10]


class Notes(Silent):
    """Notes too."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def grown(place: Path, family: str) -> tuple[Path, Path]:
    """A model, and its tokenizer with Finnish tokens."""
    kind = "characters" if family == "Gemma3Text" else "byte-level"
    old = build(place / "old", family, kind)
    bpe_seq(append="fi", tokenizer=old, data=SAMPLE / "data", k=40, output=place / "grown")
    return old, place / "grown"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample text eight times, since it is read once."""
    place = tmp_path_factory.mktemp("text") / "fi.jsonl"
    place.write_bytes(8 * (SAMPLE / "data" / "fi.jsonl").read_bytes())
    return place


def opened(path: Path) -> tuple[Any, Tokenizer]:
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return model, tokenizer


def states_at_ends(path: Path, ends: list[set[int]], layer: int) -> torch.Tensor:
    """Hidden states of the lines after the tokens that end at these characters."""
    model, tokenizer = opened(path)
    found = []
    for line, places in zip(LINES, ends, strict=True):
        encoded = tokenizer.encode(line, add_special_tokens=False)
        at = [0, *(i + 1 for i, (_, stop) in enumerate(encoded.offsets) if stop in places)]
        with torch.no_grad():
            states = model(torch.tensor([[1, *encoded.ids]]), output_hidden_states=True)
        found.append(states.hidden_states[layer][0, at[1:]])
    return torch.cat(found)


def ends_of_new(path: Path) -> list[set[int]]:
    """Characters at which a new token of a grown model ends, in each line."""
    encoded = [opened(path)[1].encode(line, add_special_tokens=False) for line in LINES]
    return [
        {stop for index, (_, stop) in zip(each.ids, each.offsets, strict=True) if index >= 602}
        for each in encoded
    ]


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Gemma3Text", "GPTJ"])
def test_hidden_states_come_nearer_and_nothing_else_changes(
    family: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if family in ("Qwen2", "Gemma3Text"):  # of tied rows, the half for the output undoes some of it
        monkeypatch.setattr(_Training, "_step_outputs", lambda *_: None)
    old, tokenizer = grown(tmp_path, family)
    mean, new = tmp_path / "mean", tmp_path / "new"
    transplant(old, str(tokenizer), output=mean)
    transplant(old, str(tokenizer), output=new, distill=text, steps=25)
    ends = ends_of_new(new)
    # The first of two layers is the one that is compared.
    wanted, before, after = (states_at_ends(path, ends, 1) for path in (old, mean, new))
    assert float((after - wanted).square().mean()) < 0.95 * float((before - wanted).square().mean())
    stored, first, last = (load_file(path / "model.safetensors") for path in (old, mean, new))
    assert first.keys() == last.keys() == stored.keys()
    changed = 0
    for name, tensor in stored.items():
        if len(tensor) != 640:
            assert torch.equal(tensor, last[name])
            continue
        # Rows of the model, its filler rows too where the file keeps them.
        assert torch.equal(first[name][:602], last[name][:602])
        assert torch.equal(tensor[:602], last[name][:602])
        changed += not torch.equal(first[name], last[name])
    assert changed == (1 if opened(old)[0].config.tie_word_embeddings else 2)
    # The new rows are those that training of rows alone goes on with.
    whole = ModularTokenizer.load(tokenizer)
    trained = [
        InitialModel(open_hf_directory(path)).new_rows(whole).tolist()
        for path in (old, new)
        if family in ("Llama", "Qwen2")
    ]
    assert trained[1:] == trained[:1]
    assert all(sum(each) == 40 for each in trained)
    (model, library), (other, _) = opened(old), opened(new)
    for line in ENGLISH:
        ids = torch.tensor([library.encode(line, add_special_tokens=False).ids])
        with torch.no_grad():
            logits = [each(ids).logits[..., :602] for each in (model, other)]
        assert torch.equal(*logits)


@pytest.mark.parametrize("family", ["Gemma3Text", "Granite"])  # both scale what they read
def test_a_copy_of_a_row_is_read_as_its_token(family: str, tmp_path: Path) -> None:
    model = opened(build(tmp_path / "old", family))[0]
    ids = torch.arange(8, 16)[None]
    with distill_rows._Frozen(model, Recipe.depth) as frozen, torch.no_grad():
        new = torch.where(ids % 3 == 0, frozen.size + ids - 8, ids)
        states = frozen.student(new, frozen.embedding.weight[8:16])
        assert torch.equal(states, frozen.teacher(ids)[0])


def test_input_steps_of_tied_rows_leave_logits_to_the_output(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along the direction in which hidden states vary most, a row moves the least."""
    monkeypatch.setattr(_Training, "_step_outputs", lambda *_: None)
    old, tokenizer = grown(tmp_path, "Qwen2")
    axes = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(0)))[0]
    values = torch.ones(32)
    values[0] = 1000.0
    start = _Training.__init__

    def begin(self: Any, *rest: Any) -> None:
        start(self, *rest)
        self._axes = values, axes

    monkeypatch.setattr(_Training, "__init__", begin)
    transplant(old, str(tokenizer), output=tmp_path / "mean")
    transplant(old, str(tokenizer), output=tmp_path / "new", distill=text, steps=5)
    name = "model.embed_tokens.weight"
    before, after = (
        load_file(tmp_path / each / "model.safetensors")[name] for each in ("mean", "new")
    )
    moved = ((after - before) @ axes).abs().sum(0)
    assert moved[0] < 0.1 * moved[1:].min()


@pytest.mark.parametrize("cap", [None, 4.0])
def test_output_rows_take_newton_steps_of_the_cross_entropy(cap: float | None) -> None:
    """The gradient is that of autograd, and steps lower the loss on other states."""
    torch.manual_seed(0)
    size, count, width = 20, 5, 8
    truth = 2 * torch.randn(size + count, width)
    head = torch.nn.Linear(width, size)
    head.weight.data.copy_(truth[:size])
    model: Any = SimpleNamespace(
        head=head, embedding=SimpleNamespace(weight=head.weight), size=size, tied=False,
        scales=LogitScales(0.5, cap), device=torch.device("cpu"),
    )  # fmt: skip
    bias = 0.1 * torch.randn(count)
    first = Rows(torch.zeros(count, width), torch.zeros(count, width))
    kept = torch.ones(size, dtype=torch.bool)
    kept[3] = False
    every = torch.ones(count, dtype=torch.bool)
    training = _Training(model, first, every, kept, bias, Recipe(1), 1)

    def loss(rows: torch.Tensor, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = torch.cat([head(states), states @ rows.T + bias], -1) * 0.5
        logits = logits if cap is None else cap * torch.tanh(logits / cap)
        logits[:, 3] = -torch.inf
        return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

    def drawn() -> tuple[torch.Tensor, torch.Tensor]:
        states = torch.randn(200, width) + 1
        logits = states @ truth.T * 0.5
        logits[:, 3] = -torch.inf
        return states, torch.multinomial(logits.softmax(-1), 1)[:, 0]

    states, targets = drawn()
    rows = torch.zeros(count, width, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(rows, states, targets), rows)
    training._step_outputs(states, targets)
    values, axes = training._axes
    curvature = training._mass * values + Recipe(1).prior * values.sum()
    expected = -(gradient @ axes / curvature) @ axes.T
    torch.testing.assert_close(training.rows().outputs, expected, rtol=1e-3, atol=1e-5)
    others = drawn()
    before = float(loss(rows, *others))
    for _ in range(30):
        training._step_outputs(*drawn())
    after = float(loss(training.rows().outputs, *others))
    best = float(loss(truth[size:], *others))
    assert after < before - 0.7 * (before - best)


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_a_killed_run_resumes_to_the_same_bits(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, tokenizer = grown(tmp_path, "Qwen2")
    whole, new = tmp_path / "whole", tmp_path / "new"
    transplant(old, str(tokenizer), output=whole, distill=text, steps=6)
    advance, steps = distill_rows._Training.advance, []
    monkeypatch.setattr(JournalDir, "due", lambda self, work=0.0: len(steps) < 6)

    def killed(self: Any, batch: Any) -> None:
        steps.append(self.step)
        if steps == [0, 1, 2, 3]:
            raise KeyboardInterrupt
        advance(self, batch)

    monkeypatch.setattr(distill_rows._Training, "advance", killed)
    with pytest.raises(KeyboardInterrupt):
        transplant(old, str(tokenizer), output=new, distill=text, steps=6)
    assert not new.exists()
    assert journal_path(new).exists()
    with monkeypatch.context() as patch:
        patch.setattr("modtok_cli.model.hf.transplant.write_peft", interrupt)
        with pytest.raises(KeyboardInterrupt):
            transplant(old, str(tokenizer), output=new, distill=text, steps=6)
    transplant(old, str(tokenizer), output=new, distill=text, steps=6)  # writes only
    assert steps == [0, 1, 2, 3, 3, 4, 5]
    assert not journal_path(new).exists()
    tables = [load_file(path / "model.safetensors") for path in (whole, new)]
    for name, tensor in tables[0].items():
        assert torch.equal(tensor, tables[1][name])


def test_tokens_that_the_text_lacks_keep_the_mean(tmp_path: Path) -> None:
    old, tokenizer = grown(tmp_path, "Llama")
    text, progress = tmp_path / "short.txt", Notes()
    library = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    own = Tokenizer.from_file(str(old / "tokenizer.json")).get_vocab().values()
    every = sorted({*library.get_vocab().values()}.difference(own))
    ids = [library.encode(line).ids for line in LINES]
    text.write_text(next(line for line, each in zip(LINES, ids, strict=True) if {*each} & {*every}))
    used = {*library.encode(text.read_text()).ids}
    mean, new = tmp_path / "mean", tmp_path / "new"
    transplant(old, str(tokenizer), output=mean)
    transplant(old, str(tokenizer), output=new, distill=text, steps=3, progress=progress)
    lacking = [index for index in every if index not in used]
    assert 0 < len(lacking) < len(every) == 40
    assert any(note.startswith(f"{len(lacking)} of 40 new tokens do not occur") for note in
               progress.notes)  # fmt: skip
    assert "-t TOKENIZER --distill TEXT --steps 3 -o DIR" in (new / "README.md").read_text("utf-8")
    tables = [load_file(path / "model.safetensors") for path in (mean, new)]
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        same = (tables[0][name] == tables[1][name]).all(1).numpy()
        assert np.flatnonzero(~same).tolist() == sorted(used.intersection(every))


def test_bfloat16_rows_stay_bfloat16(text: Path, tmp_path: Path) -> None:
    old, tokenizer = grown(tmp_path, "Qwen2")
    model = transformers.AutoModelForCausalLM.from_pretrained(old, dtype=torch.bfloat16)
    model.save_pretrained(old)
    transplant(old, str(tokenizer), output=tmp_path / "new", distill=text, steps=2)
    before, after = (load_file(path / "model.safetensors") for path in (old, tmp_path / "new"))
    name = "model.embed_tokens.weight"
    assert after[name].dtype == torch.bfloat16
    assert torch.equal(before[name][:602], after[name][:602])


def test_what_distillation_refuses(tmp_path: Path) -> None:
    old, tokenizer = grown(tmp_path, "Llama")
    with pytest.raises(UsageError, match=r"there are no steps without distill"):
        transplant(old, str(tokenizer), output=tmp_path / "new", steps=5)
    with pytest.raises(UsageError, match="distill trains output rows too: omit fit"):
        transplant(old, str(tokenizer), output=tmp_path / "new", distill="a.txt", fit="a.txt")
    with pytest.raises(UsageError, match="stdin"):
        transplant(old, str(tokenizer), output=tmp_path / "new", distill="-")
    with pytest.raises(UsageError, match=r"a\.txt: does not exist; check the name$"):
        transplant(old, str(tokenizer), output=tmp_path / "new", distill="a.txt")
    document = orjson.loads((old / "tokenizer.json").read_bytes())
    assert document["model"]["type"] == "BPE"
    assert not (tmp_path / "new").exists()
