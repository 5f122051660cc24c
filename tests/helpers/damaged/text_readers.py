"""Readers of text and of tables for `formats`: each does what a command would do with the file."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT
from modtok_cli.construct.corpora import count_language
from modtok_cli.measure.morphology import Morphemes
from modtok_cli.text.corpus import count_corpus, read_tsv
from modtok_cli.text.readers import read_documents, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import load_counts, merge_files, read_header


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
