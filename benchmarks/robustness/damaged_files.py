"""A thousand damaged files of every format, each read as a command would.

    python -m benchmarks damaged_files [--count 1000] [--only NAME] [--samples DIR] > results.jsonl

Harness, formats and mutations are in tests/helpers/damaged; the test suite runs a few of them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.common import emit, parser_of
from helpers.damaged import damage, samples
from helpers.damaged.formats import FORMATS


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--samples", type=Path)
    options = parser.parse_args()
    place = options.samples or Path(tempfile.mkdtemp())
    if not (place / "slice").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        samples.light_samples(place)
        samples.corpus_samples(place)
        samples.run_samples(place)
    for form in FORMATS:
        if options.only in form.name:
            began = time.monotonic()
            outcome = asdict(damage.run(form, place.absolute(), options.count, options.seed))
            outcome["seconds"] = round(time.monotonic() - began, 1)
            emit(outcome)
