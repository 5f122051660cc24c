"""How a command ends: one line on standard error, and the exit status."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.processes import python
from helpers.toy_program import toy
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.version import __version__
from modtok_cli.cli.execute import explain, memory_advice
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.session import Session
from modtok_cli.text.streams import read_chunks

TOY = [sys.executable, "-m", "helpers.toy_program"]


@pytest.mark.parametrize(
    ("command", "status", "line"),
    [
        ("work", 1, r"modtok: error: fr.txt:3: not UTF-8 \x1b[31m; pass --errors replace"),
        ("usage", 2, "modtok: error: unknown language 'xx'; try \"modtok usage --help\""),
        ("short", 1, "modtok: error: nothing is left\n"),
        ("missing", 1, "modtok: error: no/such.txt: No such file or directory"),
        ("full", 1, "modtok: error: a.bin: No space left on device\n"),
        ("memory", 1, "modtok: error: out of memory; use a machine with more memory"),
        ("interrupt", 130, "modtok: interrupted; no partial output remains"),
        ("build", 130, "modtok: interrupted; repeat the command to continue"),
        (
            "defect",
            1,
            "modtok: error: internal error (ZeroDivisionError: division by zero); run again "
            "with --debug and report it",
        ),
        ("nothing", 2, 'modtok: error: unknown command nothing; try "modtok --help"'),
    ],
)
def test_one_line_and_status(here, command: str, status: int, line: str) -> None:
    got, out, err = here(command, root=toy())
    assert (got, out) == (status, "")
    assert err.startswith(line)
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bpe --lang fr", "unknown option --lang; did you mean --langs or --lang-field?; try "),
        ("bpe-seq --remove fr", "unknown option --remove here; modtok bpe-merge has it; try"),
        ("-q bpe fr fi", 'unexpected argument: fr fi; try "modtok bpe --help"'),
        ("bpe -k", '-k needs a value; try "modtok bpe --help"'),
        ("bpe -k x", "-k/--budget: expected a whole number, got '"),
        ("bpe -k 257", "-k: k = 257 is too small: 2 special tokens and 256 bytes count towards "),
        ("bpe .", 'unexpected argument: .; give text with --data .; try "modtok bpe --help"'),
        ("bpe fr,en", "unexpected argument: fr,en; give languages with --langs fr,en; try"),
        (
            "extract --langs fr -o a/",
            "a/: names a directory, and a file is written; use --hf a/",
        ),
        ("explore -o a/", "a/: names a directory, and a file is written; name a file"),
        ("check --csv", "unknown option --csv; use --json; try"),
        ("bpe fr bpe-seq", 'unexpected argument: fr bpe-seq; try "modtok bpe --help"'),
        ("-q", 'a command is missing; try "modtok --help"'),
        ("bpe --json=1", "--json takes no value; try "),
        ("bpe --langs en,,fi", "--langs 'en,,fi' has an empty entry; as in: --langs"),
        ("bpe --langs ", "--langs is empty; as in: --langs en,fi,fr"),
        ("bpe --langs en,en", "--langs repeats 'en'; give it once"),
        ("bpe-seq --append sv,", "--append 'sv,' has an empty entry; as in: --app"),
        ("bpe --langs fi --langs en", "--langs is given 2 times; separate values by"),
        ("bpe -k 300 --budget 400", "--budget is given 2 times; give it once"),
        ("encode --ids --tokens", "--ids/--tokens is given 2 times; give it once"),
        ("bpe --langs pt,fi,por", "--langs: 'pt' and 'por' are one language; both"),
        ("bpe --data ", "--data: expected a path, got ''; try "),
        ("inspect ", "TOKENIZER: expected a path, got ''; try "),
        ("extract  --langs fi", "TOKENIZER: expected a path, got ''; try "),
        ("generate  Il", "MODEL: expected a model or a prompt, got ''; try "),
        ("nsl a.txt --lang ", "--lang: expected text, got ''; try "),
        ("slice --report ", "--report: expected a path or a list of paths, got ['']; try "),
        ("check  fi.txt", "TOKENIZER_OR_TEXT: expected a path or a list of paths, got ["),
        ("encode ", "TEXT: expected a path or a list of paths, got ['']; try "),
        ("bpe -o -", "-o/--output: - (standard input or output) is not supported here"),
        ("eval mcq --examples -", "--examples: - (standard input or output) is not"),
        ("nsl", "TEXT is missing: Text file (.txt, .jsonl, .parquet, .csv, .arrow; may be "),
        ("eval compare a", "B is missing: Second system: another model, or another such file; try"),
        ("pretrain -o x", "unknown option -o; use --name NAME or --runs DIR; try"),
        (
            "serve --host x",
            "unknown option --host; give options of vLLM after --, as in: -- --host;",
        ),
        ("eval sum --num-fewshot 2", "unknown option --num-fewshot; use --shots N; try"),
        ("corpus count --input x", "unknown option --input; use --data PATH; try"),
        ("eval bpb x --model m", "unknown option --model; use MODEL_OR_TEXT as an argument; try"),
        ("bpe --model m", "unknown option --model here; modtok cost, modtok pretrain have it; try"),
        ("nsl - -", "standard input (-) is given twice; give it once"),
        ("bpe --untie", 'unknown option --untie; try "modtok bpe --help"'),
        ("bpe --vocab-size 3", 'unknown option --vocab-size; use -k N; try "modtok bpe --help"'),
        ("adopt -k 3", "unknown option -k; use --top N; try"),
        ("tokens model --budget 3", "unknown option --budget; use --top N or --size N; try"),
        ("eval mcq --data x", "unknown option --data; use --eval-data PATH; try"),
        ("eval compare a b --text x", "unknown option --text; use TEXT as an argument; try"),
        ("check --langs fr", "unknown option --langs; use --lang LANG of a text or -t DIR@fr,en;"),
        ("eval mt --langs fr", "unknown option --langs; use --pairs fr-en; try"),
        ("bpe --buget 3", 'unknown option --buget; did you mean --budget?; try "modtok'),
        ("bpe_seq", 'unknown command bpe_seq; did you mean bpe-seq or bpe?; try "modtok --h'),
        ("it's", 'unknown command it\'s; try "modtok --help"'),
        ("corpus cuont", 'unknown command cuont; did you mean count?; try "modtok corpus --'),
    ],
)
def test_wrong_usage_is_one_line(here, line: str, said: str) -> None:
    status, out, err = here(*line.split(" "))
    assert (status, out) == (2, "")
    assert err.startswith(f"modtok: error: {said}")
    assert err.count("\n") == 1


def test_a_current_directory_that_was_removed_is_named(here, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = "modtok: error: the current directory was removed; change to another one\n"
    assert here("sample", "here") == (1, "", said)


@pytest.mark.parametrize("typed", ["-k 70", "-k70", "--budget 70", "--budget=70"])
def test_messages_name_the_flag_that_was_typed(at, typed: str) -> None:
    """Of `-k/--budget` one is typed: the other one is not the user's word."""
    flag = typed.split("7")[0].rstrip(" =")
    for line in (f"bpe --langs fr {typed} -o n", f"bpe-seq {typed} -o n"):
        status, _, err = at(*line.split())
        assert status == 2
        assert {"-k", "--budget"} & set(re.findall(r"(?<!\w)-k\b|--budget", err)) == {flag}, err


