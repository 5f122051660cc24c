"""HTML pages with known main text, for `python -m benchmarks pages`: kinds of content in layouts.

Each layout is a host with a menu, a cookie banner, a sidebar and a footer of its own. Main text is
drawn from documents of a language; menus, teasers and readers' comments from others of the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from zlib import crc32

LEAST, MOST = 80, 500
"""Characters of a paragraph of prose."""
GOOD = (
    "prose", "list", "only list", "table", "code", "forum", "commented", "mixed", "links",
    "mojibake",
)  # fmt: skip
BAD = ("repetition", "salad")
KINDS = (*GOOD, *BAD)

# Cookie banner, button, rights, newsletter, "read more", "reply".
PHRASES = {
    "bg": (
        "Този сайт използва бисквитки, за да подобри услугите си.",
        "Приемам",
        "Всички права запазени.",
        "Абонирайте се за нашия бюлетин и научавайте новините първи.",
        "Прочетете още",
        "Отговор",
    ),
    "de": (
        "Diese Website verwendet Cookies, um ihre Dienste zu verbessern.",
        "Akzeptieren",
        "Alle Rechte vorbehalten.",
        "Abonnieren Sie unseren Newsletter und erfahren Sie Neues zuerst.",
        "Weiterlesen",
        "Antworten",
    ),
    "el": (
        "Αυτός ο ιστότοπος χρησιμοποιεί cookies για να βελτιώσει τις υπηρεσίες του.",
        "Αποδοχή",
        "Με επιφύλαξη παντός δικαιώματος.",
        "Εγγραφείτε στο ενημερωτικό μας δελτίο και μάθετε πρώτοι τα νέα.",
        "Διαβάστε περισσότερα",
        "Απάντηση",
    ),
    "en": (
        "This website uses cookies to improve its services.",
        "Accept",
        "All rights reserved.",
        "Subscribe to our newsletter and be the first to hear the news.",
        "Read more",
        "Reply",
    ),
    "fi": (
        "Tämä sivusto käyttää evästeitä palvelujensa parantamiseen.",
        "Hyväksy",
        "Kaikki oikeudet pidätetään.",
        "Tilaa uutiskirjeemme ja kuule uutiset ensimmäisenä.",
        "Lue lisää",
        "Vastaa",
    ),
    "fr": (
        "Ce site utilise des cookies pour améliorer ses services.",
        "Accepter",
        "Tous droits réservés.",
        "Abonnez-vous à notre lettre et soyez le premier informé.",
        "Lire la suite",
        "Répondre",
    ),
    "ne": (
        "यो वेबसाइटले सेवा सुधार गर्न कुकीहरू प्रयोग गर्छ।",
        "स्वीकार",
        "सर्वाधिकार सुरक्षित।",
        "हाम्रो समाचारपत्रको सदस्य बन्नुहोस् र समाचार पहिले थाहा पाउनुहोस्।",
        "थप पढ्नुहोस्",
        "जवाफ",
    ),
    "sw": (
        "Tovuti hii hutumia vidakuzi ili kuboresha huduma zake.",
        "Kubali",
        "Haki zote zimehifadhiwa.",
        "Jiandikishe kwa jarida letu uwe wa kwanza kupata habari.",
        "Soma zaidi",
        "Jibu",
    ),
}

CODE = '''def {a}(values, limit={n}):
    """Sum of the values below the limit."""
    total = 0
    for value in values:
        if value < limit and value != -1:
            total += value ** 2

    return {{"{b}": total, "n": len(values)}}


if __name__ == "__main__":
    print({a}([{n}, 2, 3], limit=10))'''
CSTYLE = """#include <stdio.h>

