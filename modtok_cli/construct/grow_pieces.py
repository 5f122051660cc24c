"""Published Unigram tokenizers grow: new pieces after those of a `tokenizer.json`.

Pieces, ids and scores of the file stay as they are. SentencePiece's trainer proposes pieces from
the words of a language, as the file normalizes and splits them; their scores come from EM in which
the probabilities of the old pieces are fixed. So a text of another language gets other ids only
where a new piece occurs in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import exp, inf
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Float64Array, flatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.progress import Progress
from modtok_cli.learn.em import Expectation
from modtok_cli.learn.monolingual_unigram import SPACE, learn_unigram
from modtok_cli.learn.pieces import UNKNOWN, make_pieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM
from modtok_cli.tokenizer.adopted.tokenizer_file import TokenizerFile
from modtok_cli.tokenizer.encoding.external import in_library, library_tokenizer

_OVERTRAIN = 1.5
"""Proposed pieces, as a multiple of the new ones."""
_ROUNDS, _ITERATIONS = 3, 3
"""Rounds of removal, and iterations of EM in each."""

_WORD = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")

Scores = dict[str, float]


class _Pieces:
    """Segmentation of words into the pieces of greatest total score."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self.unknown = min(scores.values()) - 10.0  # as the library has it
        self.longest = max(map(len, scores))

    def segment(self, text: str, without: str = "") -> tuple[float, list[str]]:
        """The score of the best segmentation, and its pieces, of which none is `without`."""
        totals, starts = [0.0, *[-inf] * len(text)], [0] * (len(text) + 1)
        for stop in range(1, len(text) + 1):
            for start in range(max(0, stop - self.longest), stop):
                piece = text[start:stop]
                score = self.scores.get(piece, self.unknown if stop - start == 1 else -inf)
                if piece == without:
                    score = self.unknown if len(piece) == 1 else -inf
                if totals[start] + score > totals[stop]:
                    totals[stop], starts[stop] = totals[start] + score, start
        pieces, stop = [], len(text)
        while stop:
            pieces.append(text[starts[stop] : stop])
            stop = starts[stop]
        return totals[-1], pieces[::-1]


def grown_by_pieces(
    file: TokenizerFile, language: str, counts: WordCounts, k: int, progress: Progress
) -> tuple[TokenizerFile, int]:
    """The file with at most `k` new pieces of a language, and their number.

    `counts` are of its text, in the pre-tokenizer of the file.

    Raises:
        UsageError: a file that does not split text, or whose ids leave no room.
    """
    words = _words(file, counts)
    old = {str(name): float(score) for name, score in file.document["model"]["vocab"]}
    proposed, table = _proposed(file, old, language, words, k, progress), _table(words)
    while True:
        new = _chosen(file, old, proposed, table, k) if proposed else {}
        grown = extended(file, new)
        odd = _displacing(file, grown, new)
        if not odd:
            _check_lost(file, language, words, {**old, **new}, progress)
            return grown, len(new)
        proposed = {name: score for name, score in proposed.items() if name not in odd}


def _words(file: TokenizerFile, counts: WordCounts) -> Counter[str]:
    """Words as the file's normalizer and pre-tokenizer make them, in which "▁" is a space."""
    library = library_tokenizer(orjson.dumps(file.document), file.where)
    splits = library.pre_tokenizer
    words: Counter[str] = Counter()
    for document, count in counts.pairs():
        text = document.decode("utf-8", "replace")
        if library.normalizer is not None:
            text = library.normalizer.normalize_str(text)
        # SentencePiece does not split text, but its pieces begin with a space or have none.
        found = splits.pre_tokenize_str(text) if splits else ((w, 0) for w in _WORD.findall(text))
        for word, _ in found:
            words[word] += count
    return words


def _table(words: Mapping[str, int]) -> WordCounts:
    ordered = sorted((word.replace(SPACE, " ").encode(), count) for word, count in words.items())
    data, offsets = flatten([word for word, _ in ordered])
    return WordCounts(data, offsets, np.array([count for _, count in ordered], np.int64), UNIGRAM)


def _proposed(
    file: TokenizerFile,
    old: Scores,
    language: str,
    words: Mapping[str, int],
    k: int,
    progress: Progress,
) -> Scores:
    """Pieces that the file lacks, with the scores of a model of the language alone."""
    segment = _Pieces(old).segment
    used = {piece for word in words for piece in segment(word)[1]}
    size = 257 + len(used) + round(_OVERTRAIN * k)
    learned = learn_unigram(language, _table(words), size, [UNKNOWN], progress=progress)
    pieces = [piece.decode().replace(" ", SPACE) for piece in learned.pieces()]
    found = dict(zip(pieces, learned.scores[learned.first :].tolist(), strict=True))
    if file.unknown is None and not _spells_all(file):  # the trainer leaves out rare characters
        found = dict.fromkeys(sorted(set().union(*words)), min(old.values())) | found
    return {piece: score for piece, score in found.items() if piece not in file.ids}


