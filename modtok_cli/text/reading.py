"""How text is read: the field of the text, the field of the language, invalid UTF-8."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Declared, option, options_of
from modtok_cli.text.languages import canonical

LONGEST = 1 << 28
"""Bytes of the longest document that is read: a gigabyte without a line end may be kilobytes of
compressed file, and would be held in memory several times."""
PANEL = "Reading text"  # title of these options in help


class Renderer(Protocol):
    """Makes the text of a document from a field that is no string."""

    @property
    def key(self) -> str:
        """Digest of what changes a text."""

    def __call__(self, value: Any, where: str) -> bytes:
        """Return the text; `where` is the place of the document, for errors."""


@dataclass(frozen=True)
class Reading(Declared):
    """How text is read: the options of every command that reads text.

    Attributes:
        errors: text that is not UTF-8 is an error ("strict"), gets U+FFFD for invalid bytes
            ("replace"), or is left out ("skip"), as lines of JSON that hold no text are then.
        field: field or column of the text. `a.b` is field `b` of the object in field `a`, unless
            there is a field of the whole name.
        lang_field: field of a document's language. None: `lang`, and the languages of a
            workspace are those in file names only.
        language: with `lang_field`, leave out documents of other languages.
        source_fields: fields of where a document comes from; the first that it has is used.
        longest: bytes of the longest document; longer ones are an error, or left out with "skip".
        renderer: makes the text from the value of `field` in JSON lines.
    """

    errors: Literal["strict", "replace", "skip"] = option(
        "Invalid UTF-8: fail, replace with U+FFFD, or skip the document. Also an invalid line of "
        "JSON.",
        default="strict",
        panel=PANEL,
    )
    field: str = option(
        "Field or column of the text. In JSON, Parquet, CSV and Arrow files; a.b if nested.",
        default="text",
        metavar="NAME",
        panel=PANEL,
    )
    lang_field: str | None = option(
        "Field with the language of each document. For files of several languages.",
        metavar="NAME",
        panel=PANEL,
    )
    language: str | None = None
    source_fields: tuple[str, ...] = ()
    longest: int = LONGEST
    renderer: Renderer | None = None

    def __post_init__(self) -> None:
        for option_name, each in options_of(Reading).items():
            if getattr(self, option_name) is None:
                object.__setattr__(self, option_name, each.default)
        super().__post_init__()
        fields = (("--field", self.field), ("--lang-field", self.lang_field))
        for flag, name in fields:
            if name is not None and not all(name.split(".")):
                raise UsageError(
                    f"'{name}' is not the name of a field", where=flag, remedy="as in: text, a.text"
                )
        if self.field == self.lang_field:
            raise UsageError("is the field of the text", where="--lang-field")

    @property
    def language_field(self) -> str | None:
        """The field of a document's language; None if the field of the text has its name."""
        return self.lang_field or (None if self.field == "lang" else "lang")

    def of(self, language: str) -> Reading:
        """Return the same options for the text of one language in a workspace."""
        return replace(self, language=canonical(language)) if self.lang_field else self

    def as_json(self) -> dict[str, str | int | None]:
        """Return the options that change the documents of a file, for keys of stored results."""
        fields = {"errors": self.errors, "field": self.field, "lang_field": self.lang_field}
        limit = {"longest": self.longest} if self.longest != LONGEST else {}
        renderer = {"renderer": self.renderer.key} if self.renderer else {}
        sources = {"sources": ",".join(self.source_fields)} if self.source_fields else {}
        return {**fields, **limit, **renderer, **sources}
