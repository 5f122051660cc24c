"""Small models in fastText's format, written by hand: words decide for labels."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

SURE = 16.0
"""Weight of a word for its label: softmax gives the label almost 1."""


def write_model(
    path: Path, words: Mapping[str, str], labels: Sequence[str], *, quantized: bool = False
) -> Path:
    """A classifier that gives a text the labels of its words; others are unknown to it.

    `words` is the label of each word. `quantized`: as .ftz files are, with 256 centroids a pair
    of dimensions.
    """
    size, words = len(labels), {"</s>": "", **words}  # the end of a text is a word too
    entries = [(word, 0) for word in words] + [(f"__label__{name}", 1) for name in labels]
    parts = [
        struct.pack("<2i", 793712314, 12),
        # dim, ws, epoch, minCount, neg, wordNgrams, softmax, supervised, bucket, minn, maxn, rate
        struct.pack("<12id", size, 5, 5, 1, 5, 1, 3, 3, 0, 0, 0, 100, 1e-4),
        struct.pack("<3i2q", len(entries), len(words), size, len(entries), -1),
        *(name.encode() + b"\0" + struct.pack("<qb", 1, kind) for name, kind in entries),
    ]
    rows = [[SURE * (name == label) for name in labels] for label in words.values()]
    if quantized:
        parts += _quantized(rows, size)
    else:
        parts += [b"\0", struct.pack("<2q", len(rows), size), *(_floats(row) for row in rows)]
    identity = [[float(i == j) for j in range(size)] for i in range(size)]
    parts += [b"\0", struct.pack("<2q", size, size), *(_floats(row) for row in identity)]
    path.write_bytes(b"".join(parts))
    return path


def _floats(row: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(row)}f", *row)


def _quantized(rows: Sequence[Sequence[float]], size: int) -> list[bytes]:
    """Product quantization; the first four centroids are those with or without each weight."""
    assert size % 2 == 0
    codes = bytes(
        int(row[at] > 0) + 2 * int(row[at + 1] > 0) for row in rows for at in range(0, size, 2)
    )
    centroids = [SURE * bool(code & bit) for code in range(4) for bit in (1, 2)] + [0.0] * 504
    return [
        b"\1\0",
        struct.pack("<2qi", len(rows), size, len(codes)),
        codes,
        struct.pack("<4i", size, size // 2, 2, 2),
        *[_floats(centroids)] * (size // 2),
    ]
