"""WARC records in, pages out; and whatever is wrong with one costs that one only."""

import gzip
import re
import zlib
from pathlib import Path

import pytest
import zstandard

from helpers.crawl import around, compressed, http, record
from helpers.processes import python
from modtok_cli.corpus.warc import Bad, Page, Skipped, read_warc

GOOD = [record(http(b"<p>page %d</p>" % n), f"http://a/{n}") for n in range(6)]
WAYS = pytest.mark.parametrize("how", ["plain", "gz", "zst"])


def read(path: Path, raw: list[bytes], how: str = "gz", **options):
    path.write_bytes(b"".join(raw))
    return list(read_warc(path, **options))


def offsets(members: list[bytes]) -> list[int]:
    return [sum(map(len, members[:n])) for n in range(len(members))]


@WAYS
def test_pages_have_url_date_and_offset(tmp_path: Path, how: str) -> None:
    members = [compressed(raw, how) for raw in GOOD]
    found = read(tmp_path / "a.warc", members)
    assert [page.data for page in found] == [b"<p>page %d</p>" % n for n in range(6)]
    assert [page.url for page in found] == [f"http://a/{n}" for n in range(6)]
    assert [page.offset for page in found] == offsets(members)
    assert {page.date for page in found} == {"2026-01-02T03:04:05Z"}
    assert {page.charset for page in found} == {"utf-8"}
    assert all(page.is_html for page in found)
    together = read(tmp_path / "b.warc", [compressed(b"".join(GOOD), how)])
    assert [page.data for page in together] == [page.data for page in found]


@WAYS
def test_records_without_pages_are_skipped_with_a_reason(tmp_path: Path, how: str) -> None:
    found = read(tmp_path / "a.warc", [compressed(raw, how) for raw in [*around(), GOOD[0]]])
    assert [each.reason for each in found if isinstance(each, Skipped)] == [
        "WARC warcinfo",
        "WARC request",
        "WARC metadata",
        "not HTML",
        "HTTP 4xx",
    ]
    assert isinstance(found[-1], Page)


def test_wet_and_resource_records(tmp_path: Path) -> None:
    raw = [
        record(b"one\ntwo", kind="conversion", content_type="text/plain"),
        record(b"<html><p>x", kind="resource", content_type="text/html; charset=koi8-r"),
        record(b"<p>x", kind="resource", content_type="image/png"),
        record(http(b"plain text", "Content-Type: text/plain")),
        record(http(b"<!doctype html><p>no type said", "Server: x")),
    ]
    found = read(tmp_path / "a.warc", raw)
    kinds = [(page.data[:5], page.is_html) for page in found if isinstance(page, Page)]
    assert kinds == [(b"one\nt", False), (b"<html", True), (b"plain", False), (b"<!doc", True)]
    assert isinstance(found[2], Skipped)


