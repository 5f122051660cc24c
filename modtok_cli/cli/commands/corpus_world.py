"""`modtok corpus world`: texts in invented languages about a world with known facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json, Output
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("language", "language"),
    Column("documents", "documents", "int"),
    Column("bytes", "text", "bytes"),
    Column("facts", "facts stated", "int"),
    Column("own", "by it alone", "int"),
)
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Random seed.")]
Documents = Annotated[
    int, typer.Option("--documents", metavar="N", min=1, help="Documents of each language.")
]
People = Annotated[int, typer.Option("--people", metavar="N", min=4, help="Number of people.")]
Towns = Annotated[int, typer.Option("--towns", metavar="N", min=4, help="Number of towns.")]
Private = Annotated[
    float,
    typer.Option(
        "--private", metavar="SHARE", min=0, max=1,
        help="Share of facts that one language alone states.",
    ),
]  # fmt: skip
Quotes = Annotated[
    float,
    typer.Option(
        "--quotes", metavar="SHARE", min=0, max=1,
        help="Share of documents that quote another language beside a translation.",
    ),
]  # fmt: skip
Sentences = Annotated[
    int, typer.Option("--sentences", metavar="N", min=1, help="Parallel sentences to test with.")
]


@command(
    "corpus world",
    examples="""
    # four languages, 23 MB
    modtok corpus world -o world
    # no text in two languages
    modtok corpus world -o apart --quotes 0
    """,
)
def corpus_world(
    session: Session,
    output: Output = None,
    seed: Seed = 0,
    documents: Documents = 20_000,
    people: People = 40,
    towns: Towns = 16,
    private: Private = 0.5,
    quotes: Quotes = 0.2,
    sentences: Sentences = 200,
    json: Json = False,
) -> None:
    """Write texts in invented languages for small models.

    All are about the same people, places and things. A small model can learn all of it, so that
    facts, translation and the choice of language can be measured on a CPU. Four languages (qaa,
    qab, qac, qad) differ in sounds, endings and word order. The output has training text in data/,
    a question for each fact in tasks/mcq/, in three tasks by the languages that state the fact
    (facts-all, facts-own, facts-other), and parallel sentences in tasks/mt/.
    """
    from modtok_cli.studies.world.corpus import WorldSettings, write_world

    if output is None:
        raise UsageError("no output directory given", remedy="as in: modtok corpus world -o world")
    settings = WorldSettings(
        seed=seed,
        documents=documents,
        people=people,
        towns=towns,
        private=private,
        quotes=quotes,
        sentences=sentences,
    )
    world = write_world(Path(output), settings, session.progress)
    rows = [
        {
            "language": code,
            "documents": documents,
            "bytes": (Path(output) / "data" / f"{code}.jsonl").stat().st_size,
            "facts": sum(code in told for told in world.told),
            "own": sum(told == (code,) for told in world.told),
        }
        for code in settings.languages
    ]
    emit_rows(rows, COLUMNS, title=str(output), json=json)
