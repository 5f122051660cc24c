"""Write a world as a workspace: training text, parallel sentences and questions.

data/<lang>.jsonl              documents
tasks/mcq/facts-*/<lang>.jsonl questions in three tasks by `text.STATED_BY`, with a task.yaml
tasks/mt/dev.tsv, test.tsv     the same sentences in every language, quoted nowhere in data/
world.json                     settings, and every fact with the languages that state it
"""

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.option import Declared, option, options_of
from modtok_cli.base.parameters import Output
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.reading import read_bounded, read_object
from modtok_cli.base.records import from_json
from modtok_cli.studies.world.facts import World, make_world
from modtok_cli.studies.world.languages import LANGUAGES, Language, languages
from modtok_cli.studies.world.text import (
    STATED_BY,
    Event,
    Writer,
    draw_event,
    questions,
    tell_event,
)

_TASK = """task: {task}
title: facts ({group})
about: facts that texts in {stated} state
prompt: "{{question}}"
shots: 0
normalization: none
"""


@dataclass(frozen=True, kw_only=True)
class WorldSettings(Declared):
    """A world; all words, facts and texts follow from its seed.

    Attributes:
        languages: codes of `LANGUAGES`.
    """

    seed: int = option("Random seed.", default=0, metavar="N", low=0)
    languages: tuple[str, ...] = tuple(LANGUAGES)
    documents: int = option("Documents of each language.", default=20_000, metavar="N", low=1)
    people: int = option("Number of people.", default=40, metavar="N", low=4)
    towns: int = option("Number of towns.", default=16, metavar="N", low=4)
    private: float = option(
        "Share of facts that one language alone states.",
        default=0.5,
        metavar="SHARE",
        low=0,
        high=1,
    )
    quotes: float = option(
        "Share of documents that quote another language beside a translation.",
        default=0.2,
        metavar="SHARE",
        low=0,
        high=1,
    )
    lines: int = option(
        "Most lines of a document of quotations, which has half as many at least.",
        default=8,
        metavar="N",
        low=2,
    )
    foreign: float = option(
        "Share of words of other documents that are names, loanwords and quotations of another "
        "language.",
        default=0.0,
        metavar="SHARE",
        low=0,
        high=0.5,
    )
    synonyms: int = option(
        "Further words for each concept, which other documents use beside those of quotations.",
        default=0,
        metavar="N",
        low=0,
    )
    sentences: int = option(
        "Parallel sentences to test with; a tenth as many are examples.",
        default=200,
        metavar="N",
        low=1,
    )

    def __post_init__(self) -> None:
        for name, each in OPTIONS.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, each.default)
        super().__post_init__()
        unknown = [code for code in self.languages if code not in LANGUAGES]
        if unknown or len(set(self.languages)) < max(2, len(self.languages)):
            raise UsageError(
                f"languages {','.join(self.languages)}",
                remedy=f"choose two or more of {','.join(LANGUAGES)}",
            )


OPTIONS = options_of(WorldSettings)


