"""`modtok slice` of a Hugging Face directory: which tokens stay, and the files."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import orjson

from modtok_cli.architectures.complete import check_complete
from modtok_cli.architectures.hf_directory import CONFIG, refuse_adapter
from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.hub import name_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.reading import read_file
from modtok_cli.inference.hf.held_out import OtherIds, other_ids
from modtok_cli.inference.hf.model_directory import NAME, ModelDirectory, VocabularySlice
from modtok_cli.inference.hf.model_files import check_output
from modtok_cli.modular.adopted.adopt import adopt_counts, members, token_counts
from modtok_cli.modular.adopted.segmenter import ModularLibrary
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.open import tokenizers_in
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.corpus import count_corpus, count_languages
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files


def is_model_directory(path: Path) -> bool:
    """Whether `path` has the configuration and the tokenizer of a Hugging Face model.

    Raises:
        UsageError: it holds an adapter.
    """
    refuse_adapter(path)
    return (path / CONFIG).is_file() and bool(tokenizers_in(path))


@dataclass(frozen=True)
class TokenSelection:
    """Which tokens a slice keeps: the union of what each field selects.

    Attributes:
        languages: languages of the adopted tokenizer, or of the text in `data`.
        tokenizer: directory of `modtok adopt` for the model's tokenizer.
        data: directory with the text of each language, where there is no `tokenizer`.
        texts: texts of any language.
        keep: file with token ids: a JSON list, or an id per line.
        k: number of most used tokens per language and for the texts.
        coverage: see `modular.adopt.members`.
    """

    languages: tuple[str, ...] = ()
    tokenizer: Path | None = None
    data: Path = Path("data")
    texts: tuple[Path | str, ...] = ()
    keep: Path | None = None
    k: int | None = None
    coverage: float | None = None

    def ids(
        self, model: ModelDirectory, *, reading: Reading = Reading(), progress: Progress = SILENT
    ) -> Int32Array:
        """The ids to keep, ascending, with all that these tokens are built from."""
        if not (self.languages or self.texts or self.keep):
            raise UsageError(
                "no tokens selected",
                remedy="give --langs, --text or --token-ids, as in: modtok slice MODEL --langs fr",
            )
        if self.tokenizer is not None and (self.k or self.coverage) and not self.texts:
            raise UsageError(
                "-k and --coverage do not apply to an adopted tokenizer",
                where=self.tokenizer,
                remedy="pass them to modtok adopt",
            )
        if not self.texts and (not self.languages or self.tokenizer is not None):
            reading.unread("no text selects tokens")
        file = model.file
        mask = np.zeros(file.size, dtype=np.bool_)
        if self.languages:
            mask[self._of_languages(model, reading, progress)] = True
        if self.texts:
            counts = self._counts(model, reading, progress)
            mask |= members(file, counts, self.k, self.coverage)
        if self.keep is not None:
            ids = read_ids(self.keep)
            unknown = np.setdiff1d(ids, list(file.ids.values()))
            if len(unknown):
                raise UsageError(f"the model has no token with id {unknown[0]}", where=self.keep)
            mask[ids] = True
        return np.flatnonzero(file.closed(mask)).astype(np.int32)

    def _counts(self, model: ModelDirectory, reading: Reading, progress: Progress) -> Int64Array:
        """Occurrences of each token in `texts`; (V,) int64."""
        file = model.file
        words = count_corpus(
            self.texts, pretokenizer=file.pretokenizer, reading=reading, progress=progress
        )
        return token_counts(file, words)

    def other_ids(
        self, model: ModelDirectory, *, reading: Reading = Reading(), progress: Progress = SILENT
    ) -> OtherIds | None:
        """See `held_out.other_ids`; None where tokens are not chosen by text that is read again."""
        if self.texts:
            texts = [str(text) for text in self.texts]
        elif self.languages and self.tokenizer is None:
            files = language_files(self.data, self.languages, reading)
            texts = [str(path) for paths in files.values() for path in paths]
        else:
            return None
        if any(text == "-" or ".counts" in Path(text).name for text in texts):
            return None  # cannot be read again, or has no lines
        counts = replace(self, texts=tuple(texts))._counts(model, reading, progress)
        documents = (each.text for text in texts for each in read_documents(text, reading))
        needed = model.indispensable()
        if self.keep is not None:
            needed = np.union1d(needed, read_ids(self.keep)).astype(np.int32)
        return other_ids(model.file, counts, documents, needed, self.k, self.coverage)

    def _of_languages(
        self, model: ModelDirectory, reading: Reading, progress: Progress
    ) -> Int32Array:
        if self.tokenizer is not None:
            adopted = self.adopted(self.tokenizer, model)
        else:
            counted = count_languages(
                language_files(self.data, self.languages, reading, progress=progress),
                pretokenizer=model.file.pretokenizer,
                reading=reading,
                progress=progress,
            )
            adopted = adopt_counts(
                model.file, counted, k=self.k, coverage=self.coverage, progress=progress
            )
        ids = adopted.subset(self.languages).global_ids
        return ids[ids < model.vocab_size]

    @staticmethod
    def adopted(path: Path, model: ModelDirectory) -> ModularTokenizer:
        """The tokenizer in a directory of `modtok adopt`, which must be the model's.

        Raises:
            UsageError: it is another.
        """
        if not is_modular(path):
            raise UsageError(
                "is not a modular directory",
                where=path,
                remedy=f"make one: modtok adopt {name_of(model.path)} -o {path}",
            )
        adopted = ModularTokenizer.load(path)
        segmenter = adopted.segmenter
        if not isinstance(segmenter, ModularLibrary) or not model.has_ids(segmenter.file.ids):
            raise UsageError(
                f"is not the tokenizer of {name_of(model.path)}",
                where=path,
                remedy=f"make one: modtok adopt {name_of(model.path)}",
            )
        return adopted


def read_ids(path: Path) -> Int32Array:
    """Token ids of a file, in its order: a JSON list of numbers, or a number per line.

    Raises:
        ModtokError: it is something else.
    """
    text = read_file(path)
    try:
        ids = orjson.loads(text) if text.lstrip()[:1] == b"[" else [*map(int, text.split())]
        if not ids or not all(type(index) is int and 0 <= index < 1 << 31 for index in ids):
            raise ValueError
    except ValueError as error:
        raise ModtokError(
            "is not a list of token ids", where=path, remedy="write a JSON list, or an id per line"
        ) from error
    return np.array(ids, dtype=np.int32)


def slice_directory(
    path: Path,
    selection: TokenSelection,
    output: Path,
    *,
    reading: Reading = Reading(),
    verify: bool = True,
    force: bool = False,
    progress: Progress = SILENT,
) -> VocabularySlice:
    """Write the model in the directory `path` with the selected tokens to `output`.

    `verify`: see `ModelDirectory.slice`.
    """
    check_output(output, NAME, force=force, kind="slice of a Hugging Face model")
    model = ModelDirectory(path)
    check_complete(model)
    ids = selection.ids(model, reading=reading, progress=progress)
    written = model.slice(ids, output, verify=verify, progress=progress)
    if (changed := selection.other_ids(model, reading=reading)) is not None:
        shares = {"changed_lines": changed.lines, "changed_tokens": changed.tokens}
        written = replace(written, fields={**written.fields, **shares})
    if written.left_out:
        progress.note(f"not copied: {', '.join(written.left_out)}")
    return written
