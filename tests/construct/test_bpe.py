"""`bpe`: outputs and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.contents import contents
from helpers.sample import SAMPLE
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.unigram import unigram

DATA = SAMPLE / "data"


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn", [bpe, unigram])
def test_a_finished_command_says_so_and_other_settings_are_refused(
    learn: Any, joint: bool, tmp_path: Path
) -> None:
    same = {"data": DATA, "output": tmp_path / "made", "joint": joint}
    first = learn(["sw", "fi"], **same, k=500)
    before = contents(tmp_path)
    said = Silent()
    again = learn(["sw", "fi"], **same, k=500, progress=said)
    assert "is already finished with these settings" in said.warnings[0]
    assert again.signature == first.signature
    if not joint:
        assert sorted(again.rows(), key=str) == sorted(first.rows(), key=str)
    for languages, k, others in (
        (["sw", "fi"], 400, {}), (["sw"], 500, {}), (["sw", "fi"], 500, {"specials": ["<s>"]}),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=r"exists with other settings.*force"):
            learn(languages, **same, k=k, **others)
    assert contents(tmp_path) == before
    learn(["sw", "fi"], **same, k=400, force=True)
    assert contents(tmp_path) != before


def test_files_and_links_are_refused_before_learning(tmp_path: Path) -> None:
    (tmp_path / "mono").write_text("kept")
    with pytest.raises(UsageError, match="is a file"):
        bpe(["sw"], data=DATA, output=tmp_path / "mono", k=300, force=True)
    assert (tmp_path / "mono").read_text() == "kept"
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="link: exists but is not a tokenizer directory"):
        bpe(["sw"], data=DATA, output=tmp_path / "link", k=300)
