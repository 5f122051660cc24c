"""Peak memory of merging count tables: from files in windows, and all in memory.

python -m benchmarks table_merging [--tables 8] [--words 2000000]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import emit
from modtok_cli.text.counts import WordCounts, merge_counts, size_of
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.text.table_files import load_counts, merge_files, save_counts

LENGTH = 10


def table(seed: int, words: int) -> WordCounts:
    """Random words of ten letters, a tenth of them in every table."""
    common = np.random.default_rng(0).integers(97, 123, (words // 10, LENGTH), np.uint8)
    own = np.random.default_rng(seed).integers(97, 123, (words - len(common), LENGTH), np.uint8)
    rows = np.unique(np.concatenate([common, own]).view(f"S{LENGTH}").ravel())
    data = rows.view(np.uint8).copy()
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * LENGTH
    counts = np.ones(len(rows), dtype=np.int64)
    return WordCounts(data, offsets, counts, BPE, size_of(data, offsets, counts, 1))


def merge(how: str, place: Path, options: argparse.Namespace) -> None:
    """Make the tables in `place`, or merge them to `how.counts`."""
    if how == "tables":
        for n in range(options.tables):
            save_counts(table(n + 1, options.words), place / f"{n:03d}.counts", "fi")
    paths = sorted(place.glob("0*.counts"))
    output = place / f"{how}.counts"
    if how == "windows":
        merge_files(paths, output, "fi", place / "scratch")
    elif how == "memory":
        save_counts(merge_counts([load_counts(path) for path in paths]), output, "fi")


def main() -> None:
    """Measure both in processes of their own; `start` merges nothing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--merge", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.merge:
        merge(options.merge[0], Path(options.merge[1]), options)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        # All in children: a child's peak is at least what its parent took when it was begun.
        size = 0
        for how in ("tables", "start", "windows", "memory"):
            command = [sys.executable, "-m", "benchmarks", "table_merging", "--merge", how, scratch]
            command += ["--tables", str(options.tables), "--words", str(options.words)]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            if how == "tables":
                size = sum(path.stat().st_size for path in place.glob("*.counts"))
                continue
            emit(
                {
                    "merge": how,
                    "tables": options.tables,
                    "table_mb": round(size / 1e6),
                    "peak_mb": round(int(done.stdout) / 1e6),
                }
            )
        files = [place / f"{how}.counts" for how in ("windows", "memory")]
        emit({"equal": files[0].read_bytes() == files[1].read_bytes()})


if __name__ == "__main__":
    main()
