"""`modtok memory`: parameters, the share of the vocabulary, and the KV cache.

Arithmetic over shapes: no weights are read, torch is not imported.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.architectures.hf_directory import is_hf_directory, open_hf_directory
from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import PAPER, sizes
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, AnyTokenizers, FilePath, Lang
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.reading import read_bounded
from modtok_cli.measure.candidates import Spec, is_each, named
from modtok_cli.measure.check import split_arguments
from modtok_cli.text.reading import Reading
from modtok_cli.training.config import stored_shape
from modtok_cli.training.rundir import find_tokenizer, is_run

PAPER_VOCABULARIES = {"256k": 256_000, "24k": 24_000}
Scales = Annotated[
    Sequence[str],
    Option(
        "Model size: tiny, small, 0.5b, 1b, 2.5b, 7b, 12b, 30b. Repeatable.",
        flags="--scale",
        kind=list[str],
        metavar="NAME",
        complete="presets",
        accepts=(lambda value: isinstance(value, list | tuple), "a list"),
    ),
]
_TEXTS = "texts (.txt, .jsonl, .parquet, .csv, .arrow, directory, or - for stdin), in any order."


def sources_option(help: str) -> Option:
    """An argument that takes a model, tokenizers and texts."""
    return Option(
        f"Run, slice or Hugging Face model to take {help} from; tokenizers (as in -t); {_TEXTS}",
        key="arguments",
        argument=True,
        kind=list[str],
        metavar="MODEL_OR_TEXT",
        complete="tokenizers",
        accepts=PATHS,
    )


@public
def memory(
    sources: Annotated[
        FilePath | Sequence[FilePath], sources_option("size, tokenizer and languages")
    ] = (),
    *,
    tokenizers: AnyTokenizers = (),
    scales: Scales = (),
    tied: Annotated[bool, Option("Tie input and output embeddings.")] = False,
    language: Lang = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compute parameters and KV cache size by tokenizer.

    "saved" is the share of parameters saved relative to the first tokenizer. By default, the
    vocabulary sizes of the paper are compared: 256,000 and 24,000 tokens. With TEXT, the KV
    cache is also reported per character.

    Returns:
        A row for each size and tokenizer (and language, if any): parameters, those of the
        vocabulary and their share, `saved` (share of all parameters, compared with the first
        tokenizer), bytes, kv_bytes_per_token, and with text kv_bytes_per_character and kv_saved.

    Examples:
        >>> rows = modtok.memory("tokenizer", scales=["1b"])
        >>> rows[0]["model"], rows[0]["vocabulary"] == modtok.load("tokenizer").size
        ('1b', True)

    Raises:
        UsageError, ModtokError: a tokenizer, a text or the run is not usable.
    """
    run, paths, texts = split_sources(sources)
    specs: list[Spec] = [*paths, *named(tokenizers)]
    if texts and not (specs or run):
        raise UsageError("a text needs a tokenizer", remedy="give one with -t")
    models = shapes(scales) if scales or run is None else {}
    if run is not None:
        shape, run_is_tied, own = settings_of_run(run, named=bool(specs))
        tied = tied or run_is_tied
        models = models or shape
        specs = specs or [*own]
    counts: Mapping[str, int] = PAPER_VOCABULARIES
    figures: Mapping[str, Mapping[str, float]] = {}
    if texts:
        counts, figures = _measured(specs, texts, language, reading, progress)
    elif specs:
        counts = _sizes(specs)
    return memory_rows(counts, models, tied=tied, tokens_per_character=figures)


