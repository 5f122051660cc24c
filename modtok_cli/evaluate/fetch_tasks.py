"""`modtok eval fetch`: download evaluation data from the hub to local files.

    DIR/mcq/<task>/<lang>.jsonl, <lang>.train.jsonl      the suites' own datasets
    DIR/mt/devtest/<code>.devtest, DIR/mt/dev/<code>.dev FLORES-200
    DIR/sum/<lang>.jsonl, <lang>.train.jsonl             WikiLingua
    DIR/xlsum/, DIR/eurlexsum/                           the same of XL-Sum, EUR-Lex-Sum

A set is there if its file of examples is: it is written last, so that the same call continues after
an interruption.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
FLORES = "mteb/flores"
_SHOWN = 100  # few-shot examples of summaries that are downloaded


@dataclass(frozen=True)
class Summaries:
    """A dataset of documents with summaries, in the files of its hub's own conversion.

    Attributes:
        languages: name of the configuration of each language.
        columns: of the id, the document and its summary.
    """

    name: str
    dataset: str
    languages: Mapping[str, str]
    columns: tuple[str, str, str]


def _same(codes: str) -> dict[str, str]:
    return {code: code for code in codes.split()}


SUMMARIES = {
    "sum": Summaries(
        "WikiLingua", "GEM/wiki_lingua",
        _same("ar cs de en es fr hi id it ja ko nl pt ru th tr vi zh"),
        ("gem_id", "source", "target"),
    ),
    "xlsum": Summaries(
        "XL-Sum", "csebuetnlp/xlsum",
        {"am": "amharic", "ar": "arabic", "az": "azerbaijani", "bn": "bengali", "cy": "welsh",
         "en": "english", "es": "spanish", "fa": "persian", "fr": "french",
         "gd": "scottish_gaelic", "gu": "gujarati", "ha": "hausa", "hi": "hindi",
         "id": "indonesian", "ig": "igbo", "ja": "japanese", "ko": "korean", "ky": "kyrgyz",
         "mr": "marathi", "my": "burmese", "ne": "nepali", "om": "oromo", "pa": "punjabi",
         "ps": "pashto", "pt": "portuguese", "rn": "kirundi", "ru": "russian", "si": "sinhala",
         "so": "somali", "sr": "serbian_cyrillic", "sw": "swahili", "ta": "tamil",
         "te": "telugu", "th": "thai", "ti": "tigrinya", "tr": "turkish", "uk": "ukrainian",
         "ur": "urdu", "uz": "uzbek", "vi": "vietnamese", "yo": "yoruba",
         "zh": "chinese_simplified"},
        ("id", "text", "summary"),
    ),
    "eurlexsum": Summaries(
        "EUR-Lex-Sum", "dennlinger/eur-lex-sum",
        {"bg": "bulgarian", "cs": "czech", "da": "danish", "de": "german", "el": "greek",
         "en": "english", "es": "spanish", "et": "estonian", "fi": "finnish", "fr": "french",
         "ga": "irish", "hr": "croatian", "hu": "hungarian", "it": "italian", "lt": "lithuanian",
         "lv": "latvian", "mt": "maltese", "nl": "dutch", "pl": "polish", "pt": "portuguese",
         "ro": "romanian", "sk": "slovak", "sl": "slovenian", "sv": "swedish"},
        ("celex_id", "reference", "summary"),
    ),
}  # fmt: skip


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
            "mcq, mt, sum, xlsum or eurlexsum; the first three by default.",
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
    --force. xlsum and eurlexsum are further summaries (eval sum --eval-data tasks/xlsum). Without
    network access, place the files by hand; the error describes the layout.

    Returns:
        `rows` (task, language, number of examples and shots, source, path) and `skipped` (what
        could not be downloaded, and why).

    Raises:
        UsageError: a task is unknown, or no language is given.
        ModtokError: the hub cannot be reached.
    """
    tasks = list(tasks or LAYOUTS)
    for task in tasks:
        if task not in _SETS:
            raise UsageError(f"unknown task {task!r}", remedy=f"use {', '.join(_SETS)}")
    chosen = _by_short_code(optional_languages(languages) or _workspace_languages())
    root = Path(output or "tasks")
    check_directory(root)
    if not hub_tasks.reachable():
        named = {task: LAYOUTS["sum"].replace("DIR/sum", f"DIR/{task}") for task in SUMMARIES}
        wanted = ((named | LAYOUTS)[task].split("; modtok eval fetch")[0] for task in tasks)
        layouts = "; ".join(dict.fromkeys(wanted))
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
    source = SUMMARIES[root.name]

    def read(language: str) -> tuple[list[Row], list[Row]]:
        parts = [
            _texts(source, language, split, first, progress)
            for split, first in (("test", None), ("train", _SHOWN))
        ]
        return parts[0], parts[1]

    for language in _known(source.name, languages, source.languages, progress):
        files = (root / f"{language}.jsonl", root / f"{language}.train.jsonl")
        yield _Set(root, language, source.dataset, *files, partial(read, language))


def _converted(source: Summaries, language: str, split: str, first: int | None) -> Sequence[Row]:
    """Rows of exactly this split: GEM also has sampled_test. Long splits are called partial-…"""
    place: dict[str, Any] = {"revision": "refs/convert/parquet", "first": first}
    config = source.languages[language]
    try:
        return hub_tasks.rows(source.dataset, split, files=f"{config}/{split}/*.parquet", **place)
    except hub_tasks.Unreachable:
        raise
    except ModtokError:
        files = f"{config}/partial-{split}/*.parquet"
        return hub_tasks.rows(source.dataset, split, files=files, **place)


def _texts(
    source: Summaries, language: str, split: str, first: int | None, progress: Progress
) -> list[Row]:
    """Return documents and summaries; skip rows without one."""
    texts: list[Row] = []
    empty, where = 0, f"{source.dataset} {language}"
    name, document, summary = source.columns
    for row in _converted(source, language, split, first):
        if not {*source.columns} <= row.keys():
            wanted = f"has no columns '{name}', '{document}' and '{summary}'"
            raise ModtokError(wanted, where=where)
        pair = {"document": one_line(row[document]), "summary": one_line(row[summary])}
        if all(pair.values()):
            texts.append({"id": str(row[name]), **pair})
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
    **dict.fromkeys(SUMMARIES, _sum),
}
