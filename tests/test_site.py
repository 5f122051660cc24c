"""The documentation site, without mkdocs: pages, navigation, links, the tutorial's commands."""

from __future__ import annotations

import posixpath
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import modtok_cli
from modtok_cli.cli.main import ORDER

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]


HOOKS = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py")))
COMMANDS = HOOKS.command_pages()
WRITTEN = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
API = HOOKS.api_pages()
SITE = {*WRITTEN, *COMMANDS, *API, HOOKS.OPTIONS, *HOOKS.PAGES.values()}


def source_of(site: str) -> str:
    path = HOOKS.SOURCES.get(site, f"docs/{site}")
    return (ROOT / path).read_text(encoding="utf-8")


def listed(entry: Any) -> set[str]:
    if isinstance(entry, str):
        return set({HOOKS.COMMANDS: COMMANDS, HOOKS.API: API}.get(entry, [entry]))
    parts = entry if isinstance(entry, list) else entry.values()
    return set().union(*map(listed, parts))


def test_navigation_lists_every_page_once() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert listed(config["nav"]) == SITE


def test_every_command_has_a_page() -> None:
    assert set(COMMANDS) == {f"reference/cli/{name.replace(' ', '-')}.md" for name in ORDER}
    page = COMMANDS["reference/cli/bpe-seq.md"]
    assert page.startswith("# modtok bpe-seq\n")
    assert "| `--append LANG,...` |" in page
    assert "```sh\n# " in page


def test_the_page_of_options_has_every_option() -> None:
    page = HOOKS.options_page()
    assert "| `-k, --budget N` | Vocabulary size per language," in page
    assert page.count("\n| `") > 140


def test_every_public_name_is_in_the_reference() -> None:
    names = re.findall(r"^::: modtok_cli\..*\.(\w+)$", "\n".join(API.values()), flags=re.M)
    assert sorted(names) == modtok_cli.__all__


@pytest.mark.parametrize("site", sorted({*WRITTEN, *HOOKS.PAGES.values()}))
def test_links_of_the_site_stay_on_it(site: str) -> None:
    text = HOOKS.relink(source_of(site), site)
    for _, target in HOOKS.LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        if not re.match(r"[a-z]+:|#", target):
            place = posixpath.normpath(
                posixpath.join(posixpath.dirname(site), target.partition("#")[0])
            )
            assert place in SITE or (ROOT / "docs" / place).is_file(), target


def test_pipes_of_code_in_tables_have_no_backslash() -> None:
    assert HOOKS.unescape_pipes("a \\| `b \\| c`\n| d \\| e | `f \\| g` |") == (
        "a \\| `b \\| c`\n| d \\| e | `f | g` |"
    )


def test_blocks_of_commands_are_fenced_as_shell() -> None:
    text = "Run\n\n    modtok nsl \\\n      a.txt\n\n    make\n\nor\n\n    language  tokens\n"
    shown = "Run\n\n```sh\nmodtok nsl \\\n  a.txt\n\nmake\n```\n\nor\n\n    language  tokens\n"
    assert HOOKS.fenced(text) == shown


def test_commands_of_the_tutorial_are_those_of_the_demo() -> None:
    def plain(text: str) -> str:
        return " ".join(text.replace("\\", " ").split())

    demo = plain((ROOT / "examples" / "demo.sh").read_text(encoding="utf-8"))
    blocks = re.findall(r"```sh\n(.*?)```", source_of("tutorial.md"), flags=re.S)
    commands = [plain(line) for block in blocks for line in block.splitlines()]
    assert len(commands) > 10
    assert [command for command in commands if command not in demo] == []
