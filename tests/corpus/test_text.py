"""Text out of pages: charsets, main content, hostile HTML; files other than WARC."""

import gzip
import json
import resource
from pathlib import Path

import pytest

from helpers.crawl import LANGUAGES, page, paragraphs
from helpers.processes import python
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus import build
from modtok_cli.corpus.content import plain
from modtok_cli.corpus.repair import repair
from modtok_cli.corpus.sandbox import Failed, Sandbox, decode, page_text
from modtok_cli.corpus.sources import find_files, read_pages
from modtok_cli.corpus.warc import Bad, Page

RUSSIAN = "Привет, мир. Это простой текст на русском языке, довольно длинный, чтобы его узнать."
GERMAN = "Die Straße führt über die Brücke nach Köln, wo die Äpfel süß schmecken. " * 3
JAPANESE = "日本語のテキストです。これは文字コードを判定するための簡単な文章です。"

# (text, how it is stored, what the server says, what the page says)
CHARSETS = [
    (RUSSIAN, "utf-8", "iso-8859-1", None),
    (RUSSIAN, "koi8-r", "koi8-r", None),
    (RUSSIAN, "windows-1251", "iso-8859-1", None),
    (RUSSIAN, "windows-1251", None, "windows-1251"),
    (RUSSIAN, "windows-1251", "utf-8", "windows-1251"),
    (RUSSIAN, "utf-16", None, None),
    (RUSSIAN, "utf-8-sig", "koi8-r", None),
    (GERMAN, "iso-8859-1", "utf-8", None),
    (GERMAN, "iso-8859-1", "no-such-charset", "iso-8859-1"),
    (GERMAN, "windows-1252", None, None),
    (JAPANESE, "shift_jis", "iso-8859-1", None),
    (JAPANESE, "euc-jp", None, "euc-jp"),
]


@pytest.mark.parametrize(("text", "stored", "server", "meta"), CHARSETS)
def test_wrong_charsets(text: str, stored: str, server: str | None, meta: str | None) -> None:
    head = f'<html><head><meta charset="{meta}"></head>' if meta else "<html>"
    data = f"{head}<body><p>{text}</p>".encode(stored)
    assert text.strip() in decode(data, server, True)


def test_unknown_charsets_and_truncated_characters() -> None:
    assert decode(b"abc \xff\xfe\xfd \x81\x8d", "utf-8", False).startswith("abc ")
    assert decode("päivää".encode()[:-1], None, False) == "päivä"
    text = "a\0b\x07\r\nc\u200b\x85d \x9f".encode()
    assert page_text(text, False, None).text == "ab\nc\u200b\nd"


@pytest.mark.parametrize("language", LANGUAGES)
def test_main_content_with_one_paragraph_per_line(language: str) -> None:
    text = paragraphs(language)[:5]
    for extractor in ("modtok", "resiliparse"):
        found = page_text(page(text), True, None, extractor)
        assert found.text.split("\n") == text, extractor
        assert sum(characters for _, characters in found.dropped.values()) > 100


