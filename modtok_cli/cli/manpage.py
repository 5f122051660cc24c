"""Man pages of the command tree: `python -m modtok_cli.cli.manpage man/`; Markdown for `make docs`.

One page per command, and modtok(1). The text is the text of --help; a test checks that the pages
are up to date. Pages have a version and no date.
"""

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from modtok_cli.base.version import __version__
from modtok_cli.cli.tree import Line, Node, by_panel, keys_of_command, nodes

_EXIT = (
    ("0", "Success. Also if the reader of standard output closes the pipe early."),
    ("1", "Failure: unreadable text, a damaged tokenizer, a full disk."),
    ("2", "Usage error: an unknown option, language or modtok.toml key."),
    ("75", "Jobs on a cluster are unfinished; repeat the command."),
    ("130", "Interrupted by Ctrl-C."),
)
_ENVIRONMENT = (
    ("MODTOK_DEVICE", "If cpu, models run on the CPU of a machine with GPUs."),
    ("MODTOK_CORE", "File of another native core."),
    ("MODTOK_DEBUG", "If 1, print the traceback of an error."),
    ("NO_COLOR", "If set, disable colour."),
)
_FILES = (
    ("modtok.toml", "Default options of the workspace, one table per command; [default] for all."),
    ("data/", "Text by language: fr.txt, fr.jsonl.zst, fr/…"),
    ("tokenizer/", "The modular tokenizer of the workspace."),
)


def escape(text: str) -> str:
    """Escape text for roff: backslashes, leading dots and quotes, non-ASCII characters.

    >>> escape("a-b …")
    'a\\\\-b \\\\[u2026]'
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def bold(text: str) -> str:
    """Set literal words."""
    return f"\\fB{escape(text)}\\fR"


def italic(text: str) -> str:
    """Set placeholders."""
    return f"\\fI{escape(text)}\\fR"


def page_name(path: tuple[str, ...]) -> str:
    """Return the name of a page: `modtok-corpus-count`."""
    return "-".join(("modtok", *path))


def pages(root: object) -> dict[str, str]:
    """Return the roff source of each file, for `root` and all commands, not for groups."""
    every = list(nodes(root))
    shown = [node for node in every if not node.is_group or not node.path]
    return {f"{page_name(node.path)}.1": _page(node, shown) for node in shown}


def _page(node: Node, every: list[Node]) -> str:
    name = page_name(node.path)
    title = f'.TH "{name.upper()}" "1" "" "modtok {__version__}" "modtok manual"'
    summary = node.summary[0].lower() + node.summary[1:].rstrip(".")
    lines = [title, ".nh", ".ad l", ".SH NAME", f"{escape(name)} \\- {escape(summary)}"]
    lines += [".SH SYNOPSIS", f"{bold(' '.join(('modtok', *node.path)))} {italic(node.usage)}"]
    lines.append(".SH DESCRIPTION")
    for paragraph in _paragraphs(node):
        lines += [".PP", escape(paragraph)]
    others = [other for other in every if other.path != node.path]
    if not node.path:
        rows = ((f"{bold(page_name(each.path))}(1)", escape(each.summary)) for each in others)
        lines += [".SH COMMANDS", *_terms(rows)]
    for title, group in by_panel([*node.lines, *keys_of_command(node.command)]).items():
        own = title in ("Arguments", "Options")
        lines.append(f".SH {title.upper()}" if own else f'.SS "{escape(title)}"')
        lines += _terms(map(_option, group))
    lines += [".SH ENVIRONMENT", *_terms((bold(name), escape(text)) for name, text in _ENVIRONMENT)]
    lines += [".SH FILES", *_terms((italic(file), escape(text)) for file, text in _FILES)]
    lines += [".SH EXIT STATUS", *_terms((bold(code), escape(text)) for code, text in _EXIT)]
    lines += [".SH EXAMPLES", *_examples(node)]
    lines += [".SH SEE ALSO", ",\n".join(f"{bold(page_name(each.path))}(1)" for each in others)]
    return "\n".join(lines) + "\n"


def _paragraphs(node: Node) -> list[str]:
    paragraphs = inspect.cleandoc(node.command.help or "").split("\n\n")
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def _terms(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in rows:
        yield ".TP"
        yield term
        yield text


def _option(line: Line) -> tuple[str, str]:
    parts = [", ".join(map(bold, line.flags)), italic(line.value) if line.value else ""]
    return " ".join(filter(None, parts)), escape(line.text)


def _examples(node: Node) -> Iterator[str]:
    yield ".nf"
    for line in inspect.cleandoc(node.command.epilog or "").splitlines():
        yield escape(line)
    yield ".fi"


def write_pages(directory: Path) -> list[Path]:
    """Write every page to `directory` and delete pages of removed commands."""
    from modtok_cli.cli.main import command_tree

    texts = pages(command_tree())
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("modtok*.1"):
        if old.name not in texts:
            old.unlink()
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in texts]


def markdown_pages(root: object) -> dict[str, str]:
    """Return the Markdown of each command by its title (`corpus count`), in the order of the help.

    Groups have no page: their commands do.
    """
    return {
        " ".join(node.path): _markdown_page(node)
        for node in nodes(root)
        if node.path and not node.is_group
    }


def _markdown_page(node: Node) -> str:
    name = " ".join(("modtok", *node.path))
    lines = [f"# {name}", ""]
    for paragraph in _paragraphs(node):
        lines += [_markdown(paragraph), ""]
    lines += ["```", f"{name} {node.usage}", "```", ""]
    for title, group in by_panel([*node.lines, *keys_of_command(node.command)]).items():
        lines += _table(title, group)
    examples = inspect.cleandoc(node.command.epilog or "")
    if examples:
        lines += ["## Examples", "", "```sh", examples, "```", ""]
    return "\n".join(lines)


def _table(title: str, lines: Iterable[Line]) -> Iterator[str]:
    rows = [
        "| `{}` | {} |".format(line.heading.replace("|", "\\|"), _markdown(line.text))
        for line in lines
    ]
    if rows:
        yield from (f"## {title}", "", "| name | meaning |", "|---|---|", *rows, "")


def _markdown(text: str) -> str:
    r"""Return the text as Markdown shows it literally, with flags as code.

    >>> _markdown("DIR/<lang>.txt, src|tgt; see -t/--tokenizer")
    'DIR/&lt;lang&gt;.txt, src\\|tgt; see `-t/--tokenizer`'
    """
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = "".join(f"\\{c}" if c in "\\`*_[]|" else c for c in text)
    return re.sub(r"(?<![\w-])(-\w/)?--[a-z][a-z-]*", r"`\g<0>`", text)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1] if len(sys.argv) > 1 else "man"))
