"""Monolingual Unigram models by the SentencePiece trainer, from word counts.

The trainer reads (word, count) lines, so it needs the unique words in memory and not the
text. It runs in a separate process, which can be stopped, cannot write to the terminal, and
allows several languages to be trained in parallel.
"""

import math
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import scratch_directory
from modtok_cli.base.membership import Membership
from modtok_cli.base.processes import environment
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.merges import check_id_range
from modtok_cli.learn.pieces import UNKNOWN, LearnedPieces, make_pieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM

SPACE = "▁"
"""SentencePiece's symbol for a space; our pieces contain spaces."""

# Fixed: the trainer sums floats per thread, so another number gives another model.
TRAINER_THREADS = 8
CHARACTER_COVERAGE = 0.9995
LONGEST_WORD = 4192

# Read by the trainer as a space, or as the end of a line or a field.
_SEPARATORS = re.compile(b"\xe2\x96\x81|[\x00-\x1f]")

# Lines of the trainer's log.
_SEEDS = re.compile(r"Initialized (\d+) seed")
_ROUND = re.compile(r"EM sub_iter=\d+ size=(\d+)")
_INFORMATION = re.compile(r"[IW]\d{4} |.*LOG\((INFO|WARNING)\)|\s+\S|\w+_spec \{|\}|WARNING: ")
_SEEDED = 20.0
"""Percent of the work when the seed pieces are known, about."""

_BYTE_NAME = re.compile("<0x[0-9A-F]{2}>")


def trainer_lines(counts: WordCounts) -> bytes:
    """Words and counts in the trainer's format: word, tab, count.

    A literal "▁" and control characters split a word, so that no piece contains one.
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
    progress: Progress = SILENT,
) -> LearnedPieces:
    """A Unigram model of `k` tokens, special tokens and the 256 bytes included.

    The paper's settings: no normalization, white space kept, digits split, pieces of white
    space allowed, byte fallback. The text may give fewer than k tokens.
    """
    check_unigram_budget(k, specials)
    if counts.pretokenizer is not UNIGRAM:
        raise UsageError(
            f"expected words of pre-tokenizer '{UNIGRAM.name}', got '{counts.pretokenizer.name}'"
        )
    lines = trainer_lines(counts)
    if not lines:
        raise ModtokError(f"the text of language '{language}' has no words")
    with scratch_directory() as scratch:
        words, pieces_file = scratch / "words.tsv", scratch / "pieces"
        words.write_bytes(lines)
        # The trainer's unknown piece corresponds to ours among the special tokens.
        size = k - len(specials) + 1
        _train(language, words, pieces_file, size, progress)
        rows = [line.rsplit("\t", 1) for line in pieces_file.read_text("utf-8").split("\n") if line]
    # A text may contain a special token's name, but a vocabulary has each string once.
    spelled = [(text.replace(SPACE, " "), float.fromhex(score)) for text, score in rows]
    own = [row for row in spelled if row[0] not in specials]
    pieces, scores = [text.encode() for text, _ in own], [score for _, score in own]
    membership = Membership.everywhere(len(pieces), 1)
    return make_pieces([language], specials, pieces, scores, membership)


def check_unigram_budget(k: int, specials: Sequence[str]) -> None:
    """Check the budget and the special tokens of a Unigram vocabulary."""
    if not specials or specials[0] != UNKNOWN:
        raise UsageError(f"the first special token of a Unigram vocabulary must be {UNKNOWN}")
    for special in specials:
        if specials.count(special) > 1 or not special or _BYTE_NAME.fullmatch(special):
            raise UsageError(
                f"'{special}' cannot be a special token: empty, repeated, or the name of a byte",
                where="--special",
            )
    smallest = len(specials) + 256
    if k <= smallest:
        raise UsageError(
            f"k = {k} is too small: {smallest} tokens are bytes and special tokens",
            where="-k",
            remedy=f"choose more than {smallest}",
        )
    check_id_range(k)


def _train(language: str, words: Path, pieces: Path, size: int, progress: Progress) -> None:
    """Run the trainer on a file; kill it if the progress raises (the build was cancelled)."""
    command = [sys.executable, "-m", "modtok_cli.learn.unigram_trainer"]
    command += map(str, (words, pieces, size, CHARACTER_COVERAGE, TRAINER_THREADS))
    with (
        progress.task(f"{language}: Unigram", total=100, unit="%") as task,
        subprocess.Popen(
            command,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process,
    ):
        log = TrainerLog(size)
        stream = process.stderr
        assert stream is not None
        reader = threading.Thread(target=lambda: log.read(stream), daemon=True)
        reader.start()
        shown = 0.0
        try:
            while True:
                try:
                    process.wait(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    reached = log.percent
                    task.advance(reached - shown)
                    shown = reached
        except BaseException:
            process.kill()
            raise
        finally:
            reader.join()
    if process.returncode != 0:
        raise ModtokError(
            f"language '{language}': {_reason(log.lines)}",
            remedy="choose another k, or provide more text",
        )


class TrainerLog:
    """The trainer's messages: how far it is, and the last lines that are no information.

    The trainer starts from seed pieces and removes a quarter of them in each round until 1.1
    times the vocabulary size are left, so that progress is the logarithm of their number.

    >>> log = TrainerLog(1000)
    >>> log.read(["Initialized 17600 seed pieces", "EM sub_iter=1 size=4400 obj=9"])
    >>> log.percent
    60.0
    """

    def __init__(self, size: int) -> None:
        self.percent = 0.0
        self.lines: deque[str] = deque(maxlen=20)
        self._target = 1.1 * size
        self._seeds = 0

    def read(self, stream: Iterable[str]) -> None:
        """Read all lines."""
        for line in stream:
            seeds, step = _SEEDS.search(line), _ROUND.search(line)
            if seeds:
                self._seeds = int(seeds[1])
                self.percent = _SEEDED
            elif step and self._seeds > self._target:
                done = math.log(self._seeds / max(int(step[1]), 1))
                share = done / math.log(self._seeds / self._target)
                reached = _SEEDED + (100 - _SEEDED) * min(1.0, share)
                self.percent = max(self.percent, round(reached, 1))
            elif not _INFORMATION.match(line):
                self.lines.append(line)


def _reason(lines: Iterable[str]) -> str:
    """The reason of a failure, from the trainer's messages."""
    text = " ".join(line.strip() for line in lines if line.strip())
    required = re.search(r"smaller than required_chars\. (\d+) vs (\d+)", text)
    if required:
        return (
            f"its characters alone require {int(required[2]):,} tokens, k allows "
            f"{int(required[1]):,}"
        )
    return f"the SentencePiece trainer failed: {text[-300:] or 'it was killed'}"