ONE, TWO, THREE = paragraphs("en")[:3]
CODE = "def f(x):\n    if x < 3:\n\treturn [x]\n\n    return {}"
MENU = "".join(f'<li><a href="/{n}">Menu {n}</a></li>' for n in range(6))
POSTS = "".join(
    f'<div class="comment"><div class="comment-author">joe <time>7.5.</time></div><p>{text}</p>'
    "<a href='/r'>Reply</a></div>"
    for text in (ONE, TWO, "Yes, I agree.", THREE)
)
# (page, its main text)
STRUCTURES = {
    "elements": (
        f"<h1>Title</h1><p>First <b>bold</b>\nover lines.<br>Broken.<p>{ONE}<ul><li>Peel them."
        f"<li>Boil <ol><li>once</ol></ul><p>{TWO}</p><blockquote>A quote.</blockquote>"
        f"<dl><dt>apple</dt><dd>A fruit.</dd></dl>",
        f"Title\nFirst bold over lines.\nBroken.\n{ONE}\nPeel them.\nBoil\nonce\n{TWO}\nA quote.\n"
        "apple\nA fruit.",
    ),
    "code": (
        f"<p>{ONE}<table><tr><td><pre>1\n2\n3</pre><td><pre><code><i>def</i>"
        f"{CODE.replace('<', '&lt;')[3:]}\n</code></pre></table><p>{TWO}",
        f"{ONE}\n{CODE}\n{TWO}",
    ),
    "table": (
        f"<p>{ONE}<table><thead><tr><th>Year<th>Rain<th>Note<tbody><tr><td>1990<td>12.5 %<td>"
        f"<tr><td>1991<td>-3<td>* * *</table><p>{TWO}",
        f"{ONE}\nYear\tRain\tNote\n1990\t12.5 %\t\n1991\t-3\t* * *\n{TWO}",
    ),
    "only a list": (f"<ul><li>{ONE}<li>{TWO}<li>Last.</ul>", f"{ONE}\n{TWO}\nLast."),
    "short items": ("<h1>Soup</h1><ul><li>2 onions<li>salt</ul>", "Soup\n2 onions\nsalt"),
    "forum": (f'<div class="comments">{POSTS}</div>', f"{ONE}\n{TWO}\nYes, I agree.\n{THREE}"),
    "comments": (
        f"<article><p>{ONE}<p>{TWO}<p>{THREE}</article><div id=comments><h3>1 comment</h3>"
        f"<div class=comment><p>{ONE[:90]}</div></div>",
        f"{ONE}\n{TWO}\n{THREE}",
    ),
    "layout": (
        f"<table><tr><td colspan=2><a href=/>Home</a> | <a href=/n>News</a><tr><td><ul>{MENU}</ul>"
        f"<td><p>{ONE}<p>{TWO}<tr><td colspan=2>&copy; 2026 We</table>",
        f"{ONE}\n{TWO}",
    ),
    "short ends": (
        f"<div class=post>We met at six.<p>{ONE}</p><div>Home by bus;</div></div><p>{TWO}"
        "<h2>When</h2><p>In 1780<dl><dt>x<dd>the first<dl><dt>y<dd>more</dl></dl>"
        "<div class=post>Bye</div>",
        f"We met at six.\n{ONE}\nHome by bus;\n{TWO}\nWhen\nIn 1780\nx\nthe first\ny\nmore\nBye",
    ),
    "linked items": (
        f"<p>{ONE}<ul><li>225 g butter<li>225 g <a href=/s>sugar</a><li><p><a href=/f>flour</a>"
        f"</ul><p>{TWO}<ul><li>Seen<li><a href=/1>Three more cakes</a></ul>",
        f"{ONE}\n225 g butter\n225 g sugar\nflour\n{TWO}\nSeen",
    ),
    "form": (
        f"<form><div>We use cookies. <button>Accept</button></div><div><p>{ONE}</p></div></form>",
        ONE,
    ),
}


