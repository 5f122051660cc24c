"""Documents of a file by both ways of reading, which must agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.text.readers import read_documents, read_spans
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Document


def read(path: Path, *errors: Any, **reading: Any) -> tuple[list[Document], list[str]]:
    """Documents and warnings; arguments of `Reading`."""
    progress, chosen = Silent(), Reading(*errors, **reading)
    documents = list(read_documents(path, chosen, progress=progress))
    spans = [
        one.data[start:stop].tobytes()
        for one in read_spans(path, chosen)
        for start, stop in zip(one.starts, one.stops, strict=True)
    ]
    assert spans == [document.text for document in documents]
    return documents, progress.warnings


def failure(path: Path, *errors: Any, **reading: Any) -> str:
    """The one line that both ways of reading fail with, without the file's name."""
    messages = set()
    for way in (read_documents, read_spans):
        with pytest.raises(ModtokError) as caught:
            list(way(path, Reading(*errors, **reading)))
        messages.add(str(caught.value))
    (message,) = messages
    assert "\n" not in message
    assert message.startswith(str(path))
    return message[len(str(path)) :]
