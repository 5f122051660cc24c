"""Write a world as a workspace: training text, parallel sentences and questions.

data/<lang>.jsonl              documents
tasks/mcq/facts-*/<lang>.jsonl questions in three tasks by `text.STATED_BY`, with a task.yaml
tasks/mt/dev.tsv, test.tsv     the same sentences in every language, quoted nowhere in data/
tasks/sum/<lang>.jsonl         with --summaries: further texts and the facts in them
world.json                     settings, and every fact with the languages that state it
"""

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path

import orjson

from benchmarks.world.facts import World, make_world
from benchmarks.world.languages import LANGUAGES, Language, languages
from benchmarks.world.text import (
    STATED_BY,
    Event,
    Writer,
    draw_event,
    questions,
    tell_event,
)
from modtok_cli.base.files import atomic_directory

_TASK = """task: {task}
title: facts ({group})
about: facts that texts in {stated} state
prompt: "{{question}}"
shots: 0
normalization: none
"""


@dataclass(frozen=True, kw_only=True)
class WorldSettings:
    """A world; all words, facts and texts follow from its seed.

    Attributes:
        languages: codes of `LANGUAGES`.
        documents: of each language.
        private: share of facts that one language alone states.
        quotes: share of documents that quote another language beside a translation.
        lines: most lines of a document of quotations, which has half as many at least.
        foreign: share of words of other documents that are names, loanwords and quotations of
            another language.
        synonyms: further words for each concept, which other documents use.
        sentences: parallel sentences to test with; a tenth as many are examples.
        summaries: share of documents without quotations that end with a summary.
    """

    seed: int = 0
    languages: tuple[str, ...] = tuple(LANGUAGES)
    documents: int = 15_000
    people: int = 40
    towns: int = 16
    private: float = 0.5
    quotes: float = 0.7
    lines: int = 4
    foreign: float = 0.03
    synonyms: int = 6
    sentences: int = 100
    summaries: float = 0.0


def write_world(output: Path, settings: WorldSettings) -> None:
    """Write the world's texts to `output`; leave them if they are there with these settings."""
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
        if (output / "world.json").read_bytes() != described:
            raise SystemExit(f"{output}: was made with other settings")
        return
    with atomic_directory(output) as beside:
        tasks = {group: beside / "tasks/mcq" / f"facts-{group}" for group in STATED_BY}
        for place in (beside / "data", beside / "tasks/mt", *tasks.values()):
            place.mkdir(parents=True)
        for code, tongue in tongues.items():
            write_documents(beside / "data" / f"{code}.jsonl", code, settings, "documents")
            if settings.summaries:
                _write_summaries(beside / "tasks/sum", code, settings)
            rows = questions(world, tongue, seed=settings.seed)
            for group, place in tasks.items():
                own = [orjson.dumps(row) + b"\n" for row, stated in rows if stated == group]
                if own:
                    (place / f"{code}.jsonl").write_bytes(b"".join(own))
        for group, place in tasks.items():
            text = _TASK.format(task=place.name, group=group, stated=STATED_BY[group])
            (place / "task.yaml").write_text(text, "utf-8")
        for name, events in _parallel(world, settings).items():
            lines = ["\t".join(tongues), *_table(events, list(tongues.values()))]
            (beside / "tasks/mt" / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        (beside / "world.json").write_bytes(described)


def write_documents(file: Path, code: str, settings: WorldSettings, draws: str) -> None:
    """Write the documents of a language; other `draws` give other documents of the same world."""
    writer = _writer(code, settings)
    draw = random.Random(f"{settings.seed} {draws} {code}")
    with open(file, "wb") as lines:
        for _ in range(settings.documents):
            lines.write(orjson.dumps({"text": writer.document(draw)}) + b"\n")


def _write_summaries(place: Path, code: str, settings: WorldSettings) -> None:
    """Texts with summaries: as many to test with as sentences, a tenth as many as examples."""
    place.mkdir(parents=True, exist_ok=True)
    writer, draw = _writer(code, settings), random.Random(f"{settings.seed} summaries {code}")
    made = (writer.summarized(draw) for _ in count())
    pairs = ({"document": text, "summary": summary} for text, summary in made if summary)
    for name, number in ((code, settings.sentences), (f"{code}.train", settings.sentences // 10)):
        rows = [orjson.dumps(pair) + b"\n" for pair in islice(pairs, number)]
        (place / f"{name}.jsonl").write_bytes(b"".join(rows))


def _writer(code: str, settings: WorldSettings) -> Writer:
    """The writer of documents in a language."""
    tongues, world = languages(settings.seed, settings.languages), _world(settings)
    # A sentence is known by its form in the first language.
    first = tongues[settings.languages[0]]
    tests = _parallel(world, settings).values()
    return Writer(
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
        summaries=settings.summaries,
    )


def _world(settings: WorldSettings) -> World:
    return make_world(
        settings.seed,
        settings.languages,
        people=settings.people,
        towns=settings.towns,
        private=settings.private,
    )


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