POST = (
    "<div class=post><dl class=who><dt><a href=/u>{}</a><dd>Posts: {}</dl><p class=on>on 3.4.2020, "
    "12:0{}</p><div class=text><p>{}</p></div><div>Reply</div></div>"
)
# (page, its main text), as content systems write them
SYSTEMS = {
    "title in a banner": (
        "<title>How to bake - Our site</title><div class=site-header><h1>Our site</h1>"
        f"<ul>{MENU}</ul></div><div class=page-header><h1>How to bake</h1><p>It is easy.</p></div>"
        f"<div><a href=/x><img></a><p>{ONE}<p>{TWO}<figure><figcaption>An oven</figure></div>",
        f"How to bake\nIt is easy.\n{ONE}\n{TWO}\nAn oven",
    ),
    "title without a heading": (
        f"<title>Two cakes: a forum</title><div><b>Two cakes</b></div><div><p>{ONE}<p>{TWO}</div>",
        f"Two cakes\n{ONE}\n{TWO}",
    ),
    "names of chapters": (
        f"<main><h1>Sites</h1><p>{ONE}<section id=cookies><h2>Cookies</h2><p>{TWO}</section>"
        f'<div class="overflow-hidden"><table><tr><td>a<td>1<tr><td>b<td>2</table></div>'
        f"<h2>See also</h2><div><ul>{MENU}</ul></div><h2 id=search>Search <a href=#search>#</a>"
        f'</h2><div class="card-header"><h3><button>Who?</button></h3></div><div>{THREE}</div>',
        f"Sites\n{ONE}\nCookies\n{TWO}\na\t1\nb\t2\nSearch\nWho?\n{THREE}",
    ),
    "particulars of posts": (
        "<title>Bread</title><h1>Bread</h1>"
        + "".join(
            POST.format(*post) for post in (("a", 7, 1, ONE), ("b", 8, 2, TWO), ("c", 9, 3, THREE))
        ),
        f"Bread\n{ONE}\n{TWO}\n{THREE}",
    ),
    "notice": (
        f"<div class=n-1><div><p>{ONE[:90]}</p></div><div><button>Yes</button></div></div>"
        f"<div><h1>Bread</h1><p>{TWO}<p>{THREE}<ul class=menu-1><li>Rye<li>Wheat</ul></div>",
        f"Bread\n{TWO}\n{THREE}\nRye\nWheat",
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_pages_of_content_systems(name: str) -> None:
    html, text = SYSTEMS[name]
    assert plain(page_text(html.encode(), True, None).text) == text


def test_code_in_plain_text_keeps_its_indentation() -> None:
    text = f"{ONE}\n\n{CODE}\n\n  - an item\n\n```\nx\n\n    y\n```\n\n  {TWO}\r\n{THREE}"
    found = page_text(text.encode(), False, None).text
    assert plain(found) == f"{ONE}\n{CODE}\n- an item\n```\nx\n\n    y\n```\n{TWO}\n{THREE}"


@pytest.mark.parametrize("wrap", ["<main><article>{}</article></main>", "<div class=x>{}</div>"])
@pytest.mark.parametrize("name", STRUCTURES)
def test_structure_of_main_text_stays(name: str, wrap: str) -> None:
    inner, text = STRUCTURES[name]
    html = f"<body><nav><ul>{MENU}</ul></nav><div><ul>{MENU}</ul></div>{wrap.format(inner)}"
    html += "<aside><p>Latest <a href=/a>news of this week</a></aside><footer>Our rights</footer>"
    found = page_text(html.encode(), True, None)
    assert plain(found.text) == text
    assert found.dropped["navigation"][0] == 6
    assert {"links", "footer"} < {*found.dropped}


@pytest.mark.parametrize("language", LANGUAGES)
def test_misread_encodings_are_repaired(language: str) -> None:
    for text in (*paragraphs(language), "«CAFÉ», 5 €", "„MENÜ“"):
        assert repair(text) == text
        latin = text.encode().decode("latin-1")
        windows = "".join(WINDOWS.get(char, char) for char in latin)
        assert repair(latin) == repair(latin.encode().decode("latin-1")) == repair(windows) == text
    html = page(paragraphs(language)[:4]).decode().encode().decode("latin-1").encode()
    found = page_text(html, True, None)
    assert plain(found.text).split("\n") == paragraphs(language)[:4]
    assert bool(found.repaired[0]) != all(map(str.isascii, paragraphs(language)[:4]))
    assert page_text(html, True, None, repairs=False).repaired == [0, 0]


WINDOWS = {
    chr(byte): bytes([byte]).decode("cp1252")
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}


def test_absent_extractor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "is_installed", lambda _: False)
    with pytest.raises(UsageError, match=r"trafilatura is not installed.*pip install trafilatura"):
        build.corpus_build("a.jsonl", extractor="trafilatura")


def test_hostile_page_affects_only_itself() -> None:
    attributes = " ".join(f"a{n}=x" for n in range(60_000))
    with Sandbox(seconds=0.3, memory=500 << 20) as sandbox:
        for html, says in [
            ("<p>before", "before"),
            ("<div>" * 900_000, "timeout"),
            (f"<div {attributes}>x</div>", "timeout"),
            ("<p>a</p>" * 2_000_000, "crash"),
            ("<p>after ä", "after ä"),
            ("", ""),
            ("<" * 100_000, ""),
            ("<table>" * 500 + "<p>nested", "nested"),
        ]:
            try:
                found = sandbox.page_text(html.encode(), True, None).text
            except Failed as error:
                found = str(error)
            if says == "crash":  # out of memory or of time, as the machine is
                assert found in ("crash", "timeout"), html[:20]
            elif says:
                assert found == says, html[:20]
        assert sandbox.page_text(b"\xff" * 1000 + b"x", False, "utf-16").text != "none"


def test_a_child_that_does_not_start_drops_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with Sandbox() as sandbox, pytest.raises(ModtokError, match="does not start"):
        sandbox.page_text(b"<p>text", True, None)


def test_pages_are_parsed_under_a_lower_limit_of_addresses() -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    program = (
        "from modtok_cli.corpus.sandbox import Sandbox\n"
        "with Sandbox() as sandbox: print(sandbox.page_text(b'<p>text', True, None).text)"
    )
    done = python("-c", program, preexec_fn=lower)
    assert done.stdout == "text\n", done.stderr


def read(path: Path, **options) -> list:
    return list(read_pages(path, **options))


def test_json_lines(tmp_path: Path) -> None:
    rows = [
        (b'{"text": "one", "url": "http://a", "date": "2020"}', "page"),
        (b'{"text": "cut', "not JSON"),
        (b"", None),
        (b'{"other": 1}', "no text"),
        (b'{"text": 7}', "no text"),
        (b'["text"]', "no text"),
        (b'{"text": "' + b"x" * 500 + b'"}', "too large"),
        (b"[" * 100_000, "too large"),
        (b'{"text": "bad \xff byte"}', "not JSON"),
        ('{"text": "twö", "url": 5}'.encode(), "page"),
    ]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(line for line, _ in rows))
    found = read(tmp_path / "a.jsonl", limit=400)
    starts = [sum(len(line) + 1 for line, _ in rows[:n]) for n in range(len(rows))]
    told = [(one.offset, getattr(one, "reason", "page")) for one in found]
    reasons = zip(starts, (reason for _, reason in rows), strict=True)
    assert told == [(start, reason) for start, reason in reasons if reason]
    first, last = found[0], found[-1]
    assert (first.data, first.url, first.date, first.is_html) == (b"one", "http://a", "2020", False)
    assert (last.data.decode(), last.url) == ("twö", None)


