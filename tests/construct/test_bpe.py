"""`bpe`: outputs and errors."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.construct.bpe import bpe
from modtok_cli.learn.sequential import learn_bpe
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import merge_counts

DATA = SAMPLE / "data"


def test_one_file_per_language(tmp_path: Path) -> None:
    report = bpe(["el", "sw"], data=DATA, output=tmp_path / "mono", k=500)
    assert sorted(path.name for path in (tmp_path / "mono").iterdir()) == ["el.json", "sw.json"]
    assert [row["tokens"] for row in report.rows()] == [500, 500]
    text = "Habari za asubuhi"
    tokenizer = open_tokenizer(str(tmp_path / "mono" / "sw.json"))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_joint_learns_from_all_text_together(tmp_path: Path) -> None:
    bpe(["el", "sw"], data=DATA, output=tmp_path / "joint", k=700, joint=True)
    tokenizer = ModularTokenizer.load(tmp_path / "joint")
    tables = [count_corpus([DATA / f"{language}.jsonl"]) for language in ("el", "sw")]
    alone = learn_bpe(merge_counts(tables), 700, tokenizer.vocabulary.specials)
    assert (tokenizer.merges == alone.merges).all()
    assert tokenizer.token_membership[:].all()
    assert tokenizer.settings == {"joint": True}


def test_existing_output_is_kept(tmp_path: Path) -> None:
    bpe(["sw"], data=DATA, output=tmp_path / "mono", k=300)
    before = (tmp_path / "mono" / "sw.json").read_bytes()
    with pytest.raises(UsageError, match="force"):
        bpe(["sw"], data=DATA, output=tmp_path / "mono", k=400)
    assert (tmp_path / "mono" / "sw.json").read_bytes() == before
    bpe(["sw"], data=DATA, output=tmp_path / "mono", k=400, force=True)
    assert len(orjson.loads((tmp_path / "mono" / "sw.json").read_bytes())["model"]["vocab"]) == 400


def test_force_refuses_a_file_before_learning(tmp_path: Path) -> None:
    (tmp_path / "mono").write_text("kept")
    with pytest.raises(UsageError, match="is a file"):
        bpe(["sw"], data=DATA, output=tmp_path / "mono", k=300, force=True)
    assert (tmp_path / "mono").read_text() == "kept"
