"""How text is read: the field of the text, the field of the language, invalid UTF-8."""

from __future__ import annotations

from dataclasses import dataclass, replace

from modtok_cli.base.errors import UsageError
from modtok_cli.text.languages import canonical

ERRORS = ("strict", "replace", "skip")


@dataclass(frozen=True, slots=True)
class Reading:
    """Settings of every reader.

    Attributes:
        errors: text that is not UTF-8 is an error ("strict"), gets U+FFFD for invalid bytes
            ("replace"), or is left out ("skip").
        field: field or column of the text. `a.b` is field `b` of the object in field `a`, unless
            there is a field of the whole name.
        lang_field: field of a document's language. None: `lang`, and the languages of a
            workspace are those in file names only.
        language: with `lang_field`, leave out documents of other languages.
    """

    errors: str = "strict"
    field: str = "text"
    lang_field: str | None = None
    language: str | None = None

    def __post_init__(self) -> None:
        if self.errors not in ERRORS:
            raise UsageError(f"'{self.errors}' is not one of {', '.join(ERRORS)}", where="--errors")
        for flag, name in (("--field", self.field), ("--lang-field", self.lang_field)):
            if name is not None and not all(name.split(".")):
                raise UsageError(
                    f"'{name}' is not the name of a field", where=flag, remedy="as in: text, a.text"
                )
        if self.field == self.lang_field:
            raise UsageError("is the field of the text", where="--lang-field")

    @property
    def language_field(self) -> str | None:
        """The field of a document's language; None if that of the text has its name."""
        return self.lang_field or (None if self.field == "lang" else "lang")

    def of(self, language: str) -> Reading:
        """The same for the text of one language in a workspace."""
        return replace(self, language=canonical(language)) if self.lang_field else self

    def as_json(self) -> dict[str, str | None]:
        """What changes the documents of a file, for keys of stored results."""
        return {"errors": self.errors, "field": self.field, "lang_field": self.lang_field}
