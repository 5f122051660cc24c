"""Values that the shell completes: languages, subsets of tokenizers, presets, tasks.

A completion never fails: without a tokenizer or data there are no candidates.
"""

import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path

from typer import Context

DATA, TOKENIZER = Path("data"), Path("tokenizer")


def is_of_bash() -> bool:
    """Whether bash asks for completions."""
    return os.environ.get("_MODTOK_COMPLETE") == "complete_bash"


@contextmanager
def words_of_bash() -> Iterator[None]:
    """Complete `DIR@fr` in bash, which takes `@` for the start of a word.

    The words are joined before the completion, and what it prints loses what bash keeps: all before
    the last `@`, which itself is part of what bash replaces.
    """
    text = os.environ.get("COMP_WORDS", "")
    index = os.environ.get("COMP_CWORD", "")
    if "@" not in text or not index.isdigit():
        yield
        return
    words, place, prefix = joined(text.split("\n" if "\n" in text else None), int(index))
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(words), str(place)
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        for line in printed.getvalue().splitlines():
            sys.stdout.write(line.removeprefix(prefix) + "\n")


def joined(words: Sequence[str], index: int) -> tuple[list[str], int, str]:
    """Words with those around an `@` joined, the place of the current one, and its part to keep.

    >>> joined(["modtok", "nsl", "-t", "tokenizer", "@", "f"], 5)
    (['modtok', 'nsl', '-t', 'tokenizer@f'], 3, 'tokenizer')
    """
    whole: list[str] = []
    place, prefix = index, ""
    for number, word in enumerate(words):
        follows = bool(whole) and (word.startswith("@") or words[number - 1].endswith("@"))
        if follows and number <= index:
            whole[-1] += word
        else:
            whole.append(word)
        if number == index:
            place = len(whole) - 1
            prefix = whole[-1].rpartition("@")[0] if follows else ""
    return whole, place, prefix


def languages(ctx: Context, incomplete: str) -> list[str]:
    """Comma-separated languages that the command can take.

    Languages of its tokenizer if it reads no `--data`, else of the data and of the tokenizer;
    of data/ and tokenizer/ if there are none.
    """
    values = ctx.params
    chosen = values.get("tokenizer")
    directory = str(chosen[0] if isinstance(chosen, list) and chosen else chosen or "tokenizer")
    known = set(_of_tokenizer(Path(directory.rpartition("@")[0] or directory)))
    if any(parameter.name == "data" for parameter in ctx.command.params):
        known |= set(_of_data(Path(values.get("data") or "data")))
    return _in_list(incomplete, known or {*_of_tokenizer(TOKENIZER), *_of_data(DATA)})


def language(incomplete: str) -> list[str]:
    """One language of data/ and tokenizer/."""
    known = {*_of_tokenizer(TOKENIZER), *_of_data(DATA)}
    return [each for each in _in_list(incomplete, known) if "," not in each]


def appended(ctx: Context, incomplete: str) -> list[str]:
    """Comma-separated languages of the data that the tokenizer does not have."""
    values = ctx.params
    there = _of_tokenizer(Path(values.get("tokenizer") or values.get("output") or TOKENIZER))
    return _in_list(incomplete, set(_of_data(Path(values.get("data") or DATA))) - set(there))


def pretokenizers(incomplete: str) -> list[str]:
    """Names of pre-tokenizers, with other packages'."""
    from modtok_cli.text.pretokenizer import offered_pretokenizers

    return [name for name in offered_pretokenizers() if name.startswith(incomplete)]


def chat_templates(incomplete: str) -> list[str]:
    """Names of chat templates, and files."""
    from modtok_cli.modular.hf_directory import TEMPLATES

    return [name for name in TEMPLATES if name.startswith(incomplete)] + _paths(incomplete)


def tokenizers(incomplete: str) -> list[str]:
    """Paths, or languages of a directory behind `DIR@`."""
    directory, at, chosen = incomplete.rpartition("@")
    if at:
        known = _of_tokenizer(Path(directory))
        if known and "each".startswith(chosen):
            known = [*known, "each"]
        return [f"{directory}@{rest}" for rest in _in_list(chosen, known)]
    return _paths(incomplete)


def presets(incomplete: str) -> list[str]:
    """Names of model sizes."""
    from modtok_cli.training.recipe import PRESETS

    return sorted(name for name in PRESETS if name.startswith(incomplete))


def tasks(incomplete: str) -> list[str]:
    """Comma-separated suites of multiple-choice questions, and tasks in tasks/mcq."""
    names: set[str] = set()
    with suppress(ImportError):  # without the extra [eval]
        from modtok_cli.evaluate.suite import suites

        names.update(suites())
    with suppress(OSError):
        names |= {path.name for path in Path("tasks/mcq").iterdir() if path.is_dir()}
    return _in_list(incomplete, names)


def _in_list(incomplete: str, values: Iterable[str]) -> list[str]:
    """Continuations of a comma-separated list by values that are not in it yet.

    >>> _in_list("en,f", ["en", "fi", "fr"])
    ['en,fi', 'en,fr']
    """
    *chosen, last = incomplete.split(",")
    return [
        ",".join([*chosen, value])
        for value in sorted(set(values))
        if value.startswith(last) and value not in chosen
    ]


def _of_tokenizer(directory: Path) -> list[str]:
    from modtok_cli.modular.manifest import languages_of

    with suppress(Exception):  # whatever is wrong, other commands say so
        return languages_of(directory)
    return []


def _of_data(directory: Path) -> list[str]:
    from modtok_cli.text.languages import label_of_path, shortened

    with suppress(OSError):
        labels = (label_of_path(path.name) for path in directory.iterdir())
        return sorted(set(shortened(filter(None, labels)).values()))
    return []


def _paths(incomplete: str) -> list[str]:
    directory, slash, start = incomplete.rpartition("/")
    with suppress(OSError):
        entries = sorted(Path(directory or ("/" if slash else ".")).iterdir())
        return [
            f"{directory}{slash}{path.name}{'/' if path.is_dir() else ''}"
            for path in entries
            if path.name.startswith(start) and (start or not path.name.startswith("."))
        ]
    return []