int {a}(const int *{b}, size_t n)
{{
\tint best = -1;
\tfor (size_t i = 0; i < n; i++) {{
\t\tif ({b}[i] > best && {b}[i] < {n}) {{
\t\t\tbest = {b}[i];
\t\t}}
\t}}
\treturn best;
}}"""


@dataclass
class Made:
    """A page: its bytes, and main text, code and rows that must come out of it."""

    kind: str
    language: str
    url: str
    html: bytes
    text: str
    code: list[str]
    rows: tuple[tuple[str, ...], ...]


class Texts:
    """Paragraphs and labels of one language, each paragraph used once."""

    def __init__(self, language: str, paragraphs: Sequence[str], draw: random.Random) -> None:
        self.language, self.draw = language, draw
        self._left = list(paragraphs)
        draw.shuffle(self._left)
        self._words = [w for p in paragraphs[:400] for w in re.findall(r"[^\W\d_]{4,12}", p)]

    def prose(self, number: int) -> list[str]:
        """The next paragraphs."""
        taken, self._left = self._left[:number], self._left[number:]
        if len(taken) < number:
            raise SystemExit(f"{self.language}: too few paragraphs; pass more text")
        return taken

    def label(self, words: int = 1) -> str:
        """A menu entry or heading."""
        return " ".join(self.draw.choice(self._words) for _ in range(words)).capitalize()

    def name(self) -> str:
        """A user."""
        return self.draw.choice(("anna", "joe", "mira", "tom", "zed")) + str(
            self.draw.randint(1, 99)
        )

    def day(self) -> str:
        """A date."""
        return f"{self.draw.randint(1, 28)}.{self.draw.randint(1, 12)}.2025"


def link(text: str, extra: str = "") -> str:
    """An anchor."""
    return f'<a href="/{crc32(text.encode()) % 9973}"{extra}>{escape(text)}</a>'


def marked(text: str, draw: random.Random) -> str:
    """A paragraph's text as HTML, at times with a link or emphasis on a word."""
    words = text.split(" ")
    if len(words) > 6 and draw.random() < 0.5:
        place = draw.randrange(len(words) - 2)
        words[place] = f"\0{words[place]}\1"
    html = escape(" ".join(words), quote=False)
    mark = draw.choice(("b", "em", "a"))
    opened = '<a href="/w">' if mark == "a" else f"<{mark}>"
    return html.replace("\0", opened).replace("\1", f"</{mark}>")


