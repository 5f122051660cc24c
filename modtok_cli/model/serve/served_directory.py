"""The directory that vLLM opens: a model with all rows of T, and T's membership beside it.

    config.json …   as `modtok slice --in full` or the model itself has them; the architecture has
                    the name of the class that computes logits over each request's languages
    modular/        the modular tokenizer with its references

For a Hugging Face model all other files are links to the model's.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.read_file import read_object
from modtok_cli.model.architecture.stored_model import CONFIG, LARGEST, HfDirectory, is_hf_directory
from modtok_cli.model.hf.model_files import check_output, write_object
from modtok_cli.model.hf.slice_hf import TokenSelection
from modtok_cli.model.serve.plugin import PREFIX
from modtok_cli.model.serve.served_languages import TOKENIZER, ServedLanguages
from modtok_cli.model.vocabularies import FULL
from modtok_cli.tokenizer.modular_directory import is_modular

if TYPE_CHECKING:
    from modtok_cli.model.slice.run_source import RunSource

_MARK = f"{TOKENIZER}/manifest.json"


def is_served(path: Path) -> bool:
    """Whether `path` is a directory as this module writes it."""
    return (path / _MARK).is_file() and is_hf_directory(path)


def dtype_of(path: Path) -> str:
    """Dtype of the weights of a served directory, as vLLM calls it."""
    config = HfDirectory(path).config
    return str(config.get("dtype") or config.get("torch_dtype") or "auto")


def served_run(
    run: Path,
    output: Path | None,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    dtype: str | None = None,
    default: str = "",
    force: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write the directory of a run; one of these weights is kept.

    By default it is the run's own `serve`, which is replaced when it has other weights.
    `default`: languages of requests that name none, which are checked before anything is written.

    Raises:
        UsageError: not a run, an unknown language, or another output exists.
        ModtokError: the run is damaged.
    """
    from modtok_cli.model.slice.run_source import open_run
    from modtok_cli.model.slice.write import RunPart, sliced

    source = open_run(run, tokenizer=tokenizer, step=step, progress=progress)
    own = source.path / "serve"
    output = own if output is None else output
    wanted = dtype or str(source.dtype).removeprefix("torch.")
    if is_served(output) and _has(output, source, wanted):
        return output
    check_output(output, _MARK, force=force or output == own, kind="served directory")
    if default:
        ServedLanguages.with_tokenizer(source.tokenizer_path, source.languages, default)
    progress.note(f"writing {output}")
    with atomic_directory(output) as beside:
        whole = beside / "whole"
        part = RunPart(
            (FULL, None), tokenizer=source.tokenizer_path, step=source.step, dtype=wanted
        )
        sliced(run, part, whole, progress=progress)
        for file in whole.iterdir():
            file.rename(beside / file.name)
        whole.rmdir()
        _finish(beside, source.tokenizer_path)
    return output


def _has(output: Path, source: RunSource, dtype: str) -> bool:
    """Whether `output` has these weights."""
    from modtok_cli.model.slice.slice_directory import read_facts

    try:
        facts = read_facts(output)
    except ModtokError:
        return False
    signature = source.tokenizer.signature
    own = (facts.weights, facts.step, facts.dtype, facts.tokenizer, facts.inputs)
    return own == (source.fingerprint, source.step, dtype, signature, source.languages)


def served_model(
    model: Path,
    tokenizer: Path,
    output: Path,
    *,
    default: str = "",
    force: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Write the directory of a Hugging Face model with its adopted tokenizer.

    Neither has tokens without a row: an id of one in a prompt would stop vLLM's engine.
    `default` is as in `served_run`.

    Raises:
        UsageError: the tokenizer is not the model's, an unknown language, or the output exists.
    """
    from modtok_cli.model.architecture.complete import check_complete
    from modtok_cli.model.hf.model_directory import ModelDirectory

    check_output(output, _MARK, force=force, kind="served directory")
    _architecture(model)
    directory = ModelDirectory(model)
    check_complete(directory)
    if TokenSelection.adopted(tokenizer, directory).size > directory.vocab_size:
        raise UsageError(
            f"has tokens without a row: the model has {directory.vocab_size:,}",
            where=tokenizer,
            remedy=f"make one: modtok adopt {model}",
        )
    if default:
        ServedLanguages.with_tokenizer(tokenizer, default=default)
    directory.warn(progress)
    with atomic_directory(output) as beside:
        if directory.without_row:
            directory.write_tokenizer(beside, progress)
        for file in sorted(model.iterdir()):
            if file.name != CONFIG and file.is_file() and not (beside / file.name).exists():
                (beside / file.name).symlink_to(file.resolve())
        shutil.copyfile(model / CONFIG, beside / CONFIG)
        _finish(beside, tokenizer)
    return output


def _architecture(model: Path) -> str:
    names = read_object(model / CONFIG, largest=LARGEST).get("architectures")
    if not isinstance(names, list) or not str((*names, "")[0]).endswith("ForCausalLM"):
        raise UsageError(
            f"field 'architectures' is {names!r}, only names that end in ForCausalLM are served",
            where=model / CONFIG,
        )
    return str(names[0])


def _finish(directory: Path, tokenizer: Path) -> None:
    """Name the class of the model, and copy the modular tokenizer."""
    config = read_object(directory / CONFIG, largest=LARGEST)
    name = _architecture(directory)
    write_object(directory / CONFIG, {**config, "architectures": [f"{PREFIX}{name}"]})
    assert is_modular(tokenizer)
    shutil.copytree(tokenizer, directory / TOKENIZER)
