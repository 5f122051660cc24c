"""Data on standard output, everything for the eye on standard error."""

import json
import os
import pty
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from helpers.processes import python
from helpers.toy_program import ESCAPES, toy
from modtok_cli.cli import progress_bar as progress
from modtok_cli.cli.output import _judged, cell, one_line, rounded
from modtok_cli.cli.progress_bar import done_of, format_amount

from .test_run import TOY

Terminal = Callable[..., tuple[str, str]]


def read_all(handle: int) -> str:
    data = b""
    try:
        while piece := os.read(handle, 1 << 16):
            data += piece
    except OSError:
        pass  # a terminal whose other end is closed says EIO, not end of file
    os.close(handle)
    return data.decode().replace("\r\n", "\n")


@pytest.fixture
def terminal() -> Terminal:
    """Run the toy with a terminal of 80 columns at standard output, standard error, or both.

    Gives what came on each; what is no terminal is a pipe.
    """

    def call(*args: str, out: bool, err: bool, **environment: str) -> tuple[str, str]:
        leaders: dict[str, int] = {}
        followers: dict[str, int] = {}
        for name, wanted in (("stdout", out), ("stderr", err)):
            # (leader, follower) and (read, write): we hold the first, the toy the second.
            leaders[name], followers[name] = pty.openpty() if wanted else os.pipe()
        process = subprocess.Popen(
            [*TOY, *args],
            stdin=subprocess.DEVNULL,
            stdout=followers["stdout"],
            stderr=followers["stderr"],
            env={**os.environ, "COLUMNS": "80", "TERM": "xterm", **environment},
        )
        for name in ("stdout", "stderr"):
            os.close(followers[name])
        # Both at once: a terminal holds few bytes, and whoever writes more waits for a reader.
        with ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(read_all, (leaders["stdout"], leaders["stderr"])))
        assert process.wait(timeout=600) == 0
        return texts[0], texts[1]

    return call


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_piped_rows_are_json_lines(here) -> None:
    status, out, err = here("good", root=toy())
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[0] == {"language": "[fr]", "nsl": 1.01449, "ids": 340147}
    assert rows[1] == {"language": "ελ", "nsl": None}
    assert err == "a note\nmodtok: warning: a warning\n"
    assert here("good", "-q", root=toy()) == (0, out, "modtok: warning: a warning\n")


@pytest.mark.parametrize("arguments", [["hostile"], ["hostile", "--json"], ["hostile", "--debug"]])
def test_names_cannot_control_the_terminal(terminal: Terminal, arguments: list[str]) -> None:
    texts = terminal(*arguments, out=True, err=True, NO_COLOR="1")
    for text in texts:
        text = plain(text.replace("\r", ""))  # without what rich itself writes
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), ascii(text)
    assert r"\x1b]52;c;aGk=\x07" in texts[1]
    assert texts[0].endswith("\tzwnj \u200c\n")  # text keeps tabs and joiners


def test_names_that_are_not_utf8_are_escaped_in_json(here) -> None:
    status, out, _ = here("hostile", root=toy())
    assert status == 0
    rows = [json.loads(line) for line in out.splitlines()[:2]]
    assert rows[0]["text"] == ESCAPES + r"\xff"
    assert rows[0] == rows[1]


def test_numbers_in_json_have_six_digits() -> None:
    row = {"a": 2 / 3, "b": [1234567.8, {"c": 1e-9 / 3}], "n": 12345678, "f": 12345678.0}
    assert rounded(row) == {"a": 0.666667, "b": [1234570.0, {"c": 3.33333e-10}],
        "n": 12345678, "f": 12345678.0}  # fmt: skip


