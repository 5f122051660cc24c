"""Markdown pages of the command tree, for the documentation site (`make docs`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from modtok_cli.cli.tree import Line, Node, by_panel, nodes


def pages(root: Any) -> dict[str, str]:
    """Title such as `bpe-seq` or `corpus count` → Markdown, in the order of the help.

    Groups have no page: their commands do.
    """
    return {
        " ".join(node.path): _page(node) for node in nodes(root) if node.path and not node.is_group
    }


def _page(node: Node) -> str:
    name = " ".join(("modtok", *node.path))
    lines = [f"# {name}", "", *_paragraphs(node), "```", f"{name} {node.usage}", "```", ""]
    for title, group in by_panel(node.lines).items():
        lines += _table(title, group)
    examples = inspect.cleandoc(node.command.epilog or "")
    if examples:
        lines += ["## Examples", "", "```sh", examples, "```", ""]
    return "\n".join(lines)


def _paragraphs(node: Node) -> Iterator[str]:
    for paragraph in inspect.cleandoc(node.command.help or "").split("\n\n"):
        yield from (_escape(" ".join(paragraph.split())), "")


def _table(title: str, lines: Iterable[Line]) -> Iterator[str]:
    rows = [
        f"| `{_cell(line.heading if line.flags else line.value)}` | {_escape(line.text)} |"
        for line in lines
    ]
    if rows:
        yield from (f"## {title}", "", "| | |", "|---|---|", *rows, "")


def _escape(text: str) -> str:
    r"""Text as Markdown shows it literally.

    >>> _escape("DIR/<lang>.txt, src|tgt")
    'DIR/&lt;lang&gt;.txt, src\\|tgt'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|" else c for c in text)


def _cell(text: str) -> str:
    """Code within a cell of a table."""
    return text.replace("|", "\\|")
