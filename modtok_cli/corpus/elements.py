"""Blocks and lines of an HTML page, in one walk over its tree.

A block is an element that begins a new line, with a label if its element, role, class or id says
that it is no main text. A line is a paragraph, a preformatted block or a table of short cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from modtok_cli.corpus.repair import repair

BREAK = "\x0b"
"""Line end within a preformatted block or table. Pages have none: it is a control character."""
PROSE = 80
"""Minimum weight of a line that counts as prose. Weight is in letters of an alphabet."""
_SHORT = 0.3  # mass of a short line by its weight
_LONG_CELL = 400  # of tables with longer cells the columns are a layout
_CELL_LINES = 4
_ROLES = {
    "navigation": "navigation", "menu": "navigation", "menubar": "navigation",
    "tablist": "navigation", "toolbar": "navigation", "directory": "navigation",
    "search": "form", "banner": "header", "contentinfo": "footer", "complementary": "sidebar",
    "dialog": "dialog", "alertdialog": "dialog", "alert": "dialog", "tooltip": "dialog",
}  # fmt: skip
_TAGS = {
    "nav": "navigation", "menu": "navigation", "aside": "sidebar", "footer": "footer",
    "header": "header", "form": "form", "dialog": "dialog",
}  # fmt: skip
SURE_TAGS = ("nav", "aside", "footer", "dialog")
"""Elements that hold no main text; of a header, form or menu it depends on what they hold."""
# Words of class names and ids, as sites use them. Those with "?" count only without
# prose.
_CLASSES = {
    word: label
    for label, words in {
        "navigation": "nav? navbar navigation? menu? submenu breadcrumb breadcrumbs pagination "
        "pager pagenav toc? toolbar? topbar? tabs? skip? sitemap?",
        "sidebar": "sidebar sidenav rail?",
        "footer": "footer colophon copyright",
        "header": "masthead? header? logo?",
        "dialog": "cookie consent onetrust didomi usercentrics gdpr popup? modal? overlay? "
        "lightbox?",
        "share": "share sharing social? sharedaddy addthis follow?",
        "related": "related recommended recommendations teaser teasers trending popular? promo? "
        "outbrain taboola",
        "advertisement": "ad? ads? advert advertisement advertising sponsored sponsor? banner?",
        "form": "newsletter subscribe signup login? search? searchbox",
        "byline": "byline? meta? metadata? author? timestamp? postmeta? tags? taglist? date? "
        "username? postprofile? signature? tagline? votes? score?",
        "comments": "comment comments commentlist disqus respond",
        "hidden": "noprint printonly editsection",
    }.items()
    for word in words.split()
}  # fmt: skip
_COUNTED = {"button": "controls", "select": "controls", "textarea": "controls", "math": "formulas"}
_UNREAD = {
    *_COUNTED, "script", "style", "noscript", "template", "svg", "iframe", "object", "embed",
    "canvas", "audio", "video", "head", "map", "option", "datalist", "input", "progress", "meter",
    "frameset", "rp",
}  # fmt: skip
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "ins", "kbd", "label", "mark", "nobr", "q", "rb", "rt", "ruby", "s", "samp",
    "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
}  # fmt: skip
ITEMS = frozenset(("li", "dt", "dd"))
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_SPACE = re.compile(r"[ \t\n\r\f]+")
_WIDE = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]"
)
_LETTER = re.compile(r"\w")
_COOKIES = re.compile(r"\bcookie[a-z]+")  # as in cookiebar
_WORDS = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")
_HIDDEN = re.compile(r"display:\s*none|visibility:\s*hidden", re.I)
_UNSEEN = {
    "hidden", "is-hidden", "visually-hidden", "visuallyhidden", "sr-only", "screen-reader-text",
}  # fmt: skip
"""Classes of text that is not on the screen."""


@dataclass(slots=True)
class Line:
    """A line of text, a preformatted block or a table; `linked`: weight of the text in links."""

    text: str
    tag: str
    weight: float
    linked: float = 0.0
    links: int = 0

    @property
    def is_prose(self) -> bool:
        """Whether it is as long as a sentence, and most of it is in no link."""
        return self.weight >= PROSE and 2 * self.linked < self.weight

    @property
    def mass(self) -> float:
        """What it counts for when the main text is looked for."""
        whole = self.is_prose or self.tag in ("pre", "table")
        return max(0.0, self.weight - 2 * self.linked) * (1.0 if whole else _SHORT)


@dataclass(slots=True)
class Block:
    """An element, with blocks and lines in the order of the page, and sums over them."""

    tag: str
    label: str = ""
    is_sure: bool = True  # whether the label holds for prose too
    names: str = ""  # class and id
    parts: list[Block | Line] = field(default_factory=list)
    weight: float = 0.0
    linked: float = 0.0
    mass: float = 0.0
    prose: int = 0  # lines of prose and preformatted blocks
    links: int = 0
    controls: int = 0  # buttons and fields
    teasers: int = 0  # headings that are links
    has_block: bool = False  # a table or preformatted block below it

    def lines(self) -> Iterator[Line]:
        """All lines, in order."""
        stack = list(reversed(self.parts))
        while stack:
            part = stack.pop()
            if isinstance(part, Line):
                yield part
            else:
                stack += reversed(part.parts)

    def add(self, part: Block | Line) -> None:
        """Append a part."""
        self.parts.append(part)
        self._count(part)
        self.controls += part.controls if isinstance(part, Block) else 0

    def _count(self, part: Block | Line) -> None:
        self.weight += part.weight
        self.linked += part.linked
        self.mass += part.mass
        self.links += part.links
        self.has_block |= part.tag in ("table", "pre")
        if isinstance(part, Block):
            self.prose += part.prose
            self.teasers += part.teasers
            self.has_block |= part.has_block
        else:
            self.prose += part.is_prose or part.tag == "pre"
            self.teasers += part.tag in HEADINGS and part.linked > 0.8 * part.weight

    def inner_first(self) -> list[Block]:
        """All blocks below and this one, inner ones first."""
        blocks = [self]
        for block in blocks:  # grows
            blocks += [part for part in block.parts if isinstance(part, Block)]
        return blocks[::-1]

    def sum_up(self) -> None:
        """Sum up the parts again."""
        self.weight = self.linked = self.mass = 0.0
        self.prose = self.links = self.teasers = 0
        for part in self.parts:
            self._count(part)


def weight_of(text: str) -> float:
    """Length of a text; a character of a script without spaces counts as three."""
    return len(text) if text.isascii() else len(text) + 2 * len(_WIDE.findall(text))


class Walk:
    """Blocks and lines of a tree. It does not recurse: pages may be nested 100,000 levels deep."""

    def __init__(self, repairs: bool = True) -> None:
        self.repaired = [0, 0]  # lines and characters that `repair` changed
        self.unread: dict[str, list[int]] = {}
        self._repairs = repairs
        self._open: list[Block] = []
        self._text: list[str] = []
        self._linked: list[str] = []
        self._link = self._links = self._pre = 0

    def blocks(self, body: Any) -> Block:
        """The page as a block."""
        self._open.append(Block("body"))
        above: list[Any] = []  # a node that is held is not made again
        node = body
        while True:
            child = self._enter(node) if above else node.first_child
            if child is not None:
                above.append(node)
                node = child
                continue
            following = node.next if above else None
            while following is None and above:
                node = above.pop()
                if above:
                    self._leave(node.tag)
                    following = node.next
            if following is None:
                break
            node = following
        self._end_line()
        return self._open[0]

    def _enter(self, node: Any) -> Any:
        """The first child of a node to go into, else None. What has no children is left at once."""
        kind = node.type
        if kind == 3:  # text
            self._add(node.value)
            return None
        if kind != 1:
            return None
        tag = node.tag
        in_heading = self._open[-1].tag in HEADINGS
        # A heading that is a button opens what is below it.
        is_title = tag == "button" and in_heading and node.parent.text.strip() == node.text.strip()
        if tag in _UNREAD and not is_title:
            self._open[-1].controls += tag in ("button", "input", "select")
            if tag in _COUNTED:
                count = self.unread.setdefault(_COUNTED[tag], [0, 0])
                count[0] += 1
                count[1] += len(node.text)
            return None
        if (tag == "span" and not self._pre) and (
            _block(node, tag).label if in_heading else _is_unseen(node.getattr("class"))
        ):
            return None  # such as "edit" beside a heading
        if tag == "br":
            if self._pre:
                self._text.append("\n")
            else:
                self._end_line()
            return None
        if tag == "a":
            href = node.getattr("href") or ""
            if href.startswith("#") and not _LETTER.search(node.text):
                return None  # a sign beside a heading, or the way back from a note
            self._link += not (href.startswith("#") and in_heading)
        elif tag not in _INLINE and tag != "button" and not self._pre:
            self._end_line()
            self._open.append(_block(node, tag))
            self._pre += tag in ("pre", "listing", "xmp")
        child = node.first_child
        if child is None:
            self._leave(tag)
        return child

    def _leave(self, tag: str) -> None:
        if tag == "a":
            self._link = max(0, self._link - 1)
            self._links += 1
        elif tag in _INLINE or tag == "button":
            return
        elif self._pre and tag not in ("pre", "listing", "xmp"):
            self._text.append("\n")  # a line of code may be an element
        else:
            self._end_line()
            self._pre = 0
            block = self._open.pop()
            if tag in ITEMS:
                _flatten(block)
            if block.parts or tag in ("td", "th"):  # an empty cell has a column
                self._open[-1].add(_as_table(block) if tag == "table" else block)
            else:
                self._open[-1].controls += block.controls

    def _add(self, text: str) -> None:
        self._text.append(text)
        if self._link:
            self._linked.append(text)

    def _end_line(self) -> None:
        if not self._text:
            self._links = 0  # of images
            return
        text, self._text = "".join(self._text), []
        block = self._open[-1]
        if self._pre:
            text = text.strip("\n").rstrip()
            tag = "pre"
        else:
            text = _SPACE.sub(" ", text).strip(" ")
            tag = block.tag
        if self._repairs and not text.isascii() and (fixed := repair(text)) != text:
            self.repaired[0] += 1
            self.repaired[1] += len(fixed)
            text = fixed
        if text:
            linked = weight_of(_SPACE.sub(" ", "".join(self._linked)).strip())
            block.add(Line(text, tag, weight_of(text), linked, self._links + bool(self._link)))
        self._linked, self._links = [], 0


def _block(node: Any, tag: str) -> Block:
    """An element with the reason why it may be no main text, if something says one."""
    classes, anchor = node.getattr("class") or "", node.getattr("id") or ""
    names = f"{classes} {anchor}"
    role, style = node.getattr("role"), node.getattr("style")
    if role == "main":
        tag = "main"
    if (
        node.hasattr("hidden")
        or node.getattr("aria-hidden") == "true"
        or (style and _HIDDEN.search(style))
    ):
        return Block(tag, "hidden", True, names)
    if role in _ROLES:
        return Block(tag, _ROLES[role], True, names)
    label = _TAGS.get(tag, "")
    if tag in SURE_TAGS or len(names) == 1:
        return Block(tag, label, tag in SURE_TAGS, names)
    if _is_unseen(classes):
        return Block(tag, "hidden", False, names)
    sure, unsure = _labels(names)
    if anchor and (sure or unsure) and _is_target(node, tag, anchor):
        sure, unsure = _labels(classes)
    if tag in HEADINGS:
        unsure = [one for one in unsure if one != "header"]
    # The author of a comment is no comment.
    named = [one for one in sure if one != "comments"]
    if named or not (unsure or label):
        return Block(tag, (named or sure or [""])[0], True, names)
    return Block(tag, (unsure or [label])[0], False, names)


def _flatten(item: Block) -> None:
    """Make a paragraph that is all of an item the line of the item."""
    inner = item.parts[0] if len(item.parts) == 1 else None
    if isinstance(inner, Block) and not inner.label and len(inner.parts) == 1:
        line = inner.parts[0]
        if isinstance(line, Line) and line.tag in ("p", "div"):
            line.tag = item.tag
            item.parts = [line]


def _labels(names: str) -> tuple[list[str], list[str]]:
    """Labels by words of class names and ids: sure ones, and others."""
    words = _COOKIES.sub("cookie", " ".join(_WORDS.findall(names)).lower()).split()
    sure = [_CLASSES[word] for word in words if word in _CLASSES]
    return sure, [_CLASSES[word + "?"] for word in words if word + "?" in _CLASSES]


def _is_target(node: Any, tag: str, anchor: str) -> bool:
    """Whether an id is the text of a heading, for links to a chapter: it says nothing else."""
    head = node if tag in HEADINGS else node.first_element_child
    if head is None or head.tag not in HEADINGS:
        return False
    same = [word.lower() for word in _WORDS.findall(head.text)]
    # A chapter on comments looks like the comments; other boxes have fields or buttons.
    is_box = same == ["comments"] or node.query_selector("input, button") is not None
    return same == [word.lower() for word in _WORDS.findall(anchor)] and not is_box


def _is_unseen(classes: str | None) -> bool:
    return not _UNSEEN.isdisjoint((classes or "").split())


def _cell(part: Block | Line) -> Block:
    return part if isinstance(part, Block) else Block("td", parts=[part])


def _as_table(block: Block) -> Block:
    """A table whose cells are short as one line; of a layout the blocks stay."""
    rows: list[Block] = []
    stack: list[Block | Line] = list(reversed(block.parts))
    caption: list[Block | Line] = []
    while stack:
        part = stack.pop()
        if isinstance(part, Block) and part.tag in ("thead", "tbody", "tfoot"):
            stack += reversed(part.parts)
        elif isinstance(part, Block) and part.tag == "tr":
            rows.append(part)
        else:
            caption.append(part)
    if any(row.has_block for row in rows):
        return block
    # Cells of each row by their lines.
    cells = [[list(_cell(part).lines()) for part in row.parts] for row in rows]
    is_data = max(map(len, cells), default=0) > 1 and all(
        len(lines) <= _CELL_LINES
        and sum(line.weight for line in lines) <= _LONG_CELL
        and not (len(lines) > 1 and any(line.is_prose for line in lines))
        for row in cells
        for lines in row
    )
    if not is_data:
        return block
    text = BREAK.join(
        "\t".join(" ".join(line.text for line in lines) for lines in row) for row in cells
    )
    made = Block("table", block.label, block.is_sure, block.names)
    for part in caption:
        made.add(part)
    lines = [line for row in rows for line in row.lines()]
    sums = sum(one.weight for one in lines), sum(one.linked for one in lines)
    made.add(Line(text, "table", *sums, sum(one.links for one in lines)))
    return made
