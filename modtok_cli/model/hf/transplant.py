"""`modtok transplant`: a model directory of transformers with another vocabulary.

Each row of the embedding tables is copied from the same token of the old vocabulary, or made of the
rows of the old tokens that spell it. These may be trained on text (`distill_rows`), or output rows
fitted to it (`fit_outputs`). All other weights are copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import IN_COMMAND, ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, clear
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.parameters import PATHS, FilePath, Force, Output, is_path, text_paths
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.unused import Unused, uses
from modtok_cli.construct.journal import journal_path
from modtok_cli.model.architecture.complete import check_complete
from modtok_cli.model.architecture.stored_model import (
    CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
)
from modtok_cli.model.architecture.token_rows import spelling, with_end
from modtok_cli.model.hf.derived_card import LOAD, shown_name, write_derived
from modtok_cli.model.hf.model_check import warn_of_other_ids
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.hf.model_files import (
    WrittenModel,
    check_output,
    companions,
    copy_files,
    framed,
    ids_to_keep,
    left_out,
    with_ids,
    write_object,
)
from modtok_cli.model.hf.peft_settings import is_output, write_peft
from modtok_cli.model.hf.token_tensors import size_fields
from modtok_cli.model.hf.weight_files import FLOATS, NewTensor, overwrite, rewrite
from modtok_cli.model.parameters import HfModel
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.adopted.adopt import end_among
from modtok_cli.tokenizer.adopted.file_ids import check_ids
from modtok_cli.tokenizer.adopted.restrict import with_places
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.model_card import Card
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.spelling import Spelling
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.tokenizer_card import in_words

if TYPE_CHECKING:
    import torch

    from modtok_cli.model.hf.distill_rows import DistillText, Recipe
    from modtok_cli.model.hf.fit_outputs import FitText

# Fields of tokenizer_config.json that do not depend on the vocabulary.
_KEPT_FIELDS = re.compile(r"_token$|^chat_template$|^model_max_length$|_side$|^model_input_names$")
# Not copied: what describes the old vocabulary.
_OLD = {"special_tokens_map.json"}
# Of --distill, by default.
_STEPS = 300


@dataclass(frozen=True)
class TransplantReport(WrittenModel):
    """A model with another vocabulary.

    Attributes:
        tokens: tokens by origin of their rows: "identical", "spelled", "special" (tokens of the
            model that were added to the vocabulary) and "none" (mean of all rows).
    """

    signature: str
    tokens: dict[str, int]


def _unused(values: Mapping[str, Any]) -> Unused:
    if values.get("distill"):
        yield ["fit"], "--distill trains output rows too"
    else:
        yield ["steps"], "there are no steps without --distill"
    if not (values.get("distill") or values.get("fit") or values.get("report")):
        report = " or --report" if IN_COMMAND.get() else ""
        yield options_of(Reading), f"no text is read without --distill{report}"


@public
@uses(_unused)
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
    distill: Annotated[
        FilePath | Sequence[FilePath],
        Option(
            "Train rows of new tokens on this text: they get the hidden states that the model has "
            "for the old spelling. Repeatable.",
            kind=list[str],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ] = (),
    steps: Annotated[
        int | None,
        Option(
            "Number of optimizer steps. Of --distill, each of 1,024 tokens.",
            metavar="N",
            default=_STEPS,
            low=1,
            high=1 << 48,
        ),
    ] = None,
    reading: Reading = Reading(),
    force: Force = False,
    progress: Progress = SILENT,
) -> TransplantReport:
    """Give a Hugging Face model another vocabulary.

    Embedding rows of tokens that the model has too are copied. Any other row is the mean of the
    rows of the tokens that spell it. With `fit`, output rows are fitted to the counts of tokens in
    a text. With `distill`, the model reads a text in both spellings, and the rows that are not
    copied are trained: input rows so that hidden states are those of the old spelling, output rows
    to predict the next token. Other weights stay; a killed run resumes.

    Special tokens that the model's files name are kept, with new ids. The result needs some
    training: see modtok pretrain --init-from. `modtok-peft.json` beside it has the arguments of
    peft.LoraConfig that train the new rows and adapters.

    The result has the ids of `tokenizer`; the special tokens follow them. If the model's
    tokenizer begins or ends every text with a token, the new one does too. Weights are streamed;
    memory holds the new tables.

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
        from modtok_cli.model.hf.fit_outputs import FitText

        fit_text = FitText(texts, reading)
    made = _Transplant(Path(model), new)
    if is_path(distill) or distill:
        from modtok_cli.model.hf.distill_rows import DistillText, Recipe

        made.distill = DistillText([str(text) for text in text_paths(distill)], reading)
        made.recipe = Recipe(steps or _STEPS)
    return made.write(place, fit_text, progress)


