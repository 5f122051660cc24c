"""`modtok eval fetch`: download evaluation data from the hub to local files.

    DIR/mcq/<task>/<lang>.jsonl, <lang>.train.jsonl      the suites' own datasets
    DIR/mt/devtest/<code>.devtest, DIR/mt/dev/<code>.dev FLORES-200
    DIR/sum/<lang>.jsonl, <lang>.train.jsonl             WikiLingua

A set is there if its file of examples is: it is written last, so that the same call continues after
an interruption.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.base import parameters
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import check_directory, write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.evaluate import documents, hub_tasks, parallel_text, questions
from modtok_cli.evaluate.documents import one_line
from modtok_cli.evaluate.suite import HubSource, Row, suites
from modtok_cli.text.languages import canonical, optional_languages

LAYOUTS = {"mcq": questions.LAYOUT, "mt": parallel_text.LAYOUTS, "sum": documents.LAYOUT}
FLORES, GEM = "mteb/flores", "GEM/wiki_lingua"
WIKILINGUA = ("ar", "cs", "de", "en", "es", "fr", "hi", "id", "it", "ja", "ko", "nl", "pt", "ru",
              "th", "tr", "vi", "zh")  # fmt: skip
_SHOWN = 100  # few-shot examples of summaries that are downloaded


@dataclass(frozen=True)
class _Set:
    """Examples and shots of a language; `read` downloads both, as rows or as lines."""

    place: Path
    language: str
    source: str
    examples: Path
    shots: Path
    read: Callable[[], tuple[Sequence[Any], Sequence[Any]]]


@dataclass
class Fetched:
    """Result of a call.

    Attributes:
        rows: task, language, examples, shots, source and path of each set.
        skipped: sets that could not be downloaded, and why.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def require_complete(self) -> None:
        """Report sets that are missing."""
        if self.skipped:
            raise ModtokError(f"incomplete: {'; '.join(self.skipped)}")


@public
def fetch_tasks(
    tasks: Annotated[
        Sequence[str] | None,
        Option(
            "mcq, mt or sum; all by default.",
            argument=True,
            kind=list[str],
            metavar="TASK",
            accepts=parameters.CODES,
        ),
    ] = None,
    *,
    languages: parameters.Langs = None,
    output: parameters.Output = None,
    force: parameters.Force = False,
    progress: Progress = SILENT,
) -> Fetched:
    """Download evaluation data from the Hugging Face hub.

    Writes the multiple-choice suites, FLORES-200 and WikiLingua to tasks/, in the layout that
    modtok eval reads, in the languages of tokenizer/ by default; what is there stays without
    --force. Without network access, place the files by hand; the error describes the layout.

    Returns:
        `rows` (task, language, number of examples and shots, source, path) and `skipped` (what
        could not be downloaded, and why).

    Raises:
        UsageError: a task is unknown, or no language is given.
        ModtokError: the hub cannot be reached.
    """
    tasks = list(tasks or _SETS)
    for task in tasks:
        if task not in _SETS:
            raise UsageError(f"unknown task {task!r}", remedy=f"use {', '.join(_SETS)}")
    chosen = _by_short_code(optional_languages(languages) or _workspace_languages())
    root = Path(output or "tasks")
    check_directory(root)
    if not hub_tasks.reachable():
        layouts = "; ".join(LAYOUTS[task].split("; modtok eval fetch")[0] for task in tasks)
        raise ModtokError("the hub cannot be reached", remedy=layouts)
    fetched = Fetched()
    there = 0
    for each in (one for task in tasks for one in _SETS[task](root / task, chosen, progress)):
        if each.examples.exists() and not force:
            there += 1
            continue
        name = f"{each.place.name} {each.language}"
        try:
            examples, shots = each.read()
        except hub_tasks.Unreachable:
            raise  # for all others too
        except ModtokError as error:
            fetched.skipped.append(f"{name}: {error}")
            continue
        each.examples.unlink(missing_ok=True)
        each.shots.unlink(missing_ok=True)
        if shots:
            _write(each.shots, shots)
        _write(each.examples, examples)
        row = {"task": each.place.name, "language": each.language, "examples": len(examples)}
        row |= {"shots": len(shots), "source": each.source, "path": str(each.place)}
        fetched.rows.append(row)
    if there:
        progress.note(f"{there} sets are there already; --force replaces them")
    if not (there or fetched.rows or fetched.skipped):
        what = f"no set of {', '.join(tasks)} is in {', '.join(chosen)}"
        raise UsageError(what, where="--langs", remedy="use codes such as fr, or other tasks")
    return fetched


