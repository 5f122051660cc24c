"""`modtok transplant`: a model directory of transformers with another vocabulary.

Each row of the embedding tables is that of the same token in the old vocabulary, or made of the
rows of the old tokens that spell it. Output rows may be fitted to text (`fit_outputs`). All other
weights are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson

from modtok_cli.architectures.hf_directory import (
    CONFIG,
    LARGEST,
    TOKENIZER,
    TOKENIZER_CONFIG,
    open_hf_directory,
)
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS, FilePath, Force, Output, is_path, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.reading import read_object
from modtok_cli.inference.hf.model_check import warn_of_other_ids
from modtok_cli.inference.hf.model_directory import ModelDirectory
from modtok_cli.inference.hf.model_files import (
    check_output,
    companions,
    copy_files,
    framed,
    ids_to_keep,
    left_out,
    size_rows,
    with_ids,
    write_object,
)
from modtok_cli.inference.hf.peft_settings import is_output, write_peft
from modtok_cli.inference.hf.weight_files import WeightFiles
from modtok_cli.inference.parameters import HfModel
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.segmenters.json_frame import added_tokens
from modtok_cli.modular.spelling import LibraryVocabulary, Spelling
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.text.reading import Reading

if TYPE_CHECKING:
    import torch

    from modtok_cli.inference.hf.fit_outputs import FitText

# Fields of tokenizer_config.json that do not depend on the vocabulary.
_KEPT_FIELDS = re.compile(r"_token$|^chat_template$|^model_max_length$|_side$|^model_input_names$")
# Not copied: what describes the old vocabulary.
_OLD = {"README.md", "special_tokens_map.json"}


@dataclass(frozen=True)
class TransplantReport:
    """What was written.

    Attributes:
        tokens: tokens by origin of their rows: "identical", "spelled", "special" (tokens of the
            model that were added to the vocabulary) and "none" (mean of all rows).
        sizes: part → (bytes, bytes before).
    """

    output: Path
    signature: str
    tokens: dict[str, int]
    sizes: dict[str, tuple[int, int]]

    def rows(self) -> list[dict[str, Any]]:
        """A row per part and one for all: bytes, bytes before, share saved."""
        more = {"output": str(self.output), "signature": self.signature, **self.tokens}
        return size_rows(self.sizes, **more)


@public
def transplant(
    model: HfModel,
    tokenizer: Annotated[
        FilePath,
        Option(
            "New vocabulary: DIR, DIR@fr,en, or a file.",
            flags="-t --tokenizer",
            kind=str,
            metavar="TOKENIZER",
            hub="tokenizer",
            accepts=(is_path, "a path"),
        ),
    ] = "tokenizer",
    *,
    output: Output = None,
    fit: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "Fit output rows to this text, without training; the model must fit in memory. "
            "Repeatable.",
            kind=list[str],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ] = (),
    untie: Annotated[
        bool, Option("With --fit: give a model with tied tables separate output rows.")
    ] = False,
    reading: Reading = Reading(),
    force: Force = False,
    progress: Progress = SILENT,
) -> TransplantReport:
    """Give a Hugging Face model another vocabulary.

    Embedding rows of tokens that the model has too are copied. Any other row is the mean of the
    rows of the tokens that spell it. With `fit`, output rows are fitted to the counts of tokens in
    a text. Special tokens that
    the model's files name are kept, with new ids. The result needs some training: see modtok
    pretrain --init-from. `modtok-peft.json` beside it has the arguments of peft.LoraConfig that
    train the new rows and adapters.

    The result has the ids of `tokenizer`; the special tokens follow them. If the model's
    tokenizer begins or ends every text with a token, the new one does too. Files of weights are
    rewritten one at a time.

    Examples:
        >>> report = modtok.transplant("fr-en", "tokenizer@fi", output="fr-en-for-fi")
        >>> sum(report.tokens.values()) == modtok.load("tokenizer@fi").size
        True

    Raises:
        UsageError: not a model, a tokenizer that modtok did not make, or an existing output.
        ModtokError: a file is damaged, or the model to fit does not fit in memory.
    """
    if output is None:
        raise UsageError(
            "no output directory given",
            remedy="as in: modtok transplant model/ -t tokenizer@fr,en -o model-fr-en/",
        )
    texts = [str(text) for text in text_paths(fit)] if is_path(fit) or fit else []
    if untie and not texts:
        raise UsageError("--untie needs --fit", remedy="name text, as in: --fit fr.txt")
    tokenizer, place = str(tokenizer), Path(output)
    check_output(place, CONFIG, force=force, kind="model")
    new = open_tokenizer(tokenizer, progress=progress)
    if not isinstance(new, Subtokenizer):
        raise UsageError(
            "was not made by modtok",
            where=tokenizer,
            remedy="give a modular directory, DIR@fr,en, or a file of modtok extract",
        )
    fit_text = None
    if texts:
        from modtok_cli.inference.hf.fit_outputs import FitText

        fit_text = FitText(texts, reading, untie)
    return _Transplant(Path(model), new).write(place, fit_text, progress)


class _Transplant:
    """The new vocabulary of a model: ids, spellings and files."""

    def __init__(self, path: Path, new: Subtokenizer) -> None:
        self.path, self.new = path, new
        open_hf_directory(path)
        self.source = source = ModelDirectory(path)
        self._token_id = source.token_id
        if type(size := source.configs[CONFIG].get("vocab_size")) is not int:
            raise ModtokError(
                f"field 'vocab_size' is {size!r}, expected a whole number",
                where=path / CONFIG,
                remedy="only text models are supported",
            )
        self.old = LibraryVocabulary(source.tokenizer_json, str(path))
        self.settings = source.tokenizer_config
        spelling = self.old.spell(new.vocabulary)
        self.new_of = self._new_ids(spelling)
        self.extra = self._extra_tokens()
        first = len(new.vocabulary)
        self.new_of |= {index: first + place for place, index in enumerate(self.extra.values())}
        self.spellings = {
            kind: _with_extra(self._with_end(spelling, kind), list(self.extra.values()))
            for kind in ("input", "output")
        }

    @property
    def size(self) -> int:
        """Tokens of the new vocabulary."""
        return len(self.new.vocabulary) + len(self.extra)

    def _new_ids(self, spelling: Spelling) -> dict[int, int]:
        """Old id → new id of the tokens that both vocabularies have."""
        same = np.flatnonzero(spelling.lengths == 1)
        return dict(zip(spelling.ids[spelling.offsets[same]].tolist(), same.tolist(), strict=True))

    def _extra_tokens(self) -> dict[str, int]:
        """Added tokens of the model that its files name and the new vocabulary does not have."""
        named = {index for config in self.source.configs.values() for index in ids_to_keep(config)}
        texts = orjson.dumps(self.settings).decode() + "".join(self.source.chat_templates.values())
        have = set(self.new.vocabulary.specials)
        return {
            name: index
            for name, index in sorted(self.old.added_ids.items(), key=lambda item: item[1])
            if name not in have and (index in named or name in texts)
        }

    def _with_end(self, spelling: Spelling, kind: str) -> Spelling:
        """The new end of text takes the row of the token that begins or ends a text."""
        fields = ("bos_token_id", "eos_token_id")
        index = self._token_id(*(fields if kind == "input" else fields[::-1]))
        lengths = spelling.lengths[: len(self.new.vocabulary.specials)]
        if index is None or not len(lengths) or lengths[0]:
            return spelling
        offsets = spelling.offsets + (np.arange(len(spelling.offsets)) > 0)
        return Spelling(np.insert(spelling.ids, 0, index).astype(np.int32), offsets)

    # --- files ---

    def write(
        self, output: Path, fit: FitText | None = None, progress: Progress = SILENT
    ) -> TransplantReport:
        self.source.warn(progress)
        # Text is read first: a wrong name must not cost the writing of a large model.
        counts = None
        if fit is not None:
            counts = fit.counts(self.source.file, self.new, progress)
        with atomic_directory(output) as beside:
            sizes = self._write_weights(beside)
            for name, config in self.source.configs.items():
                write_object(beside / name, self._config(config))
            (beside / TOKENIZER).write_bytes(self._tokenizer())
            write_object(beside / TOKENIZER_CONFIG, self._tokenizer_config())
            copied = [name for name in companions(self.path) if name not in _OLD]
            copy_files(self.path, copied, beside)
            if missing := left_out(self.path, beside):
                progress.note(f"not copied: {', '.join(missing)}")
            if fit is not None and counts is not None:
                after, before = sizes["tables"]
                sizes["tables"] = (after + self._fit(beside, fit, counts), before)
            new = np.flatnonzero(self.spellings["input"].lengths != 1)
            write_peft(beside, self._table_names(beside), new.tolist())
        warn_of_other_ids(output, progress)
        lengths = self.spellings["input"].lengths[: len(self.new.vocabulary)]
        tokens = {
            "identical": int((lengths == 1).sum()),
            "spelled": int((lengths > 1).sum()),
            "special": len(self.extra),
            "none": int((lengths == 0).sum()),
        }
        return TransplantReport(output, self.new.signature, tokens, sizes)

    def _table_names(self, directory: Path) -> list[str]:
        """The tables of the result, with one that was untied."""
        stored = self.source.weights.tensors
        return [
            name
            for name, tensor in WeightFiles(directory).tensors.items()
            if len(tensor.shape) == 2
            and (name not in stored or self._is_table(name, stored[name].shape))
        ]

    def _write_weights(self, beside: Path) -> dict[str, tuple[int, int]]:
        from safetensors.torch import save_file

        before = dict.fromkeys(("tables", "others"), 0)
        after = dict(before)
        where: dict[str, str] = {}
        for file in self.source.weights.files:
            tensors = {}
            for name, tensor in _tensors(file):
                part = "others"
                bytes_before = tensor.nbytes
                if self._is_table(name, tuple(tensor.shape)):
                    part, tensor = "tables", self._table(name, tensor)
                tensors[name], where[name] = tensor, file.name
                before[part] += bytes_before
                after[part] += tensor.nbytes
            save_file(tensors, beside / file.name, metadata={"format": "pt"})
            (beside / file.name).chmod(0o644)
        if not before["tables"]:
            raise ModtokError(
                f"no embedding table with {self.source.vocab_size:,} rows was found",
                where=self.path,
            )
        if (index := self.source.index) is not None:
            size = {"total_size": sum(after.values())}
            write_object(beside / index.name, {"metadata": size, "weight_map": where})
        return {part: (after[part], before[part]) for part in before}

    def _fit(self, path: Path, fit: FitText, counts: tuple[Int64Array, Int64Array]) -> int:
        """Fit the output rows of the model in `path`; returns the bytes that it grew by."""
        import torch
        from safetensors import safe_open
        from safetensors.torch import save_file

        from modtok_cli.inference.hf.fit_outputs import FIRST, first_only, logit_offsets, measure

        spelling = self.spellings["output"]
        direction, untied = measure(path, fit)
        shift = torch.from_numpy(logit_offsets(spelling, *counts)).float()[:, None] * direction
        source, table = self._output_table()
        file, name = path / source.name, table
        tensors = dict(_tensors(file))
        rows = tensors[table].float()
        if fit.untie or is_output(table):
            # Outputs of their own may be nearer to the row of the first old token than inputs.
            name = table if is_output(table) else untied
            with safe_open(source, framework="pt") as opened:
                old = opened.get_tensor(table)
            rows = torch.lerp(
                self._rows(old, spelling), self._rows(old, first_only(spelling)), FIRST
            )
        tensors[name] = (rows + shift).to(tensors[table].dtype)
        save_file(tensors, file, metadata={"format": "pt"})
        file.chmod(0o644)
        return self._untied(path, name, file, tensors[name].nbytes) if name != table else 0

    def _output_table(self) -> tuple[Path, str]:
        """File and name of the output rows; of the input rows if they are the same."""
        tables = [
            (tensor.file, name)
            for name, tensor in self.source.weights.tensors.items()
            if len(tensor.shape) == 2 and self._is_table(name, tensor.shape)
        ]
        return max(tables, key=lambda each: is_output(each[1]))

    def _is_table(self, name: str, shape: tuple[int, ...]) -> bool:
        axis = self.source.layout.axis_of(name, shape)
        if axis is not None and (axis.axis or axis.size != self.source.vocab_size):
            raise UsageError(
                f"tensor '{name}' {shape} is no table with a row for each of "
                f"{self.source.vocab_size:,} tokens",
                where=self.path,
                remedy="only models with such tables can be transplanted",
            )
        return axis is not None

    def _untied(self, path: Path, name: str, file: Path, size: int) -> int:
        """Tell configuration and index of a new output table of `size` bytes; returns `size`."""
        config = read_object(path / CONFIG, largest=LARGEST)
        write_object(path / CONFIG, {**config, "tie_word_embeddings": False})
        if self.source.index is not None:
            place = path / self.source.index.name
            index = read_object(place, largest=LARGEST)
            index["weight_map"][name] = file.name
            index["metadata"]["total_size"] += size
            write_object(place, index)
        return size

    def _table(self, name: str, old: torch.Tensor) -> torch.Tensor:
        """The new table; of a bias, its values."""
        rows = self._rows(old, self.spellings["output" if is_output(name) else "input"])
        return rows.to(old.dtype).reshape(-1, *old.shape[1:])

    def _rows(self, old: torch.Tensor, spelling: Spelling) -> torch.Tensor:
        """Means of the old rows that spell the tokens, float32; of all rows for the others."""
        import torch

        from modtok_cli.training.rows.growth import spelled_rows

        wide = old.float().reshape(len(old), -1)
        table = wide.mean(0).repeat(self.size, 1)
        for block, rows in spelled_rows([wide], spelling, torch.arange(self.size), scaled=False):
            table[block] = rows
        return table

    def _config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = with_ids(config, self.new_of.get)
        if "vocab_size" in result:
            result["vocab_size"] = self.size
        return result

    def _tokenizer(self) -> bytes:
        document = orjson.loads(self.new.to_json())
        first = len(self.new.vocabulary)
        document["added_tokens"] += [
            {**token, "id": first + place}
            for place, token in enumerate(added_tokens([*self.extra]))
        ]
        data = orjson.dumps(document)
        before, after = (
            (each[0], self.new_of[each[1]]) if each and each[1] in self.new_of else None
            for each in self.old.frame()
        )
        return framed(data, before, after)

    def _tokenizer_config(self) -> dict[str, Any]:
        known = {*self.new.vocabulary.specials, *self.extra}
        fields = {}
        for name, value in self.settings.items():
            text = value.get("content") if isinstance(value, Mapping) else value
            if not _KEPT_FIELDS.search(name) or value is None:
                continue
            if not name.endswith("_token") or text in known:
                fields[name] = text if name.endswith("_token") else value
        return {
            **fields,
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
        }


def _with_extra(spelling: Spelling, ids: list[int]) -> Spelling:
    last = spelling.offsets[-1]
    offsets = np.concatenate([spelling.offsets, last + 1 + np.arange(len(ids))])
    return Spelling(np.concatenate([spelling.ids, np.array(ids, np.int32)]), offsets)


def _tensors(file: Path) -> Iterator[tuple[str, torch.Tensor]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - not a mapping
                yield name, opened.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise ModtokError(f"cannot be read ({error})", where=file) from error
