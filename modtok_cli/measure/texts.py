"""Texts to measure on, by language.

The language of a document is, in this order: the one that the caller passes, its `lang` field, the
one in its file name, the one that most of its file is in (`text.identify`), or else the workspace
language whose reference needs the fewest bits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.references import References, identify
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounter, WordCounts, count_documents, merge_counts
from modtok_cli.text.file_labels import label_of_path
from modtok_cli.text.identify import identified
from modtok_cli.text.languages import Label, canonical, refuse_name, shortened, the_one
from modtok_cli.text.pretokenizer import BPE, PreTokenizer
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import files_in


@dataclass
class Text:
    """Part of a text argument that is in one language.

    `counts` are word counts of the BPE pre-tokenizer, `other_counts` of others. `documents`
    are its documents in UTF-8, on request only.
    """

    name: str
    language: str
    counts: WordCounts
    documents: list[bytes] | None = None
    other_counts: dict[PreTokenizer, WordCounts] = field(default_factory=dict)

    def counts_for(self, pretokenizer: PreTokenizer | None) -> WordCounts | None:
        """Return word counts of a pre-tokenizer; None if they were not counted."""
        if pretokenizer is self.counts.pretokenizer:
            return self.counts
        return self.other_counts.get(pretokenizer) if pretokenizer else None

    def like(self, documents: list[bytes]) -> Text:
        """Return other documents of the same name and language, with counts of the same kinds."""
        counts, *others = (count_documents([documents], each) for each in (BPE, *self.other_counts))
        return Text(
            self.name,
            self.language,
            counts,
            documents,
            dict(zip(self.other_counts, others, strict=True)),
        )


def check_texts(sources: Sequence[Path | str]) -> None:
    """Check that the texts exist, in known formats, before other work starts."""
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

    Words are counted for each of `pretokenizers`, besides BPE's. Without `references`,
    documents of unknown language have the code `unknown`, or are an error if that is None. A
    text has the label of `known` (default: the references' languages) that fits its own.

    Raises:
        ModtokError: a source is missing, damaged or empty, or its language is unknown.
        UsageError: `language` is a name, as French.
    """
    if language is not None:
        refuse_name(language)
    wanted = {BPE, *filter(None, pretokenizers)}
    if references is not None and references.languages:
        known = known or references.languages
        # They are trained together: the first tells the pre-tokenizer of all.
        wanted.add(references[references.languages[0]].tokenizer.pretokenizer)
    named = filter(None, (label_of_path(path) for source in sources for path in files_in(source)))
    short = shortened(named)

    def label(own: str | None) -> str | None:
        return own and (the_one(own, known) or short.get(own, Label.of(own).short))

    texts: list[Text] = []
    for source in sources:
        reader = _Reader(
            wanted, language, references, keep_documents, reading, progress, label, unknown
        )
        files = files_in(source, progress)
        for path in files:
            reader.read(path, may_be_empty=len(files) > 1)
        parts = [
            part.text(str(source), name, keep_documents)
            for name, part in sorted(reader.parts.items())
        ]
        if not any(len(text.counts) for text in parts):
            raise ModtokError("contains no text", where=source)
        texts += parts
    return texts


class _Part:
    def __init__(self, pretokenizers: Iterable[PreTokenizer]) -> None:
        self.counters = {each: WordCounter(each) for each in pretokenizers}
        self.tables: list[WordCounts] = []
        self.documents: list[bytes] = []

    def text(self, name: str, language: str, keep: bool) -> Text:
        counted = {each: counter.result() for each, counter in self.counters.items()}
        own = merge_counts([counted.pop(BPE), *self.tables])
        # Count tables hold one pre-tokenizer's words only: beside tables, other counts would be
        # incomplete.
        others = {} if self.tables else counted
        return Text(name, language, own, self.documents if keep else None, others)


@dataclass
class _Reader:
    pretokenizers: Iterable[PreTokenizer]
    language: str | None
    references: References | None
    keep: bool
    reading: Reading
    progress: Progress
    label: Callable[[str | None], str | None]
    unknown: str | None
    parts: dict[str, _Part] = field(default_factory=dict)

    def part(self, name: str) -> _Part:
        if name not in self.parts:
            self.parts[name] = _Part(self.pretokenizers)
        return self.parts[name]

    def add(self, name: str, documents: list[bytes]) -> None:
        part = self.part(name)
        for counter in part.counters.values():
            counter.add_documents(documents)
        if self.keep:
            part.documents.extend(documents)

    def read(self, path: Path | str, may_be_empty: bool) -> None:
        by_name = self.label(canonical(self.language) if self.language else label_of_path(path))
        if is_table(path):
            self._table(path, by_name)
            return
        by_reference: Counter[str] = Counter()
        batch: dict[str | None, list[bytes]] = {}
        size = 0

        @cache
        def of_file() -> str | None:
            return self.label(identified(path, self.reading, self.progress))

        def place() -> None:
            if unnamed := batch.pop(None, None):
                if name := of_file():
                    batch.setdefault(name, []).extend(unnamed)
                else:
                    self._identify(unnamed, by_reference, str(path))
            for name, documents in batch.items():
                assert name is not None
                self.add(name, documents)
            batch.clear()

        documents = read_documents(
            path, self.reading, progress=self.progress, may_be_empty=may_be_empty
        )
        for document in documents:
            name = (self.language and by_name) or self.label(document.language) or by_name
            batch.setdefault(name, []).append(document.text)
            size += len(document.text)
            if size > 1 << 22:
                place()
                size = 0
        place()
        if by_reference:
            languages = ", ".join(f"{name} {n}" for name, n in by_reference.most_common())
            self.progress.note(
                f"{path}: language identified per line: {languages} (use --lang to set it)"
            )

    def _identify(self, documents: list[bytes], found: Counter[str], where: str) -> None:
        """Add documents to the languages whose references need the fewest bits."""
        if self.references is None:
            if self.unknown is None:
                raise ModtokError(
                    "unknown language",
                    where=where,
                    remedy="put it into the file name (fr.txt), or pass it with --lang",
                )
            self.add(self.unknown, documents)
            return
        by_language: dict[str, list[bytes]] = {}
        names = identify(documents, self.references.all())
        for document, name in zip(documents, names, strict=True):
            by_language.setdefault(name, []).append(document)
        for name, own in by_language.items():
            found[name] += len(own)
            self.add(name, own)

    def _table(self, path: Path | str, name: str | None) -> None:
        if self.keep:
            raise ModtokError(
                "is a table of word counts; this needs the text",
                where=path,
            )
        if name is None:
            raise ModtokError("unknown language", where=path, remedy="pass it with --lang")
        table = count_corpus([path], reading=self.reading, progress=self.progress)
        self.part(name).tables.append(table)
