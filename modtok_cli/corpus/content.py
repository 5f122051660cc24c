"""Main text of an HTML page: paragraphs, list items, tables and preformatted blocks.

A block is left out for its label (navigation, sidebar, dialog, ...), for links that are most of its
text, or because it stands beside the element that holds most of the text. No rule knows a language.
A label does not hold for the block that has most of the text of the page: where comments are most
of it, as in a forum, they are the main text. All that is left out is counted by reason.

Main text is a list of units. A unit is a line. Preformatted blocks and tables begin with `BREAK`,
which is also their line end; cells are separated by tabs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from modtok_cli.corpus.elements import BREAK, HEADINGS, ITEMS, PROSE, SURE_TAGS, Block, Line, Walk
from modtok_cli.corpus.repair import repair

_MOST = 0.75  # share of the mass of the page above which the label of a block does not hold
_DOMINANT = 0.7  # share of the mass of an element above which the search goes on in a child
_BESIDE = 0.08  # share of the mass of the page of a block beside the main text that stays
_TEASER = 400  # weight of the text below a heading that is a link
_FEW_LINKS = 0.1
_CONTAINERS = {
    "body", "div", "section", "center", "td", "th", "tr", "tbody", "table", "form", "span", "font",
}  # fmt: skip
_PARTS = frozenset((
    "p", "ul", "ol", "li", "dl", "dt", "dd", "blockquote", "pre", "details", "summary", "figure",
    "figcaption", "table", "tbody", "tr", "td",
))  # fmt: skip
_TEXT = frozenset(("p", "ul", "ol", "dl", "blockquote", "pre", "details", "table"))
_LISTS = frozenset(("ul", "ol", "dl", "menu", "table"))
_END = re.compile(
    "[.!?;\u2026\u3002\uff01\uff1f\u0964\u0965\u0589\u061f\u06d4\u037e\u1362\u104b\u17d4\u0f0d]"
    "[\"'\u201c\u201d\u2019\u00bb\u00ab\u300d\u300f)\\]]*$"
)
_RIGHTS = re.compile("\u00a9|\\(c\\) ?[12][0-9]{3}", re.IGNORECASE)
_RIGHTS_WEIGHT = 200
_LONGEST_TITLE = 300
_LISTED = ("links", "teasers", "related", "comments", "navigation")
_DIGITS = "0123456789 \n\t"
_DIGIT = re.compile(r"\d+")
_TIMES = 3  # a short line that occurs that often is of the site
_DATE = re.compile(
    r"\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d\d)|\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{4}\s?\u5e74"
    r"|\d{1,2}(st|nd|rd|th|er|[.\u00ba])? (de )?[^\W\d]{3,}[.,]? (de )?\d{4}"
    r"|[^\W\d]{3,}\.? \d{1,2}, \d{4}"
)
_MOST_LETTERS, _MOST_SIGNS = 30, 12  # beside a date
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")
_OWN = {"dt", "pre", "table", "td", "th", "figcaption", "summary"}

Dropped = dict[str, list[int]]
"""Reason -> lines and characters."""


@dataclass
class Found:
    """Units of a page; lines and characters that were left out by reason, and were repaired."""

    units: list[str]
    dropped: Dropped
    repaired: list[int]


def main_text(html: str, repairs: bool = True) -> Found:
    """The main text; with `repairs`, of text whose encoding was misread."""
    walk, body, title = _walked(html, repairs)
    page = _Page(body, title)
    return Found(page.units(), page.dropped | walk.unread, walk.repaired)


def all_text(html: str, repairs: bool = True) -> Found:
    """All text."""
    walk, body, _ = _walked(html, repairs)
    return Found([_unit(line) for line in body.lines()], walk.unread, walk.repaired)


def _walked(html: str, repairs: bool) -> tuple[Walk, Block, str]:
    """The walk over a page, its blocks and its title."""
    from resiliparse.parse.html import HTMLTree

    walk, tree = Walk(repairs), HTMLTree.parse(html)
    body = Block("body") if tree.body is None else walk.blocks(tree.body)
    return walk, body, repair(tree.title or "")


def plain(text: str) -> str:
    """Text of units, one per line, with the line ends within units.

    >>> plain("One.\\n\\x0bif x:\\x0b    y()\\nTwo.")
    'One.\\nif x:\\n    y()\\nTwo.'
    """
    return text.replace("\n" + BREAK, "\n").removeprefix(BREAK).replace(BREAK, "\n")


class _Page:
    """Choice of the main text. Blocks that are left out lose their parts, except titles."""

    def __init__(self, body: Block, title: str) -> None:
        self.dropped: Dropped = {}
        self._body = body
        self._total = body.mass
        self._titles = _titles(body, title)
        self._kept = {*self._titles}  # lines that stay when their block is left out
        self._outside: set[int] = set()  # these lines, of such blocks
        self._lists: set[int] = set()  # blocks whose links are left out

    def units(self) -> list[str]:
        """The main text."""
        self._drop_labelled()
        self._drop_particulars()
        self._drop_links()
        self._narrow()
        lines = self._without_edges(list(self._body.lines()))
        return [_unit(line) for line in lines]

    def _drop(self, part: Block | Line, reason: str) -> None:
        lines = [part] if isinstance(part, Line) else list(part.lines())
        if isinstance(part, Block):
            if reason in _LISTED:
                self._lists.add(id(part))
            part.parts = [line for line in lines if id(line) in self._kept]
            self._outside |= {*map(id, part.parts)}
            part.sum_up()
            lines = [line for line in lines if id(line) not in self._outside]
        if lines:
            count = self.dropped.setdefault(reason, [0, 0])
            count[0] += len(lines)
            count[1] += sum(len(line.text) for line in lines)

    def _drop_labelled(self) -> None:
        """Leave out blocks for their labels; comments only if other text is the main text."""
        comments: list[Block] = []
        stack: list[tuple[Block, bool, frozenset[str]]] = [(self._body, False, frozenset())]
        while stack:
            block, in_article, most = stack.pop()
            holds = block.label not in most or block.tag in SURE_TAGS
            if holds and self._holds(block, in_article):
                if block.label == "comments":
                    comments.append(block)
                else:
                    self._drop(block, block.label)
                continue
            in_article = in_article or block.tag in ("article", "main")
            if block.label:
                most |= {block.label}
            stack += [(part, in_article, most) for part in block.parts if isinstance(part, Block)]
        for block in self._body.inner_first() if comments else ():
            block.sum_up()
        if 2 * sum(block.mass for block in comments) <= self._body.mass:
            for block in comments:
                self._drop(block, block.label)

    def _holds(self, block: Block, in_article: bool) -> bool:
        """Whether a block is left out for its label."""
        most = _MOST if block.is_sure and block.label != "comments" else 0.5
        if not block.label or block.mass > most * self._total:
            return False
        few_links = block.linked <= _FEW_LINKS * block.weight
        if block.label == "header" and (in_article or (few_links and self._has_title(block))):
            return False
        if block.label == "navigation" and not block.is_sure and few_links:
            return False
        if block.tag == "aside" and in_article:
            return not (block.prose and few_links)
        return block.is_sure or not block.prose or 2 * block.linked > block.weight

    def _has_title(self, block: Block) -> bool:
        """Whether a block has the title of the page, or nothing but headings."""
        lines = list(block.lines())
        agree = any(self._titles.get(id(line)) for line in lines)
        return agree or all(line.tag in HEADINGS for line in lines)

    def _drop_particulars(self) -> None:
        """Leave out dates, and short lines that repeat between others, as in each post."""
        shapes = [_shape(line) for line in self._body.lines()]
        times = Counter(shapes) - Counter({one: len(shapes) for one in _series(shapes)})
        for block in self._body.inner_first():
            stay: list[Block | Line] = []
            for part in block.parts:
                shape = _shape(part) if isinstance(part, Line) else ""
                if not shape or isinstance(part, Block):
                    stay.append(part)
                elif times[shape] >= _TIMES and _LETTERS.search(shape):
                    self._drop(part, "repeated")
                elif part.tag not in (*ITEMS, *HEADINGS) and _is_date(part.text):
                    self._drop(part, "byline")
                else:
                    stay.append(part)
            block.parts = stay  # `_drop_links` sums up

    def _drop_links(self) -> None:
        """Leave out blocks and lines that are mostly links and have no prose."""
        for block in self._body.inner_first():
            whole, items = block.parts, _linked_items(block)
            block.parts = [part for part in whole if id(part) not in items]
            block.sum_up()
            if _only_line(block):
                continue  # with its list
            least = 0.5 if block.tag in _LISTS else 0.6
            is_links = block.links > 1 and not block.prose and block.linked > least * block.weight
            few = block.weight < _TEASER * block.teasers and 2 * block.mass < self._total
            if is_links or (block.teasers > 1 and few):
                block.parts = whole
                self._drop(block, "links" if is_links else "teasers")
                continue
            # Items that are links have the fate of the others, if those are more.
            stays = block.tag in _LISTS and sum(items.values()) <= block.weight
            kept: list[Block | Line] = []
            for part in whole:
                is_links = isinstance(part, Line) and _is_links(part)
                if is_links or (id(part) in items and not stays):
                    self._drop(part, "links")
                else:
                    kept.append(part)
            if len(kept) < len(whole):
                self._lists.add(id(block))
            alone = self._headings_alone(kept)
            for heading in alone:
                self._drop(heading, "links")
            if items or alone or len(kept) < len(whole):
                block.parts = kept
                block.sum_up()

    def _headings_alone(self, parts: Sequence[Block | Line]) -> list[Block]:
        """Headings of which all that stood below was left out, up to the next heading."""
        alone: list[Block] = []
        head: Block | None = None
        below: list[Block | Line] = []
        for part in (*parts, Block("h1")):
            if not isinstance(part, Block) or part.tag not in HEADINGS:
                below.append(part)
                continue
            blocks = [one for one in below if isinstance(one, Block) and not one.weight]
            if head and part.tag <= head.tag and len(blocks) == len(below):
                inner = (id(each) for one in blocks for each in one.inner_first())
                alone += [head] * (not self._lists.isdisjoint(inner))
            head, below = part, []
        return alone

    def _narrow(self) -> None:
        """Go down to the element that holds the main text; leave out what stands beside it."""
        block, total = self._body, self._body.mass
        while block.tag in _CONTAINERS:
            inner = [part for part in block.parts if isinstance(part, Block)]
            best = max(inner, key=lambda part: part.mass, default=None)
            if best is None or best.mass < _DOMINANT * block.mass:
                break
            if best.tag not in _CONTAINERS and best.tag not in ("article", "main"):
                break
            stay: list[Block | Line] = []
            before = True
            for part in block.parts:
                before &= part is not best
                if part is best or _belongs(part, best, total):
                    stay.append(part)
                    continue
                if before and isinstance(part, Block):
                    self._keep_lead(part)
                self._drop(part, "beside")
                if isinstance(part, Block) and part.parts:
                    stay.append(part)
            block.parts = stay
            block = best

    def _keep_lead(self, part: Block) -> None:
        """Keep what introduces the main text after its title."""
        below = False
        for line in part.lines():
            if below and (line.tag in HEADINGS or _ends(line)):
                self._kept.add(id(line))
            below |= id(line) in self._titles

    def _without_edges(self, lines: list[Line]) -> list[Line]:
        """Lines from the title to the last of the text, without what only describes it."""
        stay = []
        for line in lines:
            if line.weight < _RIGHTS_WEIGHT and _RIGHTS.search(line.text) and line.tag != "pre":
                self._drop(line, "rights")
            elif line.tag == "pre" and not line.text.strip(_DIGITS):
                self._drop(line, "line numbers")
            else:
                stay.append(line)
        near = _near_text(self._body)
        whole = [n for n, line in enumerate(stay) if _is_text(line) or id(line) in near]
        if not whole:
            return [line for line in stay if id(line) not in self._outside]
        first, last = self._first(stay, whole[0]), whole[-1] + 1
        for n in range(last, len(stay)):
            line, is_headed = stay[n], stay[n - 1].tag in HEADINGS
            if line.tag in ("li", "dd") or _is_sentence(line) or (is_headed and _ends(line)):
                last = n + 1
            elif line.tag not in (*HEADINGS, "dt"):
                break
        for line in stay[:first] + stay[last:]:
            self._drop(line, "edge")
        return stay[first:last]

    def _first(self, lines: list[Line], first: int) -> int:
        """Place of the title, or of what introduces the text at `first`."""
        inner = [line for line in lines[:first] if id(line) not in self._outside]
        titles = [line for line in inner if line.tag == "h1" or self._titles.get(id(line))]
        is_headed = any(line.tag in HEADINGS for line in (*inner, lines[first]))
        outer = [
            line
            for line in lines[:first]
            if id(line) in self._outside
            and id(line) in self._titles
            and (self._titles[id(line)] or not is_headed)
        ]
        if titles or outer:
            title = titles[0] if titles else outer[-1]
            return next(n for n, line in enumerate(lines) if line is title)
        while first and (lines[first - 1].tag in HEADINGS or _is_sentence(lines[first - 1])):
            first -= 1
        return first


def _titles(body: Block, title: str) -> dict[int, bool]:
    """Lines that may be the title of the page, by id: whether they are part of its `<title>`.

    Headings, and if none is part of it, the lines that it begins with.
    """
    whole = f" {_key(title)} "
    found: dict[int, bool] = {}
    first: dict[int, bool] = {}
    for line in body.lines():
        if line.weight > _LONGEST_TITLE or line.tag in ("pre", "table", "li"):
            continue
        key = f" {_key(line.text)} "
        if line.tag not in ("h1", "h2", "h3"):
            first |= {id(line): True} if whole.startswith(key) else {}
        elif key in whole:
            found[id(line)] = True
        elif line.tag == "h1" and 2 * line.linked < line.weight:
            found[id(line)] = False
    return found if any(found.values()) else first | found


def _key(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _shape(line: Line) -> str:
    """Text of a short line, with numbers alike; empty for links, sentences, tables and code."""
    is_own = line.tag in _OWN or line.linked > 0.8 * line.weight
    if is_own or line.is_prose or _END.search(line.text):
        return ""
    return line.text if line.tag in HEADINGS else _DIGIT.sub("0", line.text)


def _series(shapes: Sequence[str]) -> set[str]:
    """Shapes of lines that follow each other, such as "Room 1" and "Room 2"."""
    return {one for one, following in pairwise(shapes) if one == following}


def _is_date(text: str) -> bool:
    """Whether a date is most of a text."""
    rest = "".join(_DATE.sub("", text).split())
    letters = len(_LETTERS.findall(rest))
    has_date = _DATE.search(text) is not None
    return has_date and letters <= _MOST_LETTERS and len(rest) - letters <= _MOST_SIGNS


def _belongs(part: Block | Line, best: Block, total: float) -> bool:
    """Whether something beside the element with most of the text is main text too."""
    if isinstance(part, Line):
        return part.tag in HEADINGS or (part.is_prose and bool(_END.search(part.text)))
    if part.tag in HEADINGS:
        return True
    if part.tag == best.tag and part.names == best.names and part.names.strip():
        return True
    if part.tag == "figure":
        return not part.linked
    is_linked = part.linked > _FEW_LINKS * part.weight
    if part.tag in _TEXT and not (is_linked or part.controls):
        return part.tag != "p" or part.prose > 0 or all(map(_ends, part.lines()))
    if is_linked or 2 * part.controls >= part.prose:
        return False
    alike = part.tag == best.tag == "tr" and len(part.parts) == len(best.parts)
    return alike or part.mass > _BESIDE * total


def _is_links(line: Line) -> bool:
    if line.tag in HEADINGS or line.is_prose or not line.links:
        return False
    if line.links == 1 or line.tag == "table":
        return line.linked >= 0.8 * line.weight
    return 2 * line.linked > line.weight


def _only_line(item: Block | Line) -> Line | None:
    """The line of an item of a list that holds nothing else."""
    if isinstance(item, Line) or item.tag not in ITEMS or len(item.parts) != 1:
        return None
    return item.parts[0] if isinstance(item.parts[0], Line) else None


def _linked_items(block: Block) -> dict[int, float]:
    """Weights of the items of a list that are nothing but links, by their id."""
    lines = {id(part): _only_line(part) for part in block.parts}
    return {item: line.weight for item, line in lines.items() if line and _is_links(line)}


def _is_text(line: Line) -> bool:
    return line.is_prose or line.tag in ("pre", "table")


def _near_text(body: Block) -> set[int]:
    """Lines of elements that hold prose, code or sentences, and of elements with the same class.

    The lines are paragraphs, lists and bare text. An element holds what its lists hold.
    """
    held: dict[int, float] = {}  # weight of prose and sentences; code is prose
    kinds: set[tuple[str, str]] = set()
    for block in body.inner_first():
        weight = 0.0
        for part in block.parts:
            if isinstance(part, Block):
                weight += held[id(part)] if part.tag in _PARTS else 0.0
            elif part.tag == "pre" or part.is_prose:
                weight += PROSE
            elif _ends(part) and part.tag not in HEADINGS:
                weight += part.weight
        held[id(block)] = weight
        if weight >= PROSE and block.names.strip():
            kinds.add((block.tag, block.names))
    near: set[int] = set()
    stack = [(body, False)]
    while stack:
        block, is_near = stack.pop()
        is_near |= held[id(block)] >= PROSE or (block.tag, block.names) in kinds
        for part in block.parts:
            if isinstance(part, Block):
                stack.append((part, is_near and (part.tag in _PARTS or _is_bare(part))))
            elif is_near and part.tag not in HEADINGS:
                near.add(id(part))
    return near


def _is_bare(block: Block) -> bool:
    """Whether an element is a paragraph of an editor that writes every line as a div."""
    last = block.parts[-1] if block.parts else None
    is_plain = block.tag == "div" and not block.names.strip() and not block.controls
    return is_plain and isinstance(last, Line) and bool(_END.search(last.text))


def _is_sentence(line: Line) -> bool:
    return line.tag in ("p", "li", "dd", "blockquote") and bool(_END.search(line.text))


def _ends(line: Line) -> bool:
    """Whether a line of any element is a sentence, and no link."""
    return bool(_END.search(line.text)) and 2 * line.linked < line.weight


def _unit(line: Line) -> str:
    if line.tag == "pre":
        return BREAK + line.text.replace("\n", BREAK)
    return BREAK + line.text if line.tag == "table" else line.text
