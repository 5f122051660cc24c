"""BLEU and chrF++ by sacreBLEU, from statistics that can be resampled.

Both metrics are functions of sums over sentences. With the sums of each sentence a corpus can be
resampled without reading the texts again, for intervals and for comparing two systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Float64Array
from modtok_cli.evaluate.results import resampled_sums
from modtok_cli.text.languages import normalize

# No spaces between words, so BLEU's words would be whole sentences. sacreBLEU has better tokenizers
# for some of these; they require further packages or downloads.
_BY_CHARACTER = frozenset({"ja", "th", "lo", "km", "my", "yue"})


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokenizer for a target language; only those that need no download.

    >>> [bleu_tokenizer(language) for language in ("fr", "zh", "th")]
    ['13a', 'zh', 'char']
    """
    language = normalize(language)
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
        """Statistics of each sentence that are summed over the corpus; (n, m)."""
        rows = self._metric._extract_corpus_statistics(list(outputs), [list(references)])
        return np.array(rows, dtype=np.float64)

    def score(self, sums: Float64Array) -> float:
        """Metric of summed statistics (m,); 0 to 100."""
        # Integers: BLEU keeps counts, and smooths a count of 0.
        return float(self._metric._compute_score_from_stats(sums.astype(np.int64).tolist()).score)

    def resampled(self, statistics: Float64Array) -> Float64Array:
        """Metric of each bootstrap resample, see `results.resampled_sums`."""
        return np.array([self.score(sums) for sums in resampled_sums(statistics)])

    @property
    def signature(self) -> str:
        """Short signature of sacreBLEU; available after a corpus was scored."""
        return str(self._metric.get_signature().format(short=True))


def corpus_metrics(language: str, *, lowercase: bool = False) -> list[CorpusMetric]:
    """BLEU and chrF++ for text in `language`."""
    from sacrebleu.metrics import BLEU, CHRF

    return [
        CorpusMetric("BLEU", BLEU(tokenize=bleu_tokenizer(language), lowercase=lowercase)),
        CorpusMetric("chrF++", CHRF(word_order=2, lowercase=lowercase)),
    ]
