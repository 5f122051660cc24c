"""Write a safetensors file as a stream: its CRC on the way, and no copy of its tensors.

The library's `save_file` holds Python's lock while it writes, so that training could not go on
meanwhile; and reading a file of gigabytes again for its CRC would double the traffic.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

import orjson
import torch

_DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int32: "I32",
    torch.int64: "I64",
}
# Written and checked at a time; zlib and write release Python's lock.
_CHUNK = 1 << 24


def write_safetensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Write tensors to `path` durably; returns {"bytes": size, "crc": CRC-32 of the file}.

    Tensors may be on any device; those on a GPU are copied to the host one at a time.

    Raises:
        OSError: the file system refused.
    """
    header, at = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    head = orjson.dumps(header)
    head += b" " * (-len(head) % 8)  # data is aligned
    head = len(head).to_bytes(8, "little") + head
    crc = zlib.crc32(head)
    with open(path, "wb", buffering=0) as handle:
        _write(handle.fileno(), memoryview(head))
        for tensor in tensors.values():
            if not tensor.numel():
                continue
            data = tensor.cpu().contiguous().view(torch.uint8).numpy().data.cast("B")
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK]
                crc = zlib.crc32(chunk, crc)
                _write(handle.fileno(), chunk)
        os.fsync(handle.fileno())
    return {"bytes": len(head) + at, "crc": crc}


def _write(handle: int, data: memoryview) -> None:
    while data:
        data = data[os.write(handle, data) :]
