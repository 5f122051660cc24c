"""`modtok.json`: what a sliced directory says beside the files of a Hugging Face Llama.

Where the two sides are the same, it only tells where the slice comes from and any program
can do without it. Where they differ it holds the id map, which no stock format has.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.pretrain.presets import Shape

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
    tied: bool
    shape: Shape
    tokenizer: str
    signature: str
    run: str
    step: int
    ids: Ints
    row_of_in: Ints | None = None
    row_of_out: Ints | None = None

    def to_json(self) -> bytes:
        """The file."""
        document: dict[str, Any] = {
            "format": FORMAT,
            **{name: value for name, value in self.__dict__.items() if value is not None},
            "shape": asdict(self.shape),
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
        for name in ("inputs", "outputs"):
            document[name] = tuple(document[name])
        document["shape"] = Shape(**document["shape"])
        document["ids"] = np.cumsum(np.array(document["ids"], dtype=np.int64))
        for name in ("row_of_in", "row_of_out"):
            if document.get(name) is not None:
                document[name] = np.array(document[name], dtype=np.int64)
        return SliceFacts(**document)
    except OSError as error:
        raise ModtokError(f"cannot read: {error.strerror}", where=str(file)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModtokError(
            f"is not as modtok slice writes it ({error})", where=str(file), remedy="slice anew"
        ) from error
