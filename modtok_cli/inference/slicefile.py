"""`modtok.json`: what a sliced directory says beside the files of a Hugging Face Llama.

Where the two sides are the same, it only tells where the slice comes from and any program
can do without it. Where they differ it holds the id map, which no stock format has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.records import from_json
from modtok_cli.inference.dtypes import DTYPES

NAME = "modtok.json"
WEIGHTS = "model.safetensors"
TOKENIZER_OUT = "tokenizer_out.json"
FORMAT = 1
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SliceFacts:
    """The content of `modtok.json`.

    Attributes:
        inputs, outputs: languages read by and predicted in.
        end_of_text: id of the token between documents.
        tokenizer: signature of the modular tokenizer; `signature` that of the slice's own.
        run: the run's directory, relative to the slice.
        ids: (n,) the modular tokenizer's id of each row.
        row_of_in, row_of_out: the id map where the sides differ, else None.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    end_of_text: int
    context: int
    dtype: str
    shape: Shape
    tokenizer: str
    signature: str
    run: str
    step: int
    ids: Ints
    row_of_in: Ints | None = None
    row_of_out: Ints | None = None

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
        # Ids by their differences: two to five digits fewer each.
        document["ids"] = np.diff(self.ids, prepend=0)
        option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(document, option=option)


def read_facts(directory: Path) -> SliceFacts:
    """Read `modtok.json`.

    Raises:
        ModtokError: it is missing, damaged or of a later format.
    """
    file = directory / NAME
    try:
        document = orjson.loads(file.read_bytes())
        if document.pop("format") != FORMAT:
            raise ModtokError("is of a later format", where=str(file), remedy="upgrade modtok")
        arrays = {name: _integers(document.pop(name, None)) for name in _ARRAYS}
        try:
            said = from_json(_Said, document, str(file))
        except ModtokError as error:
            raise ValueError(error.what) from error
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=str(file)) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ModtokError(
            f"is not as modtok slice writes it ({error})", where=str(file), remedy="slice anew"
        ) from error
    ids = np.zeros(0, dtype=np.int64) if arrays["ids"] is None else np.cumsum(arrays["ids"])
    facts = SliceFacts(
        **said.__dict__,
        ids=ids,
        row_of_in=arrays["row_of_in"],
        row_of_out=arrays["row_of_out"],
    )
    wrong = _first_amiss(facts)
    if wrong:
        raise ModtokError(
            f"field '{wrong}' is not as modtok slice writes it",
            where=str(file),
            remedy="slice anew",
        )
    return facts


@dataclass(frozen=True)
class _Said:
    """The fields of `SliceFacts` that are no arrays."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    end_of_text: int
    context: int
    dtype: str
    shape: Shape
    tokenizer: str
    signature: str
    run: str
    step: int


_ARRAYS = ("ids", "row_of_in", "row_of_out")


def _integers(value: object) -> Ints | None:
    """A list of integers; None for None.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise ValueError("a list of ids holds something else")
    return np.array(value, dtype=np.int64)


def _first_amiss(facts: SliceFacts) -> str | None:
    """The first field out of its range, None if all can be worked with."""
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
    return next((name for name, sound in checks.items() if not sound), None)
