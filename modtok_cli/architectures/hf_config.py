"""Fields of a `config.json` of transformers, version 4 or 5, checked as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modtok_cli.architectures.rope import RopeScaling
from modtok_cli.base.errors import ModtokError


def count(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number.

    Raises:
        ModtokError: it is missing and has no default, or is something else.
    """
    value = config.get(name)
    value = default if value is None else value
    if type(value) is not int:
        raise ModtokError(f"field '{name}' is {value!r}, expected a whole number")
    return value


def number(config: Mapping[str, Any], name: str, default: float | None = None) -> float:
    """A number.

    Raises:
        ModtokError: it is missing and has no default, or is something else.
    """
    value = config.get(name)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ModtokError(f"field '{name}' is {value!r}, expected a number")
    return float(value)


def rope(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Base and scaling of the rotary embeddings.

    Version 5 has "rope_parameters"; version 4 has "rope_theta" and "rope_scaling".

    Raises:
        ModtokError: a kind of scaling that is not supported.
    """
    fields = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(fields, Mapping):
        raise ModtokError("the field for rotary embeddings is not an object")
    theta = number({**config, **fields}, "rope_theta", 10_000.0)
    if number({**config, **fields}, "partial_rotary_factor", 1.0) != 1:
        raise ModtokError("field 'partial_rotary_factor' is not 1, which is not supported")
    kind = fields.get("rope_type", fields.get("type", "default"))
    if kind == "default":
        return theta, None
    if kind == "linear":
        return theta, RopeScaling(kind, number(fields, "factor"))
    if kind == "llama3":
        return theta, RopeScaling(
            kind,
            number(fields, "factor"),
            number(fields, "low_freq_factor"),
            number(fields, "high_freq_factor"),
            count(fields, "original_max_position_embeddings"),
        )
    raise ModtokError(f"rotary scaling '{kind}' is not supported")


def rope_arguments(theta: float, scaling: RopeScaling | None) -> dict[str, Any]:
    """Field "rope_parameters" of a transformers configuration.

    >>> rope_arguments(1e5, None)
    {'rope_type': 'default', 'rope_theta': 100000.0}
    """
    if scaling is None:
        return {"rope_type": "default", "rope_theta": float(theta)}
    fields = {"rope_type": scaling.kind, "rope_theta": float(theta), "factor": scaling.factor}
    if scaling.kind == "llama3":
        fields |= {
            "low_freq_factor": scaling.low_frequency_factor,
            "high_freq_factor": scaling.high_frequency_factor,
            "original_max_position_embeddings": scaling.original_context,
        }
    return fields
