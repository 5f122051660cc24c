"""The card of a model that was made from another one, and what the other's card states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from modtok_cli.base.extras import is_installed
from modtok_cli.base.hub import is_hub_name, name_of
from modtok_cli.tokenizer.model_card import BASE_README, README, Card, is_own, readme

_STATED = ("license", "license_name", "license_link", "base_model", "pipeline_tag")
LOAD = """\
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

model = AutoModelForCausalLM.from_pretrained("NAME")  # this directory, or its name on the hub
tokenizer = PreTrainedTokenizerFast.from_pretrained("NAME")"""


def stated(model: Path) -> dict[str, Any]:
    """What is known of a model: its name on the hub, and license and task by its card."""
    fields: dict[str, Any] = {}
    if (model / README).is_file() and is_installed("huggingface_hub"):
        from huggingface_hub import ModelCard

        try:
            data = ModelCard.load(model / README, ignore_metadata_errors=True).data.to_dict()
        except (ValueError, OSError):  # no UTF-8, or metadata that are no YAML
            data = {}
        fields = {name: data[name] for name in _STATED if data.get(name)}
    name = name_of(model).partition("@")[0]
    if name != str(model) and is_hub_name(name):
        fields["base_model"] = name
    return fields


def write_derived(
    card: Card, model: Path, beside: Path, output: Path, *, left_out: Sequence[str] = ()
) -> None:
    """Write the card of a model that was made from `model` to the directory `beside`.

    The card of `model` stays beside it by another name, unless modtok wrote it.
    """
    theirs = beside / README
    if theirs.is_file() and not is_own(theirs.read_text("utf-8", errors="replace")):
        theirs.replace(beside / BASE_README)
    metadata = {**stated(model), **card.metadata}
    about = card.about
    if (beside / BASE_README).is_file():
        about += f" The card of that model is {BASE_README}."
    left_out = [name for name in left_out if name != README]
    card = replace(card, about=about, metadata=metadata, left_out=left_out)
    theirs.write_bytes(readme(card, output))


def shown_name(model: Path) -> str:
    """The name of a model in a card: that of the hub, or of its directory without its place."""
    name = name_of(model).partition("@")[0]
    return name if name != str(model) else model.resolve().name
