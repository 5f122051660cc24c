"""The kind of a path: a run, a slice or a Hugging Face model. Options name theirs (`Option.of`)."""

from pathlib import Path

from modtok_cli.base.files import is_there

RUN = "runs"
SLICE = "slices of runs"
MODEL = "Hugging Face models"
DRAFT = "drafts (--head)"
SERVED = "served directories"
FACTS = "modtok.json"
"""The file that a slice of a run has."""


def model_kind(path: Path, *, weights: bool = True) -> str | None:
    """RUN (also of a checkpoint), SLICE or MODEL, None if `path` is none of them.

    A Hugging Face model has weights in safetensors; without `weights`, its tokenizer suffices.

    Raises:
        UsageError: it holds an adapter.
    """
    from modtok_cli.model.architecture.stored_model import CONFIG, is_hf_directory
    from modtok_cli.tokenizer.open import tokenizers_in
    from modtok_cli.training.rundir import is_run

    if not (is_there(path) and path.is_dir()):
        return None
    if (path / FACTS).is_file():
        return SLICE
    if is_hf_directory(path):
        return MODEL
    if is_run(path):
        return RUN
    has_tokenizer = (path / CONFIG).is_file() and bool(tokenizers_in(path))
    return MODEL if has_tokenizer and not weights else None
