"""What the cost is computed of: the model and tokenizers that arguments name, without torch."""

import os
from collections.abc import Sequence
from pathlib import Path

import orjson

from modtok_cli.architectures.hf_directory import is_hf_directory, open_hf_directory
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.hub import model_name
from modtok_cli.base.parameters import FilePath
from modtok_cli.base.reading import read_bounded
from modtok_cli.measure.check import split_arguments
from modtok_cli.training.rundir import find_tokenizer, is_run
from modtok_cli.training.stored_config import stored_shape


def split_sources(
    sources: FilePath | Sequence[FilePath],
) -> tuple[Path | None, list[str], list[str]]:
    """The run, slice or model among arguments, if there is one, the tokenizers, and the texts."""
    paths = [sources] if isinstance(sources, str | os.PathLike) else sources
    names = [str(path) for path in paths]
    models = [name for name in names if is_run(Path(name)) or is_hf_directory(Path(name))]
    if len(models) > 1:
        raise UsageError(f"two models given, {models[0]} and {models[1]}", remedy="give one")
    rest = split_arguments(name for name in names if name not in models)
    return (Path(models[0]) if models else None), *rest


def settings_of_run(run: Path, *, named: bool) -> tuple[dict[str, Shape], list[str]]:
    """(size by name, tokenizer arguments) of a run or model.

    The run's own tokenizer is not searched if others are `named`.
    """
    if is_hf_directory(run):
        shape = open_hf_directory(run).shape
        return {model_name(run): shape}, [] if named else [str(run)]
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
    if named:
        return {str(name): shape}, []
    directory = find_tokenizer(run, config["tokenizer"], remedy="name others with -t")
    return {str(name): shape}, [str(directory), *(f"{directory}@{each}" for each in languages)]