@pytest.mark.parametrize(
    ("number", "readable", "said"),
    [
        (errno.EROFS, True, "cannot write: Read-only file system; nothing was changed; choose"),
        (errno.EACCES, True, "cannot write: Permission denied; nothing was changed; choose"),
        (errno.EACCES, False, "cannot read: Permission denied; check its permissions"),
    ],
)
def test_a_refused_file_has_the_usual_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, readable: bool, said: str
) -> None:
    (tmp_path / "a").touch()
    error = OSError(number, os.strerror(number), str(tmp_path / "a"))
    monkeypatch.setattr(os, "access", lambda path, mode: readable or mode != os.R_OK)
    status, message = explain(error, command_tree(), Session())
    assert (status, message.startswith(f"{tmp_path / 'a'}: {said}")) == (1, True), message


def test_names_that_are_not_utf8(here, workspace: Path, stand_in) -> None:
    name = os.fsdecode(b"b\xff")
    (workspace / "data").mkdir()
    (workspace / "data" / f"en.{name}.txt").write_text("some words\n" * 50)
    assert here("bpe", "-k", "300")[0] == 0
    refused = UnicodeEncodeError("utf-8", name, 1, 2, "surrogates not allowed")
    stand_in("bpe", refused)
    status, out, err = here("bpe", "-k", "300", "-o", "other")
    assert (status, out) == (1, "")
    assert err == "modtok: error: a file name or an argument is not valid UTF-8; rename the file\n"
    assert here("nsl", f"{name}.txt")[2].startswith(r"modtok: error: b\xff.txt: does not exist")


