"""BLEU and chrF++ by sacreBLEU, and what its numbers are made of.

Both are functions of sums over sentences. With these at hand a corpus can be drawn again a
thousand times without reading a text again, for intervals and for comparing two systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.evaluate.results import resampled_sums

Floats = npt.NDArray[np.float64]

# Written without spaces between words, where BLEU's words would be whole sentences. sacreBLEU
# has better tokenizers of some; they need packages or files that are not always there.
_BY_CHARACTER = frozenset({"ja", "th", "lo", "km", "my", "yue"})


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokenizer for a target language; none that must be downloaded.

    >>> [bleu_tokenizer(language) for language in ("fr", "zh", "th")]
    ['13a', 'zh', 'char']
    """
    if language == "zh":
        return "zh"
    return "char" if language in _BY_CHARACTER else "13a"


class CorpusMetric:
    """One of sacreBLEU's metrics over a corpus.

    Attributes:
        name: "BLEU" or "chrF++".
    """

    def __init__(self, name: str, metric: Any) -> None:
        self.name, self._metric = name, metric

    def statistics(self, outputs: Sequence[str], references: Sequence[str]) -> Floats:
        """What the sums are over: (n, m), a row per sentence."""
        rows = self._metric._extract_corpus_statistics(list(outputs), [list(references)])
        return np.array(rows, dtype=np.float64)

    def score(self, sums: Floats) -> float:
        """The metric of summed statistics (m,); 0 to 100."""
        # Integers again: BLEU keeps counts, and smooths where one is 0.
        return float(self._metric._compute_score_from_stats(sums.astype(np.int64).tolist()).score)

    def resampled(self, statistics: Floats) -> Floats:
        """The metric of each bootstrap draw; see `results.resampled_sums`."""
        return np.array([self.score(sums) for sums in resampled_sums(statistics)])

    @property
    def signature(self) -> str:
        """sacreBLEU's own, in its short form; known once a corpus was scored."""
        return str(self._metric.get_signature().format(short=True))


def corpus_metrics(language: str, *, lowercase: bool = False) -> list[CorpusMetric]:
    """BLEU and chrF++ as they score text in `language`."""
    from sacrebleu.metrics import BLEU, CHRF

    return [
        CorpusMetric("BLEU", BLEU(tokenize=bleu_tokenizer(language), lowercase=lowercase)),
        CorpusMetric("chrF++", CHRF(word_order=2, lowercase=lowercase)),
    ]
