"""Train one monolingual BPE per language with the `tokenizers` library.

python -m benchmarks library_bpe DATA K OUTPUT LANG [LANG …]; the library uses all cores.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.common import texts

PATTERN = r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+"


def train(path: Path, k: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=k,
        special_tokens=["<|endoftext|>", "<|pad|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(path), trainer)
    return tokenizer


def main() -> None:
    data, k, output, *languages = sys.argv[1:]
    Path(output).mkdir(parents=True, exist_ok=True)
    for language in languages:
        train(Path(data) / f"{language}.jsonl.zst", int(k)).save(f"{output}/{language}.json")


if __name__ == "__main__":
    main()
