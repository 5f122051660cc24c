"""Plain BPE equals the `tokenizers` library's trainer, merge for merge, on real text."""

from __future__ import annotations

import orjson
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from helpers.sample import SAMPLE
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.modular.vocabulary import spell
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_documents

K, SPECIALS = 1500, ("<|endoftext|>", "<|pad|>")


def test_a_language_equals_the_library() -> None:
    """No tie makes a difference: both take the smaller ids."""
    path = SAMPLE / "data" / "fr.jsonl"
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(BPE.pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=K,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(
        (document.text.decode() for document in read_documents(path)), trainer
    )
    theirs = [tuple(merge) for merge in orjson.loads(library.to_str())["model"]["merges"]]
    ours = learn_plain(count_corpus([path]), K, SPECIALS).merges
    names = list(map(spell, ours.strings()))
    assert [(names[a], names[b]) for a, b, _ in ours.merges] == theirs
