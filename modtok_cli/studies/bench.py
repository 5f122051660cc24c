"""Inputs shared by studies: training words, test texts, monolingual references."""

import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Budget, FilePath, Langs, Texts, text_paths
from modtok_cli.base.progress import Progress
from modtok_cli.base.remote import path_of
from modtok_cli.construct.corpora import to_learn_from
from modtok_cli.construct.references import reference_json
from modtok_cli.construct.request import DEFAULT_SPECIALS
from modtok_cli.measure.texts import check_texts, load_texts
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.studies.rows import Row
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files

K = Annotated[int, get_args(Budget)[1]]
Orders = Annotated[
    int,
    Option("Number of language orders: the alphabetical one and random ones.", metavar="N", low=1),
]
Command = Annotated[str, Option("Command line to store with the rows.", python_only=True)]
Seed = Annotated[int, Option("Seed of random orders and samples.", metavar="N")]


@dataclass(frozen=True)
class Bench:
    """Languages in alphabetical order, each with its training words and its test words.

    `references` are monolingual BPE tokenizers of k tokens trained on the same words;
    `reference_tokens` are their token counts on the test text.
    """

    k: int
    specials: tuple[str, ...]
    counts: dict[str, WordCounts]
    texts: dict[str, WordCounts]
    references: dict[str, Subtokenizer]
    reference_tokens: dict[str, int]

    @property
    def languages(self) -> list[str]:
        """Languages, alphabetical."""
        return list(self.counts)

    def tokens(self, tokenizer: Subtokenizer, language: str) -> int:
        """Number of tokens of a language's test text."""
        words = self.texts[language]
        return int(tokenizer.token_lengths(words) @ words.counts)

    def row(self, tokenizer: Subtokenizer, language: str, size: int | None = None) -> Row:
        """What every study measures of a tokenizer on a language; `size` in place of its own."""
        tokens = self.tokens(tokenizer, language)
        return {
            "language": language,
            "size": tokenizer.size if size is None else size,
            "tokens": tokens,
            "reference_tokens": self.reference_tokens[language],
            "nsl": tokens / self.reference_tokens[language],
        }

    def fingerprints(self) -> dict[str, list[str]]:
        """Fingerprints of training and test words of each language."""
        return {
            language: [self.counts[language].fingerprint(), self.texts[language].fingerprint()]
            for language in self.counts
        }


def load_counts(
    languages: Langs,
    data: FilePath,
    reading: Reading,
    threads: int | None,
    progress: Progress,
) -> dict[str, WordCounts]:
    """Training words of each language, alphabetical.

    Raises:
        ModtokError: text is missing, empty or damaged.
    """
    files = language_files(path_of(data), optional_languages(languages), reading, progress=progress)
    counts = count_languages(files, reading=reading, threads=threads, progress=progress)
    for language, table in counts.items():
        if not len(table):
            raise ModtokError(
                f"no text in language '{language}'",
                where=", ".join(str(path) for path in files[language]),
            )
    return {name: to_learn_from(name, table, progress) for name, table in counts.items()}


def load_bench(
    languages: Langs,
    texts: Texts,
    *,
    data: FilePath,
    k: int,
    output: FilePath,
    reading: Reading,
    threads: int | None,
    progress: Progress,
) -> Bench:
    """Count all words, and train the references that are not beside `output` yet.

    Raises:
        UsageError: a language has no test text.
        ModtokError: text is missing, empty or damaged.
    """
    texts = text_paths(texts)
    check_texts(texts)
    counts = load_counts(languages, data, reading, threads, progress)
    loaded = load_texts(
        texts,
        language=None,
        references=None,
        keep_documents=False,
        reading=reading,
        progress=progress,
        known=list(counts),
    )
    tests: dict[str, WordCounts] = {}
    for text in loaded:
        if text.language in tests:
            raise UsageError(
                f"a second text in {text.language}",
                where=text.name,
                remedy="pass one text per language",
            )
        tests[text.language] = text.counts
    missing = [language for language in counts if language not in tests]
    if missing:
        raise UsageError(
            f"no test text in {', '.join(missing)}",
            where=", ".join(map(str, texts)),
            remedy=f"provide one, or select languages with --langs {','.join(sorted(tests))}",
        )
    specials = DEFAULT_SPECIALS
    cache = Path(output).parent / f"references-{k}"
    references = _references(counts, k, specials, cache, threads, progress)
    tests = {language: tests[language] for language in counts}
    tokens = {
        language: int(references[language].token_lengths(words) @ words.counts)
        for language, words in tests.items()
    }
    for language, needed in tokens.items():
        if not needed:
            raise ModtokError(f"empty text in {language}", where=", ".join(map(str, texts)))
    return Bench(k, specials, counts, tests, references, tokens)


def _references(
    counts: dict[str, WordCounts],
    k: int,
    specials: tuple[str, ...],
    cache: Path,
    threads: int | None,
    progress: Progress,
) -> dict[str, Subtokenizer]:
    """Monolingual tokenizers, from `cache` if it has those of the same words and k."""

    def one(language: str) -> Subtokenizer:
        path = cache / f"{language}.json"
        if path.exists():
            with suppress(ModtokError):  # damaged: train again
                saved = open_tokenizer(str(path))
                if isinstance(saved, Subtokenizer):
                    made_of = (saved.provenance.get("k"), saved.provenance.get("corpus"))
                    same = made_of == (k, counts[language].fingerprint())
                    if same and saved.vocabulary.specials == specials:
                        return saved
        write_bytes(path, reference_json(language, counts[language], k, specials))
        made = open_tokenizer(str(path))
        assert isinstance(made, Subtokenizer)
        return made

    references = {}
    with (
        progress.task("monolingual references", total=len(counts), unit="languages") as task,
        ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool,
    ):
        for language, tokenizer in zip(counts, pool.map(one, counts), strict=True):
            references[language] = tokenizer
            task.advance(1)
    return references


def language_orders(languages: Sequence[str], number: int, seed: int) -> list[list[str]]:
    """The alphabetical order and `number` - 1 shuffled ones, reproducible by the seed."""
    alphabetical = sorted(languages)
    shuffler = random.Random(seed)
    orders = [list(alphabetical) for _ in range(number)]
    for order in orders[1:]:
        shuffler.shuffle(order)
    return orders
