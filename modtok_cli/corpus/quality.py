"""Quality of a page: its similarity to good examples, by a fastText classifier.

`examples/paper/train_quality.py` trains one.
"""

from collections.abc import Mapping
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.corpus.fasttext_file import load_fasttext

CHARACTERS = 5000
"""Maximum number of characters of a page that are classified."""
_LABEL = "__label__"  # fastText treats every word with this prefix as a label
GOOD, BAD = f"{_LABEL}good", f"{_LABEL}bad"


def one_line(text: str) -> str:
    """Input of the classifier: lower case, one line, truncated, without labels.

    >>> one_line("Good\\n Text "), one_line("a line of __label__spam")
    ('good text', 'a line of spam')
    """
    return " ".join(text[:CHARACTERS].lower().replace(_LABEL, " ").split())


class QualityModel:
    """Page scores by a fastText classifier with the labels good and bad.

    Raises:
        ModtokError: the file does not exist, is not a model, or has other labels.
    """

    def __init__(self, path: Path) -> None:
        self._model = load_fasttext(path)
        labels, _ = self._model.predict("a", k=-1, threshold=-1.0)
        if set(labels) != {GOOD, BAD}:
            raise ModtokError(
                f"expected the labels good and bad, got {', '.join(sorted(labels)[:5])}",
                where=path,
                remedy="train one as examples/paper/train_quality.py does",
            )

    def score(self, text: str) -> float:
        """Probability from 0 to 1 that the text is good, with four decimals."""
        labels, scores = self._model.predict(one_line(text), k=2, threshold=-1.0)
        of = dict(zip(labels, scores, strict=True))
        return round(min(1.0, max(0.0, float(of.get(GOOD, 0.0)))), 4)


def cut_of(scores: Mapping[float, int], top: float) -> float:
    """Lowest score among the best fraction `top` of the counted pages.

    Pages with equal scores are kept or dropped together; at the cut they are kept.

    >>> [cut_of({0.9: 1, 0.5: 2, 0.1: 7}, top) for top in (0.1, 0.3, 1.0)]
    [0.9, 0.5, 0.1]
    """
    wanted = top * sum(scores.values())
    pages = 0
    cut = 1.0
    for score in sorted(scores, reverse=True):
        if pages >= wanted:
            break
        pages += scores[score]
        cut = score
    return cut
