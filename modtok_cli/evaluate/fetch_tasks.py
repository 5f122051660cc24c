"""`modtok eval fetch`: download evaluation data from the hub to local files.

    DIR/mcq/<task>/<lang>.jsonl, <lang>.train.jsonl      the suites' own datasets
    DIR/mt/dev/<code>.dev, DIR/mt/devtest/<code>.devtest FLORES-200
    DIR/sum/<lang>.jsonl, <lang>.train.jsonl             WikiLingua

Each directory appears whole or not at all. `.fetch.json` in DIR lists the finished ones while a
call runs, so that the same call resumes after an interruption.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.base import parameters
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, check_directory, write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.reading import read_bounded
from modtok_cli.evaluate import documents, hub, parallel, questions
from modtok_cli.evaluate.suite import Row, suites
from modtok_cli.text.languages import optional_languages

_JOURNAL = ".fetch.json"
TASKS = ("mcq", "mt", "sum")
LAYOUTS = {"mcq": questions.LAYOUT, "mt": parallel.LAYOUTS, "sum": documents.LAYOUT}


@dataclass
class Fetched:
    """Result of a call.

    Attributes:
        rows: task, language, examples, shots, source and path of each set.
        skipped: sets that could not be downloaded, and why.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, place: Path, language: str, sizes: tuple[int, int], dataset: str) -> None:
        """A row of the set in `place`; `sizes` are the numbers of examples and of shots."""
        examples, shots = sizes
        row = {"task": place.name, "language": language, "examples": examples, "shots": shots}
        self.rows.append({**row, "source": dataset, "path": str(place)})

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
    modtok eval reads, in the languages of tokenizer/ by default. Without network access, place the
    files by hand; the error describes the layout.

    Returns:
        `rows` (task, language, number of examples and shots, source, path) and `skipped` (what
        could not be downloaded, and why).

    Raises:
        UsageError: a task is unknown, or a directory exists already.
        ModtokError: the hub cannot be reached.
    """
    tasks = list(tasks or TASKS)
    chosen = optional_languages(languages) or _workspace_languages()
    root = Path(output or "tasks")
    for task in tasks:
        if task not in TASKS:
            raise UsageError(f"unknown task {task!r}", remedy=f"use {', '.join(TASKS)}")
    check_directory(root)
    if not hub.reachable():
        layouts = "; ".join(LAYOUTS[task].split("; modtok eval fetch")[0] for task in tasks)
        raise ModtokError("the hub cannot be reached", remedy=layouts)
    places = [(task, place) for task in tasks for place in _places(task, root)]
    journal = _Journal(root, chosen, force)
    # All places are checked before anything is downloaded.
    for _, place in places:
        if place.exists() and not force and not journal.has(place):
            raise UsageError(
                "already exists",
                where=place,
                remedy="pass --force to replace it in all languages, or choose another -o",
            )
    journal.begin([place for _, place in places], progress)
    fetched = Fetched()
    for task, place in places:
        if not journal.has(place):
            files = _FETCHERS[task](place, chosen, fetched, progress)
            if files:
                with atomic_directory(place) as beside:
                    for name, data in files.items():
                        (beside / name).parent.mkdir(parents=True, exist_ok=True)
                        (beside / name).write_bytes(data)
            journal.add(place)
    journal.end()
    return fetched


def _workspace_languages() -> list[str]:
    from modtok_cli.modular.directory import is_modular
    from modtok_cli.modular.manifest import languages_of

    path = Path("tokenizer")
    if not is_modular(path):
        raise UsageError("no languages given", remedy="as in: modtok eval fetch --langs en,fr")
    return languages_of(path)


class _Journal:
    """Directories that an interrupted call in the same languages has finished.

    Directories appear whole, so without --force every directory that such a call was going to write
    and that exists is finished. With --force the old one may still be in place: only directories
    noted after writing count.
    """

    def __init__(self, output: Path, languages: Sequence[str], force: bool) -> None:
        self._path, self._output, self._force = output / _JOURNAL, output, force
        self._state: dict[str, Any] = {"languages": list(languages), "force": force}
        self._planned: set[str] = set()
        self._done: set[str] = set()
        try:
            state = orjson.loads(read_bounded(self._path))
            if {name: state[name] for name in self._state} == self._state:
                self._planned, self._done = set(state["planned"]), set(state["done"])
        except (OSError, ValueError, TypeError, KeyError):
            pass  # no interrupted call, or of something else

    def has(self, place: Path) -> bool:
        name = str(place.relative_to(self._output))
        exists = not self._force and name in self._planned and place.exists()
        return exists or name in self._done

    def begin(self, places: Sequence[Path], progress: Progress) -> None:
        if self._planned:
            done = sum(map(self.has, places))
            progress.note(f"resuming: {done} of {len(places)} directories are finished")
        self._planned |= {str(place.relative_to(self._output)) for place in places}
        self._save()

    def add(self, place: Path) -> None:
        self._done.add(str(place.relative_to(self._output)))
        self._save()

    def _save(self) -> None:
        state = {**self._state, "planned": sorted(self._planned), "done": sorted(self._done)}
        write_bytes(self._path, orjson.dumps(state))

    def end(self) -> None:
        self._path.unlink(missing_ok=True)


def _places(task: str, output: Path) -> list[Path]:
    if task == "mcq":
        return [output / "mcq" / name for name in suites()]
    return [output / task]


def _lines(rows: Iterable[Row]) -> bytes:
    return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)


def _suite(
    place: Path, languages: Sequence[str], fetched: Fetched, progress: Progress
) -> dict[str, bytes]:
    """Files of the suite that the directory is named after."""
    suite = suites()[place.name]
    files: dict[str, bytes] = {}
    for language in languages:
        source = suite.source(language)
        if source is None:
            continue
        try:
            asked, shown = hub.questions(source, language, progress=progress)
        except hub.Unreachable:
            raise  # for all others too; the same call resumes
        except ModtokError as error:
            fetched.skipped.append(f"{suite.task} {language}: {error}")
            continue
        files[f"{language}.jsonl"] = _lines(question.as_row() for question in asked)
        if shown:
            files[f"{language}.train.jsonl"] = _lines(question.as_row() for question in shown)
        fetched.add(place, language, (len(asked), len(shown)), source.dataset)
    return files


def _translation(
    place: Path, languages: Sequence[str], fetched: Fetched, progress: Progress
) -> dict[str, bytes]:
    codes = hub.flores_codes()
    known = _known("FLORES", languages, codes, progress)
    if not known:
        return {}
    dataset, parts, errors = hub.flores(known)
    if not parts:
        fetched.skipped.append(f"mt: {'; '.join(errors)}")
        return {}
    files: dict[str, bytes] = {}
    for language in known:
        if not all(language in columns for columns in parts.values()):
            reasons = "; ".join(errors) or "no such column"
            fetched.skipped.append(f"mt {language}: not in {dataset} ({reasons})")
            continue
        for part, columns in parts.items():
            text = "".join(f"{line}\n" for line in columns[language])
            files[f"{part}/{codes[language]}.{part}"] = text.encode()
        sizes = len(parts["devtest"][language]), len(parts["dev"][language])
        fetched.add(place, language, sizes, dataset)
    return files


def _summaries(
    place: Path, languages: Sequence[str], fetched: Fetched, progress: Progress
) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for language in _known("WikiLingua", languages, hub.WIKILINGUA, progress):
        errors = []
        for dataset, read in ((hub.GEM, hub.gem), (hub.ARTICLES, hub.articles)):
            try:
                tests, shown = read(language, progress)
            except ModtokError as error:
                errors.append(str(error))
                continue
            files[f"{language}.jsonl"] = _lines(tests)
            files[f"{language}.train.jsonl"] = _lines(shown)
            fetched.add(place, language, (len(tests), len(shown)), dataset)
            break
        else:
            fetched.skipped.append(f"sum {language}: {'; '.join(errors)}")
    return files


def _known(
    name: str, languages: Sequence[str], codes: Mapping[str, str], progress: Progress
) -> list[str]:
    """The languages that a dataset has; a note of the others."""
    unknown = [language for language in languages if language not in codes]
    if unknown:
        progress.note(f"{name} has no {', '.join(unknown)}")
    return [language for language in languages if language in codes]


_FETCHERS: dict[str, Callable[[Path, Sequence[str], Fetched, Progress], Mapping[str, bytes]]] = {
    "mcq": _suite,
    "mt": _translation,
    "sum": _summaries,
}