def _spells_all(file: TokenizerFile) -> bool:
    """Whether bytes spell a character that is no piece; otherwise it is lost."""
    return bool(file.document["model"].get("byte_fallback"))


def _check_lost(
    file: TokenizerFile,
    language: str,
    words: Mapping[str, int],
    scores: Scores,
    progress: Progress,
) -> None:
    """Say how much text has no token; the library refuses such text without an unknown token."""
    if _spells_all(file):
        return
    segment = _Pieces(scores).segment
    lost = sum(
        count * sum(piece not in scores for piece in segment(word)[1])
        for word, count in words.items()
    )
    if not lost:
        return
    found = (
        f"{language}: {lost:,} of {sum(len(word) * n for word, n in words.items()):,} "
        "characters of the text have no token"
    )
    if file.unknown is None:
        raise UsageError(
            f"{found}, and 'model.unk_id' names none for them: the library refuses such text",
            where=file.where,
            remedy="give a larger -k, or the id of an unknown token",
        )
    progress.warn(f"{found}, and are unknown to the tokenizer; a larger -k may have more of them")


def _chosen(file: TokenizerFile, old: Scores, new: Scores, table: WordCounts, k: int) -> Scores:
    """At most `k` of the new pieces: those whose removal costs most, in rounds; with scores.

    Characters that would be lost go first.
    """
    is_lost = not _spells_all(file)
    for left in range(_ROUNDS, -1, -1):
        new, counts = _estimated(old, new, table)
        pieces = _Pieces({**old, **new})
        costs = {
            name: counts[name] * (score - pieces.segment(name, without=name)[0])
            for name, score in new.items()
        }
        # A piece that costs nothing is never reached.
        ranked = sorted(
            (name for name in new if costs[name] > 0),
            key=lambda name: (len(name) > 1 or not is_lost, -costs[name]),
        )
        if not ranked:
            return {}
        kept = max(k, round(len(ranked) * (k / len(new)) ** (1 / left))) if left else k
        new = {name: new[name] for name in ranked[:kept]}
    return new


def _estimated(old: Scores, new: Scores, table: WordCounts) -> tuple[Scores, Scores]:
    """Scores and expected counts of the new pieces, by EM with the old scores as they are."""
    names, floor = [*old, *new], min(old.values())
    spelled = {name.replace(SPACE, " ").encode(): name for name in names}  # "" has no name
    spelled.pop(b"", None)
    scores = np.array([old.get(name, new.get(name, floor)) for name in spelled.values()])
    members = Membership.everywhere(len(spelled), 1)
    bytes_only = np.full(256, floor - 10.0)
    pieces = make_pieces(["new"], [UNKNOWN], [*spelled], scores, members, bytes_only)
    expectation = Expectation(pieces, [table])
    is_new = np.zeros(pieces.size, dtype=np.bool_)
    is_new[pieces.first :] = [name in new for name in spelled.values()]
    probabilities: Float64Array = np.exp(pieces.scores)
    probabilities[0] = 0.0
    for _ in range(_ITERATIONS):
        expected, _ = expectation(probabilities)
        share = expected[is_new] / expected.sum()
        probabilities[is_new] = np.maximum(share, exp(floor))
    found = [name for name in spelled.values() if name in new]
    # SentencePiece stores scores as float32.
    values = np.log(probabilities[is_new]).astype(np.float32).astype(np.float64)
    values = np.maximum(values, floor)
    return (
        dict(zip(found, values.tolist(), strict=True)),
        dict(zip(found, expected[is_new].tolist(), strict=True)),
    )


def extended(file: TokenizerFile, new: Scores) -> TokenizerFile:
    """The file with new pieces, whose ids follow all others.

    The library writes an unknown character at a price that follows from the lowest score of all.
    """
    model = file.document["model"]
    rows = list(model["vocab"])
    lowest = min(float(score) for _, score in rows)
    for index in range(len(rows), file.size):  # ids of pieces are their places
        if not file.names[index]:
            raise UsageError(
                f"id {index:,} has no token, and the ids of new pieces follow the last one",
                where=file.where,
                remedy="give the id an added token, such as <unused>",
            )
        rows.append([file.names[index], lowest])
    rows += [[name, score] for name, score in new.items()]
    document = {**file.document, "model": {**model, "vocab": rows},
                "truncation": None, "padding": None}  # fmt: skip
    return TokenizerFile(document, file.where)


def _displacing(file: TokenizerFile, grown: TokenizerFile, new: Scores) -> set[str]:
    """New pieces that the library does not reach, or that keep it from an old piece."""
    before, after = (
        library_tokenizer(orjson.dumps(each.document), each.where).model for each in (file, grown)
    )

    def spelled(model: Any, name: str) -> list[str]:
        with in_library("cannot segment", file.where):
            return [each.value for each in model.tokenize(name)]

    odd = {name for name in new if spelled(after, name) != [name]}
    for name, _ in file.document["model"]["vocab"]:
        if not name or file.added[file.ids[name]]:
            continue
        made = spelled(after, name)
        if len(made) > 1 and len(spelled(before, name)) == 1:
            odd.update(each for each in made if each in new)
    return odd
