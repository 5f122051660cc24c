"""A small program on the same frame, whose commands end in every way a command can.

`python -m helpers.toy_program COMMAND` runs it as a process.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.cli.command import Group, Registered, as_command
from modtok_cli.cli.output import Column, emit_bytes, emit_chunks, emit_lines, emit_rows, emit_text
from modtok_cli.cli.run import run
from modtok_cli.cli.session import Session


def good(session: Session, json: bool = False) -> None:
    session.progress.note("a note")
    session.progress.warn("a warning")
    rows = [{"language": "[fr]", "nsl": 1.01449, "ids": 340147}, {"language": "ελ", "nsl": None}]
    columns = [Column("language", "language"), Column("nsl", "NSL", "ratio")]
    emit_rows([*rows], [*columns, Column("ids", "ids", "int")], title="Toy", json=json)


def paths(session: Session, json: bool = False) -> None:
    texts = [f"/a/long/way/to/the/corpora/{name}.txt" for name in ("en", "fr")]
    rows = [{"text": text, "tokenizer": "tokenizer@en,fr", "nsl": 1.0} for text in texts]
    columns = [Column("text", "text"), Column("tokenizer", "tokenizer"), Column("nsl", "NSL")]
    more = [Column(f"c{i}", f"column {i}", "int") for i in range(3)]
    emit_rows(rows, [*columns, *more], title="Toy", json=json)


ESCAPES = "\x1b]52;c;aGk=\x07 \x9b2J \u202e \x7f"


def hostile(session: Session, json: bool = False) -> None:
    name = ESCAPES + "\udcff"
    session.say(name)
    session.progress.warn(name)
    with session.progress.task(name, 1, "words") as task:
        task.describe(name)
    rows = [{"text": name, "many": [name]}]
    columns = [Column("text", name), Column("many", "many")]
    emit_rows(rows, columns, title=name, json=json, caption=name)
    emit_lines([name], rows[0], json=json)
    emit_text([f"{ESCAPES}\tzwnj \u200c\n".encode()])


def endless(session: Session) -> None:
    emit_chunks(b"%d\n" % i for i in range(10_000_000))


def small(session: Session) -> None:
    emit_bytes(b"x")


def printed(session: Session) -> None:
    print("left in the buffer")


def work(session: Session) -> None:
    raise ModtokError("not\nUTF-8 \x1b[31m", where="fr.txt:3", remedy="pass --errors replace")


def usage(session: Session) -> None:
    raise UsageError("unknown language 'xx'")


def defect(session: Session) -> None:
    raise ZeroDivisionError("division by zero")


def missing(session: Session) -> None:
    open("no/such.txt").close()


def memory(session: Session) -> None:
    raise MemoryError


def interrupt(session: Session) -> None:
    raise KeyboardInterrupt


def build(session: Session) -> None:
    """Keeps what is done when it is interrupted."""
    raise KeyboardInterrupt


def sleep(session: Session) -> None:
    import time

    print("ready", flush=True)
    time.sleep(60)


def bars(session: Session) -> None:
    with session.progress.task("counting fr", 2_000_000, "B") as task:
        task.advance(1_000_000)
        session.progress.note("half of it")
        with session.progress.task("learning", None, "tokens") as inner:
            inner.advance(5)
            inner.describe("learning fi")
        task.advance(1_000_000)
    emit_bytes(b"done\n")


def threads(session: Session) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> None:
        for _ in range(20):
            with session.progress.task(f"part {number}", 10, "words") as task:
                task.advance(10)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    emit_bytes(b"done\n")


COMMANDS = (
    good, paths, hostile, endless, small, printed, work, usage, defect, missing, memory,
    interrupt, build, sleep, bars, threads,
)  # fmt: skip


def toy() -> Any:
    app = typer.Typer(cls=Group, rich_markup_mode=None)
    for function in COMMANDS:
        declared = as_command(function, resumes=function is build)
        Registered((function.__name__,), declared, "modtok toy").add_to(app)
    return typer.main.get_command(app)


if __name__ == "__main__":
    sys.exit(run(toy(), sys.argv[1:]))
