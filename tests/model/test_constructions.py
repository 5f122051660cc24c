"""Merges, Unigram and fewest tokens: slices, generation and llama.cpp's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.microbatches import microbatch
from helpers.small_run import run_settings
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.model.export.export import export
from modtok_cli.model.export.gguf_tokenizer import (
    UNKNOWN_UNITS,
    ScoresTokenizer,
    candidates,
    units_in_file,
)
from modtok_cli.model.generate.decoding import generate
from modtok_cli.model.generate.next_token import SamplingOptions
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.load import load
from modtok_cli.model.slice.run_source import RunSource
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.text.counts import split_words
from modtok_cli.tokenizer.segmenters.chunks import may_span_words
from modtok_cli.training import checkpoint
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model.model import Model

from .test_export import read
from .test_generate import masked
from .test_slice import PROBES

LANGUAGES = ("en", "fi", "fr")
CONSTRUCTIONS: dict[str, Callable[..., Any]] = {
    "unigram": unigram_merge,
    "fewest": bpe_merge,
    "fewest-whole": partial(bpe_merge, whole_characters=True),
    "superwords": partial(bpe_merge, superwords=100),
    "fewest-seq": partial(bpe_seq, segmentation="fewest-tokens"),
}
MERGES = {"merges": "run", "tied merges": "tied_run"}
NOT_WHOLE = "needs tokens of whole characters, and token "
REFUSED = {
    "fewest": NOT_WHOLE,
    "fewest-seq": NOT_WHOLE,
    "superwords": "no tokenizer with superwords",
}


@dataclass(frozen=True)
class Made:
    """A run of one construction and its French and English slice."""

    name: str
    run: Path
    slice: Path

    @property
    def ours(self) -> SlicedModel:
        return load(self.run, ["fr", "en"])


@pytest.fixture(scope="module", params=[*MERGES, *CONSTRUCTIONS])
def made(request: pytest.FixtureRequest, workspace: Path, tmp_path_factory: Any) -> Made:
    root = tmp_path_factory.mktemp(request.param)
    if request.param in MERGES:
        run = request.getfixturevalue(MERGES[request.param])
        slice_model(run, ["fr", "en"], output=root / "fr-en")
        return Made(request.param, run, root / "fr-en")
    (root / "data").mkdir()
    for language in LANGUAGES:
        (root / "data" / f"{language}.jsonl").symlink_to(workspace / "data" / f"{language}.jsonl")
    build = CONSTRUCTIONS[request.param]
    build(LANGUAGES, data=root / "data", output=root / "tokenizer", k=500, references=False)
    pretrain(run_settings(root, "it"))
    slice_model(root / "runs" / "it", ["fr", "en"], output=root / "fr-en")
    return Made(request.param, root / "runs" / "it", root / "fr-en")


def test_transformers_has_the_engines_logits(made: Made) -> None:
    """Ours within 1e-5 of transformers', and within 2e-5 nats a token of Megatron-Core's."""
    ours = made.ours
    rows = [ours.end_of_text, *ours.encode_in(PROBES[0])]
    theirs = AutoModelForCausalLM.from_pretrained(made.slice)
    with torch.no_grad():
        logits = theirs(torch.tensor([rows])).logits
    torch.testing.assert_close(logits, ours.logits(torch.tensor([rows])), atol=1e-5, rtol=0)
    is_tied = theirs.lm_head.weight is theirs.model.embed_tokens.weight
    assert is_tied == (made.name == "tied merges")

    assert isinstance(ours.source, RunSource)
    engine = Model(ours.source.shape, ours.source.tokenizer.size, start_ranks(1))
    found = checkpoint.newest(made.run / "checkpoints", SILENT)
    assert found is not None
    checkpoint.load(*found, engine)
    ids, own = np.array(rows, dtype=np.int32), ours.tokenizer_in.global_ids
    micro = microbatch(own[ids[:-1]][None], ids[1:][None], own)
    nll = torch.nn.functional.cross_entropy(
        logits[0, :-1], torch.tensor(rows[1:]), reduction="none"
    )
    torch.testing.assert_close(nll, engine.measure(micro), atol=2e-5, rtol=0)


def test_transformers_has_the_same_ids(made: Made) -> None:
    theirs, ours = AutoTokenizer.from_pretrained(made.slice), made.ours
    for text in PROBES:
        ids = theirs(text).input_ids
        assert ids == [ours.end_of_text, *ours.encode_in(text)]
        assert theirs(text, add_special_tokens=False).input_ids == ids[1:]
        assert theirs.decode(ids, skip_special_tokens=True) == text
    assert theirs.eos_token_id == theirs.bos_token_id == ours.end_of_text


@pytest.mark.parametrize("made", ["superwords"], indirect=True)
def test_a_prompt_may_end_inside_a_superword(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(made.slice)
    tokens = model.tokenizer_out.vocabulary.tokens()
    first = len(model.tokenizer_out.vocabulary.specials)
    superword = next(t for t in tokens[first:] if may_span_words(t) and t.startswith(b" "))
    begin = split_words(superword)[0]
    prompt = [model.end_of_text, *model.encode_in("Il" + begin.decode())]
    healing = model.healing
    assert healing is not None
    assert healing.left_out([b"Il", begin]) >= 1

    def always(token: bytes) -> None:
        def logits(states: torch.Tensor) -> torch.Tensor:
            found = torch.zeros(len(states), len(tokens))
            found[:, tokens.index(token)] = 1.0
            return found

        monkeypatch.setattr(model, "head_logits", logits)

    always(superword)
    once = generate(model, [prompt], SamplingOptions(1))[0]
    assert [tokens[index] for index in once.ids] == [superword]
    assert once.text == superword[len(begin) :].decode()
    always(b"z")  # no way to go on from " of" to "ofz": the word is spelled first
    after = generate(model, [prompt, prompt[:2]], SamplingOptions(9))[0]
    spelled = b"".join(tokens[index] for index in after.ids)
    assert spelled.startswith(begin)
    assert spelled[len(begin) :].decode() == after.text
    assert after.text.endswith("zz")


def test_slice_generates_as_the_masked_whole_model(made: Made) -> None:
    found, whole = load(made.slice), load(made.run)
    own = made.ours.tokenizer_in.global_ids.astype(np.int64)
    for options in (
        SamplingOptions(12),
        SamplingOptions(12, temperature=1.0, seed=1),
        SamplingOptions(12, temperature=0.7, top_p=0.9, min_p=0.02, seed=2),
    ):
        # No superword begins with a number, so nothing of the prompt is generated anew.
        prompt = [found.end_of_text, *found.encode_in(f"{PROBES[0]} 7")]
        ids = generate(found, [prompt], options)[0].ids
        assert own[list(ids)].tolist() == masked(whole, own, own[prompt].tolist(), options)


@pytest.mark.parametrize("made", CONSTRUCTIONS, indirect=True)
def test_gguf_of_a_search_by_scores(made: Made, tmp_path: Path) -> None:
    if made.name in REFUSED:
        with pytest.raises(UsageError, match=REFUSED[made.name]):
            export(made.slice, tmp_path / "m.gguf")
        assert not (tmp_path / "m.gguf").exists()
        return
    model = load(made.slice)
    report = export(made.slice, tmp_path / "m.gguf", dtype="float32", inexact=True)
    assert (report.tokenizer, report.vocabulary) == ("plamo2", model.tokenizer_in.size)
    assert report.different <= 0.1 * report.lines
    fields, tensors = read(tmp_path / "m.gguf")
    names, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    assert len(names) == len(set(names)) == len(fields["tokenizer.ggml.scores"])
    # All bytes have their name, and a token below 0x80 has its letter as well.
    assert {names[i] for i, kind in enumerate(kinds) if kind == 6} == {
        f"<0x{byte:02X}>" for byte in range(256)
    }
    size = model.tokenizer_in.size
    assert np.array_equal(tensors["token_embd.weight"][:size], model.embedding.numpy())
    assert np.array_equal(tensors["output.weight"][:size], model.head.numpy())
    behind = names[size:]
    assert len(behind) == (127 if made.name == "fewest-whole" else 0)
    for place, name in enumerate(behind, size):
        letter = chr(int(name[3:5], 16))
        own = names.index(letter)
        assert np.array_equal(
            tensors["token_embd.weight"][place], tensors["token_embd.weight"][own]
        )
        # Their logit is the mean of all.
        assert np.allclose(tensors["output.weight"][place], model.head.numpy().mean(0), atol=1e-6)


@pytest.mark.parametrize("made", ["unigram", "fewest-whole"], indirect=True)
def test_llama_cpps_search_is_the_best_one(made: Made) -> None:
    """Its twin against every way to cut short texts; scores survive the file's float32."""
    (twin,) = candidates(made.ours.tokenizer_in, "")
    assert isinstance(twin, ScoresTokenizer)
    normal = [i for i in range(len(twin.units)) if twin.kinds[i] == 1]
    units = {twin.names[i]: int(twin.units[i]) for i in normal}
    assert units_in_file(np.array(list(units.values()))).tolist() == list(units.values())
    assert min(units.values()) > -(1 << 23)

    def best(text: str) -> int:
        ways = [
            units[text[:length]] + best(text[length:])
            for length in range(1, len(text) + 1)
            if text[:length] in units
        ]
        return max([*ways, UNKNOWN_UNITS + best(text[1:])]) if text else 0

    @settings(max_examples=60, deadline=None)
    @given(st.text(st.sampled_from("aeinst l'é2ж"), max_size=9))
    def check(text: str) -> None:
        ids = twin.encode(text)
        assert made.ours.tokenizer_in.decode(ids) == text
        spelled = sum(character not in units for character in text)
        taken = [twin.names[i] for i in ids if twin.kinds[i] == 1]
        assert sum(units[name] for name in taken) + spelled * UNKNOWN_UNITS == best(text)

    check()