class Content:
    """Main content of a page: its HTML, its text by paragraphs, its code, its table's rows."""

    def __init__(self, kind: str, texts: Texts, other: Texts) -> None:
        self.texts, self.other = texts, other
        title = texts.label(3)
        self.parts, self.said = [f"<h1>{title}</h1>"], [title]
        self.code: list[str] = []
        self.rows: tuple[tuple[str, ...], ...] = ()
        getattr(self, f"_{kind.replace(' ', '_')}")()

    def _add(self, paragraphs: Sequence[str], tag: str = "p", keep: bool = True) -> None:
        for text in paragraphs:
            self.parts.append(f"<{tag}>{marked(text, self.texts.draw)}</{tag}>")
            if keep:
                self.said.append(text)

    def _prose(self, change: Callable[[list[str]], list[str]] = list) -> None:
        prose = change(self.texts.prose(self.texts.draw.randint(4, 7)))
        self._add(prose[:2])
        self._add([self.texts.label(2)], "h2")
        self._add(prose[2:])

    _mojibake = _prose

    def _commented(self) -> None:
        self._prose()
        self.parts.append(comments(self.texts))

    def _salad(self) -> None:
        def shuffled(prose: list[str]) -> list[str]:
            words = " ".join(prose).split()
            self.texts.draw.shuffle(words)
            size = len(words) // len(prose) + 1
            return [" ".join(words[n : n + size]) for n in range(0, len(words), size)]

        self._prose(shuffled)

    def _repetition(self) -> None:
        def repeated(prose: list[str]) -> list[str]:
            if self.texts.draw.random() < 0.5:
                return [prose[0], " ".join([prose[1]] * 12), prose[2]]
            return [prose[0], *[prose[1]] * 12, prose[2]]

        self._prose(repeated)

    def _only_list(self) -> None:
        draw = self.texts.draw
        items = self.texts.prose(draw.randint(4, 8))
        short = [self.texts.label(draw.randint(2, 5)) for _ in range(draw.randint(3, 6))]
        tag = draw.choice(("ul", "ul", "ol"))
        for group in (items, short):
            rows = "".join(f"<li>{marked(text, draw)}</li>\n" for text in group)
            self.parts.append(f"<{tag}>{rows}</{tag}>")
            self.said += group

    def _list(self) -> None:
        self._add(self.texts.prose(2))
        self._only_list()
        self._add(self.texts.prose(1))

    def _table(self) -> None:
        texts, draw = self.texts, self.texts.draw
        self._add(texts.prose(2))
        numbers = [
            (str(draw.randint(1, 999)), f"{draw.random() * 9:.2f}", f"{draw.randint(1, 99)} %")
            for _ in range(draw.randint(5, 12))
        ]
        head = tuple(texts.label() for _ in range(4))
        self.rows = (head, *((texts.label(), *row) for row in numbers))
        html = ["".join(f"<td>{cell}</td>" for cell in row) for row in self.rows]
        html[0] = html[0].replace("td>", "th>")
        self.parts.append("<table>" + "\n".join(f"<tr>{row}</tr>" for row in html) + "</table>")
        self.said += [" ".join(row) for row in self.rows]
        self._add(texts.prose(2))

    def _code(self) -> None:
        draw = self.texts.draw
        for template in (CODE, CSTYLE):
            self._add(self.texts.prose(draw.randint(1, 2)))
            names = {"a": f"find_{draw.randint(100, 999)}", "b": draw.choice(("data", "a"))}
            block = template.format(n=draw.randint(5, 99), **names)
            inner = escape(block, quote=False)
            if draw.random() < 0.5:
                inner = f'<code class="x">{inner}\n</code>'
            self.parts.append(f"<pre>{inner}</pre>")
            self.code.append(block)
            self.said.append(block)
        self._add(self.texts.prose(1))

    def _forum(self) -> None:
        texts = self.texts
        name = texts.draw.choice(("comment", "post", "reply", "message"))
        self.parts.append(f'<div class="{name}s">')
        for _ in range(texts.draw.randint(5, 8)):
            user = f'<a href="/u">{texts.name()}</a> {texts.day()}'
            self.parts.append(f'<div class="{name}"><div class="{name}-meta">{user}</div>')
            self._add(texts.prose(1))
            self.parts.append(f'<a href="#r">{PHRASES[texts.language][5]}</a></div>')
        self.parts.append("</div>")

    def _mixed(self) -> None:
        self._add(self.texts.prose(3))
        tag = self.texts.draw.choice(("p", "blockquote"))
        self._add(self.other.prose(1), tag, keep=False)
        self._add(self.texts.prose(2))

    def _links(self) -> None:
        for text in self.texts.prose(4):
            words = text.split(" ")
            words[::4] = map(link, words[::4])
            self.parts.append("<p>" + " ".join(words) + "</p>")
            self.said.append(text)


def comments(texts: Texts) -> str:
    """Readers' comments below an article."""
    reply = PHRASES[texts.language][5]
    rows = "".join(
        f'<li class="comment"><cite>{texts.name()}</cite> <time>{texts.day()}</time>'
        f"<p>{escape(text[:160])}</p><a href='#'>{reply}</a></li>"
        for text in texts.prose(3)
    )
    head = f'<section id="comments" class="comments-area"><h3>3 {texts.label()}</h3>'
    return f"{head}<ol>{rows}</ol></section>"


