"""Public functions that open, extract and check tokenizers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from modtok_cli.api.arguments import (
    FilePath,
    Languages,
    checked,
    optional_languages,
    progress_or_default,
    text_paths,
)
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.text.languages import language_list
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    from modtok_cli.modular.comparison import Comparison
    from modtok_cli.modular.inspect import Report
    from modtok_cli.modular.open import Tokenizer
    from modtok_cli.modular.subtokenizer import Subtokenizer
    from modtok_cli.modular.tokenizer import ModularTokenizer

    AnyTokenizer = FilePath | Tokenizer | ModularTokenizer

Errors = Literal["strict", "replace", "skip"]


@checked
def load(directory: FilePath) -> ModularTokenizer:
    """Load and validate a modular tokenizer.

    Args:
        directory: A directory that one of the learners wrote.

    Examples:
        >>> tokenizer = modtok.load("tokenizer")
        >>> tokenizer.languages
        ('en', 'fi', 'fr')

    Raises:
        ModtokError: the directory is damaged; the message names the file and the field.
        UsageError: it is not a tokenizer directory.
    """
    from modtok_cli.modular.tokenizer import ModularTokenizer

    return ModularTokenizer.load(Path(directory))


@checked
def adopt(
    tokenizer: FilePath,
    languages: Languages | None = None,
    *,
    output: FilePath | None = None,
    data: FilePath = "data",
    k: int | None = None,
    coverage: float | None = None,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> ModularTokenizer:
    """Make an existing tokenizer modular: a language has the tokens that its text uses.

    Args:
        tokenizer: A `tokenizer.json` (BPE or Unigram), or a directory that contains one.
        languages: Languages; all in `data` by default.
        output: Directory to write; None writes nothing.
        data: Directory with the text of each language.
        k: Tokens per language, those of greatest use; all used tokens by default.
        coverage: Remove rare tokens until a text takes 1 - coverage more tokens.
        errors, field, lang_field, threads, force, progress: As in `bpe_seq`.

    Examples:
        >>> adopted = modtok.adopt("bpe/fi.json", "en,fi", data="data")
        >>> adopted.subset("fi").size <= adopted.size
        True

    Raises:
        UsageError: another type of tokenizer, an unknown language, or `output` exists.
        ModtokError: the file is damaged, or there is no text.
    """
    from modtok_cli.modular.adopted.adopt import adopt, check_output

    if output is not None:
        check_output(Path(output), force=force)
    made = adopt(
        Path(tokenizer),
        optional_languages(languages),
        data=Path(data),
        k=k,
        coverage=coverage,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        progress=progress_or_default(progress),
    )
    if output is not None:
        made.save(Path(output))
    return made


@checked
def open_tokenizer(spec: FilePath) -> Tokenizer:
    """Open any tokenizer that modtok reads.

    Args:
        spec: A modular directory, `DIR@fr,en` (a subset of it), a `tokenizer.json`, a
            SentencePiece `.model`, or a tiktoken rank file.

    Examples:
        >>> tokenizer = modtok.open_tokenizer("tokenizer@fi")
        >>> tokenizer.decode(tokenizer.encode("Hyvää päivää"))
        'Hyvää päivää'

    Raises:
        UsageError: the file does not exist, or the directory lacks the language.
        ModtokError: it is damaged, or of an unknown kind.
    """
    from modtok_cli.modular.open import open_tokenizer

    return open_tokenizer(str(spec))


@checked
def extract(
    tokenizer: FilePath | ModularTokenizer,
    languages: Languages,
    output: FilePath | None = None,
) -> Subtokenizer:
    """Extract the tokenizer of some languages from a modular one.

    Args:
        tokenizer: A modular tokenizer or its directory.
        languages: "fi", "fr,en" or a list of codes.
        output: File to write: a `tokenizer.json`, or a SentencePiece model if the name ends in
            `.model`. An existing file is replaced.

    Examples:
        >>> modtok.extract("tokenizer", "fr,en", "fr-en.json").languages
        ('en', 'fr')

    Raises:
        UsageError: an unknown language, or a format that cannot hold the tokenizer.
        ModtokError: the directory is damaged.
    """
    from modtok_cli.modular.tokenizer import ModularTokenizer

    modular = tokenizer if isinstance(tokenizer, ModularTokenizer) else load(tokenizer)
    subset = modular.subset(languages)
    if output is not None:
        subset.save(Path(output))
    return subset


@checked
def extract_frequent(
    tokenizer: FilePath,
    texts: FilePath | Sequence[FilePath],
    k: int,
    output: FilePath,
    *,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Tokenizer:
    """Write a Unigram tokenizer that keeps the `k` tokens most frequent in some texts.

    Args:
        tokenizer: Any Unigram tokenizer, see `open_tokenizer`.
        texts: Files or directories to count tokens in.
        k: Vocabulary size; special tokens and bytes always stay.
        output: File to write, `.json` or `.model`.
        errors, field, lang_field, force, progress: As in `bpe`.

    Examples:
        >>> modtok.extract_frequent("unigram/fr.model", "data/fr.jsonl", 400, "small.model").size
        400

    Raises:
        UsageError: `k` is out of range, `output` exists, or the format cannot hold it.
        ModtokError: not a Unigram tokenizer, or unreadable texts.
    """
    from modtok_cli.base.files import write_bytes
    from modtok_cli.modular.frequent import extract_frequent

    output = Path(output)
    if output.exists() and not force:
        raise UsageError("already exists", where=str(output), remedy="pass force=True")
    data = extract_frequent(
        str(tokenizer),
        k,
        text_paths(texts),
        as_model=output.suffix == ".model",
        reading=Reading(errors, field, lang_field),
        progress=progress_or_default(progress),
    )
    write_bytes(output, data)
    return open_tokenizer(output)


@checked
def encode_files(
    tokenizer: FilePath | Tokenizer,
    texts: FilePath | Sequence[FilePath],
    output: FilePath,
    format: Literal["npy", "bin"] = "npy",
    *,
    end_of_text: str | None = None,
    errors: Errors = "strict",
    field: str = "text",
    lang_field: str | None = None,
    threads: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the token ids of a corpus to flat files, in bounded memory.

    Args:
        tokenizer: Any tokenizer, see `open_tokenizer`.
        texts: Files or directories, one after the other.
        output: Directory to write: `tokens.npy` and `offsets.npy`, or `tokens.bin` and
            `tokens.idx`, and `tokens.json` with what is returned.
        format: "npy", or "bin" for Megatron and nanoGPT.
        end_of_text: Token to append to every document.
        errors, field, lang_field, threads, progress: As in `bpe`.
        force: Replace an existing output.

    Returns:
        Number of tokens, documents and bytes of text, and type of the ids.

    Examples:
        >>> facts = modtok.encode_files("tokenizer@fi", "data/fi.jsonl", "ids")
        >>> import numpy
        >>> ids = numpy.load("ids/tokens.npy", mmap_mode="r")
        >>> offsets = numpy.load("ids/offsets.npy", mmap_mode="r")
        >>> len(ids) == int(offsets[-1]) == facts["tokens"]
        True

    Raises:
        UsageError: `output` exists, or the tokenizer has no such token.
        ModtokError: unreadable text.
    """
    from modtok_cli.modular.encoding.files import encode_files

    if isinstance(tokenizer, str | os.PathLike):
        tokenizer = open_tokenizer(tokenizer)
    return encode_files(
        tokenizer,
        text_paths(texts),
        Path(output),
        format,
        end_of_text=end_of_text,
        reading=Reading(errors, field, lang_field),
        threads=threads,
        force=force,
        progress=progress_or_default(progress),
    )


