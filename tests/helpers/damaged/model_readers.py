"""Readers of published models and of what commands are told in files, for `formats`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from helpers.sample import SAMPLE
from modtok_cli.architectures.hf_directory import open_hf_directory
from modtok_cli.inference.hf.model_directory import ModelDirectory
from modtok_cli.inference.hf.slice import read_ids
from modtok_cli.modular.adopted.adopt import adopt, read_tokenizer_file
from modtok_cli.training.recipe import read_recipe
from modtok_cli.training.settings import RunSettings

TEXT = "A hübscher text, 1234 <s> καλημέρα\n\n def f(x): pass"


def adopted(path: Path) -> None:
    """A tokenizer that becomes modular, with the file of settings beside it."""
    made = adopt(path.parent, ["en"], data=SAMPLE / "data")
    names = read_tokenizer_file(path.parent).ids
    end = made.settings["end_of_text"]
    assert end is None or end in names
    subset = made.subset(["en"])
    ids = subset.encode(TEXT)
    subset.decode(ids)
    subset.to_json()


def sliced(path: Path) -> None:
    """A published model whose vocabulary is sliced to two tokens and those it needs."""
    model = ModelDirectory(path.parent)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "slice"
        made = model.slice(np.array([300, 301], dtype=np.int32), output, verify=False)
        again = ModelDirectory(output)
        assert again.vocab_size == len(made.ids)
        for name in made.tensors:
            whole, rows = (each.tensors[name].indices(0)[0] for each in (model, again))
            assert (whole[made.ids] == rows).all(), "other rows"


def transplanted(path: Path) -> None:
    """A model whose weights go into another one."""
    model = open_hf_directory(path.parent)
    assert model.shape.layers > 0
    model.token_id("bos_token_id", "eos_token_id")
    for name in model.backbone:
        assert model.backbone[name].dtype == torch.float32


def ids_to_keep(path: Path) -> None:
    """Token ids for a slice."""
    assert (read_ids(path) >= 0).all()


def recipe(path: Path) -> None:
    """Options of a run."""
    RunSettings(**read_recipe(path))
