"""JSON lines: an object per line, with the text in one of its fields."""

import json
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from typing import Any

import numpy as np
import orjson

from modtok_cli.core.text import is_utf8
from modtok_cli.text.text_format import (
    BOM,
    PADDING,
    Document,
    Lines,
    Spans,
    TextFormat,
    TextReader,
    is_prose,
    value_of,
)

_EXAMPLE = 'a line is an object such as {"text": "..."}'


class JsonLines(TextReader):
    """Blank lines are passed over."""

    def blocks(self) -> Iterator[Lines]:
        for number, block in enumerate(self.lines()):
            if not number and b'"%b"' % self.reading.field.encode() not in block.data:
                self._look(block.data)
            yield block

    def _look(self, begin: bytes) -> None:
        """Find the text in the first object of a file without the field."""
        with suppress(ValueError):  # it is damaged, as the reader says later
            record = orjson.loads(begin.lstrip().partition(b"\n")[0])
            if isinstance(record, dict):
                self.take_field(name for name, value in record.items() if is_prose(value))

    def documents(self, block: Lines) -> list[Document]:
        documents = []
        for number, text in enumerate(block.data.split(b"\n"), block.first):
            document = self._document(text, number)
            if document is not None:
                documents.append(document)
        return documents

    def spans(self, block: Lines) -> Spans:
        """Return the texts by the core, which leaves unusual lines to the slow one."""
        from modtok_cli.core.text import read_json_lines

        field, lang_field = self.reading.field, self.reading.language_field
        # The core does not look into objects and does not tell languages apart.
        alone = self.reading.language is None and self.reading.renderer is None
        if "." in field or "." in (lang_field or "") or not alone:
            return super().spans(block)
        out, starts, stops, doubts = read_json_lines(block.data, field, lang_field or "")
        texts, doubtful = len(starts), len(doubts)
        self.seen += texts - doubtful
        if not doubtful:
            return Spans(out, starts, stops)
        # Lines that the core left are parsed by the slow path and appended.
        end = len(block.data)
        pieces: list[memoryview | bytes] = [out[:end].data]
        valid = np.ones(texts, dtype=np.bool_)
        for text, number, begin, stop in doubts.tolist():
            document = self._document(block.data[begin:stop], block.first + number)
            if document is None:
                valid[text] = False
                continue
            pieces.append(document.text)
            starts[text], stops[text] = end, end + len(document.text)
            end += len(document.text)
        data = np.frombuffer(b"".join([*pieces, PADDING]), dtype=np.uint8)
        return Spans(data, starts[valid], stops[valid])

    def _document(self, raw: bytes, line: int) -> Document | None:
        if not raw.strip():
            return None
        try:
            record: Any = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            repaired = self._decode_again(raw, error, line)
            if repaired is None:
                return None
            record = repaired
        if not isinstance(record, dict):
            self.damaged("not a JSON object", line, _EXAMPLE)
            return None
        is_there, text = value_of(record, self.reading.field)
        if text is None:
            self.lacks_text(line, None if is_there else record)
            return None
        if self.reading.renderer is not None:
            text = self.reading.renderer(text, f"{self.name}:{line}")
        elif not isinstance(text, str):
            kind = type(text).__name__
            self.damaged(f"field '{self.reading.field}' is {kind}, not a string", line, _EXAMPLE)
            return None
        lang_field = self.reading.language_field
        stated = None if lang_field is None else value_of(record, lang_field)[1]
        language = self.language(stated, line)
        if not self.is_wanted(language, line):
            return None
        encoded = text if isinstance(text, bytes) else text.encode()
        return Document(encoded, language, line, self.source_of(record))

    def _decode_again(self, raw: bytes, error: orjson.JSONDecodeError, line: int) -> Any:
        """Return the record of `raw` as Python's parser has it, by `errors`; None to skip it.

        Numbers that are not finite, which many programs write, are null. Invalid characters are
        bytes that are not UTF-8, and escapes of lone surrogates, which UTF-8 cannot encode.
        """
        try:
            plain = json.loads(
                raw.decode(errors="replace"), parse_constant=lambda _: None, parse_float=_finite
            )
            text = json.dumps(plain, ensure_ascii=False)
            whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            repaired = orjson.loads(whole)
        except ValueError:
            what = f"not JSON ({error.msg}, column {error.colno})"
            self.damaged(what, line, "expected one JSON object per line; fix or delete the line")
            return None
        except RecursionError:
            self.damaged("JSON nested too deeply", line)
            return None
        if not is_utf8(raw):
            what = "not UTF-8"
        elif whole != text:
            what = "escape of a lone surrogate"
        else:
            return repaired
        return None if self.repair(lambda: raw, what, line) is None else repaired


def _finite(text: str) -> float | None:
    return number if isfinite(number := float(text)) else None


def _begins(begin: bytes) -> bool:
    return begin.removeprefix(BOM).lstrip()[:1] == b"{"


FORMATS = (
    TextFormat((".jsonl", ".ndjson"), JsonLines, packed_suffixes=(".json",), begins=_begins),
)
