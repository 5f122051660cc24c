"""`modtok.json`: what a slice stores beside the files that transformers reads.

If the sides are equal, it only describes the origin, and no other program needs it. If they
differ, it also holds the id map, which no other format has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.architectures.registry import read_shape
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.reading import read_bounded
from modtok_cli.base.records import from_json
from modtok_cli.inference.dtypes import DTYPES

NAME = "modtok.json"
WEIGHTS = "model.safetensors"
TOKENIZER_OUT = "tokenizer_out.json"
FORMAT = 2
_REMEDY = "slice the run again"


@dataclass(frozen=True, eq=False)
class SliceFacts:
    """The content of `modtok.json`.

    Attributes:
        inputs, outputs: languages of both sides.
        full_inputs, full_outputs: whether the side is the whole vocabulary T.
        end_of_text: id of the token between documents.
        tokenizer: signature of the modular tokenizer; `signature` is that of the slice's own.
        run: name of the run; weights: fingerprint of its checkpoint.
        bos, license, base_model: see `slice_files.Labels`.
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
    license: str
    base_model: str
    ids: Int64Array
    row_of_in: Int64Array | None = None
    row_of_out: Int64Array | None = None

    @property
    def tied(self) -> bool:
        """Whether input and output rows are one table."""
        return self.shape.tied

    def to_json(self) -> bytes:
        """The file."""
        document: dict[str, Any] = {
            "format": FORMAT,
            **{name: value for name, value in self.__dict__.items() if value is not None},
            "shape": self.shape.as_json(),
        }
        # Differences of ids have two to five digits less.
        document["ids"] = np.diff(self.ids, prepend=0)
        option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(document, option=option)


def read_facts(directory: Path) -> SliceFacts:
    """Read `modtok.json`.

    Raises:
        ModtokError: it is missing, damaged or of another format.
    """
    file = directory / NAME
    try:
        document = orjson.loads(read_bounded(file))
        if document.pop("format") != FORMAT:
            raise ModtokError(
                "has the format of another version of modtok", where=str(file), remedy=_REMEDY
            )
        arrays = {name: _integers(document.pop(name, None)) for name in _ARRAYS}
        try:
            shape = read_shape(document.pop("shape", None), str(file))
            fields = from_json(_Fields, document, str(file))
        except ModtokError as error:
            raise ValueError(error.what) from error
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=str(file)) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ModtokError(f"is damaged ({error})", where=str(file), remedy=_REMEDY) from error
    ids = np.zeros(0, dtype=np.int64) if arrays["ids"] is None else np.cumsum(arrays["ids"])
    facts = SliceFacts(
        **fields.__dict__,
        shape=shape,
        ids=ids,
        row_of_in=arrays["row_of_in"],
        row_of_out=arrays["row_of_out"],
    )
    invalid = _invalid_field(facts)
    if invalid:
        raise ModtokError(f"field '{invalid}' is out of range", where=str(file), remedy=_REMEDY)
    return facts


@dataclass(frozen=True)
class _Fields:
    """The fields of `SliceFacts` except arrays and the shape."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    full_inputs: bool
    full_outputs: bool
    end_of_text: int
    context: int
    dtype: str
    tokenizer: str
    signature: str
    run: str
    step: int
    weights: str
    bos: bool
    license: str
    base_model: str


_ARRAYS = ("ids", "row_of_in", "row_of_out")


def _integers(value: object) -> Int64Array | None:
    """A list of integers; None for None.

    Raises:
        ValueError: any other value.
    """
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise ValueError("a list of ids has other elements")
    return np.array(value, dtype=np.int64)


def _invalid_field(facts: SliceFacts) -> str | None:
    """Name of the first field out of range, None if all are valid."""
    checks = {
        "inputs": bool(facts.inputs),
        "outputs": bool(facts.outputs),
        "context": 1 <= facts.context < 1 << 31,
        "dtype": facts.dtype in DTYPES,
        "step": facts.step >= 0,
        "ids": bool(len(facts.ids)) and bool((np.diff(facts.ids, prepend=-1) > 0).all()),
        "end_of_text": 0 <= facts.end_of_text < len(facts.ids),
        "row_of_in": (facts.row_of_in is None) == (facts.row_of_out is None),
    }
    for name in ("row_of_in", "row_of_out"):
        rows = getattr(facts, name)
        inside = rows is None or bool(((rows >= 0) & (rows < len(facts.ids))).all())
        checks[name] = checks.get(name, True) and inside
    return next((name for name, valid in checks.items() if not valid), None)
