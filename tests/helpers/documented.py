"""The commands in the code blocks of README.md and docs/."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ["README.md"] + [
    str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))
]


def joined(page: Path) -> str:
    """The text of a page, in which a line that ends with a backslash goes on with the next."""
    return re.sub(r" *\\\n\s*", " ", page.read_text(encoding="utf-8"))


def code_lines(page: str, *, programs: bool = False) -> list[str]:
    """The lines of a page's code blocks that call modtok, continued lines joined.

    `programs`: and its blocks of Python, in order.
    """
    found, fence, program = [], "", ""
    for line in joined(ROOT / page).splitlines():
        if line.startswith("```"):
            if programs and fence == "```python":
                found.append(program)
            fence, program = "" if fence else line, ""
        elif fence == "```python":
            program += f"{line}\n"
        elif (fence or line.startswith("    ")) and re.search(r"(^|[\s|;&])modtok [a-z-]", line):
            found.append(line.strip())
    return found


def calls(line: str) -> list[list[str]]:
    """The words of each call of modtok in a line of shell, without "modtok" and "…".

    >>> calls("cp a b && modtok extract --langs fr,en | modtok nsl $X  # a subset")
    [['extract', '--langs', 'fr,en'], ['nsl', 'fr']]
    """
    line = re.sub(r'"?\$(\w+|\(.*\))"?', "fr", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[list[str]] = []
    inside = False
    for word in lexer:
        if word == "#":
            break
        if set(word) <= set("|&;<>"):
            inside = False
        elif word == "modtok":
            found.append([])
            inside = True
        elif inside and word != "…":
            found[-1].append(word)
    return found
