"""Tokens of a grown vocabulary, spelled with the tokens of the smaller one."""

from pathlib import Path

import numpy as np
import pytest

from helpers.sample import SAMPLE
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.modular.spelling import spell
from modtok_cli.modular.tokenizer import ModularTokenizer

DATA = SAMPLE / "data"


@pytest.mark.parametrize("build", [bpe_seq, bpe_merge, unigram_merge])
def test_every_token_is_spelled_by_its_bytes(build, tmp_path: Path) -> None:
    for name, languages in (("old", ("en", "fi")), ("new", ("en", "fr"))):
        build(languages, data=DATA, output=tmp_path / name, k=500, references=False)
    old = ModularTokenizer.load(tmp_path / "old").full()
    new = ModularTokenizer.load(tmp_path / "new")
    spelling = spell(new.vocabulary, old)
    names = {name: index for index, name in enumerate(old.vocabulary.spellings())}
    parts = np.split(spelling.ids, spelling.offsets[1:-1])
    longer = 0
    for index, (name, ids) in enumerate(zip(new.vocabulary.spellings(), parts, strict=True)):
        assert old.decode_bytes(ids) == new.vocabulary.token_bytes(index)
        if name in names:
            assert ids.tolist() == [names[name]]
        else:
            longer += len(ids) > 1
    assert longer > 50


def test_new_special_token_has_no_spelling(tmp_path: Path) -> None:
    bpe_seq(("en",), data=DATA, output=tmp_path / "old", k=400, references=False)
    old = ModularTokenizer.load(tmp_path / "old")
    vocabulary = type(old.vocabulary).from_tokens(("<new>",), [b"a", b"the", b"zzz"])
    spelling = spell(vocabulary, old.full())
    assert spelling.lengths.tolist()[:2] == [0, 1]
    assert old.full().decode_bytes(spelling.ids) == b"athezzz"
