"""Read the metrics of a run."""

from pathlib import Path
from typing import Any

import orjson


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a kill may have cut the last one short, it is left out."""
    lines = (run / "metrics.jsonl").read_bytes().split(b"\n")
    return [orjson.loads(line) for line in lines[:-1]]


def numbers(run: Path) -> list[dict[str, Any]]:
    """The metrics without what differs between any two runs."""
    return [{k: v for k, v in line.items() if k != "time"} for line in read_metrics(run)]