@public
def corpus_world(
    output: Output = None,
    settings: WorldSettings = WorldSettings(),
    *,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Write texts in invented languages for small models.

    All are about the same people, places and things. A small model can learn all of it, so that
    facts, translation and the choice of language can be measured on a CPU. Four languages (qaa,
    qab, qac, qad) differ in sounds, endings and word order. The output has training text in data/,
    a question for each fact in tasks/mcq/, in three tasks by the languages that state the fact
    (facts-all, facts-own, facts-other), and parallel sentences in tasks/mt/.

    Returns:
        A row for each language: documents, bytes of text, the facts that it states, and those that
        it states alone (`own`).

    Examples:
        >>> rows = modtok.corpus_world("world", modtok.WorldSettings(documents=20))
        >>> [row["language"] for row in rows]
        ['qaa', 'qab', 'qac', 'qad']

    Raises:
        UsageError: `output` exists and is not this world.
    """
    if output is None:
        raise UsageError("no output directory given", remedy="as in: modtok corpus world -o world")
    place = Path(output)
    world = write_world(place, settings, progress)
    return [
        {
            "language": code,
            "documents": settings.documents,
            "bytes": (place / "data" / f"{code}.jsonl").stat().st_size,
            "facts": sum(code in languages_of for languages_of in world.stated),
            "own": sum(languages_of == (code,) for languages_of in world.stated),
        }
        for code in settings.languages
    ]


def write_world(output: Path, settings: WorldSettings, progress: Progress = SILENT) -> World:
    """Write the world's texts to the new directory `output`; warn if they are there already."""
    tongues = languages(settings.seed, settings.languages)
    world = _world(settings)
    facts = [
        {**asdict(fact), "told": stated}
        for fact, stated in zip(world.facts, world.stated, strict=True)
    ]
    described = orjson.dumps(
        {"settings": asdict(settings), "facts": facts}, option=orjson.OPT_INDENT_2
    )
    if output.exists():
        if not _is_there(output, settings, described):
            raise UsageError("already exists", where=output, remedy="choose another directory")
        progress.warn(f"{output} is already finished with these settings")
        return world
    tests = _parallel(world, settings)
    with atomic_directory(output) as beside:
        tasks = {group: beside / "tasks/mcq" / f"facts-{group}" for group in STATED_BY}
        for place in (beside / "data", beside / "tasks/mt", *tasks.values()):
            place.mkdir(parents=True)
        with progress.task("writing documents", len(tongues), "languages") as task:
            for code, tongue in tongues.items():
                write_documents(beside / "data" / f"{code}.jsonl", code, settings, "documents")
                rows = questions(world, tongue, seed=settings.seed)
                for group, place in tasks.items():
                    own = [orjson.dumps(row) + b"\n" for row, stated in rows if stated == group]
                    if own:
                        (place / f"{code}.jsonl").write_bytes(b"".join(own))
                task.advance()
        for group, place in tasks.items():
            text = _TASK.format(task=place.name, group=group, stated=STATED_BY[group])
            (place / "task.yaml").write_text(text, "utf-8")
        for name, events in tests.items():
            lines = ["\t".join(tongues), *_table(events, list(tongues.values()))]
            (beside / "tasks/mt" / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        (beside / "world.json").write_bytes(described)
    return world


def write_documents(file: Path, code: str, settings: WorldSettings, draws: str) -> None:
    """Write the documents of a language; other `draws` give other documents of the same world."""
    tongues, world = languages(settings.seed, settings.languages), _world(settings)
    # A sentence is known by its form in the first language.
    first = tongues[settings.languages[0]]
    tests = _parallel(world, settings).values()
    writer = Writer(
        world,
        tongues,
        code,
        settings.quotes,
        held_out=frozenset(tell_event(event, first) for events in tests for event in events),
        lines=settings.lines,
        foreign=settings.foreign,
        synonyms={each: tongue.synonyms(settings.synonyms) for each, tongue in tongues.items()}
        if settings.synonyms
        else {},
    )
    draw = random.Random(f"{settings.seed} {draws} {code}")
    with open(file, "wb") as lines:
        for _ in range(settings.documents):
            lines.write(orjson.dumps({"text": writer.document(draw)}) + b"\n")


def _world(settings: WorldSettings) -> World:
    return make_world(
        settings.seed,
        settings.languages,
        people=settings.people,
        towns=settings.towns,
        private=settings.private,
    )


def _is_there(output: Path, settings: WorldSettings, described: bytes) -> bool:
    """Whether `output`, which appears as a whole, is the world of this description."""
    try:
        same = read_bounded(output / "world.json") == described
    except OSError:
        return False
    return same and all((output / f"data/{code}.jsonl").is_file() for code in settings.languages)


def read_settings(world: Path) -> WorldSettings:
    """The settings that a world was written with."""
    where = world / "world.json"
    return from_json(WorldSettings, read_object(where).get("settings"), str(where))


def _parallel(world: World, settings: WorldSettings) -> dict[str, list[Event]]:
    """Different events, as examples and to test with."""
    draw = random.Random(f"{settings.seed} parallel")
    examples = max(5, settings.sentences // 10)
    events: dict[Event, None] = {}
    while len(events) < examples + settings.sentences:
        events[draw_event(draw, world.people)] = None
    every = list(events)
    return {"dev": every[:examples], "test": every[examples:]}


def _table(events: list[Event], tongues: list[Language]) -> Iterator[str]:
    for event in events:
        yield "\t".join(tell_event(event, tongue) for tongue in tongues)
