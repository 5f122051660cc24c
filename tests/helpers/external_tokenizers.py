"""Small tokenizers as other programs publish them, trained on the sample text."""

from __future__ import annotations

import io
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import orjson
import sentencepiece
import tokenizers

from helpers.sample import SAMPLE

KINDS = ("byte-level", "characters", "unigram")
SPECIALS = ["<unk>", "<s>", "</s>", "<pad>"]


@cache
def external_tokenizer(kind: str) -> bytes:
    """A `tokenizer.json` of 600 tokens with special tokens at both ends of the ids.

    "byte-level" is like GPT-2, "characters" like Gemma and Llama 2, "unigram" like XLM-R.
    """
    lines = [
        line
        for language in ("en", "fr", "fi")
        for line in (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()
    ]
    alphabet = [f"<0x{byte:02X}>" for byte in range(256)]
    if kind == "byte-level":
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=599,
            special_tokens=SPECIALS,
            show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        )
        made.train_from_iterator(lines, trainer)
    elif kind == "characters":
        made = tokenizers.Tokenizer(
            tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
        )
        made.normalizer = tokenizers.normalizers.Replace(" ", "▁")
        made.pre_tokenizer = tokenizers.pre_tokenizers.Split(" ", "merged_with_previous")
        made.decoder = tokenizers.decoders.Sequence(
            [
                tokenizers.decoders.Replace("▁", " "),
                tokenizers.decoders.ByteFallback(),
                tokenizers.decoders.Fuse(),
            ]
        )
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=599, special_tokens=SPECIALS + alphabet, show_progress=False
        )
        # The file has no pre-tokenizer that splits, yet no token goes beyond a word.
        lines = [
            word if first else " " + word
            for line in lines
            for first, word in zip([True] + [False] * 999, line.split(" "), strict=False)
        ]
        made.train_from_iterator(lines, trainer)
    else:
        made = tokenizers.Tokenizer(tokenizers.models.Unigram(_pieces(lines), unk_id=0))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always")
        made.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always")
        made.add_special_tokens(SPECIALS)
    document = orjson.loads(made.to_str())
    # The trainer marks the bytes as special; in published files they are ordinary tokens.
    document["added_tokens"] = document["added_tokens"][: len(SPECIALS)]
    if kind == "characters":
        document["model"]["merges"] = several_merges(document["model"])
    made = tokenizers.Tokenizer.from_str(orjson.dumps(document).decode())
    made.add_special_tokens(["<|im_end|>", "<unused0>", "<unused1>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A <|im_end|>",
        special_tokens=[("<s>", 1), ("<|im_end|>", made.token_to_id("<|im_end|>"))],
    )
    return made.to_str().encode()


def _pieces(lines: Iterable[str]) -> list[tuple[str, float]]:
    """Of SentencePiece, whose training gives the same in each process, unlike `tokenizers`'."""
    common = {"byte_fallback": False, "num_threads": 1, "character_coverage": 1.0}
    common["normalization_rule_name"] = "identity"
    data = sentencepiece_model(lines, vocab_size=599 - len(SPECIALS) + 3, **common)
    model = sentencepiece.SentencePieceProcessor(model_proto=data)
    places = range(3, model.get_piece_size())  # without <unk>, <s> and </s>
    learned = [(model.id_to_piece(place), model.get_score(place)) for place in places]
    return [*((name, 0.0) for name in SPECIALS), *learned]


def several_merges(model: dict) -> list[list[str]]:
    """All merges that make each token, in the order of the tokens, as in Gemma's file.

    The first listed merge of a token is often not the one that is applied.
    """
    ids = model["vocab"]
    merges = []
    for name in sorted((name for name in ids if len(name) > 1), key=ids.get):
        for cut in range(1, len(name)):
            if name[:cut] in ids and name[cut:] in ids:
                merges.append([name[:cut], name[cut:]])
    return merges


def save_tokenizer(path: Path, kind: str) -> None:
    """The same as transformers saves it, with a chat template."""
    import transformers

    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_buffer(external_tokenizer(kind)),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    wrapped.chat_template = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    wrapped.save_pretrained(path)


def sentencepiece_model(lines: Iterable[str], **options: object) -> bytes:
    """A model that SentencePiece learns, with bytes for characters that it does not know."""
    written = io.BytesIO()
    common = {"byte_fallback": True, "hard_vocab_limit": False, "num_threads": 2, "minloglevel": 2}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=written, **(common | options)
    )
    return written.getvalue()
