"""Languages that the shell completes, also behind `DIR@`; the rest is typer's.

A completion never fails: without a tokenizer or data there are no candidates.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from typer import Context

DATA, TOKENIZER = Path("data"), Path("tokenizer")


def languages(ctx: Context, incomplete: str) -> list[str]:
    """Return comma-separated languages that the command can take.

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
    """Return one language of data/ and tokenizer/."""
    known = {*_of_tokenizer(TOKENIZER), *_of_data(DATA)}
    return [each for each in _in_list(incomplete, known) if "," not in each]


def appended(ctx: Context, incomplete: str) -> list[str]:
    """Return comma-separated languages of the data that the tokenizer does not have."""
    values = ctx.params
    there = _of_tokenizer(Path(values.get("tokenizer") or values.get("output") or TOKENIZER))
    return _in_list(incomplete, set(_of_data(Path(values.get("data") or DATA))) - set(there))


def tokenizers(incomplete: str) -> list[str]:
    """Return languages of a directory behind `DIR@`; without `@` the shell completes paths."""
    directory, at, chosen = incomplete.rpartition("@")
    known = _of_tokenizer(Path(directory)) if at else []
    if known and "," not in chosen:
        known = [*known, "each"]
    return [f"{directory}@{rest}" for rest in _in_list(chosen, known)]


def _in_list(incomplete: str, values: Iterable[str]) -> list[str]:
    """Return continuations of a comma-separated list by values that are not in it yet.

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
    from modtok_cli.tokenizer.manifest import languages_of

    with suppress(Exception):  # whatever is wrong, other commands say so
        return languages_of(directory)
    return []


def _of_data(directory: Path) -> list[str]:
    from modtok_cli.text.file_labels import label_of_path
    from modtok_cli.text.languages import shortened

    with suppress(OSError):
        labels = (label_of_path(path.name) for path in directory.iterdir())
        return sorted(set(shortened(filter(None, labels)).values()))
    return []
