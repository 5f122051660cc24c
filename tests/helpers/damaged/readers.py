"""Readers for `formats`: each does what a command would do with the file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT
from modtok_cli.construct.corpora import count_language
from modtok_cli.measure.morphology import Morphemes
from modtok_cli.model.architecture.stored_model import open_hf_directory
from modtok_cli.model.draft.list_files import read_list
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.text.corpus import count_corpus, read_tsv
from modtok_cli.text.readers import read_documents, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import load_counts, merge_files, read_header
from modtok_cli.tokenizer.adopted.adopt import adopt, read_tokenizer_file
from modtok_cli.training.recipe import read_recipe
from modtok_cli.training.settings import RunSettings


def documents(path: Path) -> None:
    """Documents of any language."""
    _compared(path, Reading())


def mixed(path: Path) -> None:
    """Documents of one language among others: those of the whole file that state it."""
    reading = Reading(lang_field="lang")
    texts = _compared(path, reading.of("fi"))
    every = read_documents(path, reading)
    stated = [each.text for each in every if (each.language or "").partition("-")[0] == "fi"]
    assert texts == stated, "documents of another language"


def _compared(path: Path, reading: Reading) -> list[bytes]:
    """The texts, read strictly; documents and spans agree in every way of reading.

    Raises:
        ModtokError: one of the ways does.
    """
    refused = None
    texts: list[bytes] = []
    for errors in ("skip", "replace", "strict"):
        each = replace(reading, errors=errors)
        try:
            texts = [document.text for document in read_documents(path, each)]
            for text in texts:
                text.decode()
            spans = [
                found.data[start:stop].tobytes()
                for found in read_spans(path, each)
                for start, stop in zip(found.starts, found.stops, strict=True)
            ]
        except ModtokError as error:
            refused = error
        else:
            assert texts == spans, "documents and spans differ"
    if refused:
        raise refused
    return texts


def counted(path: Path) -> None:
    """Words of a text."""
    count_corpus([path])


def counts(path: Path) -> None:
    """A count table as a learner reads it."""
    read_header(path)
    count_language("fi", [path], Reading(), SILENT)


def merged(path: Path) -> None:
    """A count table as `corpus count --memory` reads it: twice itself, in small windows."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "both.counts"
        merge_files([path, path], output, "fi", Path(scratch) / "parts", memory=4096)
        once, both = load_counts(path), load_counts(output)
    assert list(both.pairs()) == [(word, 2 * number) for word, number in once.pairs()]


def tsv(path: Path) -> None:
    """A count table as text."""
    read_tsv(path)


def morphemes(path: Path) -> None:
    """Segmented words, as `check --morphemes` reads them."""
    read = Morphemes(path, "fi")
    assert all(map(all, read.of("fi") or ())), "an empty morpheme"
    read.fingerprint("fi")


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
    assert (read_list(path, 1 << 20) >= 0).all()


def recipe(path: Path) -> None:
    """Options of a run."""
    RunSettings(**read_recipe(path))
