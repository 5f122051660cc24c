"""`modtok.toml` and flags: which wins, and what a slip says."""

import json
import os
import re
from pathlib import Path

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.main import _tree, command_tree
from modtok_cli.cli.settings_file import COMMAND_LINE_ONLY, OUTPUTS, load_settings
from modtok_cli.cli.tree import nodes

from .conftest import FakeReport

TREE = command_tree()


def write(directory: Path, text: str) -> None:
    (directory / "modtok.toml").write_text(text, encoding="utf-8")


def test_tables_lists_and_shared_defaults(tmp_path: Path) -> None:
    assert load_settings(TREE, tmp_path) == {}
    write(
        tmp_path,
        """
        [default]
        data = "text"
        threads = 1
        [bpe-seq]
        k = 16000
        langs = ["en", "fi"]
        no_references = true
        special = ["<s>", "</s>"]
        [corpus.count]
        threads = 2
        [pretrain]
        mix = {en = 0.5, fi = 1}
        """,
    )
    settings = load_settings(TREE, tmp_path)
    shared = {"data": "text", "threads": 1}
    own = {"k": 16000, "langs": "en,fi", "no_references": True, "special": ["<s>", "</s>"]}
    assert settings["bpe-seq"] == shared | own
    assert settings["corpus"]["count"] == {"data": "text", "threads": 2}
    assert settings["bpe"] == shared
    assert settings["pretrain"] == {"data": "text", "mix": "en=0.5,fi=1"}
    assert "nsl" not in settings  # it has neither


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[bpe_seq]\nk = 1", "modtok.toml: unknown table 'bpe_seq'; write 'bpe-seq'"),
        ("[corpus.cuont]\n", "modtok.toml: unknown table 'corpus.cuont'; did you mean 'corpus.co"),
        ("[bpe-seq]\nbuget = 1", "[bpe-seq]: unknown key 'buget'; did you mean 'k'?"),
        ("[adopt]\nk = 400", "modtok.toml: [adopt]: unknown key 'k'; write 'top'"),
        ("[default]\nlang = 'fr'\nthread = 2", "[default]: unknown key 'thread'; did you mean"),
        ("[default]\nzzzz = 1", "unknown key 'zzzz'; expected the name of an option, see modtok"),
        ("[nsl]\nzzz = 1", "[nsl]: unknown key 'zzz'; expected one of debug, errors, "),
        ("[bpe]\nk = '5'", "modtok.toml: [bpe] k: expected a whole number, got '5'"),
        ("[bpe]\njoint = 1", "modtok.toml: [bpe] joint: expected true or false, got 1"),
        ("[bpe]\nlangs = [1]", "modtok.toml: [bpe] langs: expected text, got 1"),
        ("[pretrain]\nmix = {en = 'x'}", "mix: expected a number, got 'x'"),
        ("[pretrain]\nlangs = {en = 1}", "langs: expected text, got a table"),
        ("[bpe]\nspecial = 'x'", "modtok.toml: [bpe] special: expected a list, got a string"),
        ("[pretrain]\nkeep = 3", "[pretrain] keep: is a key of recipes; write it under ["),
        ("[bpe]\nbudget = 300", "modtok.toml: [bpe]: unknown key 'budget'; write 'k'"),
        ("[bpe]\nlang-field = 'x'", "[bpe]: unknown key 'lang-field'; write 'lang_field'"),
        ("[default]\nlang-field = 'x'", "[default]: unknown key 'lang-field'; write 'lang_field'"),
        ("corpus = 3", "modtok.toml: [corpus]: expected a table, got 3"),
        ("default = 3", "modtok.toml: [default]: expected a table, got 3"),
        ("k = 3", "'k' is outside of any table; move it to [default] or"),
        ("[bpe]\nk = \n", "modtok.toml:2: invalid TOML: Invalid value"),
    ],
)
def test_a_slip_is_one_line_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_settings(TREE, tmp_path)
    assert message in str(caught.value)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith("modtok.toml:")
    assert "\n" not in str(caught.value)


def test_precedence(workspace: Path, here, stand_in) -> None:
    learn = stand_in("bpe_seq", FakeReport())
    for text, words, budget in (
        ("", "", None),
        ("[default]\nk = 1000\n", "", 1000),
        ("[default]\nk = 1000\n[bpe-seq]\nk = 2000\n", "", 2000),
        ("[bpe-seq]\nk = 2000\n", "-k 4000", 4000),
    ):
        write(workspace, text)
        assert here("bpe-seq", *words.split())[0] == 0
        assert learn.kwargs.get("k") == budget


def test_a_value_out_of_range_names_where_it_came_from(workspace: Path, here) -> None:
    write(workspace, "[bpe]\nthreads = 0\n")
    status, out, err = here("bpe")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("modtok: error: modtok.toml: [bpe] threads: expected at least 1, got 0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[default]\nforce = true", "[default] force: not allowed"),
        ("[eval.mcq]\ninclude = 'tasks'", "[eval.mcq] include: not allowed"),
        ("[serve]\nport = 80", "[serve] port: not allowed in a settings file; give --port"),
        ("[default]\nport = 80", "[default] port: not allowed"),
        ("[corpus.count]\nexecutor_option = ['env_command=x']", "executor_option: not allowed"),
    ],
)
def test_options_of_the_command_line_only(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, text)
    with pytest.raises(UsageError, match=re.escape(message)):
        load_settings(TREE, tmp_path)


