"""Whether the files of a model hold every tensor that its architecture needs.

transformers fills a missing tensor with random numbers. So it is asked which ones are missing: it
loads the model on the meta device, from names and shapes alone, by its own rules for tied tables,
buffers that are not stored, renamed and joined tensors. No weights are read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import quiet, require, transformers
from modtok_cli.model.architecture.stored_model import HfDirectory, not_opened, open_config
from modtok_cli.model.architecture.stored_tensors import StoredTensor

# Parts of a quantized matrix that need one of others beside them; so do weights of 8 bits.
_COMPANIONS: Mapping[str, Sequence[str]] = {
    "weight_packed": ("weight_scale",),
    "qweight": ("scales",),
    "absmax": ("quant_map",),
}
_EXPERT = re.compile(r"(.*\.experts)\.(\d+)\.(.*)")
_SCALES = ("weight_scale", "weight_scale_inv", "scales")


def model_class(config: Any) -> Any:
    """The class of transformers that a configuration names, or the one that generates text."""
    for name in getattr(config, "architectures", None) or ():
        if isinstance(kind := getattr(transformers(), name, None), type):
            return kind
    return transformers().AutoModelForCausalLM


def quantization(config: Mapping[str, Any]) -> str | None:
    """The method of a model with quantized weights, as its configuration names it."""
    field = config.get("quantization_config")
    if not field:
        return None
    return str(field.get("quant_method") or "unknown") if isinstance(field, Mapping) else "unknown"


def check_complete(directory: HfDirectory) -> None:
    """Check that every tensor that the architecture needs is in the files, with its shape.

    A model that transformers does not build is checked by its index alone.

    Raises:
        ModtokError: it names a tensor that is missing or has another shape.
    """
    stored = directory.tensors  # checks the index
    method = quantization(directory.config)
    if method is not None:
        _check_companions(directory, stored)
    require("opening a model", lm=("torch", "accelerate"))
    try:
        config = open_config(directory.path)
        kind = _class_of(config)
    except Exception:  # each architecture refuses in its own way, and so does what loads it
        return
    try:
        missing, other = _by_transformers(kind, config, stored)
    except Exception as error:  # as above
        if method is not None:
            return
        if absent := _absent_experts(stored):
            raise missing_tensor(directory, absent) from error
        raise not_opened(directory.path, error) from error
    if method is not None:  # by other names, but in the same modules
        modules = {".".join(parts[:stop]) for name in stored
                   for parts in [name.split(".")] for stop in range(1, len(parts))}  # fmt: skip
        missing = [name for name in missing if name.rpartition(".")[0] not in modules]
        other = []
    if missing := missing or (_absent_experts(stored) if other else []):
        raise missing_tensor(directory, missing)
    if other:
        name, found, expected = other[0]
        raise ModtokError(
            f"tensor '{name}' is {tuple(found)}, config.json says {tuple(expected)}",
            where=directory.path,
            remedy="save the model again",
        )


def missing_tensor(directory: HfDirectory, names: Iterable[str]) -> ModtokError:
    """The error of tensors that no file has."""
    first, *others = sorted(names)
    more = f", as {len(others):,} others" if others else ""
    return ModtokError(
        f"tensor '{first}' is missing{more}: no file of weights has it",
        where=directory.path,
        remedy="download or save the model again",
    )


def _class_of(config: Any) -> Any:
    """The class of the model, which transformers builds."""
    import torch

    kind = model_class(config)
    if not isinstance(config, getattr(kind, "config_class", None) or type(config)):
        raise TypeError("configuration of another class")
    with quiet(), torch.device("meta"):
        whole = kind(config) if hasattr(kind, "base_model_prefix") else kind.from_config(config)
    return type(whole)


def _by_transformers(
    kind: Any, config: Any, stored: Mapping[str, StoredTensor]
) -> tuple[list[str], list[Any]]:
    """Names that are missing, and (name, shape, expected shape) of others."""
    import torch

    if hasattr(config, "quantization_config"):
        del config.quantization_config
    state = {name: torch.empty(each.shape, device="meta") for name, each in stored.items()}
    with quiet():
        info = kind.from_pretrained(
            None,
            config=config,
            state_dict=state,
            device_map={"": "meta"},
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )[1]
    return sorted(info["missing_keys"]), sorted(info["mismatched_keys"])


def _absent_experts(stored: Iterable[str]) -> list[str]:
    """Tensors that some experts of a layer have and others do not: loading joins them."""
    layers = defaultdict[str, set[tuple[str, str]]](set)
    for name in stored:
        if match := _EXPERT.fullmatch(name):
            layers[match[1]].add((match[2], match[3]))
    return [
        f"{layer}.{index}.{part}"
        for layer, found in layers.items()
        for index, part in product(*map(set, zip(*found, strict=True)))
        if (index, part) not in found
    ]


def _check_companions(directory: HfDirectory, stored: Mapping[str, StoredTensor]) -> None:
    """Check that quantized matrices have the scales that they need."""
    for name, tensor in stored.items():
        module, _, part = name.rpartition(".")
        needed: Sequence[str] = _COMPANIONS.get(part, ())
        if part == "weight" and tensor.dtype.startswith("F8"):
            needed = _SCALES
        if needed and not any(f"{module}.{companion}" in stored for companion in needed):
            raise missing_tensor(directory, [f"{module}.{needed[0]}"])
