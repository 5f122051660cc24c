"""Hooks of mkdocs: pages made from the sources, and links that leave the folder docs/.

README.md, CHANGELOG.md, CONTRIBUTING.md and the pages of examples/ join the site. The command
line's reference comes from the command tree, that of Python from `__all__`. A link to a file that
is not on the site becomes its label and path.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COMMANDS = "reference/cli"
API = "reference/api"
OPTIONS = "reference/options.md"
PAGES = {  # in the repository → on the site
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "modtok_cli/samples/README.md": "examples/sample.md",
    "benchmarks/gpu/README.md": "gpu.md",
    "examples/open-weight/README.md": "examples/open-weight.md",
}
SOURCES = {site: source for source, site in PAGES.items()}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`]+`")
COMMAND_BLOCK = re.compile(
    r"(?<=\n\n) {4}(?:modtok|for|hf|pip|make|python|sh|curl|srun|sbatch|torchrun|vllm|aws|cd) .*\n"
    r"(?: {4}.*\n|\n(?= {4}))*"
)
TASKS = {  # page of the Python reference → its title, and the modules with its names
    "corpora": ("Read text, build corpora, count words", "corpus text"),
    "learners": ("Learn tokenizers", "construct learn"),
    "tokenizers": ("Open, extract and check tokenizers", "modular"),
    "measures": ("Measure and report", "measure reports"),
    "models": (
        "Train, slice and generate",
        "architectures training inference",
    ),
    "evaluations": ("Evaluate", "api.evaluations evaluate"),
    "errors": ("Errors, warnings and installation", ""),  # and all that no other page has
}


def command_pages() -> dict[str, str]:
    """Path on the site → Markdown, for every command."""
    from modtok_cli.cli.main import command_tree
    from modtok_cli.cli.manpage import markdown_pages

    found = markdown_pages(command_tree())
    return {f"{COMMANDS}/{name.replace(' ', '-')}.md": text for name, text in found.items()}


def options_page() -> str:
    """Markdown: a table of all options, with the sentence that each has in every command."""
    from modtok_cli.cli.main import command_tree
    from modtok_cli.cli.tree import first_sentence, nodes

    rows: dict[str, tuple[str, list[str]]] = {}
    for node in nodes(command_tree()):
        for line in node.lines:
            if line.flags and not node.is_group:
                heading = line.heading.replace("|", "\\|")
                row = rows.setdefault(line.flags[-1], (f"| `{heading}` | {{}} |", []))
                sentence = first_sentence(line.help).replace("|", "\\|")
                row[1].extend([sentence] * (sentence not in row[1]))
    head = "# All options\n\n| option | meaning |\n|---|---|\n"
    return head + "".join(
        f"{row.format('<br>'.join(said))}\n" for _, (row, said) in sorted(rows.items())
    )


def api_pages() -> dict[str, str]:
    """Path on the site → Markdown: the public names by task."""
    import modtok_cli

    names: dict[str, list[str]] = {task: [] for task in TASKS}
    for name, module in modtok_cli._MODULES.items():
        parts = {module, module.partition(".")[0]}
        task = next((task for task, (_, of) in TASKS.items() if parts & {*of.split()}), "errors")
        names[task].append(f"::: modtok_cli.{module}.{name}\n")
    head = "All names are attributes of `modtok_cli`.\n\n"
    return {
        f"{API}/{task}.md": f"# {title}\n\n{head}" + "\n".join(names[task])
        for task, (title, _) in TASKS.items()
        if names[task]
    }


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
            name = label.strip("`")
            is_path = name in (place, posixpath.basename(place))
            return f"`{name}`" if is_path else f"{label} (`{place}`)"
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


def fenced(text: str) -> str:
    r"""Indented blocks of commands as fenced ones, which are shown as shell.

    >>> fenced("Run\n\n    modtok nsl \\\n      a.txt\n\nthen")
    'Run\n\n```sh\nmodtok nsl \\\n  a.txt\n```\n\nthen'
    """

    def block(match: re.Match[str]) -> str:
        return f"```sh\n{textwrap.dedent(match[0]).rstrip()}\n```\n"

    return COMMAND_BLOCK.sub(block, text)


def on_config(config: Any) -> Any:
    """Replace the entries of the two references by lists of their pages."""
    folders = {COMMANDS: sorted(command_pages()), API: list(api_pages())}

    def filled(entries: list[Any]) -> list[Any]:
        return [
            {title: filled(item) if isinstance(item, list) else folders.get(item, item)}
            for entry in entries
            for title, item in entry.items()
        ]

    config["nav"] = filled(config["nav"])
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    made = {
        **command_pages(),
        **api_pages(),
        OPTIONS: options_page(),
    }
    for source, site in PAGES.items():
        if (ROOT / source).is_file():
            made[site] = (ROOT / source).read_text(encoding="utf-8")
    for site, text in made.items():
        files.append(File.generated(config, site, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite code in tables, blocks of commands, and links except on pages made for the site."""
    site = page.file.src_uri
    text = fenced(unescape_pipes(markdown))
    return text if site.startswith("reference/") else relink(text, site)
