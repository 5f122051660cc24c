"""Records of one shard: `<directory>/<lang>/<shard>.jsonl.zst`, or as FineWeb-2 has them.

That is `<directory>/fin_Latn/train/000_00000.parquet`. Columns have FineWeb-2's names, types and
order, as far as a build knows their values: `dump` and `top_langs` are left out. FineWeb2-HQ has
`quality_score`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Self

import orjson
import zstandard

from modtok_cli.base.files import atomic_file
from modtok_cli.corpus.plan import BuildSettings
from modtok_cli.text.languages import long_code
from modtok_cli.text.streams import read_chunks

SUFFIX = ".jsonl.zst"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
"""Valid names of a language's directory; none can point elsewhere."""
_PART = re.compile(rf"[0-9]{{5,}}{re.escape(SUFFIX)}")
_LEVEL = 3


def part_path(place: Path, language: str, rank: int) -> Path:
    """Path of a shard's records in a language."""
    return place / language / f"{rank:05d}{SUFFIX}"


def is_part(path: Path, place: Path) -> bool:
    """Whether `path` is a file of a shard's records below `place`.

    >>> is_part(Path("data/fi/00001.jsonl.zst"), Path("data"))
    True
    """
    above = path.absolute().parent.parent
    return above == place.absolute() and _PART.fullmatch(path.name) is not None


class Writers:
    """Open files of one shard; all appear if the block succeeds, none otherwise."""

    def __init__(self, place: Path, rank: int) -> None:
        self._place, self._rank = place, rank
        self._open: dict[str, Any] = {}
        self._stack = ExitStack()

    def write(self, language: str, record: dict[str, Any]) -> None:
        """Append a record."""
        raise NotImplementedError

    def _flush(self) -> None:
        """Write what is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: Any) -> None:
        # Also of the last rows: when they cannot be written, no file may appear.
        with self._stack:
            if kind is None:
                self._flush()
            else:
                self._stack.__exit__(kind, *exception)


class PartWriters(Writers):
    """JSON lines, a file for each language."""

    def write(self, language: str, record: dict[str, Any]) -> None:
        """Append a record to its language's file."""
        writer = self._open.get(language)
        if writer is None:
            path = part_path(self._place, language, self._rank)
            beside = self._stack.enter_context(atomic_file(path))
            handle = self._stack.enter_context(beside.open("wb"))
            compressor = zstandard.ZstdCompressor(level=_LEVEL)
            writer = self._stack.enter_context(compressor.stream_writer(handle))
            self._open[language] = writer
        writer.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def read_part(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a part, in order."""
    held = b""
    for chunk in read_chunks(path):
        lines = (held + chunk).split(b"\n")
        held = lines.pop()
        for line in lines:
            yield orjson.loads(line)


def languages_in(place: Path) -> list[str]:
    """Languages that have parts, ascending."""
    if not place.is_dir():
        return []
    return sorted(entry.name for entry in place.iterdir() if entry.is_dir())


SIZE = "minhash_cluster_size"
"""Field of a record: number of pages in its cluster, as FineWeb-2 names it."""
SPLIT = "train"
BUFFER_BYTES = 64 << 20
"""Bytes of the texts of all languages that a task holds before it writes them."""
COLUMNS = {
    "text": "string",
    "id": "string",
    "url": "string",
    "date": "string",
    "file_path": "string",
    "language": "string",
    "language_score": "float64",
    "language_script": "string",
    SIZE: "int64",
    "quality_score": "float64",
}
SCRIPT_CHARACTERS = 2000
"""Maximum number of characters of a text that are looked at."""
UNKNOWN = "Zyyy"
"""ISO's code for text without a script."""
# The living scripts of Unicode and the more frequent ones of old texts, by how often they occur.
_CODES = """
Latn Cyrl Hani Arab Hira Kana Hang Grek Deva Hebr Thai Armn Geor Beng Taml Telu Knda Mlym Gujr Guru
Orya Sinh Mymr Khmr Laoo Tibt Ethi Thaa Mong Syrc Cher Cans Nkoo Tfng Vaii Yiii Bopo Olck Mtei Java
Sund Bali Bugi Cham Lana Tale Talu Tavt Lisu Limb Lepc Saur Sylo Kali Rjng Hano Buhd Tglg Tagb Batk
Bamu Adlm Osge Rohg Wcho Hmnp Hmng Nand Newa Takr Sind Khoj Mroo Plrd Copt Goth Glag Runr Ogam Ital
Xsux Egyp Phnx Armi Samr Avst Brah Khar Orkh Dsrt Shaw Bass Mend Cakm
"""
_OPTIONAL = (SIZE, "quality_score")
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}_[A-Z][a-z]{3}")
_FILE = re.compile(r"[0-9]{3}_[0-9]{5,}\.parquet")


