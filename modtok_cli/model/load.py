"""Load a model from whatever holds one: a run, for any subset of its languages, a slice, a model.

`load(path, inputs, outputs)` is for a single model; `open_model` and `model_of` are its halves.
"""

from pathlib import Path

import torch

from modtok_cli.base.errors import missing
from modtok_cli.base.hub import name_of
from modtok_cli.base.option import option_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.unused import not_for
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.hf.hf_model import HfModel
from modtok_cli.model.hf.hf_source import HfSource
from modtok_cli.model.kinds import RUN, SLICE, model_kind
from modtok_cli.model.parameters import RunTokenizer, Step
from modtok_cli.model.slice.run_source import open_run
from modtok_cli.model.slice.slice_directory import SliceSource
from modtok_cli.model.source import ModelSource
from modtok_cli.model.vocabularies import Side, Vocabularies


def open_model(
    path: Path,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    progress: Progress = SILENT,
) -> ModelSource:
    """Open a run, a checkpoint of one, a slice, or a directory of a model of transformers.

    Raises:
        UsageError: it is none of these, or has no `step` or `tokenizer` to choose.
        ModtokError: it is damaged.
    """
    kind = model_kind(path)
    if kind is None:
        remedy = "pass a directory of modtok pretrain, modtok slice or save_pretrained"
        raise missing(path, remedy, "is neither a run nor a model")
    if kind == RUN:
        return open_run(path, tokenizer=tokenizer, step=step, progress=progress)
    for name, each, value in (("step", Step, step), ("tokenizer", RunTokenizer, tokenizer)):
        if value is not None:
            raise not_for(option_of(each, name=name), kind, path, value)
    if kind == SLICE:
        return SliceSource(path)
    source = HfSource(path)
    source.directory.warn(progress)
    return source


def model_of(
    source: ModelSource,
    vocabularies: Vocabularies,
    dtype: torch.dtype,
    device: torch.device,
    progress: Progress = SILENT,
) -> SlicedModel:
    """The model of an open source, with these vocabularies."""
    if isinstance(source, HfSource):
        if not source.languages:
            progress.note(f"{name_of(source.path)} has no languages: its whole vocabulary is used")
        return HfModel(source, dtype, device)
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
    `tokenizer` is the modular directory if it is not beside the run. The default of `dtype` is the
    dtype of training.

    Example:
        model = load(Path("runs/latest"), ["fr", "en"])
        rows = [model.end_of_text, *model.encode_in("Il était")]
        model.logits(torch.tensor([rows])).shape    # (1, T, |V_fr,en|)

    Raises:
        UsageError: none of these, or a language that it does not have.
        ModtokError: a file is damaged.
    """
    source = open_model(Path(path), tokenizer=tokenizer, step=step, progress=progress)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    vocabularies = source.vocabularies(inputs, outputs)
    return model_of(source, vocabularies, dtype or source.dtype, where, progress)