def _by_short_code(languages: Sequence[str]) -> list[str]:
    """`fr` for `fr-Latn`, `zh` for `zh-Hans`: labels in the script that FLORES has it in."""
    codes = suites()["belebele"].hub[0].languages
    short = {canonical(code): language for language, code in codes.items()}
    return [short.get(canonical(label), label) for label in languages]


def _workspace_languages() -> list[str]:
    from modtok_cli.tokenizer.manifest import languages_of
    from modtok_cli.tokenizer.modular_directory import is_modular

    path = Path("tokenizer")
    if not is_modular(path):
        raise UsageError("no languages given", remedy="as in: modtok eval fetch --langs en,fr")
    return languages_of(path)


def _write(path: Path, rows: Iterable[Any]) -> None:
    """Rows as JSON lines, sentences as lines."""
    lines = (row.encode() if isinstance(row, str) else orjson.dumps(row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, b"".join(line + b"\n" for line in lines))


def _mcq(root: Path, languages: Sequence[str], progress: Progress) -> Iterator[_Set]:
    def read(source: HubSource, language: str) -> tuple[list[Row], list[Row]]:
        asked, shown = hub_tasks.questions(source, language, progress=progress)
        return [question.as_row() for question in asked], [each.as_row() for each in shown]

    for suite in suites().values():
        for language in languages:
            if source := suite.source(language):
                place = root / suite.task
                files = (place / f"{language}.jsonl", place / f"{language}.train.jsonl")
                yield _Set(place, language, source.dataset, *files, partial(read, source, language))


def _mt(root: Path, languages: Sequence[str], progress: Progress) -> Iterator[_Set]:
    """Yield the files of FLORES-200, of which BeleBele has the codes."""
    codes = suites()["belebele"].hub[0].languages

    def read(code: str) -> tuple[list[str], list[str]]:
        parts = []
        for part in ("devtest", "dev"):
            table: Any = hub_tasks.rows(FLORES, part)
            if not len(table) or code not in table.column_names:
                raise ModtokError(f"has no column '{code}'", where=f"{FLORES} {part}")
            # The column alone: a row has 200 languages.
            parts.append([str(one_line(text)) for text in table[code]])
        return parts[0], parts[1]

    for language in _known("FLORES", languages, codes, progress):
        code = codes[language]
        files = (root / "devtest" / f"{code}.devtest", root / "dev" / f"{code}.dev")
        yield _Set(root, language, FLORES, *files, partial(read, code))


def _sum(root: Path, languages: Sequence[str], progress: Progress) -> Iterator[_Set]:
    def read(language: str) -> tuple[list[Row], list[Row]]:
        parts = [
            _summaries(_gem(language, *part), language, progress)
            for part in (("test", None), ("train", _SHOWN))
        ]
        return parts[0], parts[1]

    for language in _known("WikiLingua", languages, WIKILINGUA, progress):
        files = (root / f"{language}.jsonl", root / f"{language}.train.jsonl")
        yield _Set(root, language, GEM, *files, partial(read, language))


def _gem(language: str, split: str, first: int | None) -> Sequence[Row]:
    """Rows of exactly this split: GEM also has sampled_test. Long splits are called partial-…"""
    place: dict[str, Any] = {"revision": "refs/convert/parquet", "first": first}
    try:
        return hub_tasks.rows(GEM, split, files=f"{language}/{split}/*.parquet", **place)
    except hub_tasks.Unreachable:
        raise
    except ModtokError:
        return hub_tasks.rows(GEM, split, files=f"{language}/partial-{split}/*.parquet", **place)


def _summaries(rows: Iterable[Row], language: str, progress: Progress) -> list[Row]:
    """Return documents and summaries; skip rows without one."""
    texts: list[Row] = []
    empty, where = 0, f"{GEM} {language}"
    for row in rows:
        if not {"gem_id", "source", "target"} <= row.keys():
            raise ModtokError("has no columns 'gem_id', 'source' and 'target'", where=where)
        pair = {"document": one_line(row["source"]), "summary": one_line(row["target"])}
        if all(pair.values()):
            texts.append({"id": str(row["gem_id"]), **pair})
        else:
            empty += 1
    if not texts:
        raise ModtokError("contains no documents", where=where)
    if empty:
        progress.note(f"{where}: skipped {empty:,} empty rows")
    return texts


def _known(
    name: str, languages: Sequence[str], known: Iterable[str], progress: Progress
) -> list[str]:
    """Return the languages that a dataset has; a note of the others."""
    unknown = [language for language in languages if language not in known]
    if unknown:
        progress.note(f"{name} has no {', '.join(unknown)}")
    return [language for language in languages if language in known]


_SETS: dict[str, Callable[[Path, Sequence[str], Progress], Iterator[_Set]]] = {
    "mcq": _mcq,
    "mt": _mt,
    "sum": _sum,
}
