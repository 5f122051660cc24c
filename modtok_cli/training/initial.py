"""Initial weights from another model (`--init-from`): a run, or a directory of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from modtok_cli.architectures.hf_directory import is_hf_directory, open_hf_directory
from modtok_cli.base.errors import UsageError
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.training.config import Origin, RunSettings
from modtok_cli.training.initial_model import InitialModel, stored_rows
from modtok_cli.training.initial_run import InitialRun, new_rows
from modtok_cli.training.rundir import METRICS

Initial = InitialRun | InitialModel


def open_initial(path: Path) -> Initial:
    """Open what `--init-from` names.

    Raises:
        UsageError: it is neither a run nor a model of an architecture that is supported.
        ModtokError: its configuration is damaged.
    """
    if is_hf_directory(path):
        return InitialModel(open_hf_directory(path))
    if (path / METRICS).is_file():
        return InitialRun.open(path)
    raise UsageError(
        "is not a run, nor a model in safetensors" if path.exists() else "does not exist",
        where=str(path),
        remedy="give a directory that pretrain or transformers' save_pretrained wrote",
    )


def origin_of(settings: RunSettings) -> Origin | None:
    """The model of `--init-from`, None without it.

    Raises:
        UsageError, ModtokError: as `open_initial`.
    """
    return open_initial(settings.init_from).origin if settings.init_from else None


def trained_rows(stored: Mapping[str, Any], tokenizer: ModularTokenizer) -> torch.Tensor:
    """Rows that `--train rows` trains, (V,) bool; `stored` is "initial" of config.json.

    Raises:
        ModtokError: the stored rows are damaged.
    """
    if "languages" in stored:
        return new_rows(tokenizer, stored["languages"])
    return stored_rows(stored, tokenizer.size)