def test_text_lines_html_files_and_truncated_ones(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n\n  \ntwo"))
    assert [(one.data, one.offset) for one in read(tmp_path / "a.txt.gz")] == [
        (b"one", 0),
        (b"two", 8),
    ]
    (tmp_path / "b.html").write_bytes(b"<p>x")
    (one,) = read(tmp_path / "b.html")
    assert (one.data, one.is_html) == (b"<p>x", True)
    (tmp_path / "c.html").write_bytes(b"x" * 500)
    assert read(tmp_path / "c.html", limit=400)[0].reason == "too large"
    text = "".join(json.dumps({"text": f"line {n}"}) + "\n" for n in range(9999))
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(text.encode())[:5000])
    *pages, last = read(tmp_path / "d.jsonl.gz")
    assert isinstance(last, Bad)
    assert last.reason == "damaged"
    assert len(pages) > 100
    assert all(isinstance(each, Page) for each in pages)


def test_files_are_found_in_one_order(tmp_path: Path) -> None:
    for name in ("b.warc.gz", "a/c.wet", "a/d.html.fi", "x.png", ".hidden.txt", "a/.h/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named = [tmp_path / "b.warc.gz", tmp_path, tmp_path / "a"]
    found = [str(path.relative_to(tmp_path)) for path in find_files(named)]
    assert found == ["a/c.wet", "a/d.html.fi", "b.warc.gz"]
    assert find_files(reversed(named)) == find_files(named)
    with pytest.raises(UsageError, match="unknown file format"):
        find_files([tmp_path / "x.png"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModtokError, match="directory contains no pages"):
        find_files([tmp_path / "empty"])
    with pytest.raises(UsageError, match="no input"):
        find_files([])
