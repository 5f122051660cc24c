"""`modtok memory`: parameters, the share of the vocabulary, and the KV cache.

Arithmetic over shapes: no weights are read, torch is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.architectures.hf_directory import is_hf_directory, open_hf_directory
from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import PAPER, sizes
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_bounded
from modtok_cli.text.reading import Reading
from modtok_cli.training.config import stored_shape
from modtok_cli.training.rundir import find_tokenizer

PAPER_VOCABULARIES = {"256k": 256_000, "24k": 24_000}


def memory(
    vocabularies: Mapping[str, int] | None = None,
    *,
    models: Mapping[str, Shape] | None = None,
    tied: bool = False,
    tokens_per_character: Mapping[str, Mapping[str, float]] | None = None,
    number_bytes: int = 2,
) -> list[dict[str, Any]]:
    """Parameters and cache of each tokenizer at each model size.

    Args:
        vocabularies: name → number of tokens; the others are compared with the first. By default
            the paper's 256,000 and 24,000.
        models: name → shape; by default the paper's six sizes.
        tied: whether input and output embeddings are one table.
        tokens_per_character: language → name → value, for the cache per character.
        number_bytes: bytes of a number, 2 for bfloat16.

    Returns:
        A row for each size and tokenizer (and language, if any): parameters, those of the
        vocabulary and their share, `saved` (share of all parameters, compared with the first
        tokenizer), bytes, kv_bytes_per_token, and with text kv_bytes_per_character and kv_saved.

    Raises:
        UsageError: no tokenizer.
    """
    counts = dict(PAPER_VOCABULARIES if vocabularies is None else vocabularies)
    if not counts:
        raise UsageError("no tokenizer given", remedy="give one with -t")
    if models is None:
        models = sizes(PAPER)
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


def choose_models(names: Sequence[str] | None) -> dict[str, Shape]:
    """Shapes by name; None for the paper's sizes.

    Raises:
        UsageError: a name is unknown.
    """
    return sizes(names or PAPER)


def footprint(
    tokenizers: Sequence[str],
    texts: Sequence[Path | str],
    *,
    scales: Sequence[str] | None = None,
    run: Path | None = None,
    tied: bool = False,
    language: str | None = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """The rows of `memory` for tokenizer arguments as on the command line.

    A `run` provides the model size and the tokenizers (whole and by language) if none are given.
    With texts, tokens per character are measured on them (`DIR@each` is allowed).

    Raises:
        UsageError, ModtokError: a tokenizer, a text or the run is not usable.
    """
    if texts and not (tokenizers or run):
        raise UsageError("a text needs a tokenizer", remedy="give one with -t")
    models = choose_models(scales) if scales or run is None else None
    specs = list(tokenizers)
    if run is not None:
        shape, run_is_tied, own = settings_of_run(run, named=bool(specs))
        tied = tied or run_is_tied
        models = models or shape
        specs = specs or own
    if texts:
        sizes, figures = _measured(specs, texts, language, reading, progress)
    else:
        sizes, figures = _sizes(specs), None
    return memory(sizes or None, models=models, tied=tied, tokens_per_character=figures)


def settings_of_run(run: Path, *, named: bool) -> tuple[dict[str, Shape], bool, list[str]]:
    """(size by name, tied, tokenizer arguments) of a run or model, without torch.

    The run's own tokenizer is not searched if others are `named`.

    Raises:
        UsageError: it is neither, or of an architecture that is not supported.
        ModtokError: it is damaged.
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
        raise UsageError("is not a run", where=str(run), remedy=remedy) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModtokError(
            f"is damaged ({error!r})",
            where=str(run / "config.json"),
            remedy="restore it, or choose another run",
        ) from error
    shapes, tied = {str(name): shape}, shape.tied
    if named:
        return shapes, tied, []
    directory = find_tokenizer(run, config["tokenizer"], remedy="give tokenizers with -t")
    return shapes, tied, [str(directory), *(f"{directory}@{each}" for each in languages)]


def _sizes(specs: Sequence[str]) -> dict[str, int]:
    from modtok_cli.modular.open import open_tokenizer

    for spec in specs:
        if spec.endswith("@each"):
            raise UsageError(f"{spec} depends on the text", remedy="give a text, or languages")
    return {spec: open_tokenizer(spec).size for spec in specs}


def _measured(
    specs: Sequence[str],
    texts: Sequence[Path | str],
    language: str | None,
    reading: Reading,
    progress: Progress,
) -> tuple[dict[str, int], dict[str, dict[str, float]]]:
    """(name → size, language → name → tokens per character)."""
    from modtok_cli.measure.nsl import nsl

    sizes: dict[str, int] = {}
    figures: dict[str, dict[str, float]] = {}
    for row in nsl(specs, texts, language=language, reading=reading, progress=progress):
        name = row["tokenizer"]
        sizes[name] = max(sizes.get(name, 0), row["size"])
        figures.setdefault(row["language"], {})[name] = row["tokens_per_character"]
    return sizes, figures