def folder_of(language: str, text: str) -> str:
    """Folder of a text: ISO 639-3 code of its language, and its script.

    >>> folder_of("fi", "Yö oli kylmä."), folder_of("sr", "Ноћ"), folder_of("zh", "夜")
    ('fin_Latn', 'srp_Cyrl', 'zho_Hani')
    """
    return f"{long_code(language)}_{script_of(text)}"


def existing_folders(output: Path, language: str) -> list[Path]:
    """Folders in `output` that could be of a language, ascending."""
    prefix = long_code(language) + "_"
    return sorted(
        entry
        for entry in (output.iterdir() if output.is_dir() else ())
        if entry.name.startswith(prefix) and _FOLDER.fullmatch(entry.name)
    )


def is_folder(place: Path) -> bool:
    """Whether a directory contains nothing but files of this layout."""
    entries = [entry for entry in place.rglob("*") if not entry.is_dir()]
    return _FOLDER.fullmatch(place.name) is not None and all(
        entry.parent == place / SPLIT and _FILE.fullmatch(entry.name) for entry in entries
    )


def is_table(file: Path) -> bool:
    """Whether a Parquet file has the columns of a build; the files of FineWeb-2 have more."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return False
    try:
        names = {*pq.read_schema(file).names}
    except (pa.ArrowException, OSError):
        return False
    return {*COLUMNS} - {*_OPTIONAL} <= names <= {*COLUMNS}


def columns_of(settings: BuildSettings) -> dict[str, str]:
    """Columns and their types of a build with these settings."""
    present = dict(zip(_OPTIONAL, (settings.near, settings.quality_model), strict=True))
    return {name: kind for name, kind in COLUMNS.items() if present.get(name, True)}


class FineWebWriters(Writers):
    """Parquet, a file for each language and script."""

    def __init__(self, place: Path, rank: int, settings: BuildSettings) -> None:
        import pyarrow as pa

        super().__init__(place, rank)
        self._schema = pa.schema(list(columns_of(settings).items()))
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._held = 0

    def write(self, language: str, record: dict[str, Any]) -> None:
        """Append a record to the file of its language and script."""
        folder = folder_of(language, record["text"])
        code, _, script = folder.rpartition("_")
        row = record | {
            "id": record["record"] or record["source"],
            "file_path": record["source"].rpartition(":")[0],
            "language": code,
            "language_score": record["lang_score"],
            "language_script": script,
            "quality_score": record["quality"],
        }
        self._rows.setdefault(folder, []).append({name: row[name] for name in self._schema.names})
        self._held += len(record["text"].encode())
        if self._held >= BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for folder, rows in self._rows.items():
            if folder not in self._open:
                path = self._place / folder / SPLIT / f"000_{self._rank:05d}.parquet"
                beside = self._stack.enter_context(atomic_file(path))
                self._open[folder] = self._stack.enter_context(
                    pq.ParquetWriter(beside, self._schema, compression="zstd")
                )
            self._open[folder].write_table(pa.Table.from_pylist(rows, self._schema))
        self._rows = {}
        self._held = 0


def script_of(text: str) -> str:
    """Script of most letters of a text. Japanese is `Jpan`, Korean `Hang` also with Han characters.

    >>> [script_of(text) for text in ("Säde 7", "мир, peace на земле", "東京へ行く", "東京", "12")]
    ['Latn', 'Cyrl', 'Jpan', 'Hani', 'Zyyy']
    """
    counts: Counter[str] = Counter()
    for letter, number in Counter(filter(str.isalpha, text[:SCRIPT_CHARACTERS])).items():
        counts[_script(letter)] += number
    kana = counts.pop("Hira", 0) + counts.pop("Kana", 0)
    for code, number in (("Jpan", kana), ("Hang", counts["Hang"])):
        if 4 * number > counts["Hani"]:  # Han characters of Japanese, or of Korean
            counts[code] = number + counts.pop("Hani", 0)
    del counts[UNKNOWN]
    code, number = max(counts.items(), key=lambda one: (one[1], one[0]), default=(UNKNOWN, 0))
    return code if number else UNKNOWN


@cache
def _script(letter: str) -> str:
    import regex

    for code in _CODES.split():
        if regex.match(rf"\p{{Script={code}}}", letter):
            return code
    return UNKNOWN
