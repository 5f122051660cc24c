"""Text of the tests in several files."""

import shutil
from pathlib import Path

from helpers.crawl import DATA


def split_text(place: Path, files: int) -> Path:
    """Finnish in that many files, English in one."""
    (place / "fi").mkdir(parents=True)
    lines = (DATA / "fi.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for n in range(files):
        (place / "fi" / f"{n:02d}.jsonl").write_text(lines[n], encoding="utf-8")
    shutil.copy(DATA / "en.jsonl", place)
    return place