def test_tables_on_standard_output(here, terminal: Terminal, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    status, out, err = here("paths", "--table", root=toy())
    assert status == 0
    assert "/a/long/way/to/the/corpora/en.txt  tokenizer@en,fr" in out
    assert "corpora" not in err
    status, out, err = here("good", "--table", "--json", root=toy())
    assert (status, out) == (2, "")
    assert "--table and --json exclude each other" in err
    out, err = terminal("hostile", "--table", out=True, err=False, NO_COLOR="1")
    assert out.count(r"\x1b]52") == 7  # title, heading, two cells, caption, line, text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", plain(out.replace("\r", "")))


def test_tables_where_the_locale_lacks_characters() -> None:
    """Standard error escapes them by default; standard output would fail."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = python("-m", "helpers.toy_program", "good", "--table", env=environment)
    assert done.returncode == 0, done.stderr
    assert r"\u03b5\u03bb" in done.stdout


def test_on_a_terminal_rows_are_a_table_on_standard_error(terminal: Terminal) -> None:
    out, err = terminal("good", out=True, err=True)
    assert out == ""
    lines = [line.rstrip() for line in plain(err).splitlines()]
    assert "Toy" in lines
    assert any(line.split() == ["[fr]", "1.014", "340,147"] for line in lines)
    assert any(line.split() == ["ελ", "–", "–"] for line in lines)
    out, err = terminal("good", "--json", out=True, err=True)
    assert [json.loads(line)["language"] for line in out.splitlines()] == ["[fr]", "ελ"]
    assert "Toy" not in err


def test_the_best_and_the_worst_are_marked_and_said(terminal: Terminal) -> None:
    _, err = terminal("ranked", out=True, err=True)
    assert "\x1b[1m0.900" in err
    assert "\x1b[4m1.200" in err
    said = " ".join(plain(err).split())
    assert said.endswith(
        "a has the lowest mean NSL, 0.950 over 2 languages; its worst is English with 1.000. "
        "b has the highest, 1.150."
    )


def test_bits_of_other_languages_and_texts_are_not_ranked() -> None:
    row = {"infer": "lang", "bits_per_byte": 1.0, "bits_per_character": 2.0, "signature": "bpb|x"}
    one, other = ({**row, "language": code, "text": f"{code}.txt"} for code in ("en", "fi"))
    assert _judged([one, {**one, "infer": "full", "bits_per_byte": 1.5}])[0] == "bits_per_byte"
    assert _judged([one, other])[0] == _judged([one, {**one, "text": "b.txt"}])[0] == ""


def test_long_paths_leave_their_directories_out_where_the_table_is_too_wide(
    terminal: Terminal,
) -> None:
    _, narrow = terminal("paths", out=True, err=True)
    assert " en.txt  tokenizer@en,fr " in narrow
    _, wide = terminal("paths", out=True, err=True, COLUMNS="160")
    assert " /a/long/way/to/the/corpora/en.txt  tokenizer@en,fr " in wide


def test_columns_that_do_not_fit_become_lines(terminal: Terminal) -> None:
    for width in (12, 20, 30, 80):
        _, err = terminal("paths", out=True, err=True, COLUMNS=str(width))
        lines = [line.rstrip() for line in plain(err).splitlines()]
        assert max(map(len, lines)) <= width
        if width == 30:
            assert [line.split() for line in lines[2:5]] == [
                ["text", "en.txt"],
                ["tokenizer", "tokenizer@en,fr"],
                ["NSL", "1.0"],
            ]
        assert "1.0" in err


def test_no_color(terminal: Terminal) -> None:
    assert "\x1b[" in terminal("good", out=True, err=True)[1]
    coloured = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    assert not coloured.search(terminal("good", out=True, err=True, NO_COLOR="1")[1])
    assert not coloured.search(terminal("bars", out=False, err=True, NO_COLOR="1")[1])
    assert coloured.search(terminal("bars", out=False, err=True)[1])


def test_bars(terminal: Terminal) -> None:
    out, err = terminal("bars", out=False, err=True)
    assert out == "done\n"
    assert all(text in err for text in ("counting fr", "half of it", "MB"))
    out, err = terminal("threads", out=False, err=True)
    assert out == "done\n"
    assert "\x1b[?25h" in err.rsplit("\x1b[?25l", 1)[1]  # the cursor is back in the end
    assert terminal("bars", out=True, err=False) == ("done\n", "half of it\n")
    assert terminal("bars", "-q", out=True, err=True) == ("done\n", "")


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1.0145, "ratio", "1.014"),
        (0, "int", "0"),
        (1234567, "int", "1,234,567"),
        (float("nan"), "ratio", "–"),
        (12.34, "seconds", "12.3 s"),
        (999, "bytes", "999 B"),
        (24_503_043, "bytes", "24.5 MB"),
        (3e15, "bytes", "3000.0 TB"),
        (["en", "fi"], "text", "en, fi"),
    ],
)
def test_cell(value: object, form: str, text: str) -> None:
    assert cell(value, form) == text  # type: ignore[arg-type]


def test_amounts_and_lines() -> None:
    assert format_amount(999_999) == "999,999"
    assert format_amount(2_500_000) == "2.5 M"
    assert done_of(0, 10_240, "B") == "0 B/10.2 kB"
    assert done_of(3, 24_000, "tokens") == "3/24,000 tokens"
    assert done_of(3, None, "tokens") == "3 tokens"
    assert one_line("a\r\n b\x00é\u202e") == "a b\\x00é\\u202e"


def test_a_long_task_that_is_not_drawn_says_a_line(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where standard error is no terminal, after each time without another line."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    for quiet in (False, True):
        drawn = progress.CommandProgress(quiet=quiet)
        with drawn.task("fi", 9, "windows") as task:
            for second in (10, 20, 35, 40, 70):
                now[0] = (1000 if quiet else 0) + second
                task.advance()
    assert capfd.readouterr().err == "fi: 3/9 windows\nfi: 5/9 windows\n"