def test_closed_standard_input_is_one_line(here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    status, out, err = here("encode", "-t", "-", "x")
    assert (status, out) == (1, "")
    assert err.startswith("modtok: error: standard input is closed; give a file")
    with pytest.raises(ModtokError, match="standard input is closed"):
        list(read_chunks("-"))


def test_traceback_only_on_demand(here, monkeypatch: pytest.MonkeyPatch) -> None:
    status, _, err = here("defect", "--debug", root=toy())
    assert status == 1
    assert err.startswith("Traceback")
    assert "in fail" in err
    assert err.splitlines()[-1].startswith("modtok: error: internal error")
    monkeypatch.setenv("MODTOK_DEBUG", "1")
    assert here("work", root=toy())[2].startswith("Traceback")
    assert not here("usage", root=toy())[2].startswith("Traceback")
    monkeypatch.setenv("MODTOK_DEBUG", "0")
    assert not here("work", root=toy())[2].startswith("Traceback")
    with pytest.raises(SystemExit, match="of a library"):
        here("exit", root=toy())


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["help", "corpus", "count"], ["corpus", "count", "--help"]),
        (["help"], ["--help"]),
        (["bpe", "-h"], ["bpe", "--help"]),
        (["-V"], ["--version"]),
    ],
)
def test_short_forms_of_help_and_version(here, words: list[str], same: list[str]) -> None:
    assert here(*words) == here(*same)
    assert here(*words)[0] == 0
    assert here("-V") == (0, f"modtok {__version__}\n", "")


def test_repeatable_options_and_switches_may_be_given_twice(here, stand_in) -> None:
    called = stand_in("nsl", [])
    assert here("nsl", "x", "-t", "a", "-t", "b", "--json", "--json", "-q", "-q")[0] == 0
    assert called.kwargs["tokenizers"] == ["a", "b"]
    assert here("nsl", "--lang", "fi", "--lang", "en", "--help")[0] == 0


def shell(line: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, "toy", *TOY],
        capture_output=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("command", ["endless", "--help", "printed"])
def test_a_closed_pipe_ends_quietly(command: str) -> None:
    # `true` reads nothing and is gone at once, also before a short output is flushed.
    for reader in ("head -1", "true", "sleep 0.3; true"):
        done = shell(f'"$@" {command} | ({reader})')
        assert done.returncode == 0
        assert done.stderr == b""


@pytest.mark.parametrize("reader", ["2>&1 >'{}' | true", "2>/dev/full >'{}'", "2>&- >'{}'"])
def test_work_goes_on_without_standard_error(reader: str, tmp_path: Path) -> None:
    done = shell('"$@" good ' + reader.format(tmp_path / "rows"))
    assert done.returncode == 0
    assert (tmp_path / "rows").read_bytes().count(b"\n") == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("command", ["endless", "small", "printed"])
def test_a_full_disk_under_standard_output(command: str) -> None:
    done = shell(f'"$@" {command} > /dev/full')
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "modtok: error: standard output: cannot write: No space left on device; "
        "free disk space or write to another file system\n"
    )


def test_standard_output_closed_from_the_start() -> None:
    done = shell('"$@" small >&-')
    assert done.returncode == 1
    assert done.stderr.startswith(b"modtok: error: standard output is closed")
    assert done.stderr.count(b"\n") == 1


def test_run_as_module_and_as_script_are_the_same() -> None:
    script = Path(sys.executable).with_name("modtok")
    if not os.access(script, os.X_OK):
        pytest.fail("the package is not installed with its script")
    done = subprocess.run([script, "--help"], capture_output=True, check=True, text=True)
    assert done.stdout == python("-m", "modtok_cli", "--help").stdout


def test_memory_advice_names_options_of_the_command() -> None:
    commands = command_tree().commands
    for words, expected in (
        ("bpe-seq", "use a smaller -k, fewer --langs or a machine with more memory"),
        ("generate", "use a smaller --batch-size, a smaller --max-tokens or a machine"),
        ("pretrain", "use a smaller --micro-batch, a smaller --batch-size or a machine with more"),
        ("doctor", "use a machine with more memory"),
    ):
        assert memory_advice(commands[words]).startswith(expected), words
    error = MemoryError()
    session = Session(args=("corpus", "count", "--langs", "fi"))
    assert "fewer --langs" in explain(error, command_tree(), session)[1]
    assert "-k" not in explain(error, command_tree(), session)[1]
