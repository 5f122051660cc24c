"""`modtok export`: a slice, a subset of a run, or a model of transformers, for another program.

Other programs split text in their own ways. The export compares token ids on a probe first: words
of the slice's own vocabulary, or text of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import (
    atomic_directory,
    atomic_file,
    check_new,
    check_suffix,
    refuse_others,
)
from modtok_cli.base.hub import model_name
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.parameters import (
    PATHS,
    ExportedOutput,
    FilePath,
    Force,
    Langs,
    optional_path,
    text_paths,
)
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.unused import Unused, uses
from modtok_cli.model.export.gguf_tokenizer import GgufTokenizer, candidates
from modtok_cli.model.parameters import LATEST, Model, RunTokenizer, Step
from modtok_cli.text.languages import canonical, optional_languages
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.adopted.file_ids import check_ids
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

if TYPE_CHECKING:
    import torch

    from modtok_cli.model.source import ModelSource

_FORMAT = "gguf"
_PROBE_WORDS = 16  # words in a line
# What programs split in different ways: apostrophes, white space, marks, numbers, case, signs.
_HARD = (
    "it's O'Sullivan's 'own'; l'été, vaa'an, DON'T, rock 'n' roll",
    "two  spaces, three   spaces",
    "  before and after  ",
    "line\n\n  next\ttab\r\nend \n",
    "1 23 456 7890 12,5 x2y",
    "e\u0301te\u0301 a\u0308iti \u0939\u093f\u0928\u094d\u0926\u0940 \u0c24\u0c46\u0c32\u0c41",
    "snake_case camelCase HTTPServer EU:n a.b(c)[d] // --- ... 50% #1",
)


@dataclass(frozen=True)
class ExportReport:
    """The files of an export, and how well the tokenizers agree.

    Attributes:
        tokenizer: name of the pre-tokenizer or segmentation that the program runs.
        lines, different: number of probe lines, and of lines with different ids.
        languages: languages of the model; empty for a published one.
    """

    output: Path
    bytes: int
    vocabulary: int
    tokenizer: str
    lines: int
    different: int
    languages: tuple[str, ...] = ()


def _unused(values: Mapping[str, Any]) -> Unused:
    if not values.get("probe"):
        yield options_of(Reading), "no text is read without --probe"


@public
@uses(_unused)
def export(
    model: Model = LATEST,
    output: ExportedOutput = None,
    *,
    format: Annotated[
        str, Option(f"Format of the output. Only {_FORMAT}.", metavar="NAME")
    ] = _FORMAT,
    languages: Langs = None,
    each: Annotated[
        bool,
        Option(
            "Write a file for each language, in the directory -o. Languages of the run, or --langs."
        ),
    ] = False,
    probe: Annotated[
        FilePath | Sequence[FilePath] | None,
        Option(
            "Text whose token ids are compared; words of the vocabulary by default. Repeatable.",
            kind=list[str],
            metavar="TEXT",
            accepts=PATHS,
        ),
    ] = None,
    reading: Reading = Reading(),
    inexact: Annotated[bool, Option("Export even if some token ids of the probe differ.")] = False,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], Option("Dtype of the weights.")
    ] = "float16",
    step: Step = None,
    tokenizer: RunTokenizer = None,
    force: Force = False,
    progress: Progress = SILENT,
) -> ExportReport | list[ExportReport]:
    """Export a model as a GGUF file for llama.cpp.

    The model is a run, a slice or a directory of a Hugging Face model. llama.cpp has a fixed
    set of pre-tokenizers. The closest one is selected, and its token ids are compared on a
    probe text; a difference is an error unless `inexact` is given. Merges and Unigram
    tokenizers can be exported; fewest-tokens ones if learned with --whole-characters.

    A file has one vocabulary. With `each`, a run is exported several times, to files that are
    named after their languages in a new directory.

    Returns:
        Of each file: `output` (by default the model's name with the format as suffix), `bytes`,
        `vocabulary`, and how many `lines` of the probe have `different` ids.

    Examples:
        >>> report = modtok.export("fr-en", "fr-en.gguf", inexact=True)
        >>> report.output.stat().st_size == report.bytes
        True

    Raises:
        UsageError: a tokenizer that llama.cpp cannot run, differing ids, or an existing output.
    """
    if format != _FORMAT:
        raise UsageError(
            f"format '{format}' is not supported", where="--format", remedy=f"choose {_FORMAT}"
        )
    path = Path(model)
    place = Path(output or f"{model_name(path)}{'' if each else f'.{format}'}")
    check_new(place, force=force)
    if not each:
        check_suffix(place, [f".{format}"])
    else:
        refuse_others(place, lambda name: name.endswith(f".{format}"))
    from modtok_cli.model.load import open_model

    where = optional_path(tokenizer)
    source = open_model(path, tokenizer=where, step=step, progress=progress)
    probed = None if probe is None else _documents(text_paths(probe), reading, progress)
    export = _Export(source, probed, inexact, dtype)
    names = optional_languages(languages)
    if not each:
        with atomic_file(place) as beside:
            return replace(export.write(beside, names), output=place)
    wanted = names or source.languages
    if not wanted:
        raise UsageError("has no languages", where=path, remedy="give a run of modtok pretrain")
    reports = []
    with atomic_directory(place) as beside, progress.task("exporting", len(wanted), "") as task:
        for one in wanted:
            name = f"{canonical(one)}.{format}"
            reports.append(replace(export.write(beside / name, [one]), output=place / name))
            task.advance(1)
    return reports


@dataclass
class _Export:
    """Shared by the files of a model; the backbone is read once."""

    source: ModelSource
    probe: list[str] | None
    inexact: bool
    dtype: str

    @cached_property
    def backbone(self) -> dict[str, torch.Tensor]:
        """Parameters under their transformers names."""
        import torch

        from modtok_cli.model.generate.backbone import check_range

        backbone = self.source.backbone(torch.float32, torch.device("cpu")).state_dict()
        backbone.pop("embed_tokens.weight", None)
        check_range(backbone, self.dtype)
        return dict(backbone)

    def write(self, file: Path, languages: Sequence[str] | None) -> ExportReport:
        """Write the model of some languages, of all without any."""
        from modtok_cli.model.export.gguf_file import ExportedModel, write_file
        from modtok_cli.model.generate.backbone import check_range

        source, path = self.source, self.source.path
        shape = source.shape  # first: it refuses other architectures
        vocabularies = source.vocabularies(languages, None)
        if not vocabularies.same:
            raise UsageError(
                "input and output vocabularies differ, which gguf cannot represent",
                where=path,
                remedy="slice the run with --langs and export that slice",
            )
        own, ends, templates = source.spoken(vocabularies)
        if own.segmenter.of_file:
            check_ids(own.segmenter.to_json({}), str(path))
        texts = _own_words(own) if self.probe is None else self.probe
        ways = candidates(own, str(path))
        counts = [disagreements(own, one, texts) for one in ways]
        different = min(counts)
        chosen = ways[counts.index(different)]
        if different and not self.inexact:
            better = chosen.remedy and f"{chosen.remedy}; "
            raise UsageError(
                f"llama.cpp assigns other ids to {different:,} of {len(texts):,} probe lines: "
                f"{chosen.why}",
                where=path,
                remedy=f"{better}--inexact writes the file anyway; transformers reads it exactly",
            )
        embedding, head = source.tables(vocabularies)
        check_range({"input rows": embedding, "output rows": head}, self.dtype)
        exported = ExportedModel(
            shape,
            own,
            embedding,
            head,
            self.backbone,
            source.context,
            ends,
            templates,
            str(path),
            source.hf_path,
        )
        write_file(file, exported, chosen, self.dtype)
        size, spoken = file.stat().st_size, tuple(own.languages)
        return ExportReport(file, size, own.size, chosen.name, len(texts), different, spoken)


def _documents(probe: Sequence[Path | str], reading: Reading, progress: Progress) -> list[str]:
    """Texts of the documents of a probe.

    Raises:
        UsageError: there are none.
    """
    texts = [
        document.text.decode()
        for text in probe
        for document in read_documents(text, reading, progress=progress)
    ]
    if not texts:
        raise UsageError("contains no text", where=", ".join(map(str, probe)))
    return texts


def _own_words(tokenizer: Subtokenizer) -> list[str]:
    """Lines of the vocabulary's own words, sixteen in a line, and lines that are hard to split."""
    words = []
    for index in range(len(tokenizer.vocabulary.specials) + 256, tokenizer.size):
        try:
            word = tokenizer.vocabulary.token_bytes(index).decode().strip()
        except UnicodeDecodeError:
            continue
        if word:
            words.append(word)
    return [
        " ".join(words[start : start + _PROBE_WORDS])
        for start in range(0, len(words), _PROBE_WORDS)
    ] + [*_HARD]


def disagreements(own: Subtokenizer, other: GgufTokenizer, texts: Sequence[str]) -> int:
    """Number of texts with different ids."""
    pairs = zip(own.encode_batch(list(texts)), other.encode_batch(texts), strict=True)
    return sum(ours.tolist() != theirs for ours, theirs in pairs)
