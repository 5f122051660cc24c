"""Texts to measure on, by language.

The language of a document is, in this order: the one given by the caller, its `lang` field, the
one in its file name, or else the workspace language whose reference needs the fewest bits for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.references import References
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counter import WordCounter
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.labels import shortened, the_one
from modtok_cli.text.languages import canonical, label_of_path, normalize
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import files_in


@dataclass
class Text:
    """Part of a text argument that is in one language.

    `counts` are word counts of the BPE pre-tokenizer, `other_counts` those of others. `documents`
    are its documents in UTF-8, kept on request only.
    """

    name: str
    language: str
    counts: WordCounts
    documents: list[bytes] | None = None
    other_counts: dict[PreTokenizer, WordCounts] = field(default_factory=dict)

    def counts_for(self, pretokenizer: PreTokenizer | None) -> WordCounts | None:
        """Word counts of a pre-tokenizer; None if they were not counted."""
        if pretokenizer is self.counts.pretokenizer:
            return self.counts
        return self.other_counts.get(pretokenizer) if pretokenizer else None


class _Part:
    """Everything read of one language."""

    def __init__(self, pretokenizers: Iterable[PreTokenizer]) -> None:
        self.counters = {each: WordCounter(each) for each in pretokenizers}
        self.tables: list[WordCounts] = []
        self.documents: list[bytes] = []

    def add(self, documents: list[bytes], keep: bool) -> None:
        for counter in self.counters.values():
            counter.add_documents(documents)
        if keep:
            self.documents.extend(documents)

    def text(self, name: str, language: str, keep: bool) -> Text:
        counted = {each: counter.result() for each, counter in self.counters.items()}
        own = merge_counts([counted.pop(BPE), *self.tables])
        # Count tables hold one pre-tokenizer's words only: beside tables, other counts would be
        # incomplete.
        others = {} if self.tables else counted
        return Text(name, language, own, self.documents if keep else None, others)


def check_texts(sources: Sequence[Path | str]) -> None:
    """Check the texts before other work starts.

    Raises:
        ModtokError: a text does not exist, or its format is unknown.
    """
    for source in sources:
        files_in(source)


def load_texts(
    sources: Sequence[Path | str],
    *,
    language: str | None,
    references: References | None,
    keep_documents: bool,
    reading: Reading,
    progress: Progress,
    pretokenizers: Iterable[PreTokenizer | None] = (BPE,),
    unknown: str | None = None,
    known: Sequence[str] = (),
) -> list[Text]:
    """Read every source; one Text for each language in it.

    Words are counted for each of `pretokenizers`, besides that of BPE. Without `references`,
    documents of unknown language have the code `unknown`, or are an error if that is None. A
    text has the label of `known` (default: the references' languages) that fits its own.

    Raises:
        ModtokError: a source is missing, damaged or empty, or its language is unknown.
    """
    wanted = {BPE, *filter(None, pretokenizers), *pretokenizers_in(references)}
    texts: list[Text] = []
    known = known or (references.languages if references is not None else ())
    named = filter(None, (label_of_path(path) for source in sources for path in files_in(source)))
    labels = _Labels(known, shortened(named))
    for source in sources:
        parts: dict[str, _Part] = {}
        reader = _Reader(
            parts,
            list(wanted),
            language,
            references,
            keep_documents,
            reading,
            progress,
            labels,
            unknown,
        )
        files = files_in(source)
        for path in files:
            reader.read(path, may_be_empty=len(files) > 1)
        found = [parts[name].text(str(source), name, keep_documents) for name in sorted(parts)]
        if not any(len(text.counts) for text in found):
            raise ModtokError("contains no text", where=str(source))
        texts += found
    return texts


def pretokenizers_in(references: References | None) -> list[PreTokenizer]:
    """Pre-tokenizer of the references: that of the first, as they are trained together."""
    if references is None or not references.languages:
        return []
    return [references[references.languages[0]].tokenizer.pretokenizer]


@dataclass(frozen=True)
class _Labels:
    """Labels of texts: those of a tokenizer, or told apart by the names of all files."""

    known: Sequence[str]
    short: Mapping[str, str]

    def of(self, label: str | None) -> str | None:
        if label is None:
            return None
        return the_one(label, self.known) or self.short.get(label, normalize(label))


@dataclass
class _Reader:
    """Reads files and splits them by language."""

    parts: dict[str, _Part]
    pretokenizers: Sequence[PreTokenizer]
    language: str | None
    references: References | None
    keep: bool
    reading: Reading
    progress: Progress
    labels: _Labels
    unknown: str | None = None

    def part(self, name: str) -> _Part:
        return self.parts.setdefault(name, _Part(self.pretokenizers))

    def read(self, path: Path | str, may_be_empty: bool) -> None:
        own = canonical(self.language) if self.language else label_of_path(path)
        by_name = self.labels.of(own)
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
            path, self.reading, progress=self.progress, may_be_empty=may_be_empty
        )
        for document in documents:
            name = (self.language and by_name) or self.labels.of(document.language) or by_name
            (waiting if name is None else known.setdefault(name, [])).append(document.text)
            size += len(document.text)
            if size > 1 << 22:
                place()
                size = 0
        place()
        if found:
            ordered = sorted(found, key=lambda name: -found[name])
            languages = ", ".join(f"{name} {found[name]}" for name in ordered)
            self.progress.note(
                f"{path}: language identified per line: {languages} (use --lang to set it)"
            )

    def _identify(self, documents: list[bytes], found: dict[str, int], where: str) -> None:
        """Add documents to the languages whose references need the fewest bits."""
        if self.references is None and self.unknown is not None:
            self.part(self.unknown).add(documents, self.keep)
            return
        if self.references is None:
            raise ModtokError(
                "unknown language",
                where=where,
                remedy="put it into the file name (fr.txt), or pass it with --lang",
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
                "is a table of word counts; a tokenizer with another pre-tokenizer needs the text",
                where=str(path),
            )
        if name is None:
            raise ModtokError("unknown language", where=str(path), remedy="pass it with --lang")
        table = count_corpus([path], reading=self.reading, progress=self.progress)
        self.part(name).tables.append(table)
