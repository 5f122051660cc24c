"""The report as one HTML page with embedded style and plots, loading nothing else."""

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from modtok_cli.base.files import GENERATOR
from modtok_cli.base.version import __version__
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
  background: var(--paper); margin: 0 auto; max-width: 1000px; padding: 0 16px 64px;
  overflow-wrap: anywhere; }
h2 { margin-top: 2.6rem; padding-top: .9rem; border-top: 2px solid var(--ink); }
nav li { display: inline-block; margin-right: 1.2rem; }
a { color: var(--link); }
pre { background: var(--shade); padding: .6rem .8rem; font-size: .8rem; white-space: pre-wrap; }
figure, .table { overflow-x: auto; margin: 1.2rem 0; }
figure img { display: block; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; font-size: .95rem; padding-bottom: .35rem; }
th, td { padding: .2rem .6rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; white-space: normal; }
tr { background: var(--paper); }
tbody tr:nth-child(odd) { background: var(--shade); }
.name { text-align: left; }
.name:first-child { position: sticky; left: 0; background: inherit; }
.prose td { white-space: normal; vertical-align: top; min-width: 6rem; }
.best { font-weight: bold; }
.worst { text-decoration: underline; }
details { margin: .6rem 0; font-size: .8rem; }
footer, p.note { color: var(--dim); font-size: .8rem; }
@page { margin: 15mm; }
@media print {
  body { max-width: none; font-size: 11pt; padding: 0; }
  /* Two charts, or one with its table, fit a page. */
  figure img { max-height: 12cm; max-width: 100%; width: auto; }
  details.signatures, summary { display: none; }
  details::details-content { content-visibility: visible; display: block; }
  figure, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
  table { font-size: .6rem; }
  th, td { padding: .1rem .25rem; }
}
"""


@dataclass(frozen=True)
class Section:
    """Section of the report: text, plots, tables, and the command and signatures behind them.

    `styles`: series of the plots → index of their color, as `draw` takes it.
    """

    anchor: str
    title: str
    text: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    command: str = ""
    signatures: Sequence[str] = ()
    styles: Mapping[str, int] = field(default_factory=dict)

    def html(self) -> str:
        """The section as HTML."""
        lines = [f'<section id="{escape(self.anchor)}">', f"<h2>{escape(self.title)}</h2>"]
        lines += [f"<p>{escape(text)}</p>" for text in self.text]
        lines += [_figure(chart, self.styles) for chart in self.charts]
        # The numbers of a chart are one click away; without a chart they are shown.
        for each in self.tables:
            name = f"Table: {escape(each.caption)}"
            lines.append(
                f"<details><summary>{name}</summary>\n{_table(each)}\n</details>"
                if self.charts
                else _table(each)
            )
        if self.command:
            lines.append(f"<pre><code>{escape(self.command)}</code></pre>")
        if self.signatures:
            items = "".join(f"<li><code>{escape(name)}</code></li>" for name in self.signatures)
            summary = "<summary>Signatures</summary>"
            lines.append(f'<details class="signatures">{summary}<ul>{items}</ul></details>')
        return "\n".join([*lines, "</section>"])


# A page may be shown by a terminal: names that it has read from files must not control it.
_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def page(title: str, sections: Sequence[Section], findings: Sequence[str] = ()) -> str:
    """The complete document; `findings` are the sentences that summarize it."""
    summary = "".join(f"<li>{escape(finding)}</li>" for finding in findings)
    contents = "".join(
        f'<li><a href="#{escape(part.anchor)}">{escape(part.title)}</a></li>' for part in sections
    )
    body = "\n".join(part.html() for part in sections)
    # Forbids any request: everything is in the file.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    document = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
{GENERATOR.format("report")}
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<ul>{summary}</ul>
<nav aria-label="Contents"><ul>{contents}</ul></nav>
{body}
</main>
<footer>modtok {escape(__version__)}</footer>
</body>
</html>
"""
    return document.translate(_CONTROLS)


def _figure(chart: Chart, styles: Mapping[str, int]) -> str:
    """The plot as an image; a window too narrow for it scrolls it, so that its text is legible."""
    data = b64encode(draw([chart], ".svg", styles)).decode()
    return (
        f'<figure tabindex="0"><img alt="{escape(chart.title)}" width="{WIDTH:g}" '
        f'src="data:image/svg+xml;base64,{data}"></figure>'
    )


_MARK: dict[type, str] = {Best: "best", Worst: "worst"}


def _table(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        out = []
        for index, cell in enumerate(cells):
            mark = "name" if index < table.left else _MARK.get(type(cell), "")
            # A heading can be a file name: allow line breaks at punctuation.
            pieces = re.split(r"(?<=[-./@#_,])", cell) if tag == "th" else [cell]
            text = "<wbr>".join(map(escape, pieces))
            out.append(f'<{tag} class="{mark}">{text}</{tag}>')
        return f"<tr>{''.join(out)}</tr>"

    body = "\n".join(row("td", cells) for cells in table.rows)
    prose = ' class="prose"' * table.prose
    # Focusable, so that the keyboard can scroll wide tables.
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(table.caption)}">'
        f"<table{prose}><caption>{escape(table.caption)}</caption>"
        f"<thead>{row('th', table.headings)}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
        + (f'<p class="note">{escape(table.note)}</p>' if table.note else "")
    )
