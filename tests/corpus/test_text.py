"""Text out of pages: charsets, main content, hostile HTML; files other than WARC."""

import gzip
import json
import re
import resource
from pathlib import Path

import pytest

from helpers.crawl import LANGUAGES, page, paragraphs
from helpers.processes import python
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus.input_pages import decode, find_files, read_pages
from modtok_cli.corpus.sandbox import EXTRACTORS, Extractor, Failed, Sandbox, clean
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
    html = f"{head}<body><p>{text}</p>"
    assert decode(html.encode(stored), server, True) == html  # without a byte order mark


def test_unknown_charsets_and_truncated_characters() -> None:
    assert decode(b"abc \xff\xfe\xfd \x81\x8d", "utf-8", False).startswith("abc ")
    assert decode("päivää".encode()[:-1], None, False) == "päivä"
    assert decode("\ufeffпривет".encode("utf-16-be"), "koi8-r", False) == "привет"
    assert clean("a\0b\x07\r\nc\u200b\x85d \x9f\n \n  e") == "ab\nc\u200b\nd\n  e"


CODE = "def f(x):\n    return [x]"
ITEMS = "<ul><li>first item<li>second</ul>"


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_main_text_with_one_paragraph_per_line(extractor: Extractor) -> None:
    """Of pages of one process each is whole, though it has the same paragraphs."""
    extra = f"<pre>{CODE}</pre>{ITEMS}<table><tr><td>a<td>b<tr><td>c<td>d</table>"
    with Sandbox(extractor) as sandbox:
        for language in [*LANGUAGES] * 2:
            text = paragraphs(language)[:5]
            comments = f'<div id="comments"><p>{paragraphs(language)[6]}</p></div>'
            html = page(text, extra=extra).decode().replace("</main>", f"</main>{comments}")
            for _ in range(2):
                lines = sandbox.main_text(html).split("\n")
                assert lines[:5] == text, language
                assert lines[5:7] == CODE.split("\n"), language
                assert [line.removeprefix("- ") for line in lines[7:-2]] in (
                    ["first item", "second"],
                    [],  # resiliparse takes lists of few words for menus
                ), language
                assert [re.findall(r"\w", line) for line in lines[-2:]] == [["a", "b"], ["c", "d"]]


TEXT = paragraphs("en")[0]


def test_joiners_of_words_stay() -> None:
    """Also as entities, and if the letters that stand for them occur."""
    words = "می\u200cخواهم, \U000102a0 را\u200d, ක්\u200dෂ, א\u200fב, \u0600١, \u06dd١ "
    html = page([words.replace("\u200c", "&zwnj;") * 9, (words + TEXT) * 2])
    html = html.replace("\u200f".encode(), b"&#x200F;")
    for extractor in EXTRACTORS.values():
        assert extractor(html.decode()).split("\n")[0] == (words * 9).strip()


def test_hostile_page_affects_only_itself() -> None:
    attributes = " ".join(f"a{n}=x" for n in range(60_000))
    with Sandbox(seconds=0.3, memory=500 << 20) as sandbox:
        for html, says in [
            (f"<p>{TEXT}", TEXT),
            ("<div>" * 900_000, ""),
            (f"<div {attributes}>x</div>", "timeout"),
            (f"<p>{TEXT} ä", f"{TEXT} ä"),
            ("", ""),
            ("<" * 100_000, ""),
            ("<div>" * 200 + f"<p>{TEXT}", TEXT),
        ]:
            try:
                found = sandbox.main_text(html)
            except Failed as error:
                found = str(error)
            if says:
                assert found == says, html[:20]
    with Sandbox(seconds=600, memory=450 << 20) as sandbox:
        with pytest.raises(Failed, match=r"crash|MemoryError"):  # not by the time
            sandbox.main_text("<p>a</p>" * 300_000)
        assert sandbox.main_text(f"<p>{TEXT}") == TEXT
    assert decode(b"\xff" * 1000 + b"x", "utf-16", False)


def test_a_child_that_does_not_start_drops_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with Sandbox() as sandbox, pytest.raises(ModtokError, match="does not start"):
        sandbox.main_text("<p>text")


def test_pages_are_parsed_under_a_lower_limit_of_addresses() -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    program = (
        "from modtok_cli.corpus.sandbox import Sandbox\n"
        "with Sandbox() as sandbox: print(sandbox.main_text('<p>' + 'text ' * 99)[:4])"
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
    said = Said()
    assert find_files(reversed(named), progress=said) == find_files(named)
    assert ": x.png; expected .warc" in said.warnings[0]
    with pytest.raises(UsageError, match="unknown file format"):
        find_files([tmp_path / "x.png"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModtokError, match="directory contains no pages"):
        find_files([tmp_path / "empty"])
    with pytest.raises(UsageError, match="no input"):
        find_files([])