def model_among(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The argument that is a run, a slice or a model, if there is one, and the others."""
    models = [name for name in arguments if is_run(Path(name)) or is_hf_directory(Path(name))]
    if len(models) > 1:
        raise UsageError(f"two models given, {models[0]} and {models[1]}", remedy="give one")
    rest = [name for name in arguments if name not in models]
    return (Path(models[0]) if models else None), rest


def split_sources(
    sources: FilePath | Sequence[FilePath],
) -> tuple[Path | None, list[str], list[str]]:
    """The model among arguments, if there is one, the tokenizers, and the texts."""
    paths = [sources] if isinstance(sources, str | os.PathLike) else sources
    model, rest = model_among([str(path) for path in paths])
    return model, *split_arguments(rest)


def shapes(names: Sequence[str]) -> dict[str, Shape]:
    """Shapes by name; the paper's sizes without names."""
    return sizes(names or PAPER)


def memory_rows(
    counts: Mapping[str, int],
    models: Mapping[str, Shape],
    *,
    tied: bool = False,
    tokens_per_character: Mapping[str, Mapping[str, float]] | None = None,
    number_bytes: int = 2,
) -> list[dict[str, Any]]:
    """The rows of `memory`.

    Args:
        counts: name → number of tokens; the others are compared with the first.
        models: name → shape.
        tied: whether input and output embeddings are one table.
        tokens_per_character: language → name → value, for the cache per character.
        number_bytes: bytes of a number, 2 for bfloat16.
    """
    first = next(iter(counts))
    rows: list[dict[str, Any]] = []
    for scale, shape in models.items():
        shape = replace(shape, tied=tied)
        whole = shape.parameters + shape.table_parameters(counts[first])
        cache = shape.kv_bytes_per_token(number_bytes)
        for name, size in counts.items():
            own = shape.table_parameters(size)
            row = {
                "model": scale,
                "width": shape.hidden_size,
                "layers": shape.layers,
                "tokenizer": name,
                "vocabulary": size,
                "tied": tied,
                "parameters": shape.parameters + own,
                "vocabulary_parameters": own,
                "share": own / (shape.parameters + own),
                "saved": 1 - (shape.parameters + own) / whole,
                "bytes": (shape.parameters + own) * number_bytes,
                "kv_bytes_per_token": cache,
            }
            if not tokens_per_character:
                rows.append(row)
            for language, figures in (tokens_per_character or {}).items():
                if name in figures:
                    rows.append(row | _with_text(language, figures, name, first, cache))
    return rows


def _with_text(
    language: str, figures: Mapping[str, float], name: str, first: str, cache: int
) -> dict[str, Any]:
    base = figures.get(first)
    return {
        "language": language,
        "tokens_per_character": figures[name],
        "kv_bytes_per_character": figures[name] * cache,
        "kv_saved": None if not base else 1 - figures[name] / base,
    }


def settings_of_run(run: Path, *, named: bool) -> tuple[dict[str, Shape], bool, list[str]]:
    """(size by name, tied, tokenizer arguments) of a run or model, without torch.

    The run's own tokenizer is not searched if others are `named`.
    """
    if is_hf_directory(run):
        shape = open_hf_directory(run).shape
        return {run.resolve().name: shape}, shape.tied, [] if named else [str(run)]
    try:
        config = orjson.loads(read_bounded(run / "config.json"))
        name, languages = config["config"]["model"], config["tokenizer"]["languages"]
        shape = stored_shape(config["config"], str(run / "config.json"))
        config["tokenizer"]["signature"]
    except OSError as error:
        remedy = "pass a run of modtok pretrain"
        raise UsageError("is not a run", where=run, remedy=remedy) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModtokError(
            f"is damaged ({error!r})",
            where=run / "config.json",
            remedy="restore it, or choose another run",
        ) from error
    shapes, tied = {str(name): shape}, shape.tied
    if named:
        return shapes, tied, []
    directory = find_tokenizer(run, config["tokenizer"], remedy="name others with -t")
    return shapes, tied, [str(directory), *(f"{directory}@{each}" for each in languages)]


def _sizes(specs: Sequence[Spec]) -> dict[str, int]:
    from modtok_cli.modular.open import open_tokenizer

    for spec in specs:
        if is_each(spec):
            raise UsageError(f"{spec} depends on the text", remedy="give a text, or languages")
    return {
        spec if isinstance(spec, str) else spec.name: (
            open_tokenizer(spec) if isinstance(spec, str) else spec
        ).size
        for spec in specs
    }


def _measured(
    specs: Sequence[Spec],
    texts: Sequence[str],
    language: str | None,
    reading: Reading,
    progress: Progress,
) -> tuple[dict[str, int], dict[str, dict[str, float]]]:
    """(name → size, language → name → tokens per character)."""
    from modtok_cli.measure.nsl import nsl

    counts: dict[str, int] = {}
    figures: dict[str, dict[str, float]] = {}
    for row in nsl(specs, texts, language=language, reading=reading, progress=progress):
        name = row["tokenizer"]
        counts[name] = max(counts.get(name, 0), row["size"])
        figures.setdefault(row["language"], {})[name] = row["tokens_per_character"]
    return counts, figures
