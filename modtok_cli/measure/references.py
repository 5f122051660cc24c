"""Monolingual references of a workspace, one tokenizer per language, and what they identify.

Each stores how often its tokens occur in its training text. A text costs -Σ log2 p(token) bits
under each of these unigram models; the language with the lowest cost is the text's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError, missing
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.read_file import read_file
from modtok_cli.measure.candidates import Candidate, Spec
from modtok_cli.text.counts import WordCounts
from modtok_cli.tokenizer.manifest import read_manifest, reference_name
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.open import home_of, open_bytes, split_spec
from modtok_cli.tokenizer.stored import read_checked
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

WORKSPACE = Path("tokenizer") / "references"
UNLIKELY = 4.0
"""Bits per character from which a text is not in the language of a reference.

On NTREX-128, references of 24,000 tokens need 2.3 to 4.2 bits for a character of their own
language (25 of 27 below 4.0), and at least 4.15 for any other of the 27. Smaller references need
more, so that they refuse more texts of their language, not accept others.
"""


@dataclass(frozen=True)
class Reference:
    """A monolingual tokenizer and the counts of its tokens in its training text.

    Shapes: counts (V,) int64, or None if the file has none.
    """

    language: str
    path: Path
    tokenizer: Subtokenizer
    counts: npt.NDArray[np.int64] | None

    @cached_property
    def prices(self) -> npt.NDArray[np.float64]:
        """Bits per token, -log2 p; shape (V,)."""
        if self.counts is None:
            raise ModtokError(
                "the reference has no token counts and cannot be used to identify languages",
                where=self.path,
                remedy="pass the language with --lang",
            )
        total = self.counts.sum() + 0.5 * len(self.counts)
        return np.asarray(-np.log2((self.counts + 0.5) / total))


class References:
    """A directory of `<lang>.json` monolingual tokenizers, loaded on demand.

    References of a modular directory must be as they were written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if not directory.is_dir():
            raise missing(
                directory,
                "train monolingual references with 'modtok bpe-seq' (without --no-references) or "
                "'modtok bpe', or pass their directory with --references; "
                "'modtok check' needs none",
            )
        self._paths = {path.stem: path for path in sorted(directory.glob("*.json"))}
        self._read: dict[str, Reference] = {}
        home = directory.parent
        self._manifest = read_manifest(home) if is_modular(home) else None

    def warn_of_missing(self, languages: Sequence[str], progress: Progress) -> None:
        """Say in one line which of these languages have no reference."""
        if missing := [name for name in languages if name not in self._paths]:
            its = "it" if len(missing) == 1 else "them"
            progress.warn(
                f"no reference for {', '.join(missing)} in {self.directory}: no NSL for {its}"
            )

    @property
    def languages(self) -> list[str]:
        """Languages with a reference, ascending."""
        return list(self._paths)

    def __getitem__(self, language: str) -> Reference:
        """Return the reference of a language.

        Raises:
            ModtokError: there is none, or its file is damaged.
        """
        if language not in self._paths:
            raise ModtokError(
                f"no reference for language '{language}'",
                where=self.directory,
                remedy=f"available: {', '.join(self._paths) or 'none'}; train it with "
                f"'modtok bpe --langs {language}' and add --references bpe",
            )
        if language not in self._read:
            path, name = self._paths[language], reference_name(language)
            if self._manifest is not None and name in self._manifest.files:
                data = read_checked(path.parent.parent, name, self._manifest)
            else:
                data = read_file(path, factor=16)
            self._read[language] = _reference(language, path, data)
        return self._read[language]

    def all(self) -> dict[str, Reference]:
        """Return all references by language."""
        return {language: self[language] for language in self._paths}


def _reference(language: str, path: Path, data: bytes) -> Reference:
    tokenizer = open_bytes(data, str(path), str(path))
    if not isinstance(tokenizer, Subtokenizer):
        raise ModtokError(
            "not a tokenizer written by modtok, cannot be used as a reference", where=path
        )
    counts = tokenizer.provenance.get("counts")
    if counts is not None and (
        not isinstance(counts, list)
        or len(counts) != tokenizer.size
        or not all(type(count) is int and count >= 0 for count in counts)
    ):
        raise ModtokError("model.modtok.counts is invalid", where=path)
    array = None if counts is None else np.array(counts, dtype=np.int64)
    return Reference(language, path, tokenizer, array)


