"""Text with a document per line, in files of several names."""

from collections.abc import Iterator

import numpy as np

from modtok_cli.core.text import is_utf8
from modtok_cli.text.text_format import (
    PADDING,
    Document,
    Lines,
    Spans,
    TextFormat,
    TextReader,
    line_end_places,
)


class TextLines(TextReader):
    """Lines end at "\\n" only and are otherwise kept byte for byte."""

    def blocks(self) -> Iterator[Lines]:
        return self.lines()

    def documents(self, block: Lines) -> list[Document]:
        lines = block.data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        numbered = enumerate(lines, block.first)
        if is_utf8(block.data):
            return [Document(text, None, number) for number, text in numbered]
        checked = ((self.checked(text, number), number) for number, text in numbered)
        return [Document(text, None, number) for text, number in checked if text is not None]

    def spans(self, block: Lines) -> Spans:
        """Return the lines where they are."""
        data = np.frombuffer(block.data + PADDING, dtype=np.uint8)
        end = len(block.data)
        if not is_utf8(block.data):
            return super().spans(block)
        stops = line_end_places(data[:end])
        if not block.data.endswith(b"\n"):
            stops = np.append(stops, end)
        starts = np.zeros(len(stops), dtype=np.int64)
        starts[1:] = stops[:-1] + 1
        return Spans(data, starts, stops.astype(np.int64, copy=False))


FORMATS = (TextFormat((".txt", ".md", ".dev", ".devtest", ".test"), TextLines, fields=False),)
