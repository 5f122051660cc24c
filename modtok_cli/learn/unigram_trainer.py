"""The SentencePiece trainer process: words in, pieces and scores out.

    python -m modtok_cli.learn.unigram_trainer WORDS PIECES SIZE COVERAGE THREADS

Writes to PIECES a line per piece, with its exact score in hexadecimal, in the trainer's order.
"""

import io
import sys
from pathlib import Path

from modtok_cli.base.processes import die_with_parent


def train(words: Path, pieces: Path, size: int, coverage: float, threads: int) -> None:
    """Train a model of `size` pieces on a file of word counts and list its pieces."""
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    SentencePieceTrainer.train(
        input=str(words),
        input_format="tsv",
        model_writer=model,
        model_type="unigram",
        vocab_size=size,
        # A small text gives fewer.
        hard_vocab_limit=False,
        character_coverage=coverage,
        byte_fallback=True,
        split_digits=True,
        allow_whitespace_only_pieces=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        # The text must not gain a space.
        add_dummy_prefix=False,
        unk_id=0,
        bos_id=-1,
        eos_id=-1,
        pad_id=-1,
        num_threads=threads,
        # The parent shows its messages as progress.
        minloglevel=0,
        # 64-bit suffix arrays, if 32 bits are too small for the bytes.
        train_extremely_large_corpus=words.stat().st_size > 1 << 30,
    )
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    lines = [
        f"{processor.id_to_piece(index)}\t{float(processor.get_score(index)).hex()}\n"
        for index in range(processor.get_piece_size())
        if not (processor.is_unknown(index) or processor.is_byte(index))
    ]
    pieces.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    die_with_parent()
    source, target, size, coverage, threads = sys.argv[1:]
    try:
        train(Path(source), Path(target), int(size), float(coverage), int(threads))
    except (RuntimeError, OSError, ValueError) as error:
        sys.exit(str(error))
