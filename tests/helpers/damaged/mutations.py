"""Damage for files: what disks, transfers, editors and ill will do to them."""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

NUMBERS = (-1, 0, 1, 2, 255, 256, 65_536, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63, 2**64, 10**30)
VALUES: tuple[Any, ...] = (
    *NUMBERS, 0.5, -1e308, 1e308, float("nan"), float("inf"), True, False, None, "", "x", "..",
    "../../up", "/etc/hostname", "a\nb", "\x00", "\ud800", [], {}, [[]], [None], {"": 0},
)  # fmt: skip


def truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def flipped(data: bytes, rng: random.Random) -> bytes:
    """One to eight bits."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def overwritten(data: bytes, rng: random.Random) -> bytes:
    """Some bytes in a row: zeros (a hole in the file), ones, or noise."""
    at, size = rng.randrange(len(data)), rng.randint(1, 64)
    fill = rng.choice((bytes(size), b"\xff" * size, rng.randbytes(size)))
    return (data[:at] + fill + data[at + size :])[: max(len(data), at + size)]


def cut_out(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 256) :]


def repeated(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    size = rng.randint(1, 256)
    return data[:at] + data[at : at + size] * rng.randint(2, 5) + data[at + size :]


def inserted(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randint(1, 16)) + data[at:]


def wrong_number(data: bytes, rng: random.Random) -> bytes:
    """A number in the text is another one; in binary data, four or eight bytes are."""
    places = list(re.finditer(rb"-?\d+(?:\.\d+)?", data[:1_000_000]))
    number = rng.choice(NUMBERS)
    if places and rng.random() < 0.7:
        place = rng.choice(places)
        return data[: place.start()] + str(number).encode() + data[place.end() :]
    code = rng.choice(("<I", "<Q", ">I", "<i"))
    size = struct.calcsize(code)
    if len(data) < size:
        return data
    at = rng.randrange(min(len(data), 4096) - size + 1)
    raw = struct.pack(code.upper(), number & ((1 << 8 * size) - 1))
    return data[:at] + raw + data[at + size :]


PLAIN: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    truncated, flipped, overwritten, cut_out, repeated, inserted, wrong_number,
)  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One damage, any of them."""
    return rng.choice(PLAIN)(data, rng) if data else rng.randbytes(16)


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """JSON (one document, or one a line) that stays JSON, with one to three other values.

    A value is replaced, taken out, put in twice, or made deep.
    """
    try:
        document = json.loads(data)
    except ValueError:  # one a line
        lines = data.splitlines()
        if len(lines) < 2:
            return mutate(data, rng)
        at = rng.randrange(len(lines))
        with suppress(ValueError):
            lines[at] = mutate_json(lines[at], rng)
        return b"\n".join(lines) + b"\n"
    for _ in range(rng.randint(1, 3)):
        document = _other(document, rng, rng.randint(1, 5))
    # Numbers such as NaN and 10**30 and half surrogates are written as they are.
    return json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _other(node: Any, rng: random.Random, depth: int) -> Any:
    """`node` with a value changed about `depth` levels down."""
    if depth == 0 or not isinstance(node, (dict, list)) or not node:
        if rng.random() < 0.02:
            return json.loads("[" * 900 + "]" * 900)
        return rng.choice(VALUES)
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = rng.choice(keys)
    kind = rng.random()
    changed = dict(node) if isinstance(node, dict) else list(node)
    if kind < 0.12:
        del changed[key]
    elif kind < 0.2 and isinstance(changed, list):
        changed.insert(key, changed[key])
    elif kind < 0.25 and isinstance(changed, dict):
        changed[rng.choice(("", "extra", "0", "..", str(key).upper()))] = rng.choice(VALUES)
    elif kind < 0.35 and len(keys) > 1:
        changed[key] = node[rng.choice(keys)]
    else:
        changed[key] = _other(node[key], rng, depth - 1)
    return changed
