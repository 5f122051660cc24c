"""NSL of Unigram tokenizers of 21 languages: the tables of docs/results.md.

    python -m benchmarks unigram_nsl CORPUS TEXTS WORK

CORPUS holds `<lang>.jsonl.zst` to learn from, TEXTS `<lang>.txt` to measure on, WORK takes
the tokenizers (kept, so that a second run only measures). Prints Markdown. NSL is tokens
divided by those of the language's own 24k Unigram tokenizer.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import LANGUAGES
from modtok_cli.construct.unigram import unigram
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.measure.references import References
from modtok_cli.modular.extract import frequent_mask
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM

K = 24_000
JOINT = 256_000
TOPS = (8_000, 16_000, 24_000, 32_000)
Row = tuple[str, int | str, list[float]]


def table(rows: list[Row]) -> str:
    head = ["tokenizer", "tokens", *LANGUAGES, "mean", "max"]
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    for label, size, values in rows:
        numbers = [f"{value:.3f}" for value in values]
        size_text = f"{size:,}" if isinstance(size, int) else size
        numbers += [f"**{np.mean(values):.4f}**", f"{max(values):.4f}"]
        lines.append(" | ".join([label, size_text, *numbers]))
    return "\n".join(f"| {line} |" for line in lines)


def files(directory: Path, suffix: str) -> dict[str, list[Path]]:
    return {language: [directory / f"{language}{suffix}"] for language in LANGUAGES}


class Measure:
    def __init__(self, texts: dict[str, WordCounts], references: References) -> None:
        self.texts = texts
        self.base = {
            language: self.tokens(references[language].tokenizer, language)
            for language in LANGUAGES
        }

    def tokens(self, tokenizer: Subtokenizer, language: str) -> int:
        counts = self.texts[language]
        return int(tokenizer.token_lengths(counts) @ counts.counts)

    def nsl(self, choose: Callable[[str], Subtokenizer]) -> list[float]:
        return [
            self.tokens(choose(language), language) / self.base[language] for language in LANGUAGES
        ]


def combinations(modular: ModularTokenizer, measure: Measure) -> list[Row]:
    generator = random.Random(4)
    fours = {
        language: [
            [language, *generator.sample([x for x in LANGUAGES if x != language], 3)]
            for _ in range(5)
        ]
        for language in LANGUAGES
    }
    whole = modular.full()
    random_fours = [
        float(
            np.mean(
                [
                    measure.tokens(modular.subset(four), language) / measure.base[language]
                    for four in fours[language]
                ]
            )
        )
        for language in LANGUAGES
    ]
    return [
        ("extracted, alone", K, measure.nsl(lambda language: modular.subset([language]))),
        (
            "extracted with English",
            "–",
            measure.nsl(lambda language: modular.subset({language, "en"})),
        ),
        ("random fours (5 each)", "–", random_fours),
        ("merged T, all 21", whole.size, measure.nsl(lambda _: whole)),
    ]


def frequency_based(
    label: str, whole: Subtokenizer, learned: dict[str, WordCounts], measure: Measure
) -> list[Row]:
    """The most frequent tokens of `whole` on each language's training text."""
    assert whole.scores is not None
    scores = whole.scores
    always = np.zeros(whole.size, dtype=np.bool_)
    always[: len(whole.vocabulary.specials) + 256] = True
    used = {language: whole.token_occurrences(learned[language]) for language in LANGUAGES}
    rows: list[Row] = []
    for k in TOPS:

        def cut(language: str, k: int = k) -> Subtokenizer:
            return whole.restricted(frequent_mask(used[language], scores, always, k))

        rows.append((f"{label}, top {k // 1000}k", k, measure.nsl(cut)))
    rows.append((f"{label}, full", whole.size, measure.nsl(lambda _: whole)))
    return rows


def effect_of_em(modular: ModularTokenizer, corpus: Path, work: Path, measure: Measure) -> str:
    """Likelihood or length? Singles, with English, and all, after more and more of EM."""
    lines = [
        "| scores | alone, mean | alone, max | with English | all 21 |",
        "|---|---|---|---|---|",
    ]
    settings: list[tuple[str, dict[str, Any]]] = [
        ("mean of the models, no EM", {"init": "mean", "iterations": 0}),
        ("uniform start, 2 iterations", {"iterations": 2}),
        ("uniform start, 3 iterations", {"iterations": 3}),
        ("mean start, to convergence", {"init": "mean"}),
        ("uniform start, equal weights, to convergence", {"weights": "equal"}),
    ]
    made = [("uniform start, to convergence (the paper's)", modular)]
    for label, options in settings:
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) / "merged"
            unigram_merge(
                LANGUAGES, data=corpus, models=work / "mono", output=output, k=K, references=False,
                **options,
            )  # fmt: skip
            made.append((label, ModularTokenizer.load(output)))
    for label, tokenizer in made:
        alone, with_english, _, everything = (row[2] for row in combinations(tokenizer, measure))
        lines.append(
            f"| {label} | {np.mean(alone):.4f} | {max(alone):.4f} | "
            f"{np.mean(with_english):.4f} | {np.mean(everything):.4f} |"
        )
    return "\n".join(lines)


def main() -> None:
    corpus, texts, work = map(Path, sys.argv[1:])
    if not (work / "mono").is_dir():
        unigram(LANGUAGES, data=corpus, output=work / "mono", k=K)
    if not (work / "merged").is_dir():
        unigram_merge(LANGUAGES, data=corpus, models=work / "mono", output=work / "merged", k=K)
    if not (work / "joint").is_dir():
        unigram(LANGUAGES, data=corpus, output=work / "joint", k=JOINT, joint=True)
    measured = count_languages(files(texts, ".txt"), pretokenizer=UNIGRAM)
    measure = Measure(measured, References(work / "merged" / "references"))
    learned = count_languages(files(corpus, ".jsonl.zst"), pretokenizer=UNIGRAM)
    modular = ModularTokenizer.load(work / "merged")
    joint = ModularTokenizer.load(work / "joint").full()
    print(f"Merged: signature {modular.signature}, EM {modular.settings['em']}.\n")
    print(table(combinations(modular, measure)))
    print("\nWhat EM does to length:\n")
    print(effect_of_em(modular, corpus, work, measure), flush=True)
    print(f"\nFrequency-based, out of a joint Unigram tokenizer of {JOINT:,}:\n")
    print(table(frequency_based("joint", joint, learned, measure)))
    print("\nFrequency-based, out of the merged T:\n")
    print(table(frequency_based("merged", modular.full(), learned, measure)))


if __name__ == "__main__":
    main()
