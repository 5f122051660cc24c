"""Readers of published models and of what commands are told in files, for `formats`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.sample import SAMPLE

TEXT = "A hübscher text, 1234 <s> καλημέρα\n\n def f(x): pass"


def adopted(path: Path) -> None:
    """A tokenizer that becomes modular, with the file of settings beside it."""
    from modtok_cli.modular.adopted.adopt import adopt, read_tokenizer_file

    made = adopt(path.parent, ["en"], data=SAMPLE / "data")
    names = read_tokenizer_file(path.parent).ids
    end = made.settings["end_of_text"]
    assert end is None or end in names
    subset = made.subset(["en"])
    ids = subset.encode(TEXT)
    subset.decode(ids)
    subset.to_json()


def adopted_directory(path: Path) -> None:
    """A modular directory of a tokenizer that was adopted."""
    from modtok_cli.modular.tokenizer import ModularTokenizer

    tokenizer = ModularTokenizer.load(path.parent)
    for name in tokenizer.languages:
        subset = tokenizer.subset([name])
        assert subset.decode(subset.encode(TEXT)) == TEXT, "does not give the text back"
        subset.to_json()


def sliced(path: Path) -> None:
    """A published model whose vocabulary is sliced to two tokens and those it needs."""
    import numpy as np

    from modtok_cli.inference.hf.model_directory import ModelDirectory

    model = ModelDirectory(path.parent)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "slice"
        made = model.slice(np.array([300, 301], dtype=np.int32), output, verify=False)
        again = ModelDirectory(output)
        assert again.vocab_size == len(made.ids)
        for name in made.tensors:
            whole, rows = model.weights.rows(name), again.weights.rows(name)
            assert (whole[made.ids] == rows).all(), "other rows"


def transplanted(path: Path) -> None:
    """A model whose weights go into another one."""
    import torch

    from modtok_cli.architectures.hf_directory import open_hf_directory

    model = open_hf_directory(path.parent)
    assert model.shape.layers > 0
    model.token_id("bos_token_id", "eos_token_id")
    for name in model.backbone:
        assert model.backbone[name].dtype == torch.float32


def ids_to_keep(path: Path) -> None:
    """Token ids for a slice."""
    from modtok_cli.inference.hf.slice import read_ids

    assert (read_ids(path) >= 0).all()


def recipe(path: Path) -> None:
    """Options of a run."""
    from modtok_cli.training.recipe import read_recipe
    from modtok_cli.training.settings import RunSettings

    RunSettings(**read_recipe(path))
