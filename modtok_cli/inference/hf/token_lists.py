"""Lists of the tokens of some languages, for programs that restrict the output of a model."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Coverage, Data, FilePath, Langs, TokensPerLanguage
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.inference.hf.directory import ModelDirectory
from modtok_cli.inference.hf.slice import Selection, is_model_directory
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.languages import optional_languages


@public
def tokens(
    model: Annotated[
        FilePath,
        Option(
            "A modular directory, or the directory of a Hugging Face model.",
            key="source",
            argument=True,
            metavar="MODEL",
        ),
    ],
    languages: Langs = None,
    *,
    data: Data = "data",
    k: TokensPerLanguage = None,
    coverage: Coverage = None,
    progress: Progress = SILENT,
) -> list[int]:
    """List the ids of the tokens of some languages.

    Programs restrict a model's output with them.

    MODEL is a modular directory (also of modtok adopt), or a Hugging Face model with text of the
    languages in data/. Ids are those of the whole model.

    Examples:
        >>> ids = modtok.tokens("tokenizer", "fr")
        >>> ids == modtok.load("tokenizer").subset("fr").global_ids.tolist()
        True

    Raises:
        UsageError: an unknown language, or neither a tokenizer nor a model.
        ModtokError: a file is damaged.
    """
    names = optional_languages(languages)
    if names is None:
        raise UsageError("no languages given", remedy="as in: modtok tokens MODEL --langs fr,en")
    path = Path(model)
    if is_modular(path):
        return [*map(int, ModularTokenizer.load(path).subset(names).global_ids)]
    if not is_model_directory(path):
        raise UsageError(
            "is not a modular directory and not a Hugging Face model"
            if path.exists()
            else "does not exist",
            where=str(path),
            remedy="expected the output of modtok adopt, or config.json and tokenizer.json",
        )
    selection = Selection(tuple(names), data=Path(data), k=k, coverage=coverage)
    return [*map(int, selection.ids(ModelDirectory(path), progress=progress))]


def rows_of(path: Path) -> int:
    """Tokens of a modular directory, or rows of a Hugging Face model."""
    return ModularTokenizer.load(path).size if is_modular(path) else ModelDirectory(path).vocab_size


def _sglang(ids: Sequence[int], rows: int) -> bytes:
    """A file of `torch.save`, which SGLang reads by `torch.load(..., weights_only=True)` only.

    It holds a list of integers, without any reference to code; a tensor would need one. modtok
    itself never reads such a file.
    """
    import torch

    stream = io.BytesIO()
    torch.save(list(ids), stream)
    return stream.getvalue()


def _llama_cpp(ids: Sequence[int], rows: int) -> bytes:
    removed = np.setdiff1d(np.arange(rows), ids)
    return orjson.dumps({"logit_bias": [[index, False] for index in removed.tolist()]}) + b"\n"


FORMATS: Mapping[str, Callable[[Sequence[int], int], bytes]] = {
    "ids": lambda ids, rows: b"".join(b"%d\n" % index for index in ids),
    "json": lambda ids, rows: orjson.dumps(list(ids)) + b"\n",
    "vllm": lambda ids, rows: orjson.dumps({"allowed_token_ids": list(ids)}) + b"\n",
    "llama.cpp": _llama_cpp,
    "sglang": _sglang,
}
"""Format → function of ids and rows of the model.

ids: a number per line. json: a list. vllm: fields of a request, for the kept tokens. llama.cpp:
fields of a request to its server, which excludes all other tokens. sglang: the file of
`--speculative-token-map`.
"""


def check_format(format: str) -> None:
    """Check that a format exists."""
    if format not in FORMATS:
        raise UsageError(
            f"unknown format '{format}'",
            where="--format",
            remedy=f"choose from: {', '.join(FORMATS)}",
        )
