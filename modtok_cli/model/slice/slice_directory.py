"""A directory of `modtok slice` as a source, and its file `modtok.json`.

If the sides are equal, `modtok.json` only describes the origin, and no other program needs it. If
they differ, it also holds the id map, which no other format has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.read_file import read_file, read_object
from modtok_cli.base.records import from_json
from modtok_cli.base.signature import digest
from modtok_cli.model.architecture.registry import read_shape
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.model.generate.backbone import DTYPES
from modtok_cli.model.kinds import FACTS
from modtok_cli.model.source import SLICE, Chat, ModelSource, directory_digest
from modtok_cli.model.vocabularies import Side, Vocabularies, is_full, names_exactly
from modtok_cli.text.languages import canonical
from modtok_cli.tokenizer.open import open_bytes
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

WEIGHTS = "model.safetensors"
TOKENIZER_OUT = "tokenizer_out.json"
FORMAT = 4
_REMEDY = "slice the run again"


@dataclass(frozen=True, eq=False)
class SliceFacts:
    """The content of `modtok.json`.

    Attributes:
        inputs, outputs: languages of both sides.
        full_inputs, full_outputs: whether the side is the whole vocabulary T.
        end_of_text: id of the token between documents.
        tokenizer: signature of the modular tokenizer; signature: of the slice's own.
        run: name of the run; weights: fingerprint of its checkpoint.
        bos: whether its tokenizer puts the end of text before every text, as training does.
        ids: (n,) id in T of each row.
        row_of_in, row_of_out: the id map if the sides differ, else None.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    full_inputs: bool
    full_outputs: bool
    end_of_text: int
    context: int
    dtype: str
    shape: Shape
    tokenizer: str
    signature: str
    run: str
    step: int
    weights: str
    bos: bool
    ids: Int64Array
    row_of_in: Int64Array | None = None
    row_of_out: Int64Array | None = None

    def to_json(self) -> bytes:
        """The file."""
        document: dict[str, Any] = {
            "format": FORMAT,
            **{name: value for name, value in self.__dict__.items() if value is not None},
            "shape": self.shape.as_json(),
        }
        option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(document, option=option)


_ARRAYS = ("ids", "row_of_in", "row_of_out")
_PLAIN = [each for each in fields(SliceFacts) if each.name not in ("shape", *_ARRAYS)]
_PlainFields = make_dataclass("_PlainFields", [(each.name, each.type) for each in _PLAIN])


def read_facts(directory: Path) -> SliceFacts:
    """Read `modtok.json`."""
    file = directory / FACTS
    document = read_object(file)
    if document.pop("format", None) != FORMAT:
        raise ModtokError("has the format of another version of modtok", where=file, remedy=_REMEDY)
    try:
        arrays: dict[str, Any] = {name: _integers(document.pop(name, None)) for name in _ARRAYS}
        shape = read_shape(document.pop("shape", None), str(file))
        plain: Any = from_json(_PlainFields, document, str(file))
    except (ModtokError, ValueError, OverflowError) as error:
        what = error.what if isinstance(error, ModtokError) else error
        raise ModtokError(f"is damaged ({what})", where=file, remedy=_REMEDY) from error
    if arrays["ids"] is None:
        arrays["ids"] = np.zeros(0, dtype=np.int64)
    facts = SliceFacts(**plain.__dict__, shape=shape, **arrays)
    invalid = _invalid_field(facts)
    if invalid:
        raise ModtokError(f"field '{invalid}' is out of range", where=file, remedy=_REMEDY)
    return facts


def _integers(value: object) -> Int64Array | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise ValueError("a list of ids has other elements")
    return np.array(value, dtype=np.int64)


def _invalid_field(facts: SliceFacts) -> str | None:
    """Name of the first field out of range, None if all are valid."""

    def inside(rows: Int64Array | None) -> bool:
        return rows is None or bool(((rows >= 0) & (rows < len(facts.ids))).all())

    checks = {
        "inputs": bool(facts.inputs),
        "outputs": bool(facts.outputs),
        "context": 1 <= facts.context < 1 << 31,
        "dtype": facts.dtype in DTYPES,
        "step": facts.step >= 0,
        "ids": bool(len(facts.ids)) and bool((np.diff(facts.ids, prepend=-1) > 0).all()),
        "end_of_text": 0 <= facts.end_of_text < len(facts.ids),
        "row_of_in": (facts.row_of_in is None) == (facts.row_of_out is None)
        and inside(facts.row_of_in),
        "row_of_out": inside(facts.row_of_out),
    }
    return next((name for name, valid in checks.items() if not valid), None)


