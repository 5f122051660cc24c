"""The report as one HTML page with embedded style and plots, loading nothing else."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape

from modtok_cli import __version__
from modtok_cli.reports.charts import Chart
from modtok_cli.reports.plot.figures import WIDTH, draw
from modtok_cli.reports.tables import Best, Table, Worst

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --shade: #f3f3f3; --dim: #5a5a5a;
  --link: #0b5394; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181c; --shade: #22252b; --dim: #a0a0a0; --link: #8ab8f0; }
  /* Charts are drawn for white paper: inverted, with their hues. */
  figure img { filter: invert(.91) hue-rotate(180deg); }
}
body { font: 16px/1.5 'DejaVu Sans', Verdana, 'Noto Sans', Arial, sans-serif; color: var(--ink);
  background: var(--paper); margin: 0 auto; max-width: 1000px; padding: 0 16px 64px; }
h1 { font-size: 1.6rem; margin: 1.6rem 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; padding-top: .9rem;
  border-top: 2px solid var(--ink); overflow-wrap: anywhere; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
ul.summary, nav ul { margin: .4rem 0; padding-left: 1.2rem; }
nav ul { list-style: none; padding: 0; font-size: .9rem; }
nav li { display: inline-block; margin-right: 1.2rem; }
a { color: var(--link); }
pre { background: var(--shade); padding: .6rem .8rem; margin: .6rem 0; font-size: .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1.2rem 0; overflow-x: auto; }
figure img { display: block; }
.table { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: separate; border-spacing: 0; font-size: .82rem;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; font-size: .95rem; padding-bottom: .35rem; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; }
th.name, td.name { text-align: left; }
thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; white-space: normal;
  min-width: 2.6rem; }
tbody tr { background: var(--paper); }
tbody tr:nth-child(odd) { background: var(--shade); }
thead tr { background: var(--paper); }
th.name:first-child, td.name:first-child { position: sticky; left: 0; background: inherit; }
table.prose td { white-space: normal; vertical-align: top; min-width: 6rem;
  overflow-wrap: anywhere; }
details { margin: .6rem 0; font-size: .8rem; }
summary { cursor: pointer; }
details ul { padding-left: 1.2rem; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--dim); font-size: .8rem; }
td.best { font-weight: bold; }
td.worst { text-decoration: underline; }
p.note { color: var(--dim); font-size: .8rem; }
@media screen and (max-width: 600px) {
  /* A row of a wide table is a block of lines, so that no column is beyond the edge. */
  table.wide, table.wide caption, table.wide tbody, table.wide tr { display: block; }
  table.wide thead { display: none; }
  table.wide tr { padding: .35rem .5rem; }
  table.wide td { display: flex; justify-content: space-between; gap: 1rem; padding: .05rem 0;
    white-space: normal; text-align: right; overflow-wrap: anywhere; min-width: 0; }
  table.wide td::before { content: attr(data-of); color: var(--dim); text-align: left; }
  table.wide td:first-child { position: static; font-weight: bold; }
  table.wide td:first-child::before { content: none; }
  table.wide.prose td { display: block; text-align: left; }
  table.wide.prose td::before { content: attr(data-of) ": "; }
}
@page { margin: 15mm; }
@media print {
  body { max-width: none; font-size: 11pt; padding: 0; }
  /* Two charts, or one with its table, fit a page. */
  figure img { max-height: 12cm; max-width: 100%; width: auto; }
  details.signatures { display: none; }
  summary { display: none; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  .table { overflow: visible; }
  details::details-content { content-visibility: visible; display: block; }
  table { font-size: .6rem; }
  th, td { padding: .1rem .25rem; }
}
"""


