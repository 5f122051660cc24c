"""File formats of tokenizers, one a module, which recognizes, reads and writes files.

A module defines `FORMAT`, a `Format`; an entry point of `modtok.formats` refers to another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import check_suffix
from modtok_cli.base.plugins import Plugins
from modtok_cli.tokenizer.segmenters.interface import Segmenter

if TYPE_CHECKING:
    from modtok_cli.tokenizer.protocol import Tokenizer


class Format(ABC):
    """A file format; the content tells what a file is, not its name.

    Attributes:
        suffixes: of files that are written in this format; () if it is only read.
        priority: formats are tried in ascending order.
        has_variants: whether `FILE#variant` names something that the file does not hold.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    priority: ClassVar[int] = 0
    has_variants: ClassVar[bool] = False

    @abstractmethod
    def recognizes(self, data: bytes) -> bool:
        """Whether a file with this content is of this format, whether valid or not."""

    @abstractmethod
    def read(self, data: bytes, name: str, where: str, variant: str | None) -> Tokenizer:
        """The tokenizer of a file; `where` is for messages."""

    def write(self, segmenter: Segmenter, provenance: Mapping[str, Any]) -> bytes:
        """The content of a file."""
        raise UsageError("this format is only read", remedy="write a .json")


def _as_format(name: str, found: Any) -> Format:
    if not isinstance(found, Format):
        raise TypeError(f"expected a Format, got {found!r}")
    return found


FORMATS = Plugins("modtok.formats", _as_format, __name__, "FORMAT")


@cache
def formats() -> Mapping[str, Format]:
    """Formats by name, in the order in which they are tried."""
    return dict(sorted(FORMATS.all().items(), key=lambda each: each[1].priority))


def format_of_content(data: bytes) -> Format | None:
    """The format of a file; one of another package that raises is left out with a warning."""
    for name, one in formats().items():
        try:
            if one.recognizes(data):
                return one
        except Exception as error:
            if name in FORMATS.own():
                raise
            FORMATS.warn(name, error)
    return None


def _by_suffix() -> dict[str, Format]:
    return {each: one for one in reversed(list(formats().values())) for each in one.suffixes}


def format_of(suffix: str) -> Format:
    """The format that is written to files with this suffix, such as ".json"."""
    known = _by_suffix()
    return known.get(suffix, known[""])


def suffix_of(file: Path) -> str:
    """The suffix, in small letters, of a file that a tokenizer is written to.

    Raises:
        UsageError: it names a format that is not written.
    """
    check_suffix(file, [*filter(None, _by_suffix())])
    return file.suffix.lower()