class SliceSource(ModelSource):
    """A directory of `modtok slice`, for its own languages only."""

    mode = SLICE
    shape: Shape
    context: int
    languages: tuple[str, ...]

    def __init__(self, path: Path) -> None:
        self.path, self.directory = path, HfDirectory(path)
        self.facts = facts = read_facts(path)
        self.languages, self.context, self.shape = facts.inputs, facts.context, facts.shape
        self.dtype: torch.dtype = getattr(torch, facts.dtype)
        self.all_languages = tuple(dict.fromkeys([*facts.inputs, *facts.outputs]))
        same = facts.inputs == facts.outputs
        self.sides = facts.inputs, None if same else facts.outputs

    @cached_property
    def digest(self) -> str:
        """`NAME@STEP/slice-DIGEST`, with name and step of its run."""
        own = directory_digest(self.path)
        return f"{Path(self.facts.run).name}@{self.facts.step}/slice-{own}"

    def labels(self) -> dict[str, Any]:
        """Its own recipe: it may have been trained further."""
        return {"recipe": digest(self.digest.encode())}

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Both sides of the slice."""
        facts = self.facts
        for side, own, full in (
            (inputs, facts.inputs, facts.full_inputs),
            (outputs, facts.outputs, facts.full_outputs),
        ):
            if side is None or (full and is_full(side)) or names_exactly(side, own):
                continue
            names = {side} if isinstance(side, str) else {*side}
            raise UsageError(
                f"has {','.join(own)} only, not {','.join(sorted(map(canonical, names)))}",
                where=self.path,
                remedy="pass the run, or slice it again",
            )
        reading = _open_tokenizer(self.path / "tokenizer.json", facts.inputs)
        if facts.row_of_in is None or facts.row_of_out is None:
            self._check_size("ids", len(facts.ids), reading)
            return Vocabularies(reading, reading)
        writing = _open_tokenizer(self.path / TOKENIZER_OUT, facts.outputs)
        self._check_size("row_of_in", len(facts.row_of_in), reading)
        self._check_size("row_of_out", len(facts.row_of_out), writing)
        both = Vocabularies(reading, writing)
        # Two files have no common ids: the id map of the slice joins them.
        both.__dict__.update(ids=facts.ids, row_of_in=facts.row_of_in, row_of_out=facts.row_of_out)
        return both

    def _check_size(self, field: str, count: int, tokenizer: Subtokenizer) -> None:
        if count != tokenizer.size:
            raise ModtokError(
                f"field '{field}' has {count} entries, {tokenizer.name} {tokenizer.size} tokens",
                where=self.path / FACTS,
                remedy=_REMEDY,
            )

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Special tokens have the same ids on both sides."""
        return self.facts.end_of_text

    def chat(self, vocabularies: Vocabularies) -> Chat:
        """Chat template, if there is one, and what ends an answer."""
        template = self.directory.chat_templates.get("default")
        size = vocabularies.tokenizer_out.size
        stops = self.directory.token_ids("eos_token_id")
        return Chat(template, tuple(each for each in stops if each < size))

    @property
    def place(self) -> Path:
        """The file of weights."""
        return self.path / WEIGHTS

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """The tables of the file."""
        embedding = self._table("model.embed_tokens.weight", len(self.facts.ids))
        if self.shape.tied:
            return embedding, embedding
        return embedding, self._table("lm_head.weight", vocabularies.tokenizer_out.size)

    def _table(self, name: str, rows: int) -> torch.Tensor:
        table, expected = self.directory.tensor(name), (rows, self.shape.hidden_size)
        if table.shape != expected:
            what = f"'{name}' is {tuple(table.shape)}, expected {expected}"
            raise ModtokError(what, where=self.place, remedy=_REMEDY)
        return table

    def parameters(self) -> Mapping[str, torch.Tensor]:
        """Parameters of the backbone under their transformers names, float32."""
        return self.directory.backbone


def _open_tokenizer(path: Path, languages: Sequence[str]) -> Subtokenizer:
    tokenizer = open_bytes(read_file(path), str(path), str(path))
    if not isinstance(tokenizer, Subtokenizer):
        raise ModtokError("is not a tokenizer of modtok", where=path, remedy=_REMEDY)
    tokenizer.languages = tuple(languages)
    return tokenizer
