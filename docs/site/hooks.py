"""Hooks of mkdocs: pages made from the sources, and links that leave the folder docs/.

README.md becomes the home page. CHANGELOG.md, CONTRIBUTING.md and the pages of examples/ join the
site. The command line's reference comes from the command tree, that of Python from `__all__`.
A link to a file that is not on the site becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMANDS = "reference/cli"
API = "reference/api.md"
PAGES = {  # in the repository → on the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/sample/README.md": "examples/sample.md",
    "examples/open-weight/README.md": "examples/open-weight.md",
}
SOURCES = {site: source for source, site in PAGES.items()}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`]+`")
GROUPS = {
    "Build corpora and count words": "api.corpora",
    "Learn tokenizers": "api.learners",
    "Open, extract and check tokenizers": "api.tokenizers",
    "Measure": "api.measures",
    "Train, slice and generate": "api.models",
    "Evaluate": "api.evaluations",
    "Classes": "modular.",
    "Settings": "training.settings",
    "Errors and warnings": "base.errors api.arguments",
}


def command_pages() -> dict[str, str]:
    """Path on the site → Markdown, for every command."""
    from modtok_cli.cli.main import command_tree
    from modtok_cli.cli.reference import pages

    found = pages(command_tree())
    return {f"{COMMANDS}/{name.replace(' ', '-')}.md": text for name, text in found.items()}


def api_page() -> str:
    """The reference of all public names, in groups."""
    import modtok_cli

    lines = ["# Python reference", "", "All names are attributes of `modtok_cli`.", ""]
    for title, modules in GROUPS.items():
        lines += [f"## {title}", ""]
        for name, module in modtok_cli._MODULES.items():
            if any(module.startswith(prefix) for prefix in modules.split()):
                lines += [f"::: modtok_cli.{module}.{name}", ""]
    return "\n".join(lines)


def relink(text: str, site: str) -> str:
    """Links of a page, written for the repository, as the site needs them."""
    source = SOURCES.get(site, f"docs/{site}")

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        file, mark, heading = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        if place.startswith("docs/") and (ROOT / place).is_file():
            there = place.removeprefix("docs/")
        elif place in PAGES and (ROOT / place).is_file():
            there = PAGES[place]
        else:
            return label if "`" in label else f"`{label}`"
        return f"[{label}]({posixpath.relpath(there, posixpath.dirname(site))}{mark}{heading})"

    return LINK.sub(link, text)


def unescape_pipes(text: str) -> str:
    r"""Code in table cells with `|` for `\|`: mkdocs shows the backslash, which GitHub drops.

    >>> unescape_pipes("| `a \| b` | c \| d |")
    '| `a | b` | c \\| d |'
    """
    rows = (
        CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line
        for line in text.split("\n")
    )
    return "\n".join(rows)


def on_config(config: Any) -> Any:
    """Replace the entry of the commands by a list of their pages."""

    def filled(entries: list[Any]) -> list[Any]:
        return [
            {
                title: sorted(command_pages())
                if item == COMMANDS
                else filled(item)
                if isinstance(item, list)
                else item
            }
            for entry in entries
            for title, item in entry.items()
        ]

    config["nav"] = filled(config["nav"])
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    made = {**command_pages(), API: api_page()}
    for source, site in PAGES.items():
        if (ROOT / source).is_file():
            made[site] = (ROOT / source).read_text(encoding="utf-8")
    for site, text in made.items():
        files.append(File.generated(config, site, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite code in tables, and links except on pages made for the site."""
    site = page.file.src_uri
    text = unescape_pipes(markdown)
    return text if site.startswith("reference/") else relink(text, site)
