"""Lists of the tokens of some languages, for programs that restrict the output of a model."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import orjson

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.hf.directory import ModelDirectory
from modtok_cli.inference.hf.slice import Selection, is_model_directory
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.tokenizer import ModularTokenizer


def select(path: Path, selection: Selection, progress: Progress = SILENT) -> tuple[Int32Array, int]:
    """Ids of the selected tokens, ascending, and the number of rows of the model.

    `path` is a modular directory, from which languages are selected, or a Hugging Face model.

    Raises:
        UsageError: it is neither, or as `Selection.ids`.
        ModtokError: a file is damaged.
    """
    if is_modular(path):
        tokenizer = ModularTokenizer.load(path)
        return tokenizer.subset(selection.languages).global_ids, tokenizer.size
    if not is_model_directory(path):
        raise UsageError(
            "is not a modular directory and not a Hugging Face model"
            if path.exists()
            else "does not exist",
            where=str(path),
            remedy="expected the output of modtok adopt, or config.json and tokenizer.json",
        )
    model = ModelDirectory(path)
    return selection.ids(model, progress=progress), model.vocab_size


def _lines(ids: Int32Array, rows: int) -> bytes:
    return b"".join(b"%d\n" % index for index in ids.tolist())


def _json(ids: Int32Array, rows: int) -> bytes:
    return orjson.dumps(ids.tolist()) + b"\n"


def _vllm(ids: Int32Array, rows: int) -> bytes:
    return orjson.dumps({"allowed_token_ids": ids.tolist()}) + b"\n"


def _llama_cpp(ids: Int32Array, rows: int) -> bytes:
    removed = np.setdiff1d(np.arange(rows), ids)
    return orjson.dumps({"logit_bias": [[index, False] for index in removed.tolist()]}) + b"\n"


def _sglang(ids: Int32Array, rows: int) -> bytes:
    """A file of `torch.save`, which SGLang reads by `torch.load(..., weights_only=True)` only.

    It holds a list of integers, without any reference to code; a tensor would need one. modtok
    itself never reads such a file.
    """
    import torch

    stream = io.BytesIO()
    torch.save(ids.tolist(), stream)
    return stream.getvalue()


FORMATS: Mapping[str, Callable[[Int32Array, int], bytes]] = {
    "ids": _lines,
    "json": _json,
    "vllm": _vllm,
    "llama.cpp": _llama_cpp,
    "sglang": _sglang,
}
"""Format → function of ids (n,) and rows of the model.

ids: a number per line. json: a list. vllm: fields of a request, for the kept tokens. llama.cpp:
fields of a request to its server, which excludes all other tokens. sglang: the file of
`--speculative-token-map`.
"""


def check_format(format: str) -> None:
    """Check that a format exists.

    Raises:
        UsageError: it does not; names those that do.
    """
    if format not in FORMATS:
        raise UsageError(
            f"unknown format '{format}'",
            where="--format",
            remedy=f"choose from: {', '.join(FORMATS)}",
        )


def token_list(ids: Int32Array, rows: int, format: str) -> bytes:
    """Content of a file with these ids.

    Raises:
        UsageError: an unknown format.
    """
    check_format(format)
    return FORMATS[format](ids, rows)
