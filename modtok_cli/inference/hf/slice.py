"""`modtok slice` of a Hugging Face directory: which tokens stay, and the files."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import orjson

from modtok_cli.architectures.hf_directory import CONFIG, TOKENIZER, refuse_adapter
from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Coverage, Data, FilePath, Langs, TokensPerLanguage
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.reading import read_file
from modtok_cli.base.remote import path_of
from modtok_cli.inference.hf.directory import NAME, ModelDirectory, VocabularySlice
from modtok_cli.inference.hf.files import check_output
from modtok_cli.modular.adopted.adopt import adopt_counts, used_tokens
from modtok_cli.modular.adopted.segmenter import ModularLibrary
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_languages
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files


def is_model_directory(path: Path) -> bool:
    """Whether `path` has the configuration and the tokenizer of a Hugging Face model.

    Raises:
        UsageError: it holds an adapter.
    """
    refuse_adapter(path)
    return all((path / name).is_file() for name in (CONFIG, TOKENIZER))


@dataclass(frozen=True)
class Selection:
    """Which tokens a slice keeps: the union of what each field selects.

    Attributes:
        languages: languages of the adopted tokenizer, or of the text in `data`.
        tokenizer: directory of `modtok adopt` for the model's tokenizer.
        data: directory with the text of each language, where there is no `tokenizer`.
        texts: texts of any language.
        keep: file with token ids: a JSON list, or an id per line.
        k: tokens per language and for the texts, those of greatest use.
        coverage: see `modular.adopt.members`.
    """

    languages: tuple[str, ...] = ()
    tokenizer: Path | None = None
    data: Path = Path("data")
    texts: tuple[Path | str, ...] = ()
    keep: Path | None = None
    k: int | None = None
    coverage: float | None = None

    def ids(
        self, model: ModelDirectory, *, reading: Reading = Reading(), progress: Progress = SILENT
    ) -> Int32Array:
        """The ids to keep, ascending, with all that these tokens are built from."""
        if not (self.languages or self.texts or self.keep):
            raise UsageError(
                "no tokens selected",
                remedy="give --langs, --text or --token-ids, as in: modtok slice MODEL --langs fr",
            )
        if self.tokenizer is not None and (self.k or self.coverage) and not self.texts:
            raise UsageError(
                "-k and --coverage do not apply to an adopted tokenizer",
                where=self.tokenizer,
                remedy="pass them to modtok adopt",
            )
        file = model.file
        mask = np.zeros(file.size, dtype=np.bool_)
        if self.languages:
            mask[self._of_languages(model, reading, progress)] = True
        if self.texts:
            mask |= used_tokens(
                file,
                self.texts,
                k=self.k,
                coverage=self.coverage,
                reading=reading,
                progress=progress,
            )
        if self.keep is not None:
            ids = read_keep_list(self.keep)
            unknown = np.setdiff1d(ids, list(file.ids.values()))
            if len(unknown):
                raise UsageError(f"the model has no token with id {unknown[0]}", where=self.keep)
            mask[ids] = True
        return np.flatnonzero(file.closed(mask)).astype(np.int32)

    def _of_languages(
        self, model: ModelDirectory, reading: Reading, progress: Progress
    ) -> Int32Array:
        if self.tokenizer is not None:
            adopted = self.adopted(self.tokenizer, model)
        else:
            counted = count_languages(
                language_files(self.data, self.languages, reading, progress=progress),
                pretokenizer=model.file.pretokenizer,
                reading=reading,
                progress=progress,
            )
            adopted = adopt_counts(
                model.file, counted, k=self.k, coverage=self.coverage, progress=progress
            )
        ids = adopted.subset(self.languages).global_ids
        return ids[ids < model.vocab_size]

    @staticmethod
    def adopted(path: Path, model: ModelDirectory) -> ModularTokenizer:
        """The tokenizer in a directory of `modtok adopt`, which must be the model's.

        Raises:
            UsageError: it is another.
        """
        if not is_modular(path):
            raise UsageError(
                "is not a modular directory",
                where=path,
                remedy=f"make one: modtok adopt {model.path} -o {path}",
            )
        adopted = ModularTokenizer.load(path)
        segmenter = adopted.segmenter
        if not isinstance(segmenter, ModularLibrary) or not model.has_ids(segmenter.file.ids):
            raise UsageError(
                f"is not the tokenizer of {model.path}",
                where=path,
                remedy=f"make one: modtok adopt {model.path}",
            )
        return adopted


def read_keep_list(path: Path) -> Int32Array:
    """Token ids of a file, ascending: a JSON list of numbers, or a number per line."""
    text = read_file(path)
    try:
        ids = orjson.loads(text) if text.lstrip()[:1] == b"[" else [*map(int, text.split())]
        if not ids or not all(type(index) is int and 0 <= index < 1 << 31 for index in ids):
            raise ValueError
    except ValueError as error:
        raise ModtokError(
            "is not a list of token ids", where=path, remedy="write a JSON list, or an id per line"
        ) from error
    return np.unique(np.array(ids, dtype=np.int32))


def slice_directory(
    path: Path,
    selection: Selection,
    output: Path,
    *,
    reading: Reading = Reading(),
    verify: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> VocabularySlice:
    """Write the model in the directory `path` with the selected tokens to `output`.

    `verify`: see `ModelDirectory.slice`.
    """
    check_output(output, NAME, force=force)
    model = ModelDirectory(path)
    ids = selection.ids(model, reading=reading, progress=progress)
    written = model.slice(ids, output, verify=verify, progress=progress)
    if written.left_out:
        progress.note(f"not copied: {', '.join(written.left_out)}")
    return written


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
            where=path,
            remedy="expected the output of modtok adopt, or config.json and tokenizer.json",
        )
    selection = Selection(tuple(names), data=path_of(data), k=k, coverage=coverage)
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
