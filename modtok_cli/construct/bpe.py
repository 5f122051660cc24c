"""`modtok bpe`: plain BPE tokenizers, one per language or one for all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import orjson

from modtok_cli.base import parameters
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory, check_new, is_vacant, refuse_others
from modtok_cli.base.membership import Membership
from modtok_cli.base.public import public
from modtok_cli.base.read_file import read_file
from modtok_cli.base.signature import digest
from modtok_cli.construct.cancellable import results_of
from modtok_cli.construct.learner import Learner, left_out_of
from modtok_cli.construct.monolingual import plain_json
from modtok_cli.construct.outputs import REPLACE
from modtok_cli.construct.parameters import BpeOptions, Budget, JointFlag
from modtok_cli.construct.pipeline import construct
from modtok_cli.construct.request import BuildReport, Destination, LearnerOptions, TrainingText
from modtok_cli.construct.work import Work
from modtok_cli.learn.merges import LearnedMerges
from modtok_cli.learn.pieces import LearnedPieces
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.languages import Label
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

if TYPE_CHECKING:
    from modtok_cli.tokenizer.modular_directory import References


class Separate(Learner):
    """Plain files per language."""

    suffixes: ClassVar[tuple[str, ...]]

    def check_output(self, destination: Destination, languages: Sequence[str]) -> PlainFiles | None:
        """Return the existing files with the settings of this learner; None to build them."""
        place = destination.path
        refuse_others(place, self._is_ours)
        if destination.force or is_vacant(place):
            check_new(place, force=destination.force)
            return None
        files = {path.name: read_file(path) for path in sorted(place.glob("*.json"))}
        if not files:  # a link to nothing or to an empty directory
            what = "exists but is not a tokenizer directory"
            raise UsageError(what, where=place, remedy=REPLACE)
        try:
            models = {Path(name).stem: orjson.loads(files[name])["model"] for name in files}
            settings = [
                (each["modtok"]["k"], each["modtok"]["learner"]) for each in models.values()
            ]
        except (ValueError, LookupError, TypeError):
            models, settings = {}, []
        if sorted(models) != sorted(languages) or any(
            each != (self.k, self.provenance()) for each in settings
        ):
            raise UsageError("exists with other settings", where=place, remedy=REPLACE)
        return PlainFiles(files, {name: plain_row(each) for name, each in models.items()})

    def _is_ours(self, name: str) -> bool:
        return Path(name).suffix in self.suffixes and Label.of(Path(name).stem).is_known

    def rows(self, output: PlainFiles) -> list[dict[str, Any]]:
        """Number of tokens, and words that were left out."""
        return [{"language": name, **row} for name, row in sorted(output.rows.items())]


class Joint(Learner):
    """One vocabulary over the text of all languages, in which every token is of every language."""

    _learned: LearnedMerges | LearnedPieces

    def learn(self, work: Work) -> None:
        """Merge the word counts of all languages, and learn from them."""
        work.words.start(work.languages)
        languages = tuple(sorted(work.languages))
        with work.words.learning(*languages) as counts:
            self.learn_all(languages, counts, work)

    @abstractmethod
    def learn_all(self, languages: tuple[str, ...], counts: WordCounts, work: Work) -> None:
        """Learn from the text of all languages."""

    def rows(self, output: ModularTokenizer) -> list[dict[str, Any]]:
        """One row."""
        left_out = left_out_of(output.corpora.get(output.languages[0]))
        return [{"language": ",".join(output.languages), "tokens": output.size, **left_out}]

    def result(self, work: Work) -> ModularTokenizer:
        """Return a tokenizer directory in which every token belongs to every language."""
        return self.made(self._learned, work)


class SeparateBpe(Separate):
    """A plain `tokenizer.json` per language."""

    algorithm = "bpe"
    suffixes = (".json",)

    def learn(self, work: Work) -> None:
        """All languages in the thread pool, after all are counted."""
        work.words.start(work.languages)
        self._made = results_of(
            {name: work.submit(self._learn_language, name, work) for name in work.languages}
        )

    def _learn_language(self, language: str, work: Work) -> bytes:
        with work.words.learning(language) as counts:
            grown = learn_plain(
                counts,
                self.k,
                self.specials,
                max_unspaced=self.max_unspaced,
                label=f"{language} alone",
                progress=work.progress,
            )
            work.words.certify(language, grown.merges)
            left_out = left_out_of(work.words.corpora[language])
            facts = {"learner": self.provenance(), **({"left_out": left_out} if left_out else {})}
            return plain_json(language, counts, self.k, grown.merges, grown.frequency, facts)

    def result(self, work: Work) -> PlainFiles:
        """Return the files `<lang>.json`."""
        return PlainFiles(
            {f"{language}.json": data for language, data in self._made.items()},
            {
                language: plain_row(orjson.loads(data)["model"])
                for language, data in self._made.items()
            },
        )


class JointBpe(Joint):
    """One vocabulary over the text of all languages."""

    algorithm = "bpe"

    def learn_all(self, languages: tuple[str, ...], counts: WordCounts, work: Work) -> None:
        """Plain BPE."""
        merges = learn_plain(
            counts,
            self.k,
            self.specials,
            max_unspaced=self.max_unspaced,
            progress=work.progress,
        ).merges
        tokens, joins = (
            Membership.everywhere(rows, len(languages))
            for rows in (merges.tokens, len(merges.merges))
        )
        self._learned = merges.with_members(languages, tokens, joins)
        work.words.certify(",".join(languages), merges)


@public
def bpe(
    languages: parameters.Langs = None,
    *,
    k: Budget = None,
    joint: JointFlag = False,
    output: parameters.Output = None,
    **how: Unpack[BpeOptions],
) -> BuildReport:
    """Learn plain BPE tokenizers, per language or jointly.

    These are baselines for modular tokenizers. Each output is a tokenizer.json that the
    tokenizers library loads; with `joint` it is a tokenizer directory in which every token
    belongs to every language. Without `languages`, all languages of the data are used.

    Returns:
        A report: `output` (bpe/ or bpe-joint/ by default), `signature` and a row per language in
        `lines`.

    Examples:
        >>> [row["tokens"] for row in modtok.bpe("fi,fr", k=1200, output="bpe").lines]
        [1200, 1200]

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    kind = JointBpe if joint else SeparateBpe
    options = LearnerOptions(bpe, how, k, joint=joint)
    text = TrainingText(languages, how, how.get("memory"))
    place = output or ("bpe-joint" if joint else "bpe")
    destination = Destination(place, how.get("force"), references=False)
    return construct(kind, options, text, destination)


def plain_row(model: Mapping[str, Any]) -> dict[str, int]:
    """Return figures of the "model" of a plain file."""
    return {"tokens": len(model["vocab"]), **model["modtok"].get("left_out", {})}


@dataclass(frozen=True)
class PlainFiles:
    """File names and contents of a directory, and a row of figures per language.

    The signature covers the files that end in `.json`; all others follow from them.
    """

    files: Mapping[str, bytes]
    rows: Mapping[str, Mapping[str, int]]

    @property
    def signature(self) -> str:
        """Hash of the `tokenizer.json` files."""
        return digest(*(data for name, data in self.files.items() if name.endswith(".json")))

    def save(self, directory: Path, references: References) -> None:
        """Write the directory, complete or not at all; there are no references."""
        with atomic_directory(directory) as beside:
            for name, data in self.files.items():
                (beside / name).write_bytes(data)
