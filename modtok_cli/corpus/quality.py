"""Quality of a page: its similarity to good examples, by a fastText classifier.

The classifier uses words, word pairs and character n-grams, as fastText does. It is trained by
floret (fastText's code under a name that does not collide with the prediction package) and saved
in fastText's format.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import require
from modtok_cli.base.files import check_new, check_suffix, scratch_directory, write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, Force, OutputFile, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.corpus.dedup import paragraph_hash
from modtok_cli.corpus.language import as_fasttext, load_fasttext
from modtok_cli.corpus.plan import BuildPlan, read_json
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading

CHARACTERS = 5000
"""Maximum number of characters of a page that are classified."""
_LABEL = "__label__"  # fastText treats every word with this prefix as a label
GOOD, BAD = f"{_LABEL}good", f"{_LABEL}bad"
_HELD_OUT = 10  # one in ten examples is held out


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
                remedy="train one with `modtok corpus train-quality`",
            )

    def score(self, text: str) -> float:
        """Probability from 0 to 1 that the text is good, with four decimals."""
        labels, scores = self._model.predict(one_line(text), k=2, threshold=-1.0)
        of = dict(zip(labels, scores, strict=True))
        return round(min(1.0, max(0.0, float(of.get(GOOD, 0.0)))), 4)


@dataclass(frozen=True)
class QualityReport:
    """Held-out results of the classifier.

    precision: fraction of examples classified as good (score >= 1/2) that are good. recall:
    fraction of good examples classified as good. auc: probability that a good example scores above
    a bad one.
    """

    output: Path
    train_good: int
    train_bad: int
    held_out_good: int
    held_out_bad: int
    precision: float
    recall: float
    auc: float

    def row(self) -> dict[str, object]:
        """Row of a table."""
        return {**self.__dict__, "output": str(self.output)}


@public
def corpus_train_quality(
    good: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "High-quality text, such as encyclopedias, books or news. Repeatable.",
            flags="--good",
            kind=list[Path],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ],
    bad: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "Random pages. Repeatable.",
            flags="--bad",
            kind=list[Path],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ],
    *,
    output: OutputFile = "quality.bin",
    force: Force = False,
    progress: Progress = SILENT,
) -> QualityReport:
    """Train a classifier that scores the quality of pages.

    A fastText model is trained to separate the good texts from the random ones. A tenth of
    the examples is held out to measure precision and recall.

    Requires the extra [corpus]: pip install 'modtok[corpus]'.

    Returns:
        Sizes of the two sides, and precision, recall and AUC on the examples held out. An example
        is a document of at least ten words. Duplicates are removed, and documents on both sides
        are removed from both; the smaller side is repeated to balance the classes. The same texts
        give the same model.

    Raises:
        UsageError: the output exists, or the extra is missing.
        ModtokError: a text is missing or damaged, or a side has fewer than 20 examples.
    """
    require("modtok corpus train-quality", corpus=("fasttext", "floret"))
    output = Path(output)
    check_suffix(output, [".bin"])
    check_new(output, force=force)
    sides = [
        _examples(text_paths(good), "good", progress),
        _examples(text_paths(bad), "bad", progress),
    ]
    both = sides[0].keys() & sides[1].keys()
    for side, name in zip(sides, ("--good", "--bad"), strict=True):
        for key in both:
            del side[key]
        if len(side) < 20:
            raise ModtokError(
                f"{len(side)} examples are too few to train on", where=name, remedy="provide more"
            )
    train = [[text for key, text in side.items() if key % _HELD_OUT] for side in sides]
    held = [[text for key, text in side.items() if key % _HELD_OUT == 0] for side in sides]
    if not all(held):  # few examples and an unlucky hash
        held = [side[:2] for side in train]
        train = [side[2:] for side in train]
    with scratch_directory() as place, progress.task("training", None, "examples"):
        model = _train(list(_balanced(*train)), place)
        (place / "whole.bin").write_bytes(model)
        try:
            scorer = QualityModel(place / "whole.bin")
        except ModtokError as error:  # the trainer does not check that all was written
            raise ModtokError(
                f"the trained model is incomplete ({error.what})",
                where=place.parent,
                remedy="free space for temporary files, or set TMPDIR",
            ) from error
        scores = [np.array([scorer.score(text) for text in side]) for side in held]
    write_bytes(output, model)
    precision, recall = precision_recall(scores[0], scores[1])
    return QualityReport(
        output,
        len(train[0]),
        len(train[1]),
        len(held[0]),
        len(held[1]),
        round(precision, 4),
        round(recall, 4),
        round(auc(scores[0], scores[1]), 4),
    )


def _examples(paths: Sequence[Path | str], side: str, progress: Progress) -> dict[int, str]:
    examples: dict[int, str] = {}
    with progress.task(f"reading {side}", None, "documents") as task:
        for path in paths:
            for document in read_documents(path, Reading("replace"), progress=progress):
                text = one_line(document.text[: 4 * CHARACTERS].decode(errors="ignore"))
                # Scripts without spaces have few "words": their length counts instead.
                if len(text.split()) >= 10 or len(text) >= 100:
                    examples.setdefault(paragraph_hash(text), text)
                task.advance(1)
    return examples


def _balanced(good: Sequence[str], bad: Sequence[str]) -> Iterator[str]:
    """Lines of a training file with both classes shuffled and balanced."""
    times = [max(1, round(len(bad) / len(good))), max(1, round(len(good) / len(bad)))]
    lines = [f"{GOOD} {text}" for text in good for _ in range(times[0])]
    lines += [f"{BAD} {text}" for text in bad for _ in range(times[1])]
    # A pseudo-random but reproducible order.
    return iter(sorted(lines, key=lambda line: (paragraph_hash(line), line)))


def _train(lines: Iterable[str], place: Path) -> bytes:
    import floret

    text, saved = place / "train.txt", place / "model.bin"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    model: Any = floret.train_supervised(
        str(text),
        dim=16,
        epoch=5,
        lr=0.5,
        wordNgrams=2,
        minn=3,
        maxn=5,
        bucket=200_000,
        minCount=2,
        thread=1,  # several threads race and give a different model every time
        verbose=0,
    )
    model.save_model(str(saved))
    return as_fasttext(saved.read_bytes())


def precision_recall(
    good: npt.NDArray[np.float64], bad: npt.NDArray[np.float64], threshold: float = 0.5
) -> tuple[float, float]:
    """Precision and recall of "score >= threshold" for the class good; 0 for empty sets.

    >>> precision_recall(np.array([0.9, 0.8, 0.1]), np.array([0.7, 0.4, 0.2, 0.1]))
    (0.6666666666666666, 0.6666666666666666)
    >>> precision_recall(np.array([0.1]), np.array([0.2]))
    (0.0, 0.0)
    """
    hits, wrong = int((good >= threshold).sum()), int((bad >= threshold).sum())
    return hits / (hits + wrong) if hits + wrong else 0.0, hits / len(good) if len(good) else 0.0


def auc(good: npt.NDArray[np.float64], bad: npt.NDArray[np.float64]) -> float:
    """Probability that a good example scores above a bad one; ties count half.

    >>> auc(np.array([0.9, 0.4]), np.array([0.4, 0.1]))
    0.875
    """
    ordered = np.sort(bad)
    below = np.searchsorted(ordered, good, side="left")
    not_above = np.searchsorted(ordered, good, side="right")
    return float((below + not_above).sum() / 2 / (len(good) * len(bad)))


def cut_of(scores: dict[float, int], top: float) -> float:
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


def quality_cuts(plan: BuildPlan) -> dict[str, float]:
    """Minimum score to keep by language, from the histograms of all shards; {} without `top`."""
    if plan.settings.quality_top is None:
        return {}
    totals: dict[str, Counter[float]] = {}
    for path in sorted((plan.work / "scores").glob("*.json")):
        for language, counted in read_json(path).items():
            total = totals.setdefault(language, Counter())
            total.update({float(score): number for score, number in counted.items()})
    return {
        language: cut_of(dict(total), plan.settings.quality_top)
        for language, total in totals.items()
    }
