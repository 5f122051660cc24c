"""Write a world as a workspace: training text, parallel sentences and questions.

data/<lang>.jsonl            documents
tasks/mcq/world/<lang>.jsonl questions, with tasks/mcq/world/task.yaml
tasks/mt/dev.tsv, test.tsv   the same sentences in every language, none of them in data/
world.json                   settings, and every fact with the languages that state it
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.world.facts import World, make_world
from modtok_cli.world.languages import LANGUAGES, Language, languages
from modtok_cli.world.text import Event, Writer, draw_event, questions, tell_event

_TASK = b'prompt: "{question}"\nshots: 0\nnormalization: none\ntitle: facts\n'


@dataclass(frozen=True)
class Settings:
    """A world.

    Attributes:
        seed: all words, facts and texts follow from it.
        languages: codes of `LANGUAGES`; the first is the dominant one.
        documents: documents of each language.
        people, towns: how many there are.
        private: share of facts that a single language states.
        quotes: share of documents that quote another language beside a translation.
        sentences: parallel sentences to test with; a tenth as many are examples.
    """

    seed: int = 0
    languages: tuple[str, ...] = tuple(LANGUAGES)
    documents: int = 20_000
    people: int = 40
    towns: int = 16
    private: float = 0.5
    quotes: float = 0.2
    sentences: int = 200

    def __post_init__(self) -> None:
        unknown = [code for code in self.languages if code not in LANGUAGES]
        if unknown or len(set(self.languages)) < max(2, len(self.languages)):
            raise UsageError(
                f"languages {','.join(self.languages)}",
                remedy=f"choose two or more of {','.join(LANGUAGES)}",
            )
        if not (0 <= self.private <= 1 and 0 <= self.quotes <= 1):
            raise UsageError("shares are between 0 and 1")


def write_world(output: Path, settings: Settings, progress: Progress = SILENT) -> World:
    """Write the world's texts to the new directory `output`.

    Raises:
        UsageError: `output` exists.
    """
    if output.exists():
        raise UsageError("already exists", where=str(output), remedy="choose another directory")
    tongues = languages(settings.seed, settings.languages)
    world = make_world(
        settings.seed,
        settings.languages,
        people=settings.people,
        towns=settings.towns,
        private=settings.private,
    )
    tests = _parallel(world, settings)
    # A sentence is known by its form in the first language.
    first = tongues[settings.languages[0]]
    held_out = {tell_event(event, first) for events in tests.values() for event in events}
    with atomic_directory(output) as beside:
        for name in ("data", "tasks/mcq/world", "tasks/mt"):
            (beside / name).mkdir(parents=True)
        with progress.task("writing documents", len(tongues), "languages") as task:
            for code, tongue in tongues.items():
                writer = Writer(world, tongues, code, settings.quotes, frozenset(held_out))
                draw = random.Random(f"{settings.seed} documents {code}")
                with open(beside / "data" / f"{code}.jsonl", "wb") as file:
                    for _ in range(settings.documents):
                        file.write(orjson.dumps({"text": writer.document(draw)}) + b"\n")
                rows = questions(world, tongue, seed=settings.seed)
                file_of_questions = beside / "tasks/mcq/world" / f"{code}.jsonl"
                file_of_questions.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
                task.advance()
        (beside / "tasks/mcq/world/task.yaml").write_bytes(_TASK)
        for name, events in tests.items():
            lines = ["\t".join(tongues), *_table(events, list(tongues.values()))]
            (beside / "tasks/mt" / f"{name}.tsv").write_text("\n".join(lines) + "\n", "utf-8")
        facts = [
            {**asdict(fact), "told": told}
            for fact, told in zip(world.facts, world.told, strict=True)
        ]
        described = {"settings": asdict(settings), "facts": facts}
        (beside / "world.json").write_bytes(orjson.dumps(described, option=orjson.OPT_INDENT_2))
    return world


def _parallel(world: World, settings: Settings) -> dict[str, list[Event]]:
    draw = random.Random(f"{settings.seed} parallel")
    counts = {"dev": max(5, settings.sentences // 10), "test": settings.sentences}
    return {
        name: [draw_event(draw, world.people) for _ in range(count)]
        for name, count in counts.items()
    }


def _table(events: list[Event], tongues: list[Language]) -> Iterator[str]:
    for event in events:
        yield "\t".join(tell_event(event, tongue) for tongue in tongues)
