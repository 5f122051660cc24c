"""A sentence in many languages for the page of `modtok explore`, written for this project."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def samples() -> dict[str, str]:
    """Language to sentence; the same content in each, so that numbers of tokens compare.

    >>> samples()["sw"]
    'Asubuhi tunakunywa kahawa na kusoma habari za mji kabla mvua haijaanza.'
    """
    text = files("modtok_cli.measure.explore").joinpath("samples.txt").read_text("utf-8")
    rows = (line.partition(" ") for line in text.splitlines())
    return {code: sentence for code, _, sentence in rows}