@checked
def inspect(tokenizer: AnyTokenizer, languages: Languages | None = None) -> list[dict[str, Any]]:
    """List the languages of a tokenizer, and what they share.

    Args:
        tokenizer: Any tokenizer, see `open_tokenizer`, or its directory.
        languages: Languages of a modular tokenizer to show; all by default.

    Returns:
        One row per language: `tokens`, of which `own` belong to no other shown language and
        `shared` do, `superwords`, `merges`, and the size of the training text. The last row is the
        "union" of the languages. A tokenizer without languages has one row.

    Examples:
        >>> rows = modtok.inspect("tokenizer@en,fi")
        >>> [row["language"] for row in rows]
        ['en', 'fi', 'union']
        >>> rows[0]["own"] + rows[0]["shared"] == rows[0]["tokens"]
        True

    Raises:
        UsageError: an unknown language, or languages of a tokenizer that has none.
        ModtokError: the file or directory is damaged.
    """
    from modtok_cli.modular.inspect import contents, open_whole
    from modtok_cli.modular.tokenizer import ModularTokenizer

    named: str | None = None
    if isinstance(tokenizer, str | os.PathLike):
        found, named = open_whole(str(tokenizer))
    else:
        found = tokenizer
    if languages is not None and (named or not isinstance(found, ModularTokenizer)):
        where = getattr(found, "name", str(tokenizer))
        what = f"already selects {named}" if named else "is no modular tokenizer"
        raise UsageError(what, where=where, remedy="omit languages")
    return contents(found, named if languages is None else languages)


@checked
def compare_tokenizers(first: AnyTokenizer, second: AnyTokenizer) -> Comparison:
    """Compare two tokenizers: every difference, and whether one contains the other.

    Args:
        first, second: Modular tokenizers or subtokenizers, or what `open_tokenizer` takes.

    Returns:
        `relation` of the second to the first ("equal", "contains": models of the first can use the
        second; "contained", "different"), `reason` in a sentence, and `rows()`, one for each
        language, token, merge and membership that only one of both has.

    Examples:
        >>> modtok.compare_tokenizers("tokenizer@fi", "tokenizer@en,fi").relation
        'different'

    Raises:
        UsageError: a tokenizer does not exist.
        ModtokError: it is damaged, or of a kind whose merges or scores are unknown.
    """
    from modtok_cli.modular.comparison import compare, open_comparable

    names = ["the first", "the second"]
    for i, given in enumerate((first, second)):
        if isinstance(given, str | os.PathLike):
            names[i] = str(given)
    a, b = map(open_comparable, (first, second))
    return compare(a, b, (names[0], names[1]))


@checked
def check_subsets(
    tokenizer: FilePath | ModularTokenizer, subsets: Iterable[Languages] = (), *, samples: int = 0
) -> Report:
    """Check that subsets are proper and that every token is reachable.

    Args:
        tokenizer: A modular tokenizer or its directory.
        subsets: Sets of languages to check, besides all languages and each single one.
        samples: Number of random sets to check too.

    Returns:
        `sound`, and one entry per set in `subsets`, with the ranks of improper merges and the ids
        of unreachable tokens.

    Examples:
        >>> modtok.check_subsets("tokenizer", ["en,fi"]).sound
        True

    Raises:
        UsageError: an unknown language.
        ModtokError: the directory is damaged.
    """
    from modtok_cli.modular.inspect import check
    from modtok_cli.modular.tokenizer import ModularTokenizer

    modular = tokenizer if isinstance(tokenizer, ModularTokenizer) else load(tokenizer)
    return check(modular, [language_list(each) for each in subsets], samples=samples)
