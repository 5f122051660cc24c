"""Monolingual Unigram models as files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.membership import Membership
from modtok_cli.base.read_file import read_file
from modtok_cli.construct.monolingual import NONE, with_counts
from modtok_cli.learn.monolingual_unigram import SPACE
from modtok_cli.learn.pieces import LearnedPieces, make_pieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM as PRETOKENIZER
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.tokenizer.segmenters.sentencepiece_file import (
    UNIGRAM,
    Kind,
    kind_name,
    read_model,
)
from modtok_cli.tokenizer.segmenters.unigram import Unigram
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.validate import check_pieces
from modtok_cli.tokenizer.vocabulary import PieceVocabulary


def tokenizer_of(model: LearnedPieces, name: str) -> Subtokenizer:
    """Return a learned model as a tokenizer."""
    vocabulary = PieceVocabulary(model.specials, model.token_data, model.token_offsets)
    segmenter = Unigram(vocabulary, PRETOKENIZER, model.scores)
    return Subtokenizer(segmenter, languages=model.languages, name=name)


def model_json(
    language: str,
    model: LearnedPieces,
    counts: WordCounts,
    k: int,
    facts: Mapping[str, Any] = NONE,
) -> bytes:
    """Return the `tokenizer.json` of a monolingual model, which also serves as reference.

    Its provenance contains `counts`, how often each token occurs in the training text, from
    which `measure.references` identifies the language of a line.
    """
    tokenizer = tokenizer_of(model, language)
    return with_counts(tokenizer, counts, k, tokenizer.token_occurrences(counts), facts)


def find_model(directory: Path, language: str) -> Path | None:
    """Return the model of a language in a directory: `<lang>.json`, else `<lang>.model`."""
    for suffix in (".json", ".model"):
        path = directory / f"{language}{suffix}"
        if path.is_file():
            return path
    return None


def read_language_model(
    path: Path, language: str, specials: Sequence[str]
) -> tuple[LearnedPieces, Subtokenizer | None]:
    """Return the pieces of a model file, ours or SentencePiece's, with our special tokens.

    Of a SentencePiece `.model` only the normal pieces are used. Returns the tokenizer too if
    modtok wrote the file.

    Raises:
        ModtokError: a tokenizer of another kind, a model that normalizes its text, or pieces
            that cross word boundaries; names the file.
    """
    where = str(path)
    data = read_file(path)
    if path.suffix == ".json":
        opened = open_bytes(data, language, where)
        if not isinstance(opened, Subtokenizer) or not isinstance(opened.segmenter, Unigram):
            raise ModtokError(
                "is not a Unigram tokenizer of modtok",
                where=where,
                remedy="learn it with 'modtok unigram', or give a SentencePiece .model",
            )
        vocabulary, scores = opened.vocabulary, opened.segmenter.scores
        first = len(vocabulary.specials) + 256
        pieces, piece_scores = vocabulary.tokens()[first:], scores[first:]
        byte_scores = scores[first - 256 : first]
        model = _model(language, specials, pieces, piece_scores.tolist(), byte_scores.tolist())
        return model, opened if vocabulary.specials == tuple(specials) else None
    model_file = read_model(data, where)
    if model_file.model_type != UNIGRAM:
        raise ModtokError(
            f"is a SentencePiece model of type '{kind_name(model_file.model_type)}', not Unigram",
            where=where,
            remedy="train it with --model_type=unigram",
        )
    if model_file.charsmap:
        raise ModtokError(
            f"normalizes text ('{model_file.normalizer}'), so that decoding does not restore it",
            where=where,
            remedy="train it with --normalization_rule_name=identity",
        )
    if Kind.USER_DEFINED in model_file.kinds:
        raise ModtokError(
            "has user-defined pieces, which a Unigram model cannot contain", where=where
        )
    space = " " if model_file.escape_spaces else SPACE
    rows = [
        (piece.replace(SPACE, space).encode(), score)
        for piece, score, kind in zip(
            model_file.pieces, model_file.scores, model_file.kinds, strict=True
        )
        if kind == Kind.NORMAL and piece not in specials
    ]
    if not rows:
        raise ModtokError("has no pieces", where=where)
    model = _model(language, specials, [piece for piece, _ in rows], [score for _, score in rows])
    vocabulary = PieceVocabulary(model.specials, model.token_data, model.token_offsets)
    try:
        check_pieces(vocabulary, model.scores, where)
    except ModtokError as error:
        raise ModtokError(
            error.what, where=where, remedy="train it with --split_digits and --split_by_whitespace"
        ) from error
    return model, None


def _model(
    language: str,
    specials: Sequence[str],
    pieces: list[bytes],
    scores: list[float],
    byte_scores: list[float] | None = None,
) -> LearnedPieces:
    own = Membership.everywhere(len(pieces), 1)
    return make_pieces([language], specials, pieces, scores, own, byte_scores)


def parse_weights(text: str | None, languages: Sequence[str]) -> dict[str, float]:
    """Parse `--weights fr=2,en=0.5`: a factor for the counts of each language, default 1.

    "equal", the same total for every language, requires the counts: the result is {}.

    >>> parse_weights("fr=2", ["en", "fr"])
    {'en': 1.0, 'fr': 2.0}

    Raises:
        UsageError: not a number, a negative number, or an unknown language.
    """
    weights = dict.fromkeys(languages, 1.0)
    if text is None:
        return weights
    if text.strip() == "equal":
        return {}
    for part in text.split(","):
        language, sign, number = (word.strip() for word in part.partition("="))
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not sign or not 0 <= value < float("inf"):
            raise UsageError(
                f"'{part}' is not a weight", where="--weights", remedy="write fr=2,en=0.5 or equal"
            )
        if language not in weights:
            raise UsageError(
                f"no language '{language}'",
                where="--weights",
                remedy=f"expected one of {', '.join(languages)}",
            )
        weights[language] = value
    if not any(weights.values()):
        raise UsageError("all weights are 0", where="--weights")
    return weights
