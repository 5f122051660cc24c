"""`modtok tokens`: the ids of the tokens of some languages, and which of them a draft needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import UsageError, missing
from modtok_cli.base.extras import require
from modtok_cli.base.option import Option, option_of, options_of
from modtok_cli.base.parameters import MAX_BUDGET, Data, FilePath, Langs, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.remote import path_of
from modtok_cli.base.unused import Unused, uses
from modtok_cli.model.draft.draft_vocabulary import Counts, DraftVocabulary
from modtok_cli.model.draft.list_files import read_list
from modtok_cli.model.draft.ranking import Ranking, coverage_rows
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.hf.slice_hf import TokenSelection
from modtok_cli.model.kinds import MODEL, SLICE, model_kind
from modtok_cli.model.parameters import MustHave
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.modular_directory import is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.parameters import Coverage, MostUsed
from modtok_cli.training.data.sampling import parse_mix

if TYPE_CHECKING:
    from modtok_cli.model.draft.acceptance import Pair

DATA = Path("data")
PROMPTS = 20
"""Documents of each language that --draft continues."""
Source = Annotated[
    FilePath,
    Option(
        "Modular directory, Hugging Face model (directory or name on the hub), or file of a "
        "tokenizer.",
        key="source",
        argument=True,
        metavar="MODEL",
        hub="tokenizer",
    ),
]
GivenData = Annotated[FilePath | None, option_of(Data, default="data")]
Mix = Annotated[
    dict[str, float] | None,
    Option(
        "Share of some languages in the mixture of text. Ranks the tokens of --size; equal by "
        "default.",
        metavar="LANG=SHARE,...",
        parse=parse_mix,
    ),
]

Read = Annotated[
    FilePath | None,
    Option(
        "Instead, the tokens of this list, in any of the formats but sglang; with --sizes, beside "
        "a list of the same size.",
        metavar="LIST",
    ),
]


def _unused(values: Mapping[str, Any]) -> Unused:
    if values.get("sizes"):
        lists = (
            "size",
            "top",
            "coverage",
            "each",
            "must_have",
            "multiple",
            "format",
            "output",
        )
        yield lists, "--sizes compares sizes"
        return
    if values.get("read") is not None:
        others = ("languages", "data", "top", "coverage", "size", "mix", "each")
        yield (*others, *options_of(Reading)), "--read gives the list"
        return
    if values.get("size") is not None:
        yield ("top", "coverage"), "--size is the number of all tokens"
        return
    yield ("mix", "each"), "without --size, lists have no order"
    if is_modular(Path(values["model"])):
        chosen = ("data", "top", "coverage", *options_of(Reading))
        yield chosen, "without --size, languages have tokens already"


@public
@uses(_unused)
def tokens(
    model: Source,
    languages: Langs = None,
    *,
    data: GivenData = None,
    top: MostUsed = None,
    coverage: Coverage = None,
    size: Annotated[
        int | None,
        Option(
            "List the N tokens that the text in --data uses most, in this order.",
            metavar="N",
            low=1,
            high=MAX_BUDGET,
        ),
    ] = None,
    mix: Mix = None,
    each: Annotated[
        bool,
        Option(
            "Write a file for each language, in the directory -o. With --size; also one for all."
        ),
    ] = False,
    read: Read = None,
    must_have: MustHave = None,
    multiple: Annotated[
        int | None,
        Option(
            "Lengthen the list to a multiple of N, by the next tokens in rank.",
            metavar="N",
            low=1,
            high=MAX_BUDGET,
        ),
    ] = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[int] | dict[str, list[int]]:
    """List the ids of the tokens of some languages.

    They restrict the output of the whole model, or of its draft in speculative decoding.

    MODEL is a modular directory (also of modtok adopt), or a Hugging Face model, where a language
    has the tokens that its text in data/ uses.

    With `size` it may also be a file of BPE or Unigram (tokenizer.json, SentencePiece .model, rank
    file, tekken.json), and the list has that many tokens: bytes, special tokens and
    tokens of the chat template; then tokens in order of their share in the text of the languages
    (by default all in data/), as MODEL itself encodes it; then all others in order of ids. So a
    shorter list is the beginning of a longer one. Text may also be output of the model, such as the
    JSON lines of modtok generate.

    With `read` it is a list of another program, which is checked: its ids are tokens of MODEL, each
    once, and a warning names bytes and special tokens that it lacks.

    Returns:
        A list; with `each`, a list by language, and one of all as "all".

    Examples:
        >>> ids = modtok.tokens("tokenizer", "fr")
        >>> ids == modtok.load("tokenizer").subset("fr").global_ids.tolist()
        True
        >>> ids = modtok.tokens("tokenizer", "fi,en", data="data", size=400)
        >>> modtok.tokens("tokenizer", "fi,en", data="data", size=300) == ids[:300]
        True
        >>> len(modtok.tokens("tokenizer", "fi,en", data="data", size=400, multiple=128))
        512

    Raises:
        UsageError: an unknown language, neither a tokenizer nor a model, or a `size` without room
            for bytes and special tokens or above the vocabulary.
        ModtokError: a file is damaged, or a language has no text.
    """
    names = optional_languages(languages)
    if read is not None:
        return _of_list(str(model), path_of(read), must_have, multiple, progress)
    if size is None:
        ids = _of_languages(Path(model), names, data, top, coverage, reading, progress)
        if must_have is not None or multiple is not None:
            vocabulary = DraftVocabulary.open(str(model), progress)
            ids = sorted(_completed(ids, vocabulary, must_have, multiple, progress))
        return ids
    vocabulary = DraftVocabulary.open(str(model), progress)
    if must_have is not None:
        vocabulary.needed[_listed(path_of(must_have), vocabulary)] = True
    size += -size % (multiple or 1)
    used = vocabulary.count(path_of(data or DATA), names, reading=reading, progress=progress)
    counts = {name: kept for name, (kept, _) in used.items()}
    wanted = {name: ({name: counts[name]}, None) for name in counts} if each else {}
    lists: dict[str, list[int]] = {}
    for name, (those, weights) in {**wanted, "all": (counts, mix)}.items():
        ranking = Ranking.of(vocabulary, those, weights)
        lists[name] = ranking.listed(size, those)
        if ranking.used < size:
            progress.note(
                f"{'the' if name == 'all' else f'{name}: the'} text uses {ranking.used:,} tokens; "
                f"the other {size - ranking.used:,} of the list are in order of ids"
            )
    return lists if each else lists["all"]


def _listed(path: Path, vocabulary: DraftVocabulary) -> Int64Array:
    """Return the ids of the list in `path`, in its order.

    Raises:
        UsageError: one is no token of the vocabulary.
    """
    ids = read_list(path, vocabulary.rows or len(vocabulary.tokens))
    gaps = ids[ids >= len(vocabulary.tokens)].tolist() or ids[~vocabulary.tokens[ids]].tolist()
    if gaps:
        raise UsageError(
            f"names id {gaps[0]}, which is no token of {vocabulary.name}",
            where=path,
            remedy="make the list from this model",
        )
    return ids


def _of_list(
    model: str, path: Path, must_have: FilePath | None, multiple: int | None, progress: Progress
) -> list[int]:
    """The tokens of a list of another program."""
    vocabulary = DraftVocabulary.open(model, progress)
    ids = _completed(_listed(path, vocabulary).tolist(), vocabulary, must_have, multiple, progress)
    missing = np.setdiff1d(np.flatnonzero(vocabulary.needed), ids)
    if len(missing):
        progress.warn(
            f"{path}: lacks {len(missing):,} of the {vocabulary.needed.sum():,} bytes, special "
            f"tokens and tokens of the chat template; the first is {missing[0]}"
        )
    return ids


def _completed(
    ids: list[int],
    vocabulary: DraftVocabulary,
    must_have: FilePath | None,
    multiple: int | None,
    progress: Progress,
) -> list[int]:
    """The list, then the tokens of `must_have`, then others in order of ids up to a multiple."""
    wanted = [] if must_have is None else _listed(path_of(must_have), vocabulary).tolist()
    ids = [*ids, *sorted({*wanted} - {*ids})]
    if missing := -len(ids) % (multiple or 1):
        others = np.setdiff1d(np.flatnonzero(vocabulary.tokens), ids)
        if len(others) < missing:
            raise UsageError(
                f"the vocabulary has {len(ids) + len(others):,} tokens, cannot list "
                f"{len(ids) + missing:,}",
                where="--multiple",
                remedy="choose another multiple",
            )
        progress.note(f"lengthened by {missing:,} tokens in order of ids")
        ids += others[:missing].tolist()
    return ids


def _of_languages(
    path: Path,
    names: list[str] | None,
    data: FilePath | None,
    k: int | None,
    coverage: float | None,
    reading: Reading,
    progress: Progress,
) -> list[int]:
    """The tokens of some languages, ascending."""
    if names is None:
        raise UsageError("no languages given", remedy="as in: modtok tokens MODEL --langs fr,en")
    if is_modular(path):
        return [*map(int, ModularTokenizer.load(path).subset(names).global_ids)]
    if model_kind(path, weights=False) not in (SLICE, MODEL):
        raise missing(
            path,
            "expected the output of modtok adopt, or config.json and tokenizer.json; "
            "of other tokenizers, list the most used tokens with --size N",
            "is not a modular directory and not a Hugging Face model",
        )
    selection = TokenSelection(tuple(names), data=path_of(data or DATA), k=k, coverage=coverage)
    return [*map(int, selection.ids(ModelDirectory(path), reading=reading, progress=progress))]


@public
def draft_coverage(
    model: Source,
    languages: Langs = None,
    *,
    data: GivenData = None,
    test: Annotated[
        FilePath | None,
        Option(
            "Text to measure --sizes on, as in --data; by default a tenth of the documents there.",
            metavar="PATH",
        ),
    ] = None,
    mix: Mix = None,
    read: Read = None,
    draft: Annotated[
        FilePath | None,
        Option(
            "With --sizes, also measure how many tokens of this draft MODEL accepts.",
            metavar="DIR",
        ),
    ] = None,
    reading: Reading = Reading(),
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Measure how much of a text the lists of `tokens` cover, by size.

    Lists are ranked by the text in `data`, and measured on `test`, or on a tenth of the documents,
    which the ranking then does not see. With `read`, this list is measured, beside a ranked one of
    its size.

    With `draft`, a small model with the tokens of MODEL, or MODEL itself, MODEL continues the first
    20 of these documents in each language, greedily, and four tokens are drafted a round.

    Returns:
        A row for each language and size, see `model.draft.ranking.coverage_rows`. With `read`,
        rows have "list": the name of this file, or "ranked"; with `draft`, "accepted", the share of
        drafted tokens that MODEL accepts, and "tokens_per_round".

    Examples:
        >>> rows = modtok.draft_coverage("tokenizer", "fi,en", test="parallel")
        >>> rows[-1]["coverage"]
        1.0

    Raises:
        UsageError, ModtokError: as of `tokens`, the text cannot be divided, or `draft` is no model
            of its own with the tokens of MODEL.
    """
    names, place = optional_languages(languages), optional_path(test)
    pair = None if draft is None else _pair(Path(model), path_of(draft))
    vocabulary = DraftVocabulary.open(str(model), progress)
    used = vocabulary.count(
        path_of(data or DATA), names, reading=reading, hold_out=place is None, progress=progress
    )
    kept: Counts = {name: kept for name, (kept, _) in used.items()}
    held: Mapping[str, Any] = {name: held for name, (_, held) in used.items()}
    if place is not None:
        others = vocabulary.count(place, [*kept], reading=reading, progress=progress)
        held = {name: counts for name, (counts, _) in others.items()}
    ranking = Ranking.of(vocabulary, kept, mix)
    given = None if read is None else _listed(path_of(read), vocabulary)
    if read is not None and place is None:
        progress.note(
            f"{path_of(read)} may be made of the held-out documents; --test PATH has other text"
        )
    if given is not None and len(given) < ranking.needed:
        raise UsageError(
            f"names {len(given):,} tokens; a list of this model has at least {ranking.needed:,}",
            where=path_of(read or ""),
            remedy="add bytes and special tokens",
        )
    rows = coverage_rows(vocabulary, ranking, held, None if given is None else [len(given)])
    lists: list[Any] = [ranking.order[: row["draft_rows"]] for row in rows]
    if given is not None:
        theirs = []
        for row in rows:
            counts = held[row["language"]]
            share = float(counts[given].sum() / counts.sum())
            theirs.append({**row, "coverage": share, "list": path_of(read or "").name})
        rows = [{**row, "list": "ranked"} for row in rows] + theirs
        lists += [given] * len(theirs)
    if pair is not None:
        texts = vocabulary.first_texts(
            place or path_of(data or DATA),
            [*kept],
            PROMPTS,
            reading=reading,
            held_out=place is None,
            progress=progress,
        )
        _add_accepted(rows, lists, pair, texts, progress)
    return rows


