"""Sources of token lists: the tokens of a tokenizer or a model, and their use in text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from zlib import crc32

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.kinds import MODEL, SLICE, model_kind
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.parallel import read_each
from modtok_cli.text.readers import read_batches
from modtok_cli.text.reading import Reading
from modtok_cli.text.streams import Advance
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.adopted.adopt import as_library
from modtok_cli.tokenizer.adopted.segmenter import ADOPTED_ROWS, Library
from modtok_cli.tokenizer.manifest import read_manifest
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.open import open_bytes, open_tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

HELD_OUT = 10  # a document in so many is held out


@dataclass(frozen=True)
class DraftVocabulary:
    """The tokens that a model writes.

    Attributes:
        name: what the user gave.
        tokenizer: encodes text into these ids.
        tokens: (V,) bool, which ids are tokens; the others are gaps.
        needed: (V,) bool: bytes, special tokens, and tokens that a chat template names.
        rows: rows of the model's output matrix, filler included; None if not known.
        width: hidden size of the model; None if not known.
        languages: languages of a modular tokenizer.
    """

    name: str
    tokenizer: Subtokenizer
    tokens: BoolArray
    needed: BoolArray
    rows: int | None = None
    width: int | None = None
    languages: tuple[str, ...] = ()

    @staticmethod
    def open(model: str, progress: Progress = SILENT) -> DraftVocabulary:
        """The vocabulary of a model's directory, or of anything that `open_tokenizer` takes.

        Raises:
            UsageError: it does not exist, or is another thing.
            ModtokError: a file is damaged.
        """
        path = Path(model)
        if model_kind(path, weights=False) in (SLICE, MODEL):
            return _of_model(path)
        tokenizer = as_library(open_tokenizer(model, progress=progress), progress)
        segmenter, rows = tokenizer.segmenter, None
        if is_modular(path):
            adopted = isinstance(segmenter, Library)
            rows = read_manifest(path).settings.get(ADOPTED_ROWS) if adopted else tokenizer.size
        return DraftVocabulary(
            model,
            tokenizer,
            tokens=np.array([*map(bool, segmenter.names)]),
            needed=segmenter.needed,
            rows=rows,
            languages=tokenizer.languages,
        )

    def count(
        self,
        data: Path,
        languages: Sequence[str] | None,
        *,
        reading: Reading = Reading(),
        hold_out: bool = False,
        progress: Progress = SILENT,
    ) -> dict[str, tuple[Int64Array, Int64Array]]:
        """How often text of each language has each token: the kept text, the held-out text.

        Each (V,) int64. With `hold_out`, documents with a CRC-32 that is a multiple of ten are held
        out: copies of a document are on one side.

        Raises:
            ModtokError: a language without text on one of the sides.
        """
        files = language_files(data, languages, reading, known=self.languages, progress=progress)
        counts = read_each(
            lambda name, advance: self._counted(
                files[name], reading.of(name), hold_out, progress, advance
            ),
            sorted(files),
            files=[file for name in sorted(files) for file in files[name]],
            label="counting tokens",
            threads=None,
            progress=progress,
        )
        used = dict(zip(sorted(files), counts, strict=True))
        for name, (kept, held) in used.items():
            if not kept.any() and not (hold_out and held.any()):
                raise ModtokError(
                    f"the text of language '{name}' is empty",
                    where=data,
                    remedy="add text, or omit the language from --langs",
                )
            if not kept.any() or (hold_out and not held.any()):
                raise ModtokError(
                    f"language '{name}' has too few documents to hold out a tenth of them",
                    where=data,
                    remedy="give other text with --test",
                )
        return used

    def first_texts(
        self,
        data: Path,
        languages: Sequence[str],
        count: int,
        *,
        reading: Reading = Reading(),
        held_out: bool = False,
        progress: Progress = SILENT,
    ) -> dict[str, list[Int32Array]]:
        """Ids of the first documents of each language with two tokens or more, (n,) int32 each.

        With `held_out`, of those that `count` holds out.
        """
        files = language_files(data, languages, reading, known=self.languages, progress=progress)
        return {
            name: [*islice(self._texts(files[name], reading.of(name), held_out, progress), count)]
            for name in languages
        }

    def _texts(
        self, files: Sequence[Path], reading: Reading, held_out: bool, progress: Progress
    ) -> Iterator[Int32Array]:
        for file in files:
            if is_table(file):
                raise UsageError(
                    "word counts have no documents to continue",
                    where=file,
                    remedy="give other text with --test",
                )
            for batch in read_batches(file, reading, progress=progress, may_be_empty=True):
                for text in (document.text for document in batch):
                    if held_out and not _is_out(text):
                        continue
                    ids, _ = self.tokenizer.encode_flat([text], threads=1)
                    if len(ids) > 1:
                        yield ids

    def _counted(
        self,
        files: Sequence[Path],
        reading: Reading,
        hold_out: bool,
        progress: Progress,
        advance: Advance,
    ) -> tuple[Int64Array, Int64Array]:
        size = len(self.tokens)
        kept, held = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for file in files:
            if is_table(file):
                kept += self._of_table(file, hold_out)
                advance(file.stat().st_size)
                continue
            batches = read_batches(
                file, reading, progress=progress, advance=advance, may_be_empty=True
            )
            for batch in batches:
                texts = [document.text for document in batch]
                out = [hold_out and _is_out(text) for text in texts]
                for side, wanted in ((kept, False), (held, True)):
                    chosen = [text for text, is_out in zip(texts, out, strict=True)
                              if is_out == wanted]  # fmt: skip
                    if chosen:
                        ids, _ = self.tokenizer.encode_flat(chosen, threads=1)
                        side += np.bincount(ids, minlength=size)
        return kept, held

    def _of_table(self, table: Path, hold_out: bool) -> Int64Array:
        if hold_out:
            raise UsageError(
                "word counts have no documents, of which a tenth could be held out",
                where=table,
                remedy="give other text with --test",
            )
        splits = self.tokenizer.pretokenizer
        return self.tokenizer.token_occurrences(count_corpus([table], pretokenizer=splits))


def _is_out(text: bytes) -> bool:
    return crc32(text) % HELD_OUT == 0


def _of_model(path: Path) -> DraftVocabulary:
    directory = ModelDirectory(path)
    where = str(path / "tokenizer.json")
    tokenizer = as_library(open_bytes(directory.tokenizer_json, str(path), where))
    rows = directory.vocab_size
    tokens, needed = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
    tokens[[*directory.file.ids.values()]] = True
    needed[directory.indispensable()] = True
    width = directory.text_config.get("hidden_size")
    return DraftVocabulary(
        str(path), tokenizer, tokens, needed & tokens, rows=rows,
        width=width if type(width) is int else None,
    )  # fmt: skip


Counts = Mapping[str, Int64Array]
"""Language → how often its text has each token, (V,) int64."""
