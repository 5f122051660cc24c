"""A small program on the same frame, whose commands end in every way a command can.

`python -m helpers.toy_program COMMAND` runs it as a process.
"""

from __future__ import annotations

import sys
from errno import ENOENT, ENOSPC
from typing import Any

import typer

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.cli.command import Call, Json, declare
from modtok_cli.cli.execute import run
from modtok_cli.cli.framework import Group
from modtok_cli.cli.output import Column, emit_chunks, emit_lines, emit_rows


def good(call: Call, json: Json = False) -> None:
    call.progress.note("a note")
    call.progress.warn("a warning")
    rows = [{"language": "[fr]", "nsl": 1.01449, "ids": 340147}, {"language": "ελ", "nsl": None}]
    columns = [Column("language", "language"), Column("nsl", "NSL", "ratio")]
    emit_rows([*rows], [*columns, Column("ids", "ids", "int")], title="Toy", json=json)


def paths(call: Call, json: Json = False) -> None:
    texts = [f"/a/long/way/to/the/corpora/{name}.txt" for name in ("en", "fr")]
    rows = [{"text": text, "tokenizer": "tokenizer@en,fr", "nsl": 1.0} for text in texts]
    columns = [Column("text", "text"), Column("tokenizer", "tokenizer"), Column("nsl", "NSL")]
    more = [Column(f"c{i}", f"column {i}", "int") for i in range(3)]
    emit_rows(rows, [*columns, *more], title="Toy", json=json)


def ranked(call: Call, json: Json = False) -> None:
    facts = {"text": "t", "tokens_per_character": 1.0, "signature": "nsl|"}
    rows = [
        {"tokenizer": name, "language": language, "nsl": value, **facts}
        for name, values in (("a", (1.0, 0.9)), ("b", (1.1, 1.2)))
        for language, value in zip(("en", "fi"), values, strict=True)
    ]
    columns = [Column("tokenizer", "tokenizer"), Column("nsl", "NSL", "ratio")]
    emit_rows(rows, columns, title="Toy", json=json)


ESCAPES = "\x1b]52;c;aGk=\x07 \x9b2J \u202e \x7f"


def hostile(call: Call, json: Json = False) -> None:
    name = ESCAPES + "\udcff"
    call.say(name)
    call.progress.warn(name)
    with call.progress.task(name, 1, "words") as task:
        task.describe(name)
    rows = [{"text": name, "many": [name]}]
    columns = [Column("text", name), Column("many", "many")]
    emit_rows(rows, columns, title=name, json=json, caption=name)
    emit_lines([name], rows[0], json=json)
    emit_chunks([f"{ESCAPES}\tzwnj \u200c\n".encode()])


def endless(call: Call) -> None:
    emit_chunks(b"%d\n" % i for i in range(10_000_000))


def small(call: Call) -> None:
    emit_chunks([b"x"])


def printed(call: Call) -> None:
    print("left in the buffer")


FAILURES: dict[str, BaseException] = {
    "work": ModtokError("not\nUTF-8 \x1b[31m", where="fr.txt:3", remedy="pass --errors replace"),
    "short": ModtokError("nothing is left"),
    "usage": UsageError("unknown language 'xx'"),
    "defect": ZeroDivisionError("division by zero"),
    "missing": FileNotFoundError(ENOENT, "No such file or directory", "no/such.txt"),
    "full": OSError(ENOSPC, "No space left on device", "a.bin"),
    "memory": MemoryError(),
    "interrupt": KeyboardInterrupt(),
    "build": KeyboardInterrupt(),  # keeps what is done
    "exit": SystemExit("of a library"),
}


def fail(call: Call) -> None:
    raise FAILURES[call.session.args[0]]


def bars(call: Call) -> None:
    with call.progress.task("counting fr", 2_000_000, "B") as task:
        task.advance(1_000_000)
        call.progress.note("half of it")
        with call.progress.task("learning", None, "tokens") as inner:
            inner.advance(5)
            inner.describe("learning fi")
        task.advance(1_000_000)
    emit_chunks([b"done\n"])


def threads(call: Call) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> None:
        for _ in range(20):
            with call.progress.task(f"part {number}", 10, "words") as task:
                task.advance(10)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    emit_chunks([b"done\n"])


COMMANDS = (
    good, paths, ranked, hostile, endless, small, printed, bars, threads,
)  # fmt: skip


def nothing() -> None:
    """What the commands call."""


def toy() -> Any:
    app = typer.Typer(cls=Group, rich_markup_mode=None)
    commands = {function.__name__: function for function in COMMANDS}
    for name, function in (commands | dict.fromkeys(FAILURES, fail)).items():
        declare(name, function, nothing, "modtok toy", resumes=name == "build").add_to(app)
    return typer.main.get_command(app)


if __name__ == "__main__":
    sys.exit(run(toy(), sys.argv[1:]))
