"""Scores of generated text: ROUGE by rouge-score; BLEU and chrF++ by sacreBLEU.

rouge-score's own words have no characters except a-z and 0-9, so a Telugu text scores 0 against
itself. Here a word is a run of letters, marks and digits of any script; on ASCII text both split
alike, which a property test checks.

BLEU and chrF++ are functions of sums over sentences. With the sums of each sentence a corpus can be
resampled without reading the texts again, for intervals and for comparing two systems.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Float64Array
from modtok_cli.text.languages import Label

ROUGE = ("rouge1", "rouge2", "rougeL")
# Prefixes of Unicode character names of scripts without spaces between words. Each letter with
# its marks is a word.
_UNSPACED = (
    "CJK ", "HIRAGANA ", "KATAKANA ", "KATAKANA-HIRAGANA ", "IDEOGRAPHIC ", "THAI ", "LAO ",
    "KHMER ", "MYANMAR ",
)  # fmt: skip
# Soft hyphen, zero-width non-joiner and joiner: optional within words.
_INVISIBLE = "\u00ad\u200c\u200d"
_OUTSIDE, _LETTER, _MARK, _ALONE = range(4)


@cache
def _kind(character: str) -> int:
    major = unicodedata.category(character)[0]
    if major not in "LMN":
        return _OUTSIDE
    if major == "M":
        return _MARK
    if major == "L" and unicodedata.name(character, "").startswith(_UNSPACED):
        return _ALONE
    return _LETTER


def words(text: str) -> list[str]:
    """Return words of a text, in lower case and normalization form C.

    A word is a run of letters, marks and digits. In scripts without spaces between words (Chinese,
    Japanese, Thai, Lao, Khmer, Burmese) each letter with its marks is a word. Soft hyphens and
    zero-width joiners are removed.

    >>> words("It's 2024: état-major, నమస్తే!")
    ['it', 's', '2024', 'état', 'major', 'నమస్తే']
    >>> words("東京2020年")
    ['東', '京', '2020', '年']
    """
    split: list[str] = []
    open_word = False  # whether a letter or digit continues the last word
    text = unicodedata.normalize("NFC", text.lower()).translate(dict.fromkeys(map(ord, _INVISIBLE)))
    within = False  # whether a mark continues it
    for character in text:
        kind = _kind(character)
        if kind == _OUTSIDE:
            open_word = within = False
            continue
        continues = within if kind == _MARK else kind == _LETTER and open_word
        if continues:
            split[-1] += character
        else:
            split.append(character)
            open_word = kind != _ALONE
        within = True
    return split


class _Words:
    """The tokenizer of rouge-score."""

    tokenize = staticmethod(words)


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(ROUGE, tokenizer=_Words())


def rouge(reference: str, output: str) -> dict[str, float]:
    """Return F1 of 1-grams, 2-grams and longest common subsequence; fractions of 1."""
    return {name: float(each.fmeasure) for name, each in _scorer().score(reference, output).items()}


# No spaces between words, so BLEU's words would be whole sentences. sacreBLEU has better tokenizers
# for some of these; they require further packages or downloads.
_BY_CHARACTER = frozenset({"ja", "th", "lo", "km", "my", "yue"})


def bleu_tokenizer(language: str) -> str:
    """Return sacreBLEU's tokenizer for a target language; only tokenizers without a download.

    >>> [bleu_tokenizer(language) for language in ("fr", "zh", "th")]
    ['13a', 'zh', 'char']
    """
    language = Label.of(language).short
    if language == "zh":
        return "zh"
    return "char" if language in _BY_CHARACTER else "13a"


class CorpusMetric:
    """A metric of sacreBLEU over a corpus.

    Attributes:
        name: "BLEU" or "chrF++".
    """

    def __init__(self, name: str, metric: Any) -> None:
        self.name, self._metric = name, metric

    def statistics(self, outputs: Sequence[str], references: Sequence[str]) -> Float64Array:
        """Return statistics of each sentence that are summed over the corpus; (n, m)."""
        rows = self._metric._extract_corpus_statistics(list(outputs), [list(references)])
        return np.array(rows, dtype=np.float64)

    def score(self, sums: Float64Array) -> float:
        """Return the metric of summed statistics (m,); 0 to 100."""
        # Integers: BLEU keeps counts, and smooths a count of 0.
        return float(self._metric._compute_score_from_stats(sums.astype(np.int64).tolist()).score)

    def of_sums(self, sums: Float64Array) -> Float64Array:
        """Return metrics (n,) of several sums (n, m), as of `results.resampled_sums`."""
        return np.array([self.score(each) for each in sums])

    @property
    def signature(self) -> str:
        """Short signature of sacreBLEU; available after a corpus was scored."""
        return str(self._metric.get_signature().format(short=True))


def corpus_metrics(language: str, *, lowercase: bool = False) -> list[CorpusMetric]:
    """Return BLEU and chrF++ for text in `language`."""
    from sacrebleu.metrics import BLEU, CHRF

    return [
        CorpusMetric("BLEU", BLEU(tokenize=bleu_tokenizer(language), lowercase=lowercase)),
        CorpusMetric("chrF++", CHRF(word_order=2, lowercase=lowercase)),
    ]
