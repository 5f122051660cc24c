"""The whole command line in words, to compare with `flags.txt`.

After a change that is meant: `python tests/cli/frozen.py > tests/cli/flags.txt`, and
`make man`.
"""

from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes


def surface() -> str:
    lines = []
    for node in nodes(command_tree()):
        lines.append(" ".join(("modtok", *node.path)))
        for line in node.lines:
            lines.append(f"    {line.heading}  {line.note}".rstrip())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(surface(), end="")
