"""Public functions that learn tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    checked,
    optional_languages,
    optional_path,
    progress_or_default,
)
from modtok_cli.base.progress import Progress
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.api.tokenizers import Errors
    from modtok_cli.construct.request import BuildReport


@checked
def bpe(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath | None = None,
    k: int = 24000,
    joint: bool = False,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Learn plain BPE tokenizers, one per language or one for all of them.

    Args:
        languages: Languages of `data` to use; all by default.
        data: Directory with one text file or directory per language.
        output: `bpe/` with a `<lang>.json` per language by default, `bpe-joint/` if `joint`.
        k: Vocabulary size, special tokens and the 256 bytes included.
        joint: Learn one vocabulary over the text of all languages.
        specials: Special tokens to add to the default ones.
        default_specials: Include the default special tokens, end of text and padding.
        errors: What to do with invalid UTF-8.
        field: Field or column of the text in JSON, Parquet, CSV and Arrow files.
        lang_field: Field of each document's language, for files of several languages.
        threads: Threads of this process; one per core by default.
        force: Replace an existing output.
        progress: Receives progress; warnings become `ModtokWarning` by default.

    Examples:
        >>> [row["tokens"] for row in modtok.bpe("fi,fr", k=1200, output="bpe").lines]
        [1200, 1200]

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    from modtok_cli.construct.bpe import bpe

    return bpe(
        optional_languages(languages),
        data=Path(data),
        output=optional_path(output),
        k=k,
        joint=joint,
        specials=specials,
        default_specials=default_specials,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def bpe_seq(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath = "tokenizer",
    k: int | None = None,
    order: Literal["alphabetical", "given", "size"] | None = None,
    passes: int | None = None,
    unit_counts: Literal["all", "word"] | None = None,
    segmentation: Literal["merges", "fewest-tokens"] | None = None,
    pretokenizer: str | None = None,
    append: Languages | None = None,
    tokenizer: FilePath | None = None,
    references: bool = True,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Learn a modular tokenizer by sequential BPE (Algorithm 2 of the paper).

    Args:
        languages: Languages of `data` to use; all by default.
        data: Directory with one text file or directory per language.
        output: Directory to write.
        k: Tokens per language, special tokens and the 256 bytes included; 24,000 by default.
        order: Order in which languages are learned; alphabetical by default.
        passes: 2 segments each language again with its adopted merges only.
        unit_counts: "all" counts every occurrence of a token, "word" only whole words.
        segmentation: How words are segmented; "merges" by default.
        pretokenizer: How text is split into words: "bpe" (default), "gpt2", "llama3", "qwen2",
            "o200k", "smollm".
        append: Languages to add to `tokenizer`; its ids stay unchanged.
        tokenizer: Tokenizer to extend; by default `output`, in place, of which the old version
            is kept as `NAME.SIGNATURE`.
        references: Learn a monolingual tokenizer per language too, for `nsl`.
        errors, field, lang_field: As in `bpe`.
        specials, default_specials, threads, force, progress: As in `bpe`.

    Examples:
        >>> report = modtok.bpe_seq("en,fi,fr", data="data", output="tokenizer", k=1200)
        >>> modtok.load(report.output).subset("fi").size
        1200

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    from modtok_cli.construct.bpe_seq import bpe_seq

    return bpe_seq(
        optional_languages(languages),
        data=Path(data),
        output=Path(output),
        k=k,
        order=order,
        passes=passes,
        unit_counts=unit_counts,
        segmentation=segmentation,
        pretokenizer=pretokenizer,
        append=optional_languages(append),
        tokenizer=optional_path(tokenizer),
        references=references,
        specials=specials,
        default_specials=default_specials,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def bpe_merge(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath = "tokenizer",
    k: int | None = None,
    overtrain: float | None = None,
    whole_characters: bool | None = None,
    append: Languages | None = None,
    remove: Languages | None = None,
    tokenizer: FilePath | None = None,
    references: bool = True,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Learn languages separately, unite their vocabularies, segment into the fewest tokens.

    Args:
        languages: Languages of `data` to use; all by default.
        data: Directory with one text file or directory per language.
        output: Directory to write.
        k: Tokens per language, special tokens and the 256 bytes included; 24,000 by default.
        overtrain: Candidate tokens per language, as a multiple of `k`; 1.25 by default.
        whole_characters: Use only tokens of whole characters, as SentencePiece requires.
        append: Languages to add to `tokenizer`; its ids stay unchanged.
        remove: Languages to remove from `tokenizer`.
        tokenizer: Tokenizer to change; by default `output`, in place, of which the old version
            is kept as `NAME.SIGNATURE`.
        references: Keep a monolingual tokenizer per language too, for `nsl`.
        errors, field, lang_field: As in `bpe`.
        specials, default_specials, threads, force, progress: As in `bpe`.

    Examples:
        >>> report = modtok.bpe_merge("en,fi", output="merged", k=1200)
        >>> report = modtok.bpe_merge(append="sw", output="merged")
        >>> modtok.load("merged").languages
        ('en', 'fi', 'sw')

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    from modtok_cli.construct.bpe_merge import bpe_merge

    return bpe_merge(
        optional_languages(languages),
        data=Path(data),
        output=Path(output),
        k=k,
        overtrain=overtrain,
        whole_characters=whole_characters,
        append=optional_languages(append),
        remove=optional_languages(remove),
        tokenizer=optional_path(tokenizer),
        references=references,
        specials=specials,
        default_specials=default_specials,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def unigram(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath | None = None,
    k: int = 24000,
    joint: bool = False,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Learn Unigram tokenizers with the SentencePiece trainer.

    The arguments are those of `bpe`; the default outputs are `unigram/`, with a `<lang>.json`
    and a `<lang>.model` per language, and `unigram-joint/`.

    Examples:
        >>> report = modtok.unigram("fi,fr", k=600, output="unigram")
        >>> sorted(path.name for path in report.output.iterdir())
        ['fi.json', 'fi.model', 'fr.json', 'fr.model']

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    from modtok_cli.construct.unigram import unigram

    return unigram(
        optional_languages(languages),
        data=Path(data),
        output=optional_path(output),
        k=k,
        joint=joint,
        specials=specials,
        default_specials=default_specials,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def unigram_merge(
    languages: Languages | None = None,
    *,
    data: FilePath = "data",
    output: FilePath = "tokenizer",
    k: int = 24000,
    models: FilePath | None = None,
    init: Literal["uniform", "mean"] = "uniform",
    weights: Mapping[str, float] | Literal["equal"] | None = None,
    tolerance: float = 1e-6,
    iterations: int = 100,
    references: bool = True,
    specials: Sequence[str] = (),
    default_specials: bool = True,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Merge monolingual Unigram models into a modular tokenizer (Algorithm 1 of the paper).

    Args:
        languages: Languages of `data` to use; all by default.
        data: Directory with one text file or directory per language.
        output: Directory to write.
        k: Tokens per language, special tokens and the 256 bytes included.
        models: Directory with a `<lang>.json` or `<lang>.model` per language. By default the
            models of `unigram/` that fit, and newly learned ones for the rest.
        init: Start of EM: uniform probabilities, or the mean of the models.
        weights: Factor for the text of each language, or "equal".
        tolerance: EM stops when the relative change of the log-likelihood is below this.
        iterations: Maximum number of EM iterations.
        references: Keep the monolingual models, for `nsl`.
        errors, field, lang_field: As in `bpe`.
        specials, default_specials, threads, force, progress: As in `bpe`.

    Examples:
        >>> report = modtok.unigram_merge("en,fi", weights={"fi": 2.0}, output="pieces", k=600)
        >>> modtok.load("pieces").segmentation
        'unigram'

    Raises:
        ModtokError, UsageError: the text, the models, the settings or the output are not usable.
    """
    from modtok_cli.construct.unigram_merge import unigram_merge

    if isinstance(weights, Mapping):
        weights_text = ",".join(f"{name}={value}" for name, value in weights.items())
    else:
        weights_text = weights or ""
    return unigram_merge(
        optional_languages(languages),
        data=Path(data),
        output=Path(output),
        k=k,
        models=optional_path(models),
        init=init,
        weights=weights_text or None,
        tolerance=tolerance,
        iterations=iterations,
        references=references,
        specials=specials,
        default_specials=default_specials,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )
