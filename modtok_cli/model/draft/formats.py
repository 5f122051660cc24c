"""Files of token lists, as engines read them.

sglang: `load_token_map` in sglang/srt/speculative/spec_utils.py. eagle3: `load_weights` of
sglang/srt/models/llama_eagle3.py and of vllm/model_executor/models/llama_eagle3.py. gguf:
`load_arch_tensors` in llama.cpp's src/models/eagle3.cpp. speculators: `_load_mappings` of
speculators/train/cli.py and `load_vocab_mappings` of speculators/model.py (0.9.0).
tensorrt-edge-llm: `_build` in experimental/builder/core/builder.py, `copy_vocab_artifacts` in
core/artifacts/embeddings.py (0.11.0). executorch: `prune_output_vocab` and `prune_input_vocab` in
examples/models/llama/source_transformation/prune_vocab.py (1.5.1). rtp-llm: `load_output_vocab_ids`
in rtp_llm/config/output_vocab_config.py (2026-08).

Lists are in order of rank. In eagle3, speculators, tensorrt-edge-llm and gguf the ids of draft and
target ascend together, since training selects the target's rows by the mask t2d.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import BoolArray, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.files import atomic_directory, write_bytes


@dataclass(frozen=True)
class ListFormat:
    """A format of token lists.

    Attributes:
        suffix: of its file; "" of a directory of files.
        content: from ids, in order of rank, and the rows of the model to the file, or to the files
            of the directory by name.
        has_rows: whether it says how many rows the model has, or which are not in the list.
        binary: whether it cannot be shown on a terminal.
        use: where its file goes, as said when it is written.
    """

    suffix: str
    content: Callable[[Sequence[int], int], bytes | Mapping[str, bytes]]
    has_rows: bool = False
    binary: bool = False
    use: str = ""


def draft_map(ids: Sequence[int] | Int64Array, rows: int) -> tuple[Int64Array, BoolArray]:
    """d2t (n,) int64 and t2d (rows,) bool of EAGLE-3.

    Draft id i is target id i + d2t[i]; t2d is whether a target id is in the draft. Source:
    `process_token_dict_to_mappings` in SpecForge's specforge/data/preprocessing.py.

    >>> [part.tolist() for part in draft_map([4, 1], 6)]
    [[1, 3], [False, True, False, False, True, False]]
    """
    targets = np.sort(np.asarray(ids, dtype=np.int64))
    return targets - np.arange(len(targets)), np.isin(np.arange(rows), targets)


def _sglang(ids: Sequence[int], rows: int) -> bytes:
    """A file of `torch.save`, which SGLang reads by `torch.load(..., weights_only=True)` only.

    It holds a list of integers, without any reference to code; a tensor would need one. modtok
    itself never reads such a file.
    """
    require("--format sglang", lm=("torch",))
    import torch

    stream = io.BytesIO()
    torch.save(list(ids), stream)
    return stream.getvalue()


def _removed(ids: Sequence[int], rows: int) -> list[int]:
    return [int(each) for each in np.setdiff1d(np.arange(rows), ids)]


def _llama_cpp(ids: Sequence[int], rows: int) -> bytes:
    return orjson.dumps({"logit_bias": [[each, False] for each in _removed(ids, rows)]}) + b"\n"


def _openai(ids: Sequence[int], rows: int) -> bytes:
    return orjson.dumps({"logit_bias": {str(each): -100 for each in _removed(ids, rows)}}) + b"\n"


def _eagle3(ids: Sequence[int], rows: int) -> bytes:
    from safetensors.numpy import save

    d2t, t2d = draft_map(ids, rows)
    return save({"d2t": d2t, "t2d": t2d})


def _gguf(ids: Sequence[int], rows: int) -> bytes:
    """A tensor `d2t` of 64-bit target ids: llama.cpp stores them absolute, not as differences."""
    require("--format gguf", lm=("gguf",))
    import gguf

    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "d2t.gguf"
        writer = gguf.GGUFWriter(file, "eagle3")
        writer.add_tensor("d2t", np.sort(np.asarray(ids, dtype=np.int64)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return file.read_bytes()


def _speculators(ids: Sequence[int], rows: int) -> dict[str, bytes]:
    maps = zip(("d2t", "t2d"), draft_map(ids, rows), strict=True)
    return {f"{name}-{len(ids)}.npy": _npy(array) for name, array in maps}


def _npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def _tensorrt(ids: Sequence[int], rows: int) -> dict[str, bytes]:
    from safetensors.numpy import save

    facts = {"vocab_size": rows, "reduced_vocab_size": len(ids), "method": "modtok"}
    return {
        "vocab_map.safetensors": save({"vocab_map": np.sort(np.asarray(ids, dtype=np.int32))}),
        "reduced_vocab.json": orjson.dumps(facts) + b"\n",
    }


def _executorch(ids: Sequence[int], rows: int) -> bytes:
    return orjson.dumps({str(row): index for row, index in enumerate(ids)}) + b"\n"


def _json(ids: Sequence[int], rows: int) -> bytes:
    return orjson.dumps(list(ids)) + b"\n"


FORMATS: Mapping[str, ListFormat] = {
    "ids": ListFormat(".txt", lambda ids, rows: b"".join(b"%d\n" % index for index in ids)),
    "json": ListFormat(".json", _json),
    "vllm": ListFormat(
        ".json",
        lambda ids, rows: orjson.dumps({"allowed_token_ids": list(ids)}) + b"\n",
        use="allowed_token_ids of requests",
    ),
    "llama.cpp": ListFormat(".json", _llama_cpp, has_rows=True),
    "openai": ListFormat(".json", _openai, has_rows=True),
    "sglang": ListFormat(".pt", _sglang, binary=True),
    "eagle3": ListFormat(".safetensors", _eagle3, has_rows=True, binary=True),
    "gguf": ListFormat(".gguf", _gguf, binary=True),
    "speculators": ListFormat("", _speculators, has_rows=True, binary=True),
    "tensorrt-edge-llm": ListFormat("", _tensorrt, has_rows=True, binary=True),
    "executorch": ListFormat(".json", _executorch),
    "rtp-llm": ListFormat(".json", _json),
}
"""ids: a number per line. json: a list. vllm: fields of a request, for the kept tokens. llama.cpp:
fields of a request to its server, which excludes all other rows. openai: the same by the least bias
of OpenAI's API. sglang: the file of `--speculative-token-map`. eagle3: d2t and t2d. gguf: d2t.
speculators: a directory with d2t-N.npy and t2d-N.npy. tensorrt-edge-llm: a directory with
vocab_map.safetensors and reduced_vocab.json. executorch: an object from row to id, of
`output_prune_map` and `input_prune_map`. rtp-llm: a list, `output_tokens.json` in a checkpoint.
"""


def write_list(path: Path, content: bytes | Mapping[str, bytes]) -> None:
    """Write the content of a list: a file, or a directory of files, whole or not at all."""
    if isinstance(content, bytes):
        write_bytes(path, content)
        return
    with atomic_directory(path) as beside:
        for name, each in content.items():
            write_bytes(beside / name, each)


def list_format(name: str) -> ListFormat:
    """A format by its name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMATS:
        raise UsageError(
            f"unknown format '{name}'",
            where="--format",
            remedy=f"choose from: {', '.join(FORMATS)}",
        )
    return FORMATS[name]