class _Transplant:
    """The new vocabulary of a model: ids, spellings and files."""

    distill: DistillText | None = None
    recipe: Recipe | None = None

    def __init__(self, path: Path, new: Subtokenizer) -> None:
        self.path, self.new = path, new
        self.source = source = ModelDirectory(path)
        check_complete(source)
        if not size_fields(source.config, source.vocab_size):
            raise ModtokError(
                "field 'vocab_size' is missing",
                where=path / CONFIG,
                remedy=f"set it to {source.vocab_size}",
            )
        self.settings = source.tokenizer_config
        found = spelling(source, new.segmenter)
        self.new_of = _new_ids(found)
        self.extra = self._extra_tokens()
        first, end = len(new.vocabulary), end_among(new.vocabulary.specials)
        self.new_of |= {index: first + place for place, index in enumerate(self.extra.values())}
        old = [*self.extra.values()]
        self.spellings = {
            kind: _with_extra(found if end is None else with_end(source, found, end, kind), old)
            for kind in ("input", "output")
        }

    @property
    def size(self) -> int:
        """Tokens of the new vocabulary."""
        return len(self.new.vocabulary) + len(self.extra)

    def _extra_tokens(self) -> dict[str, int]:
        """Added tokens of the model that its files name and the new vocabulary does not have."""
        named = {index for config in self.source.configs.values() for index in ids_to_keep(config)}
        texts = orjson.dumps(self.settings).decode() + "".join(self.source.chat_templates.values())
        return {
            name: index
            for name, index in sorted(
                self.source.vocabulary.added_ids.items(), key=lambda item: item[1]
            )
            if name not in self.names and (index in named or name in texts)
        }

    @cached_property
    def names(self) -> set[str]:
        """The special tokens of the new vocabulary, of a published one all tokens."""
        segmenter = self.new.segmenter
        is_library = isinstance(segmenter, Library)
        return {*(segmenter.names if is_library else self.new.vocabulary.specials)}

    # --- files ---

    def write(
        self, output: Path, fit: FitText | None = None, progress: Progress = SILENT
    ) -> TransplantReport:
        source = self.source
        source.warn(progress)
        # Text is read first: a wrong name must not cost the writing of a large model.
        counts = None if fit is None else fit.counts(source.file, self.new, progress)
        stored = {name: source.tensors[name] for name in self._table_names()}
        tables = {name: self._table(name) for name in stored}
        matrices = [name for name, table in tables.items() if table.ndim == 2]  # not biases
        if self.distill is not None:
            tables |= self._distilled({name: tables[name] for name in matrices}, output, progress)
        with atomic_directory(output) as beside:
            total = rewrite(source, beside, self._new_tensors(tables))
            for name, config in source.configs.items():
                write_object(beside / name, self._config(config))
            (beside / TOKENIZER).write_bytes(self._tokenizer())
            write_object(beside / TOKENIZER_CONFIG, self._tokenizer_config())
            copied = [name for name in companions(self.path) if name not in _OLD]
            copy_files(self.path, copied, beside)
            if missing := left_out(self.path, beside):
                progress.note(f"not copied: {', '.join(missing)}")
            if fit is not None and counts is not None:
                name = max(matrices, key=is_output)
                rows = self._fitted(name, tables[name], beside, fit, counts)
                file = beside / source.tensors[name].file.name
                overwrite(file, name, self._new_tensors({name: rows})[name])
            new = np.flatnonzero(self.spellings["input"].lengths != 1)
            write_peft(beside, matrices, new.tolist())
            name, languages = shown_name(self.path), self.new.languages
            made = f" --distill TEXT --steps {self.recipe.steps}" if self.recipe else ""
            made += " --fit TEXT" if fit is not None else ""
            card = Card(
                title=f"{name} with the vocabulary of {in_words(languages)}"
                if languages
                else f"{name} with another vocabulary",
                about=f"The model {name} with another vocabulary, of {self.size:,} tokens. Rows of "
                "tokens that it had are copied, others are made of the old rows that spell them: "
                "it needs further training.",
                languages=languages,
                load=LOAD,
                made=f"modtok transplant {name} -t TOKENIZER{made} -o DIR",
                signature=self.new.signature,
            )
            write_derived(card, self.path, beside, output, left_out=left_out(self.path, beside))
        clear(journal_path(output))  # of distillation
        warn_of_other_ids(output, progress)
        lengths = self.spellings["input"].lengths[: len(self.new.vocabulary)]
        tokens = {
            "identical": int((lengths == 1).sum()),
            "spelled": int((lengths > 1).sum()),
            "special": len(self.extra),
            "none": int((lengths == 0).sum()),
        }
        after = sum(table.nbytes for table in tables.values())
        before = sum(tensor.nbytes for tensor in stored.values())
        sizes = {
            "tables": (after, before),
            "others": (total - after, source.tensor_bytes - before),
        }
        signature = self.new.signature
        return TransplantReport(
            output, sizes, {"signature": signature, **tokens}, signature, tokens
        )

    def _new_tensors(self, tables: Mapping[str, torch.Tensor]) -> dict[str, NewTensor]:
        import torch

        stored = self.source.tensors
        return {
            name: NewTensor.of(stored[name].dtype, table.shape, table.view(torch.uint8).numpy())
            for name, table in tables.items()
        }

    def _fitted(
        self,
        name: str,
        table: torch.Tensor,
        path: Path,
        fit: FitText,
        counts: tuple[Int64Array, Int64Array],
    ) -> torch.Tensor:
        """The output rows, which may be the input's too, fitted to the model in `path`."""
        import torch

        from modtok_cli.model.hf.fit_outputs import FIRST, first_only, logit_offsets, measure

        spelling = self.spellings["output"]
        offsets = torch.from_numpy(logit_offsets(spelling, *counts)).float()
        rows = table.float()
        if is_output(name):
            # Outputs of their own may be nearer to the row of the first old token than inputs.
            old = self.source.tensor(name)
            rows = torch.lerp(
                self._rows(old, spelling), self._rows(old, first_only(spelling)), FIRST
            )
        return (rows + offsets[:, None] * measure(path, fit)).to(table.dtype)

    def _distilled(
        self, tables: Mapping[str, torch.Tensor], output: Path, progress: Progress
    ) -> dict[str, torch.Tensor]:
        """The tables of rows with trained ones for tokens that several old tokens spell."""
        from modtok_cli.model.hf.distill_rows import Distillation, Rows
        from modtok_cli.model.hf.hf_source import HfSource

        assert self.distill is not None
        assert self.recipe is not None
        of = {name: "outputs" if is_output(name) else "inputs" for name in tables}
        if sorted(of.values()) not in (["inputs"], ["inputs", "outputs"]):
            raise UsageError(
                f"has the tables {', '.join(tables)}, --distill trains one of inputs and outputs",
                where=self.path,
                remedy="leave --distill out",
            )
        distillation = Distillation(
            HfSource(self.path), self.new, self.spellings["input"], self.recipe
        )
        trained = distillation.trained
        given = {of[name]: table[trained].float() for name, table in tables.items()}
        first = Rows(given["inputs"], given.get("outputs", given["inputs"]))
        rows, seen = distillation.run(first, self.distill, output, progress)
        unseen = len(seen) - int(seen.sum())
        if unseen:
            progress.note(
                f"{unseen:,} of {len(seen):,} new tokens do not occur in the text that was read: "
                "their rows are the means of the rows that spell them"
            )
        for name, table in tables.items():
            table[trained[seen.numpy()]] = getattr(rows, of[name])[seen].to(table.dtype)
        return dict(tables)

    def _table_names(self) -> list[str]:
        """The tables, and biases of outputs."""
        axes = self.source.axes(self.source.layout)
        for name, axis in axes.items():
            if axis.axis or axis.size != self.source.vocab_size:
                raise UsageError(
                    f"tensor '{name}' {self.source.tensors[name].shape} is no table with a row for "
                    f"each of {self.source.vocab_size:,} tokens",
                    where=self.path,
                    remedy="only models with such tables can be transplanted",
                )
        return [*axes]

    def _table(self, name: str) -> torch.Tensor:
        """The new table; of a bias, its values."""
        import torch

        old, stored = self.source.tensor(name), self.source.tensors[name]
        rows = self._rows(old, self.spellings["output" if is_output(name) else "input"])
        return rows.to(getattr(torch, FLOATS[stored.dtype])).reshape(-1, *stored.shape[1:])

    def _rows(self, old: torch.Tensor, spelling: Spelling) -> torch.Tensor:
        """Means of the old rows that spell the tokens, float32; of all rows for the others."""
        import torch

        from modtok_cli.training.rows.growth import spelled_rows

        wide = old.reshape(len(old), -1)
        table = wide.mean(0).repeat(self.size, 1)
        for block, rows in spelled_rows([wide], spelling, torch.arange(self.size), scaled=False):
            table[block] = rows
        return table

    def _config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = with_ids(config, self.new_of.get)
        for (*path, key), _ in size_fields(config, self.source.vocab_size).items():
            reduce(getitem, path, result)[key] = self.size
        return result

    def _tokenizer(self) -> bytes:
        document = orjson.loads(self.new.to_json())
        added = {token["content"]: token for token in self.source.tokenizer["added_tokens"]}
        document["added_tokens"] += [
            {**added[name], "id": self.new_of[index]} for name, index in self.extra.items()
        ]
        data = orjson.dumps(with_places(document))
        before, after = (
            (each[0], self.new_of[each[1]]) if each and each[1] in self.new_of else None
            for each in self.source.vocabulary.frame()
        )
        data = framed(data, before, after)
        ids = {name: index for index, name in enumerate(self.new.segmenter.names) if name}
        extra = {name: self.new_of[index] for name, index in self.extra.items()}
        check_ids(data, str(self.path), ids | extra)
        return data

    def _tokenizer_config(self) -> dict[str, Any]:
        known = self.names | self.extra.keys()
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


def _new_ids(spelling: Spelling) -> dict[int, int]:
    """Old id → new id of the tokens that both vocabularies have."""
    same = np.flatnonzero(spelling.lengths == 1)
    return dict(zip(spelling.ids[spelling.offsets[same]].tolist(), same.tolist(), strict=True))


def _with_extra(spelling: Spelling, ids: list[int]) -> Spelling:
    last = spelling.offsets[-1]
    offsets = np.concatenate([spelling.offsets, last + 1 + np.arange(len(ids))])
    return Spelling(np.concatenate([spelling.ids, np.array(ids, np.int32)]), offsets)