def furniture(texts: Texts, number: int) -> dict[str, str]:
    """What a host repeats on its pages, and teasers of this page."""
    cookies, accept, rights, letter, more, _ = PHRASES[texts.language]
    fixed = random.Random(f"{texts.language} {number}")
    stable = Texts(texts.language, [" ".join(texts._words[:300])], fixed)
    menu = [stable.label(fixed.randint(1, 2)) for _ in range(7)]
    teasers = [(texts.label(4), text[:110] + "…") for text in texts.prose(3)]
    return {
        "items": "".join(f"<li>{link(one)}</li>" for one in menu),
        "bar": " | ".join(link(one) for one in menu),
        "cookies": f"{cookies} <button>{accept}</button>",
        "crumbs": " › ".join([*(link(one) for one in menu[:2]), texts.label(2)]),
        "byline": f"{texts.name()} · {texts.day()}",
        "share": "".join(link(one) for one in ("Facebook", "Twitter", "WhatsApp")),
        "teasers": "".join(
            f"<h3>{link(h)}</h3><p>{escape(t)} {link(more)}</p>" for h, t in teasers
        ),
        "related": "".join(f"<li>{link(head)}</li>" for head, _ in teasers),
        "footer": f"© 2025 {stable.label(2)}. {rights}",
        "letter": letter,
        "more": more,
    }


# A layout's HTML; the fields in braces are those of `furniture`, and `main`.
LAYOUTS = {
    "semantic": """<header><a class="logo" href="/">{more}</a><nav><ul>{items}</ul></nav></header>
<div id="cookie-consent" role="dialog">{cookies}</div><main><nav aria-label="x">{crumbs}</nav>
<article>{main}</article></main><aside><h2>{more}</h2>{teasers}</aside>
<footer><p>{letter}</p><form><input name="q"><button>OK</button></form><p>{footer}</p></footer>""",
    "blog": """<div class="cookie-notice">{cookies}</div><div id="header"><div class="menu">
<ul>{items}</ul></div></div><div class="wrapper"><div class="post-content entry">{main}
<div class="share-buttons">{share}</div></div><div class="sidebar widget-area">{teasers}</div></div>
<div class="related-posts"><h3>{more}</h3><ul>{related}</ul></div>
<div id="footer">{letter} {footer}</div>""",
    "plain": """<p>{bar}</p><hr>{main}<hr><p><small>{footer}</small></p>""",
    "tables": """<table width="100%"><tr><td colspan="2">{bar}</td></tr><tr><td width="20%">
<ul>{items}</ul></td><td>{main}</td></tr><tr><td colspan="2"><font size="1">{footer}</font></td>
</tr></table>""",
    "opaque": """<div class="css-1x7"><div class="css-9ab"><ul>{items}</ul></div></div>
<div class="css-2c"><div class="css-3d">{main}</div><div class="css-8"><ul>{related}</ul></div>
</div><div class="css-77">{cookies}</div><div class="css-78">{footer}</div>""",
    "section": """<div role="banner"><div role="navigation">{bar}</div></div><div role="main">
<section><div class="breadcrumbs">{crumbs}</div>{main}<section class="newsletter-signup">
<p>{letter}</p><form><input type="email"><button>OK</button></form></section></section></div>
<div role="complementary"><ul>{related}</ul>{teasers}</div>
<div role="contentinfo">{footer}</div>""",
    "bare": """<div><div><a href="/">{more}</a></div><div>{bar}</div></div><div><div>
<div>{byline}</div>{main}<div>{share}</div></div><div><h4>{more}</h4>{teasers}</div></div><div><p>{letter}</p>
<p>{footer}</p></div><div><p>{cookies}</p></div>""",
}


def make(kind: str, texts: Texts, other: Texts, number: int) -> Made:
    """One page."""
    layout = [*LAYOUTS][number % len(LAYOUTS)]
    made = Content(kind, texts, other)
    fields = furniture(texts, number % len(LAYOUTS))
    body = LAYOUTS[layout].format(main="\n".join(made.parts), **fields)
    if kind == "mojibake":
        body = body.encode("utf-8").decode("latin-1")
    html = (
        f'<!DOCTYPE html><html lang="{texts.language}"><head><meta charset="utf-8"><title>x'
        f"</title><style>p {{ margin: 0 }}</style></head><body>\n{body}\n"
        "<script>var a = 1;</script></body></html>"
    )
    url = f"http://{layout}.{texts.language}.example/{kind.replace(' ', '-')}/{number}"
    text = "\n".join(made.said)
    return Made(kind, texts.language, url, html.encode(), text, made.code, made.rows)
