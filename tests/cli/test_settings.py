"""`modtok.toml`, `MODTOK_*` and flags: which wins, and what a slip says."""

from pathlib import Path

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.settings import load_settings

from .conftest import FakeReport

TREE = command_tree()


def write(directory: Path, text: str) -> None:
    (directory / "modtok.toml").write_text(text, encoding="utf-8")


def test_no_file_no_settings(tmp_path: Path) -> None:
    assert load_settings(TREE, tmp_path) == {}


def test_tables_keys_and_shared_defaults(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [default]
        data = "text"
        threads = 1
        [bpe-seq]
        k = 16000
        langs = ["en", "fi"]
        unit-counts = "word"
        no-references = true
        special = ["<s>", "</s>"]
        [corpus.count]
        threads = 2
        """,
    )
    settings = load_settings(TREE, tmp_path)
    assert settings["bpe-seq"] == {
        "data": "text",
        "threads": 1,
        "k": 16000,
        "langs": "en,fi",
        "unit_counts": "word",
        "no_references": True,
        "special": ["<s>", "</s>"],
    }
    assert settings["corpus"]["count"] == {"data": "text", "threads": 2}
    assert settings["bpe"] == {"data": "text", "threads": 1}
    assert "nsl" not in settings  # it has neither


def test_lists_and_tables_stand_for_what_an_option_takes_in_one_word(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [study.budget]
        budgets = [4000, 8000]
        [study.sampling]
        regimes = ["none", "sub:2"]
        [pretrain]
        mix = {en = 0.5, fi = 1}
        [eval.mt]
        pairs = ["en-fi", "fi-en"]
        """,
    )
    settings = load_settings(TREE, tmp_path)
    assert settings["study"]["budget"] == {"budgets": "4000,8000"}
    assert settings["study"]["sampling"] == {"regimes": "none,sub:2"}
    assert settings["pretrain"] == {"mix": "en=0.5,fi=1"}
    assert settings["eval"]["mt"] == {"pairs": "en-fi,fi-en"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[bpe_seq]\nk = 1", "modtok.toml: unknown table 'bpe_seq'; did you mean 'bpe-seq'?"),
        ("[corpus.cuont]\n", "modtok.toml: unknown table 'corpus.cuont'; did you mean 'corpus.co"),
        ("[bpe-seq]\nbuget = 1", "[bpe-seq]: unknown key 'buget'; did you mean 'budget'?"),
        ("[default]\nlang = 'fr'\nthread = 2", "[default]: unknown key 'thread'; did you mean"),
        (
            "[nsl]\nzzz = 1",
            "modtok.toml: [nsl]: unknown key 'zzz'; expected one of debug, errors, ",
        ),
        ("[bpe]\nk = '5'", "modtok.toml: [bpe] k: expected an integer, got a string"),
        ("[bpe]\nk = true", "modtok.toml: [bpe] k: expected an integer, got true or false"),
        ("[bpe]\nk = 300.0", "modtok.toml: [bpe] k: expected an integer, got 300.0"),
        ("[bpe]\njoint = 1", "modtok.toml: [bpe] joint: expected true or false, got 1"),
        ("[bpe]\ndata = 1", "modtok.toml: [bpe] data: expected a string, got 1"),
        ("[bpe]\nlangs = [1]", "modtok.toml: [bpe] langs: expected a string, got 1"),
        ("[study.budget]\nbudgets = ['x']", "budgets: expected an integer, got a string"),
        ("[pretrain]\nmix = {en = 'x'}", "mix: expected a number, got a string"),
        ("[pretrain]\nlangs = {en = 1}", "langs: expected a string, got a table"),
        ("[bpe]\nspecial = 'x'", "modtok.toml: [bpe] special: expected a list, got a string"),
        ("[bpe]\nerrors = 'no'", "[bpe] errors: expected one of strict, replace, skip, got 'no'"),
        ("[bpe]\nk = 300\nbudget = 300", "modtok.toml: [bpe] sets 'budget' twice under two names"),
        ("bpe = 3", "modtok.toml: [bpe]: expected a table, got 3"),
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
    assert str(caught.value).startswith("modtok.toml:")
    assert "\n" not in str(caught.value)


def test_not_utf8_and_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "modtok.toml").write_bytes(b"[bpe]\nlangs = '\xff'\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_settings(TREE, tmp_path)
    (tmp_path / "modtok.toml").unlink()
    (tmp_path / "modtok.toml").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        load_settings(TREE, tmp_path)


def test_precedence(workspace: Path, here, stand_in, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())

    def budget(*args: str) -> int:
        assert here("bpe-seq", *args)[0] == 0
        return learn.kwargs["k"]

    assert budget() == 24000
    write(workspace, "[default]\nk = 1000\n")
    assert budget() == 1000
    write(workspace, "[default]\nk = 1000\n[bpe-seq]\nbudget = 2000\n")
    assert budget() == 2000
    monkeypatch.setenv("MODTOK_BPE_SEQ_K", "3000")
    assert budget() == 3000
    assert budget("-k", "4000") == 4000


def test_a_switch_of_the_file_can_be_undone(workspace: Path, here, stand_in, monkeypatch) -> None:
    learn = stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    write(workspace, "[bpe-seq]\nno-references = true\nforce = true\n")
    here("bpe-seq")
    assert (learn.kwargs["references"], learn.kwargs["force"]) == (False, True)
    monkeypatch.setenv("MODTOK_BPE_SEQ_FORCE", "0")
    here("bpe-seq")
    assert (learn.kwargs["references"], learn.kwargs["force"]) == (False, False)


def test_a_value_out_of_range_names_where_it_came_from(workspace: Path, here, monkeypatch) -> None:
    write(workspace, "[bpe]\nk = 3\n")
    status, out, err = here("bpe")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("modtok: error: modtok.toml: Invalid value for '-k' / '--budget'")
    monkeypatch.setenv("MODTOK_BPE_K", "many")
    status, out, err = here("bpe")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("modtok: error: MODTOK_BPE_K: Invalid value for '-k' / '--budget'")


def test_broken_settings_stop_commands_but_not_their_help(workspace: Path, here) -> None:
    write(workspace, "[bpe\n")
    status, _, err = here("warmup")
    assert status == 2
    assert err.startswith("modtok: error: modtok.toml:1: invalid TOML")
    assert here("bpe", "--help")[0] == 0


def test_verbose_names_settings_and_origin(workspace: Path, here, stand_in) -> None:
    stand_in("modtok_cli.construct.bpe_seq", "bpe_seq", FakeReport())
    write(workspace, "[bpe-seq]\nk = 1000\n")
    _, _, err = here("bpe-seq", "-v", "--langs", "en")
    assert "setting k = 1000 (modtok.toml)\n" in err
    assert "setting langs = en (command line)\n" in err
    assert "setting order = alphabetical (default)\n" in err
    assert "MiB" in err.splitlines()[-1]
