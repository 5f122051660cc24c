"""Models of a run: two vocabularies, any step, its own tokenizer."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import sample
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.inference.load import load

SAMPLE = sample.SAMPLE / "data"
TEXT = "Il était une fois un roi. The king was old, said l'homme; 12 ans."


def test_two_vocabularies(run: Path) -> None:
    """full-lang reads by T and predicts V_fr; src|tgt reads by one and predicts the other."""
    small = load(run, ["fr", "en"])
    whole, full_lang = small.with_vocabulary("full"), small.with_vocabulary("full", ["fr"])
    rows = [full_lang.end_of_text, *full_lang.encode_in(TEXT)]
    french = full_lang.tokenizer_out.global_ids.astype(np.int64)
    expected = whole.logits(torch.tensor([rows]))[..., torch.from_numpy(french)]
    torch.testing.assert_close(full_lang.logits(torch.tensor([rows])), expected, atol=1e-5, rtol=0)

    source_target = small.with_vocabulary(["fi"], ["fr"])
    vocabularies = source_target.vocabularies
    assert len(vocabularies.ids) < vocabularies.tokenizer_in.size + vocabularies.tokenizer_out.size
    rows = source_target.encode_in("Olipa kerran kuningas")
    finnish = vocabularies.tokenizer_in.global_ids
    ids = vocabularies.ids[rows]
    assert np.isin(ids, finnish).all()
    expected = whole.logits(torch.tensor(ids)[None])[..., torch.from_numpy(french)]
    torch.testing.assert_close(
        source_target.logits(torch.tensor([rows])), expected, atol=1e-5, rtol=0
    )
    outs = np.array(source_target.encode_out(" roi"))
    assert (vocabularies.out_of_row[vocabularies.row_of_out[outs]] == outs).all()


def test_any_step_and_what_is_wrong(run: Path, tmp_path: Path) -> None:
    older = load(run / "checkpoints" / "step-00000004", ["fr"])
    assert older.source.step == load(run, ["fr"], step=4).source.step == 4
    assert not torch.equal(older.head, load(run, ["fr"]).head)
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
    bpe_seq(append=["sw"], data=SAMPLE, tokenizer=workspace / "tokenizer", output=grown)
    assert load(alone, ["fr"], tokenizer=grown).tokenizer_in.size > 256  # contains the run's own
    shutil.rmtree(alone / "tokenizer")
    with pytest.raises(UsageError, match="was not found"):
        load(alone, ["fr"], tokenizer=grown)
    with pytest.raises(UsageError, match="not found; give its directory with"):
        load(alone, ["fr"])
    assert load(alone, ["fr"], tokenizer=workspace / "tokenizer").tokenizer_in.size > 256
