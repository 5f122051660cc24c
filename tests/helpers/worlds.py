"""Small workspaces for property tests: few letters, and the cases at the edges.

Repeated documents and words, equal counts, texts of special tokens, empty documents and files, a
file that another one equals, languages that share words or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import orjson
from hypothesis import strategies as st

World = Mapping[str, Sequence[Sequence[str]]]
"""Language → documents of each of its files."""
END = "<|endoftext|>"
OFTEN = [
    "ab ab ba",
    "ab",
    "abc abcabcabc bc",
    "é日本 ab",
    f"a{END}b",
    "aaaa aa",
    "12 a1",
    "",
    " \n a",
    "a-b",
]
TEXT = st.sampled_from(OFTEN) | st.text("aab cé日-1", max_size=12)


def files(most: int = 3, least: int = 0) -> st.SearchStrategy[list[list[str]]]:
    """Documents of one to `most` files, `least` together, of which one is not empty."""
    documents = st.lists(TEXT, max_size=6)
    return st.lists(documents, min_size=1, max_size=most).map(
        lambda those: [[*those[0], *OFTEN[: 1 + max(0, least - sum(map(len, those)))]], *those[1:]]
    )


@st.composite
def worlds(draw: st.DrawFn, languages: Sequence[str] = ("en", "fi", "sw")) -> World:
    """The first of the languages, or more; the text of two of them may be equal."""
    shared = draw(files())
    number = len(languages) - draw(st.integers(0, len(languages) - 1))
    return {name: draw(st.just(shared) | files()) for name in languages[:number]}


def write(world: World, place: Path) -> Path:
    """`place` with a directory of JSON lines for each language, or a file if it has one."""
    place.mkdir(parents=True, exist_ok=True)
    for language, those in world.items():
        if len(those) > 1:
            (place / language).mkdir()
        for number, documents in enumerate(those):
            name = f"{language}/{number}.jsonl" if len(those) > 1 else f"{language}.jsonl"
            (place / name).write_bytes(lines(documents))
    return place


def lines(documents: Iterable[str]) -> bytes:
    """A line of JSON for each document."""
    return b"".join(orjson.dumps({"text": text}) + b"\n" for text in documents)