def find_references(
    directory: Path | None, tokenizers: Sequence[Spec], opened: Sequence[Candidate] = ()
) -> References:
    """Return references to measure against.

    `directory` if given; else `references/` of the first modular directory among `tokenizers`; else
    that of the workspace's `tokenizer/`, unless one of `opened` was extracted from another.

    Raises:
        ModtokError: there are none, or only another tokenizer's.
    """
    named = _named(directory, tokenizers)
    references = References(named or WORKSPACE)
    if named is None and is_modular(WORKSPACE.parent):
        own = read_manifest(WORKSPACE.parent).signature
        for name, parent in _parents(opened):
            if parent != own:
                raise ModtokError(
                    f"was extracted from another tokenizer than {WORKSPACE.parent}",
                    where=name,
                    remedy="name that one with -t DIR@fr, or the references to measure against "
                    "with --references DIR/references",
                )
    return references


def _named(directory: Path | None, tokenizers: Sequence[Spec]) -> Path | None:
    """Return the references that the user named, by their directory or a tokenizer's."""
    if directory is not None:
        return directory
    for spec in tokenizers:
        home = Path(split_spec(spec)[0]) if isinstance(spec, str) else home_of(spec)
        if home is not None and (home / "references").is_dir():
            return home / "references"
    return None


def _parents(opened: Sequence[Candidate]) -> Iterator[tuple[str, str]]:
    """Yield names of extracted tokenizers, and signatures of the tokenizers they come from.

    A directory that is named without references of its own, such as a joint BPE, is compared.
    """
    for candidate in opened:
        parent = getattr(candidate.tokenizer, "parent_signature", None)
        if parent is not None and home_of(candidate.tokenizer) is None:
            yield "stdin" if candidate.label == "-" else candidate.label, parent


def references_or_none(
    directory: Path | None,
    tokenizers: Sequence[Spec],
    opened: Sequence[Candidate] = (),
    progress: Progress = SILENT,
) -> References | None:
    """Return references as `find_references` has them; None if none are given and none fit.

    `progress` is warned of the others.
    """
    if not (_named(directory, tokenizers) or WORKSPACE).is_dir() and directory is None:
        return None
    try:
        return find_references(directory, tokenizers, opened)
    except ModtokError as error:
        if directory is not None:
            raise
        progress.warn(f"{error}: no references are used")
        return None


def code_lengths(
    texts: Sequence[bytes], references: Mapping[str, Reference]
) -> npt.NDArray[np.float64]:
    """Return bits of each text under each reference; shape (texts, references).

    p(token) = (count + 1/2) / (Σ counts + V/2), so an unseen token has a finite cost.
    """
    bits = np.zeros((len(texts), len(references)))
    for column, reference in enumerate(references.values()):
        price = reference.prices
        for row, ids in enumerate(reference.tokenizer.encode_utf8(texts)):
            bits[row, column] = price[ids].sum()
        reference.tokenizer.forget_words()  # hundreds of references would fill gigabytes
    return bits


def identify(texts: Sequence[bytes], references: Mapping[str, Reference]) -> list[str]:
    """Language of each text; on a tie the first reference."""
    names = list(references)
    return [names[column] for column in code_lengths(texts, references).argmin(axis=1)]


def identify_whole(counts: WordCounts, references: Mapping[str, Reference]) -> str | None:
    """Identify the language of a text by its word counts; None if it seems to be another one.

    References with the words of another pre-tokenizer, and those without token counts, are skipped.
    """
    bits = {
        name: float(reference.tokenizer.token_occurrences(counts) @ reference.prices)
        for name, reference in references.items()
        if reference.counts is not None and reference.tokenizer.pretokenizer is counts.pretokenizer
    }
    best = min(bits, key=bits.__getitem__, default=None)
    if best is None or bits[best] >= UNLIKELY * counts.size.characters:
        return None
    return best
