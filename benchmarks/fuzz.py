"""A thousand damaged files of every format, each read as a command would: what happens?

    python benchmarks/fuzz.py [--count 1000] [--only NAME] [--samples DIR] > results.jsonl

Harness, formats and mutations are those of tests/reliability, which runs a few of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from reliability import fuzz, samples
from reliability.formats import FORMATS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
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
            outcome = asdict(fuzz.run(form, place.absolute(), options.count, options.seed))
            outcome["seconds"] = round(time.monotonic() - began, 1)
            print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