@dataclass(frozen=True)
class Section:
    """Section of the report: text, plots, tables, and the command and signatures behind them.

    `open_tables`: how many tables are shown; the others open below the plots.
    """

    anchor: str
    title: str
    text: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    command: str = ""
    signatures: Sequence[str] = field(default=())
    open_tables: int = 0

    @cached_property
    def html(self) -> str:
        """The section as HTML; charts are drawn once."""
        lines = [f'<section id="{escape(self.anchor)}">', f"<h2>{escape(self.title)}</h2>"]
        lines += [f"<p>{escape(text)}</p>" for text in self.text]
        lines += map(_figure, self.charts)
        # The numbers of a chart are one click away; without a chart they are shown.
        shown = self.open_tables if self.charts else len(self.tables)
        lines += map(_table, self.tables[:shown])
        lines += (
            _collapsed(f"Table: {each.caption}", _table(each)) for each in self.tables[shown:]
        )
        if self.command:
            code = f"<pre><code>{escape(self.command)}</code></pre>"
            commands = self.command.count("\n") + 1
            lines.append(
                code if commands <= MOST_COMMANDS else _collapsed(f"{commands} commands", code)
            )
        if self.signatures:
            items = "".join(f"<li><code>{escape(name)}</code></li>" for name in self.signatures)
            many = (
                "signature" if len(self.signatures) == 1 else f"{len(self.signatures)} signatures"
            )
            lines.append(
                f'<details class="signatures"><summary>{many}</summary><ul>{items}</ul></details>'
            )
        return "\n".join([*lines, "</section>"])


# A page may be shown by a terminal: names that it has read from files must not control it.
_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def page(
    title: str, intro: Sequence[str], sections: Sequence[Section], findings: Sequence[str] = ()
) -> str:
    """The complete document; `findings` are the sentences that summarize it."""
    summary = "".join(f"<li>{escape(finding)}</li>" for finding in findings)
    contents = "".join(
        f'<li><a href="#{escape(part.anchor)}">{escape(part.title)}</a></li>' for part in sections
    )
    # Forbids any request: everything is in the file.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    document = "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{escape(title)}</h1>",
            *(f"<p>{escape(line)}</p>" for line in intro),
            *([f'<ul class="summary">{summary}</ul>'] if summary else []),
            f'<nav aria-label="Contents"><ul>{contents}</ul></nav>',
            *(part.html for part in sections),
            "</main>",
            f"<footer>modtok {escape(__version__)}</footer>",
            "</body>",
            "</html>",
            "",
        ]
    )
    return document.translate(_CONTROLS)


def _figure(chart: Chart) -> str:
    """The plot as an image; a window too narrow for it scrolls it, so that its text is legible."""
    data = b64encode(draw([chart], ".svg")).decode()
    return (
        f'<figure tabindex="0"><img alt="{escape(chart.title)}" width="{WIDTH:g}" '
        f'src="data:image/svg+xml;base64,{data}"></figure>'
    )


def _collapsed(name: str, content: str) -> str:
    return f"<details><summary>{escape(name)}</summary>\n{content}\n</details>"


MOST_COMMANDS = 4
"""Commands that are shown."""
MARK: dict[type, str] = {Best: "best", Worst: "worst"}
MOST_COLUMNS = 3
"""Columns that a phone has room for."""


def _table(table: Table) -> str:
    wide = len(table.headings) > MOST_COLUMNS or table.prose

    def cells(tag: str, row: Sequence[str]) -> str:
        out = []
        for index, cell in enumerate(row):
            mark = "name" if index < table.left else MARK.get(type(cell))
            name = f' class="{mark}"' if mark else ""
            scope = ' scope="col"' if tag == "th" else ""
            # A heading can be a file name: allow line breaks at punctuation.
            pieces = re.split(r"(?<=[-./@#_,])", cell) if scope else [cell]
            text = "<wbr>".join(map(escape, pieces))
            of = f' data-of="{escape(table.headings[index])}"' if wide and tag == "td" else ""
            out.append(f"<{tag}{name}{scope}{of}>{text}</{tag}>")
        return "".join(out)

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    kinds = " ".join(["wide"] * wide + ["prose"] * table.prose)
    kind = f' class="{kinds}"' if kinds else ""
    # Focusable, so that the keyboard can scroll wide tables.
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(table.caption)}">'
        f"<table{kind}><caption>{escape(table.caption)}</caption>"
        f"<thead><tr>{cells('th', table.headings)}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
        + (f'<p class="note">{escape(table.note)}</p>' if table.note else "")
    )