def _pair(model: Path, draft: Path) -> Pair:
    require("--draft", lm=("torch", "transformers", "accelerate"))
    from modtok_cli.model.draft.acceptance import Pair

    if model_kind(model, weights=False) not in (SLICE, MODEL):
        what = "is no model that could accept tokens of a draft"
        raise missing(model, "give its directory", what)
    return Pair(model, draft)


def _add_accepted(
    rows: list[dict[str, Any]],
    lists: Sequence[Int32Array | Int64Array],
    pair: Pair,
    texts: Mapping[str, Sequence[Int32Array]],
    progress: Progress,
) -> None:
    """Add what is accepted with the list of each row, a language at a time."""
    with progress.task("drafting", len(texts), "languages") as task:
        for name, those in texts.items():
            places = [at for at, row in enumerate(rows) if row["language"] == name]
            found = pair.rounds(those, [lists[at] for at in places])
            for at, rounds in zip(places, found, strict=True):
                rows[at] |= rounds.row()
            task.advance()


def model_rows(model: str) -> int:
    """Rows of the output matrix that ids of `model` belong to, filler included.

    Raises:
        UsageError: a tokenizer does not tell.
    """
    rows = DraftVocabulary.open(model).rows
    if rows is None:
        raise UsageError(
            "the number of rows of its model is not known",
            where=model,
            remedy="give the model's directory, or what modtok adopt makes of it: its config.json "
            "tells",
        )
    return rows