def damaged(how: str) -> dict[str, bytes]:
    whole = compressed(record(http(b"<p>" + bytes(range(256)) * 40)), how)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    return {"flipped bit": bytes(flipped), "cut off": whole[: len(whole) // 2]}


@pytest.mark.parametrize("how", ["gz", "zst"])
@pytest.mark.parametrize("what", ["flipped bit", "cut off"])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_damaged_member_affects_only_itself(
    tmp_path: Path, how: str, what: str, place: int
) -> None:
    members = [compressed(raw, how) for raw in GOOD]
    members[place] = damaged(how)[what]
    if how == "zst" and what == "flipped bit":
        # Without a checksum zstd may give wrong bytes for a flipped one: cut it as well.
        members[place] = members[place][:-20]
    found = read(tmp_path / "a.warc", members)
    (bad,) = [each for each in found if isinstance(each, Bad)]
    # At the end of the file nothing but the length tells that a part is missing.
    reason = "wrong length" if (place, what, how) == (5, "cut off", "gz") else "damaged"
    assert (bad.offset, bad.reason) == (offsets(members)[place], reason)
    pages = [each.data for each in found if isinstance(each, Page)]
    assert pages == [b"<p>page %d</p>" % n for n in range(6) if n != place]


def with_dictionary(records: list[bytes], *, plain: bool) -> tuple[bytes, list[bytes]]:
    """(frame with the dictionary, frames compressed with it), as .warc.zst files have them."""
    samples = [record(http(b"<p>page %d of a site" % n), url=f"http://{n}") for n in range(400)]
    dictionary = zstandard.train_dictionary(2000, samples)
    data = dictionary.as_bytes()
    data = data if plain else zstandard.ZstdCompressor().compress(data)
    head = b"\x5d\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    return head, [compressor.compress(each) for each in records]


@pytest.mark.parametrize("plain", [True, False])
def test_zstd_files_with_a_dictionary(tmp_path: Path, plain: bool) -> None:
    head, frames = with_dictionary(GOOD, plain=plain)
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    found = read(tmp_path / "a.warc.zst", [head, *frames[:2], skippable, *frames[2:]])
    assert [page.data for page in found] == [b"<p>page %d</p>" % n for n in range(6)]
    assert found[0].offset == len(head)


@pytest.mark.parametrize("size", [5, 2**31, 2**32 - 1])
def test_zstd_files_with_a_damaged_dictionary_or_none(tmp_path: Path, size: int) -> None:
    """A wrong size of the dictionary's frame takes no memory and is not an internal error."""
    head, frames = with_dictionary(GOOD, plain=True)
    head = head[:4] + size.to_bytes(4, "little") + head[8:]
    assert all(isinstance(each, Bad) for each in read(tmp_path / "a.warc.zst", [head, *frames]))
    (bad,) = read(tmp_path / "b.warc.zst", frames)
    assert "Dictionary mismatch" in bad.detail


HOSTILE = {
    "length too long": (record(http(b"<p>x"), length=5000), "wrong length"),
    "length negative": (record(http(b"<p>x"), length=-5), "no WARC header"),
    "length no number": (record(http(b"<p>x"), length="x"), "no WARC header"),
    "length of many digits": (record(http(b"<p>x"), length="9" * 40), "no WARC header"),
    "endless header": (record(http(b"<p>x"), extra="X: " + "y" * 99999 + "\r\n"), "damaged"),
    "too large": (record(http(b"<p>" + b"x" * 30_000)), "too large"),
    "claims five gigabytes": (record(http(b""), length=5_000_000_000), "too large"),
    "not gzip as it says": (
        record(http(b"junk", "Content-Type: text/html\r\nContent-Encoding: gzip")),
        "damaged",
    ),
    "gzip bomb": (
        record(
            http(
                gzip.compress(bytes(20_000_000)),
                "Content-Type: text/html\r\nContent-Encoding: gzip",
            )
        ),
        "too large",
    ),
}


COMPRESSED_ONLY = ("gzip bomb", "claims five gigabytes")


@pytest.mark.parametrize(
    ("how", "name"),
    [
        (how, name)
        for how in ("plain", "gz", "zst")
        for name in HOSTILE
        if how != "plain" or name not in COMPRESSED_ONLY
    ],
)
def test_hostile_records_are_reported_with_their_offset(
    tmp_path: Path, how: str, name: str
) -> None:
    raw, reason = HOSTILE[name]
    members = [compressed(each, how) for each in [*GOOD[:2], raw, *GOOD[2:]]]
    found = read(tmp_path / "a.warc", members, limit=50_000 if name == "gzip bomb" else 20_000)
    (bad,) = [each for each in found if isinstance(each, Bad)]
    assert (bad.offset, bad.reason) == (offsets(members)[2], reason)
    assert [e.data for e in found if isinstance(e, Page)] == [
        b"<p>page %d</p>" % n for n in range(6)
    ]


def test_content_is_decoded_as_servers_send_it(tmp_path: Path) -> None:
    """Also if it is decoded already, and the headers are the original ones."""
    text = b"<html><p>ab"
    packed = gzip.compress(text)
    deflated = zlib.compress(text)
    chunks = b"%x;a=b\r\n%s\r\n0\r\nExpires: x\r\n\r\n" % (len(packed), packed)
    plain = b"\r\n0000000000000000b\n%s\r\n0\r\n\r\n" % text
    old = plain.replace(b"\r", b"").replace(b"\n", b"\r")
    html = "Content-Type: text/html\r\n"
    gzipped = html + "Content-Encoding: gzip"
    chunked = f"{gzipped}\r\nTransfer-Encoding: chunked"
    folded = f"{html}Transfer-Encoding: x-gzip\r\ntransfer-encoding:\r\n\tchunked"
    whole = record(http(chunks, chunked))
    end = whole.index(b"\r\n\r\n")
    bodies = [
        (text, chunked),
        (chunks, chunked.upper()),
        (chunks, folded),
        (plain, f"{html}transfer-encoding: Chunked"),
        (old, f"{html}Transfer-Encoding: chunked"),
        (plain.replace(b"0\r\n\r\n", b"no chunk"), f"{html}Transfer-Encoding: chunked"),
        (gzip.compress(text[:5]) + gzip.compress(text[5:]), gzipped),
        (gzip.compress(packed), f"{gzipped}\r\ncontent-encoding: gzip"),
        (deflated, f"{html}Content-Encoding: deflate"),
        (deflated[2:-4], f"{html}Content-Encoding: deflate"),  # without the header of zlib
        # What follows the end of a frame is not of the page.
        (zstandard.compress(text) + b"x" * 100_000, f"{html}Content-Encoding: zstd"),
    ]
    raw = [
        *(record(http(body, headers)) for body, headers in bodies),
        whole[:end].replace(b"\r\n", b"\n") + whole[end:],
        whole.replace(b"application/http", b"Application/HTTP").replace(b"http://", b"<http://", 1),
        re.sub(rb"Content-Type: application/http.*\r\n", b"", whole),
    ]
    found = read(tmp_path / "a.warc", [*raw, GOOD[0]])
    assert [getattr(page, "data", page) for page in found] == [text] * len(raw) + [b"<p>page 0</p>"]
    assert {page.url for page in found[:-1]} == {"http://example.org/"}


def test_garbage_between_members_and_an_empty_file(tmp_path: Path) -> None:
    members = [compressed(raw, "gz") for raw in GOOD]
    mark = b"junk" + members[0][:4]  # as a member begins, and then damaged
    found = read(tmp_path / "a.warc", [*members[:3], b"\0" * 100, mark * 99, *members[3:]])
    assert [type(each).__name__ for each in found] == ["Page"] * 3 + ["Bad"] + ["Page"] * 3
    assert read(tmp_path / "b.warc", []) == []
    for other in (b"<p>a page", compressed(b"<p>a page", "gz"), compressed(b"<p>a page", "zst")):
        (bad,) = read(tmp_path / "c.warc", [other])
        assert (bad.offset, bad.reason) == (0, "no WARC record")


def blown_up(before: bytes, zeros: int, behind: bytes) -> bytes:
    """A gzip member with so many zeros in it."""
    press = zlib.compressobj(wbits=31)
    pieces = [press.compress(before)]
    pieces += [press.compress(bytes(1_000_000)) for _ in range(zeros // 1_000_000)]
    return b"".join([*pieces, press.compress(behind), press.flush()])


def test_memory_is_bounded_for_any_declared_size(tmp_path: Path) -> None:
    path = tmp_path / "bomb.warc.gz"
    whole = record(http(b""), length=200_000_000 + 60)
    bomb = blown_up(whole[:-4], 200_000_000, b"\r\n\r\n")
    inner = blown_up(b"", 200_000_000, b"")
    header = "Content-Type: text/html\r\nContent-Encoding: gzip"
    path.write_bytes(
        bomb + compressed(record(http(inner, header)), "gz") + compressed(GOOD[0], "gz")
    )
    script = (
        "import re, sys; from pathlib import Path\n"
        "from modtok_cli.corpus.warc import read_warc\n"
        "print(*(type(each).__name__ for each in read_warc(Path(sys.argv[1]))))\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) // 1024)"
    )
    done = python("-c", script, path)
    kinds, mebibytes = done.stdout.splitlines()
    assert kinds == "Bad Bad Page"
    assert int(mebibytes) < 150
