"""Load a model from whatever holds one."""

from __future__ import annotations

from pathlib import Path

import torch

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.directory_model import DirectoryModel
from modtok_cli.inference.directory_source import DirectorySource
from modtok_cli.inference.model import SlicedModel
from modtok_cli.inference.source import Side
from modtok_cli.inference.sources import Opened, open_source
from modtok_cli.inference.vocabularies import Vocabularies


def model_of(
    source: Opened, vocabularies: Vocabularies, dtype: torch.dtype, device: torch.device
) -> SlicedModel:
    """The model of an open source, with these vocabularies.

    Raises:
        ModtokError: it does not fit in memory, or a file is damaged.
    """
    if isinstance(source, DirectorySource):
        return DirectoryModel(source, dtype, device)
    return SlicedModel(source, vocabularies, source.backbone(dtype, device), dtype)


def load(
    path: Path,
    inputs: Side = None,
    outputs: Side = None,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> SlicedModel:
    """Load a run (`runs/latest`), a checkpoint of one, a slice, or a model of transformers.

    `inputs`, `outputs`: languages, or "full"; `inputs` None is everything, `outputs` None the
    same as inputs. ("full", ["fr"]) is the paper's full-lang, (["en"], ["fr"]) its src|tgt.
    `tokenizer` is the modular directory if it is not beside the run. `dtype` is that of training
    by default.

    Example:
        model = load(Path("runs/latest"), ["fr", "en"])
        rows = [model.end_of_text, *model.encode_in("Il était")]
        model.logits(torch.tensor([rows])).shape    # (1, T, |V_fr,en|)

    Raises:
        UsageError: none of these, or a language that it does not have.
        ModtokError: a file is damaged.
    """
    source = open_source(Path(path), tokenizer=tokenizer, step=step, progress=progress)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    return model_of(source, source.vocabularies(inputs, outputs), dtype or source.dtype, where)
