"""Plain BPE equals the `tokenizers` library's trainer, merge for merge, on real text."""

from __future__ import annotations

import orjson
import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from helpers.sample import SHARED, needs_shared
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.modular.vocabulary import spell
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_documents

SPECIALS = ("<|endoftext|>", "<|pad|>")


@needs_shared
@pytest.mark.parametrize("language", ["lt"])
def test_first_language_equals_the_library(language: str) -> None:
    """No tie makes a difference: both take the smaller ids. (All 21 languages were compared
    once at k = 24,000, with the same outcome; one keeps it so.)"""
    path = SHARED / "data" / "corpus" / f"{language}.jsonl.zst"
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(BPE.pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=24_000,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(
        (document.text.decode() for document in read_documents(path)), trainer
    )
    theirs = [tuple(merge) for merge in orjson.loads(library.to_str())["model"]["merges"]]
    ours = learn_plain(count_corpus([path]), 24_000, SPECIALS).merges
    names = list(map(spell, ours.strings()))
    assert [(names[a], names[b]) for a, b, _ in ours.merges] == theirs