def test_every_option_with_a_path_is_classified() -> None:
    # A new option that writes somewhere belongs into OUTPUTS.
    inputs = {
        "bad", "blocked_urls", "config", "data", "distill", "draft", "eval_data", "eval_tasks_data",
        "fit", "good", "head", "init_from",
        "lang_model", "models", "morphemes", "onto", "origin", "probe", "slice",
        "quality_model", "references", "report", "run", "test", "text", "tokenizer",
    }  # fmt: skip
    for node in nodes(TREE):
        for line in node.lines:
            takes_path = line.value in ("PATH", "FILE", "DIR", "TEXT", "TOKENIZER")
            if takes_path and not line.is_argument and line.name not in ("special", "stop"):
                assert line.name in inputs | OUTPUTS | COMMAND_LINE_ONLY, (node.path, line.name)


def test_variables_do_not_set_options(here, monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning names those that look like it, of other commands too; others are left alone."""
    for name in ("EXAMPLES", "GPU_CHECK", "DEVICE", "QUIET", "HOME", "BPE_K", "CORPUS_COUNT_X"):
        monkeypatch.setenv(f"MODTOK_{name}", "1")
    _, _, err = here("bpe")
    warning, error = err.splitlines()
    assert warning == (
        "modtok: warning: MODTOK_BPE_K, MODTOK_CORPUS_COUNT_X: variables do not set options; "
        "use modtok.toml or flags"
    )
    assert error.startswith("modtok: error: data: does not exist")
    monkeypatch.setenv("RANK", "1")  # the first rank says it
    assert here("bpe")[2].count("\n") == 1


def test_a_command_declares_those_that_the_file_names(workspace: Path) -> None:
    write(workspace, "[default]\nthreads = 1\n[corpus.count]\nmemory = '1GB'\n[bpe]\nk = 300\n")
    assert sorted(_tree(["nsl", "x"]).commands) == ["bpe", "corpus", "nsl"]
    write(workspace, "[default]\nsuperwords = 1\n")  # an option of others
    assert sorted(_tree(["nsl", "x"]).commands) == ["nsl"]


def test_files_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "modtok.toml"
    for content, message in (
        (b"a = " + b"[" * 5000, "nested too deeply"),
        (b"a = " + b"1" * 100_000, "an integer has too many digits"),
        (b"#" * 2_000_000, "has more than 1,048,576 bytes"),
        (b"[bpe]\nlangs = '\xff'\n", "not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            load_settings(TREE, tmp_path)
    for make, message in (
        (os.mkdir, "cannot read"),
        (os.mkfifo, "is a device or a pipe, not a file"),
    ):
        path.rmdir() if path.is_dir() else path.unlink()
        make(path)
        with pytest.raises(UsageError, match=message):
            load_settings(TREE, tmp_path)


def test_invalid_settings_do_not_stop_doctor(workspace: Path, here) -> None:
    write(workspace, "[bpe]\nthread = 3\n")
    status, out, err = here("doctor", "--json")
    assert status == 1
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["detail"] for row in rows if row["part"] == "settings"] == [
        "modtok.toml: [bpe]: unknown key 'thread'; did you mean 'threads'?"
    ]
    assert any(row["part"] == "package" for row in rows)
    assert err == "modtok: error: modtok.toml is invalid; see the settings row\n"


def test_broken_settings_stop_commands_but_not_their_help(workspace: Path, here) -> None:
    write(workspace, "[bpe\n")
    status, _, err = here("inspect", "x")
    assert status == 2
    assert err.startswith("modtok: error: modtok.toml:1: invalid TOML")
    assert here("bpe", "--help")[0] == 0


def test_verbose_names_settings_and_origin(workspace: Path, here, stand_in) -> None:
    stand_in("bpe_seq", FakeReport())
    write(workspace, "[bpe-seq]\nk = 1000\n")
    _, _, err = here("bpe-seq", "-v", "--langs", "en")
    assert "setting k = 1000 (modtok.toml)\n" in err
    assert "setting langs = en (command line)\n" in err
    assert "setting order = alphabetical (default)\n" in err
    assert "MiB" in err.splitlines()[-1]


OUTSIDE = ("/elsewhere", "../x", "a/../../x", "link/x", ".git/x", "a/.x/y")


@pytest.mark.parametrize(
    ("table", "name", "place"),
    [("extract", "output", place) for place in OUTSIDE]
    + [("nsl", "plot", "../x"), ("pretrain", "runs", "../x")],
)
def test_outputs_outside_of_the_workspace_are_refused(
    tmp_path: Path, table: str, name: str, place: str
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    write(workspace, f"[{table}]\n{name} = '{place}'")
    message = f"[{table}] {name}: '{place}' is not inside the workspace"
    with pytest.raises(UsageError, match=re.escape(message)):
        load_settings(TREE, workspace)
    inside = "-" if name == "plot" else "a/b"
    write(workspace, f"[{table}]\n{name} = '{inside}'")
    assert load_settings(TREE, workspace)[table] == {name: inside}
