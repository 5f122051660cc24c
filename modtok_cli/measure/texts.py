"""Texts to measure on, by language.

The language of a document is, in this order: the one the caller names, its `lang` field,
its file's name, and else the workspace language whose reference describes it in the
fewest bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.references import References
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counter import WordCounter
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.languages import language_of_path, normalize
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.readers import read_documents
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import files_in


@dataclass
class Text:
    """The part of a text argument that is in one language.

    `counts` are its words as BPE cuts them, `other_counts` those of other pre-tokenizers;
    `documents` are its documents in UTF-8, kept only where asked for.
    """

    name: str
    language: str
    counts: WordCounts
    documents: list[bytes] | None = None
    other_counts: dict[str, WordCounts] = field(default_factory=dict)

    def counts_for(self, scheme: str | None) -> WordCounts | None:
        """Its words as a pre-tokenizer cuts them; None where they were not counted."""
        if scheme == self.counts.scheme:
            return self.counts
        return self.other_counts.get(scheme) if scheme else None


class _Part:
    """What is read of one language."""

    def __init__(self, schemes: Iterable[str]) -> None:
        self.counters = {scheme: WordCounter(scheme) for scheme in schemes}
        self.tables: list[WordCounts] = []
        self.documents: list[bytes] = []

    def add(self, documents: list[bytes], keep: bool) -> None:
        for counter in self.counters.values():
            counter.add_documents(documents)
        if keep:
            self.documents.extend(documents)

    def text(self, name: str, language: str, keep: bool) -> Text:
        counted = {scheme: counter.result() for scheme, counter in self.counters.items()}
        own = merge_counts([counted.pop(BPE), *self.tables])
        # Counts of other schemes cover no tables, so beside tables they would be too few.
        others = {} if self.tables else counted
        return Text(name, language, own, self.documents if keep else None, others)


def check_texts(sources: Sequence[Path | str]) -> None:
    """Are the texts there? Asked first: a slip in their names costs no other work.

    Raises:
        ModtokError: one is missing, or its name does not tell how it is stored.
    """
    for source in sources:
        files_in(source)


def load_texts(
    sources: Sequence[Path | str],
    *,
    language: str | None,
    references: References | None,
    keep_documents: bool,
    errors: str,
    progress: Progress,
    schemes: Iterable[str | None] = (BPE,),
) -> list[Text]:
    """Read every source, a Text for each language in it.

    `schemes` are the pre-tokenizers to count words by, beside that of BPE. Without
    `references`, documents whose language nothing tells are refused.

    Raises:
        ModtokError: a source is missing, damaged or empty, or its language is not known.
    """
    wanted = sorted({BPE, *(scheme for scheme in schemes if scheme), *schemes_in(references)})
    texts: list[Text] = []
    for source in sources:
        parts: dict[str, _Part] = {}
        reader = _Reader(parts, wanted, language, references, keep_documents, errors, progress)
        files = files_in(source)
        for path in files:
            reader.read(path, may_be_empty=len(files) > 1)
        found = [parts[name].text(str(source), name, keep_documents) for name in sorted(parts)]
        if not any(len(text.counts) for text in found):
            raise ModtokError("holds no text", where=str(source))
        texts += found
    return texts


def schemes_in(references: References | None) -> list[str]:
    """The pre-tokenizer of the references: that of the first, since they come together."""
    if references is None or not references.languages:
        return []
    scheme = references[references.languages[0]].tokenizer.scheme
    return [scheme] if scheme else []


@dataclass
class _Reader:
    """Reads files into parts."""

    parts: dict[str, _Part]
    schemes: Sequence[str]
    language: str | None
    references: References | None
    keep: bool
    errors: str
    progress: Progress

    def part(self, name: str) -> _Part:
        return self.parts.setdefault(name, _Part(self.schemes))

    def read(self, path: Path | str, may_be_empty: bool) -> None:
        by_name = normalize(self.language) if self.language else language_of_path(path)
        if is_table(path):
            self._table(path, by_name)
            return
        waiting: list[bytes] = []
        known: dict[str, list[bytes]] = {}
        found: dict[str, int] = {}
        size = 0

        def place() -> None:
            if waiting:
                self._identify(waiting, found, str(path))
            for name, documents in known.items():
                self.part(name).add(documents, self.keep)
            waiting.clear()
            known.clear()

        documents = read_documents(
            path, self.errors, progress=self.progress, may_be_empty=may_be_empty
        )
        for document in documents:
            name = (self.language and by_name) or document.language or by_name
            (waiting if name is None else known.setdefault(name, [])).append(document.text)
            size += len(document.text)
            if size > 1 << 22:
                place()
                size = 0
        place()
        if found:
            ordered = sorted(found, key=lambda name: -found[name])
            told = ", ".join(f"{name} {found[name]}" for name in ordered)
            self.progress.note(
                f"{path}: language identified per line: {told} (--lang names it instead)"
            )

    def _identify(self, documents: list[bytes], found: dict[str, int], where: str) -> None:
        """Add documents to the languages that describe them best."""
        if self.references is None:
            raise ModtokError(
                "does not say its language",
                where=where,
                remedy="name the file after it (fr.txt), or name it with --lang",
            )
        from modtok_cli.measure.identify import identify

        by_language: dict[str, list[bytes]] = {}
        for document, name in zip(
            documents, identify(documents, self.references.all()), strict=True
        ):
            by_language.setdefault(name, []).append(document)
        for name, those in by_language.items():
            found[name] = found.get(name, 0) + len(those)
            self.part(name).add(those, self.keep)

    def _table(self, path: Path | str, name: str | None) -> None:
        if self.keep:
            raise ModtokError(
                "is a table of word counts; a tokenizer that cuts words differently needs the text",
                where=str(path),
            )
        if name is None:
            raise ModtokError(
                "does not say its language", where=str(path), remedy="name it with --lang"
            )
        table = count_corpus([path], errors=self.errors, progress=self.progress)
        self.part(name).tables.append(table)
