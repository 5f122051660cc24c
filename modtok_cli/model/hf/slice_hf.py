"""`modtok slice` of a Hugging Face directory: which tokens stay, and the files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import is_there
from modtok_cli.base.hub import name_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.architecture.complete import check_complete
from modtok_cli.model.draft.list_files import read_list
from modtok_cli.model.hf.derived_card import shown_name
from modtok_cli.model.hf.model_directory import NAME, ModelDirectory, VocabularySlice
from modtok_cli.model.hf.model_files import check_output
from modtok_cli.text.corpus import count_corpus, count_languages
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.adopted.adopt import members, token_counts
from modtok_cli.tokenizer.adopted.segmenter import Library, ModularLibrary
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

_EVERY, _MOST = 10, 2000  # one document of so many is held out, at most so many


@dataclass(frozen=True)
class CountedText:
    """Texts that select tokens together; counts (V,) int64, occurrences of each token in them."""

    texts: list[str]
    reading: Reading
    counts: Int64Array


@dataclass(frozen=True)
class TokenSelection:
    """Which tokens a slice keeps: the union of what each field selects.

    Attributes:
        languages: languages of the adopted tokenizer, or of the text in `data`.
        tokenizer: directory of `modtok adopt` for the model's tokenizer.
        data: directory with the text of each language, where there is no `tokenizer`.
        texts: texts of any language.
        keep: a list of tokens, see `list_files.read_list`.
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

    def command(self, model: Path) -> str:
        """The command of this selection, without places of this machine."""
        options = {
            "--langs": ",".join(self.languages),
            "-t": "ADOPTED" if self.tokenizer else "",
            "--text": "TEXT" if self.texts else "",
            "--must-have": "LIST" if self.keep else "",
            "--top": self.k or "",
            "--coverage": "" if self.coverage is None else self.coverage,
        }
        words = [f"{flag} {value}" for flag, value in options.items() if value != ""]
        return " ".join(["modtok slice", shown_name(model), *words, "-o DIR"])

    def ids(
        self, model: ModelDirectory, *, reading: Reading = Reading(), progress: Progress = SILENT
    ) -> Int32Array:
        """The ids to keep, ascending, with all that these tokens are built from."""
        return self.ids_of(model, self.counted(model, reading, progress))

    def counted(
        self, model: ModelDirectory, reading: Reading, progress: Progress
    ) -> list[CountedText]:
        """The texts that select tokens: each language in `data`, and all `texts` together."""
        if not (self.languages or self.texts or self.keep):
            raise UsageError(
                "no tokens selected",
                remedy="give --langs, --text or --must-have, as in: modtok slice MODEL --langs fr",
            )
        file, found = model.file, list[CountedText]()
        if self.languages and self.tokenizer is None:
            if self.texts and not is_there(self.data):
                remedy = "name the text of --langs with --data, or omit --langs: --text suffices"
                raise missing(self.data, remedy)
            files = language_files(self.data, self.languages, reading, progress=progress)
            counts = count_languages(
                files, pretokenizer=file.pretokenizer, reading=reading, progress=progress
            )
            for name, words in counts.items():
                if not len(words):
                    raise ModtokError(
                        f"the text of language '{name}' is empty",
                        remedy="add text, or omit the language from --langs",
                    )
                texts = [str(path) for path in files[name]]
                found.append(CountedText(texts, reading.of(name), token_counts(file, words)))
        if self.texts:
            words = count_corpus(
                self.texts, pretokenizer=file.pretokenizer, reading=reading, progress=progress
            )
            texts = [str(text) for text in self.texts]
            found.append(CountedText(texts, reading, token_counts(file, words)))
        return found

    def ids_of(self, model: ModelDirectory, texts: Iterable[CountedText]) -> Int32Array:
        """The ids that an adopted tokenizer, a list or `texts` select, and what builds them."""
        file = model.file
        mask = np.zeros(file.size, dtype=np.bool_)
        if self.languages and self.tokenizer is not None:
            ids = self.adopted(self.tokenizer, model).subset(self.languages).global_ids
            mask[ids[ids < model.vocab_size]] = True
        for text in texts:
            mask |= members(file, text.counts, self.k, self.coverage)
        if self.keep is not None:
            listed = read_list(self.keep, model.vocab_size)
            unknown = np.setdiff1d(listed, list(file.ids.values()))
            if len(unknown):
                raise UsageError(f"the model has no token with id {unknown[0]}", where=self.keep)
            mask[listed] = True
        return np.flatnonzero(file.closed(mask)).astype(np.int32)

    def changed(self, model: ModelDirectory, texts: Sequence[CountedText]) -> dict[str, float]:
        """The change of one of ten documents by a slice that the other nine select, as shares.

        "changed_lines" of documents with another id, "changed_tokens" of their tokens that have
        one; empty where no text that is read again selects tokens.
        """
        names = [name for text in texts for name in text.texts]
        if any(name == "-" or ".counts" in Path(name).name for name in names):
            return {}  # cannot be read again, or has no lines
        encoder, held, rest = Subtokenizer(Library(model.file)), list[Int32Array](), []
        for text in texts:
            documents = (
                each.text for one in text.texts for each in read_documents(one, text.reading)
            )
            own = [
                encoder.encode(each.decode(errors="replace"))
                for each in islice(documents, _EVERY - 1, _EVERY * _MOST, _EVERY)
            ]
            ids = np.concatenate([np.zeros(0, np.int32), *own])
            fewer = text.counts - np.bincount(ids, minlength=len(text.counts))
            rest.append(replace(text, counts=np.maximum(fewer, 0)))
            held += own
        if not held:
            return {}
        kept = np.zeros(model.file.size, dtype=np.bool_)
        kept[self.ids_of(model, rest)] = True
        kept[model.indispensable()] = True
        lost = [~kept[each] for each in held]
        lines, tokens = np.mean([each.any() for each in lost]), np.concatenate(lost).mean()
        return {"changed_lines": float(lines), "changed_tokens": float(tokens)}

    @staticmethod
    def adopted(path: Path, model: ModelDirectory) -> ModularTokenizer:
        """The tokenizer in a directory of `modtok adopt`, which must be the model's.

        Raises:
            UsageError: it is another.
        """
        if not is_modular(path):
            remedy = f"make one: modtok adopt {name_of(model.path)} -o {path}"
            raise missing(path, remedy, "is not a modular directory")
        adopted = ModularTokenizer.load(path)
        segmenter = adopted.segmenter
        if not isinstance(segmenter, ModularLibrary) or not model.has_ids(segmenter.file.ids):
            raise UsageError(
                f"is not the tokenizer of {name_of(model.path)}",
                where=path,
                remedy=f"make one: modtok adopt {name_of(model.path)}",
            )
        return adopted


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
    texts = selection.counted(model, reading, progress)
    ids, shares = selection.ids_of(model, texts), selection.changed(model, texts)
    measured = shares and (
        f"Of documents that did not choose the tokens {shares['changed_lines']:.0%} have other "
        f"ids than in the whole model, {shares['changed_tokens']:.1%} of their tokens."
    )
    written = model.slice(
        ids,
        output,
        verify=verify,
        languages=selection.languages,
        made=selection.command(path),
        measured=measured or "",
        progress=progress,
    )
    written = replace(written, fields={**written.fields, **shares})
    if written.left_out:
        progress.note(f"not copied: {', '.join(written.left_out)}")
    return written
