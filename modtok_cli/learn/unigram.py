"""Monolingual Unigram models by the SentencePiece trainer, fed with word counts.

The trainer takes (word, count) lines, so that it needs the unique words in memory and not
the text. It runs in a process of its own: it can then be stopped, says nothing on our
terminal, and several languages can be trained at a time.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import scratch_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.pieces import UNKNOWN, LearnedPieces, make_pieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM

SPACE = "▁"
"""How SentencePiece writes a space; in our pieces a space is a space."""

# Fixed, since the trainer adds up floats by thread: another number, another model.
TRAINER_THREADS = 8
CHARACTER_COVERAGE = 0.9995
LONGEST_WORD = 4192

# What the trainer would take for a space, or for the end of a line or a field.
_SEPARATORS = re.compile(b"\xe2\x96\x81|[\x00-\x1f]")

_BYTE_NAME = re.compile("<0x[0-9A-F]{2}>")


def trainer_lines(counts: WordCounts) -> bytes:
    """Words and counts as the trainer reads them, a line each: word, tab, count.

    A literal "▁" and control characters part a word, so that no piece comes to hold one.
    """
    lines: list[bytes] = []
    for word, count in counts.pairs():
        for part in _SEPARATORS.split(word):
            if part and len(part) <= LONGEST_WORD:
                lines.append(b"%s\t%d" % (part, count))
    return b"\n".join(lines) + b"\n" if lines else b""


def learn_unigram(
    language: str,
    counts: WordCounts,
    k: int,
    specials: Sequence[str],
    *,
    coverage: float = CHARACTER_COVERAGE,
    progress: Progress = SILENT,
) -> LearnedPieces:
    """A Unigram model of `k` tokens, special tokens and the 256 bytes included.

    The paper's settings: no normalization, no white space removed, digits apart, pieces of
    white space allowed, bytes for what no piece spells. The text may give fewer than k.

    Raises:
        UsageError: k leaves no room for pieces, or the counts are of another pre-tokenizer.
        ModtokError: the trainer cannot make a model of this text; says why.
    """
    check_unigram_budget(k, specials)
    if counts.scheme != UNIGRAM:
        raise UsageError(f"Unigram learns from words of '{UNIGRAM}', not of '{counts.scheme}'")
    lines = trainer_lines(counts)
    if not lines:
        raise ModtokError(f"the text of language '{language}' holds no words")
    with scratch_directory() as scratch:
        words, found = scratch / "words.tsv", scratch / "pieces"
        words.write_bytes(lines)
        # The trainer's own unknown piece takes the place of ours among the special tokens.
        size = k - len(specials) + 1
        _train(language, words, found, size, coverage, progress)
        rows = [line.rsplit("\t", 1) for line in found.read_text("utf-8").split("\n") if line]
    # A text may hold a special token's name, but a vocabulary has each string once.
    spelled = [(text.replace(SPACE, " "), float.fromhex(score)) for text, score in rows]
    kept = [row for row in spelled if row[0] not in specials]
    pieces, scores = [text.encode() for text, _ in kept], [score for _, score in kept]
    membership = np.ones((len(pieces), 1), dtype=np.bool_)
    return make_pieces([language], specials, pieces, scores, membership)


def check_unigram_budget(k: int, specials: Sequence[str]) -> None:
    """Refuse a budget without room for pieces, and special tokens without `UNKNOWN` in front.

    Raises:
        UsageError: so.
    """
    if not specials or specials[0] != UNKNOWN:
        raise UsageError(f"the first special token of a Unigram vocabulary is {UNKNOWN}")
    for special in specials:
        if specials.count(special) > 1 or not special or _BYTE_NAME.fullmatch(special):
            raise UsageError(
                f"'{special}' is no special token: empty, there twice, or the name of a byte",
                where="--special",
            )
    least = len(specials) + 256
    if k <= least:
        raise UsageError(
            f"k = {k} leaves no room: {least} tokens are bytes and special tokens",
            where="-k",
            remedy=f"choose more than {least}",
        )


def _train(
    language: str, words: Path, found: Path, size: int, coverage: float, progress: Progress
) -> None:
    """Run the trainer on a file; ends it when the progress raises (the user gave up)."""
    command = [sys.executable, "-m", "modtok_cli.learn.unigram_trainer"]
    command += [str(words), str(found), str(size), str(coverage), str(TRAINER_THREADS)]
    with (
        progress.task(f"{language}: Unigram", total=None, unit="") as task,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process,
    ):
        said: list[str] = []
        stream = process.stderr
        assert stream is not None
        reader = threading.Thread(target=lambda: said.extend(stream), daemon=True)
        reader.start()
        try:
            while True:
                try:
                    process.wait(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    task.advance(0)
        except BaseException:
            process.kill()
            raise
        finally:
            reader.join()
    if process.returncode != 0:
        raise ModtokError(
            f"language '{language}': {_reason(said, size)}",
            remedy="choose another k, or give more text",
        )


def _reason(said: Sequence[str], size: int) -> str:
    """What the trainer's last words mean."""
    text = " ".join(line.strip() for line in said if line.strip())
    required = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", text)
    if required:
        return (
            f"its characters alone need {int(required[2]):,} tokens, k leaves room "
            f"for {int(required[1]):,}"
        )
    return f"the SentencePiece trainer failed: {text[-300:] or 'it was stopped'}"
