"""The reader of JSON lines against the slow one; the harness of the core has common lines."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.base.errors import ModtokError
from modtok_cli.core.text import is_utf8, read_json_lines
from modtok_cli.text.formats.json_lines import JsonLines
from modtok_cli.text.reading import Reading
from modtok_cli.text.text_format import Lines, TextSource


def outcome(errors: str, read: str, block: bytes, fields: Sequence[str]) -> object:
    """Texts and what was repaired, or the error: `read` is "documents" or "spans"."""
    reader = JsonLines(TextSource("a.jsonl"), Reading(errors, *fields))
    lines = Lines(block, 7)
    try:
        if read == "documents":
            texts = [document.text for document in reader.documents(lines)]
        else:
            spans = reader.spans(lines)
            texts = [
                spans.data[start:stop].tobytes()
                for start, stop in zip(spans.starts, spans.stops, strict=True)
            ]
            assert max([0, *spans.stops.tolist()]) + 16 <= len(spans.data)
    except ModtokError as error:
        return str(error)
    return texts, reader.repaired, reader.empty, reader.seen


FIELDS = (("text",), ("lang",), ("id", "text"))


def agree(block: bytes) -> None:
    fields = FIELDS[len(block) % len(FIELDS)]
    for errors in ("strict", "replace", "skip"):
        fast = outcome(errors, "spans", block, fields)
        assert fast == outcome(errors, "documents", block, fields)


def each(listed: str) -> st.SearchStrategy[str]:
    return st.sampled_from(listed.split())


ESCAPES = each(
    r"\" \\ \/ \b \f \n \r \t \u0041 \u00E9 \u20ac \u0000 \uffff \u07ff\u0800 "
    r"\ud83d\udc4d \uD800\uDC00 \udbff\udfff"
)
BAD_ESCAPES = each(r"\ud83d \udc4d \ud83d\u0041 \ud83d\n \x \u12 \u12g4 \U0041 " '\\ " \x7f') | (
    st.sampled_from(["\x00", "\x1f", "\t", "\ufeff", "\udcff"])
)
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters='"\\', min_codepoint=32))
LONG = st.integers(20, 70).map(lambda n: "x" * n)
GOOD = st.lists(PLAIN | ESCAPES | LONG, max_size=6).map("".join)
STRING = (GOOD | st.lists(GOOD | BAD_ESCAPES, max_size=4).map("".join)).map('"{}"'.format)
NUMBER = each(
    "0 -0 12 -1.5 1e5 1E-07 2.5e+3 1e999 1e-999 01 1. .5 - +1 1e NaN "
    "123456789012345678901234567890 0.1234567890123456789012"
)
PLAIN_VALUE = NUMBER | st.sampled_from(["true", "false", "null", "nul", "tru", "falsy", "", "True"])
SPACE = st.sampled_from(["", "", " ", "\t", "\r", "  ", "\x0b", "\xa0"])


def _array(values: list[str]) -> str:
    return f"[{','.join(values)}]"


def _object(members: list[tuple[str, str, str, str]]) -> str:
    inner = ",".join(f"{a}{key}{b}:{a}{value}{b}" for key, value, a, b in members)
    return f"{{{inner}}}"


KEY = st.sampled_from(['"text"', '"text"', '"lang"', '"id"', r'"te\u0078t"', '"texts"', "text"])
VALUE = st.recursive(
    STRING | PLAIN_VALUE,
    lambda inner: (
        st.lists(inner, max_size=3).map(_array)
        | st.lists(st.tuples(STRING, inner, SPACE, SPACE), max_size=3).map(_object)
    ),
    max_leaves=6,
)
MEMBER = st.tuples(KEY, STRING | VALUE, SPACE, SPACE)
LINE = (
    st.lists(MEMBER, max_size=4)
    .map(_object)
    .map(lambda line: line.encode(errors="surrogateescape"))
)
TEXTS = st.text(st.characters(codec="utf-8")).flatmap(
    lambda text: st.sampled_from([True, False]).map(
        lambda ascii: json.dumps({"text": text, "lang": "fi"}, ensure_ascii=ascii).encode()
    )
)
BLOCK = st.lists(LINE | TEXTS | st.sampled_from([b"", b" ", b"\r", b"\x0c"]), max_size=5).map(
    b"\n".join
)


@settings(max_examples=examples(120), deadline=None)
@given(BLOCK)
def test_any_lines(block):
    agree(block)


@settings(max_examples=examples(120), deadline=None)
@given(
    st.lists(TEXTS | LINE, min_size=1, max_size=3).map(b"\n".join),
    st.lists(
        st.tuples(
            st.integers(0, 1000), st.integers(0, 3), st.binary(max_size=2) | st.just(b'"}\\{'[:1])
        ),
        max_size=3,
    ),
    st.integers(0, 60) | st.just(0),
)
def test_damaged_lines(block, edits, cut):
    for at, gone, put in edits:
        at %= len(block) + 1
        block = block[:at] + put + block[at + gone :]
    agree(block[: len(block) - cut])


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "a", "text": "b"}',
        b'{"text": "a", "lang": ""}',
        b'{"text": "a", "lang": 3}',
        b'{"text": 1}',
        b"{}",
        b"[]",
        b'\xef\xbb\xbf{"text": "a"}',
        b'{"text": "a"}}',
        b'{"text": "a",}',
        b'{"text": "a" "b": 1}',
        b'{"text": "a", "x": ' + b"[" * 99 + b"]" * 99 + b"}",
        b'{"text": "a\xed\xa0\x80"}',
        b'{"text": "a"} \xc3',
        b'{"text": "a", "x": [1}}',
        b'{"text": "a", "x": {"b": 1]}',
        b'{"text": "a", "x": [1,]}',
    ],
)
def test_lines_for_the_slow_path(line):
    good = b'{"text": "good"}'
    block = b"\n".join([good, b"", line, good])
    *_, doubts = read_json_lines(block, "text", "lang")
    assert [(text, at, block[a:b]) for text, at, a, b in doubts.tolist()] == [(1, 2, line)]
    agree(block)


SEQUENCE = st.sampled_from(["a", "abc" * 9, "é", "क", "👍"]).map(str.encode) | each(
    # Overlong, halves of pairs, too large, and the last or first that is none of it.
    "c080 c1bf e08080 e0a080 ed9fbf eda080 f0808080 f0908080 f48fbfbf f4908080 f5 80 ff e0"
).map(bytes.fromhex)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(SEQUENCE | st.binary(max_size=3), max_size=40).map(b"".join), st.integers(0, 4))
def test_utf8(text, cut):
    text = text[: len(text) - cut]
    for each in (text, text.decode(errors="replace").encode()):
        try:
            each.decode()
            expected = True
        except UnicodeDecodeError:
            expected = False
        assert is_utf8(each) == expected
