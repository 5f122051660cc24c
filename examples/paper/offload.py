"""Seconds of a training step with rows and moments on the device, and in host memory.

tab:offload_poc
"""

import json
from statistics import median

from common import emit, training
from models import named, regimes, trained


def main() -> None:
    """A row for each regime and place: K = 1 is none, K = 6 is sub:5 with p = 1."""
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    for regime in regimes(options, "none", "sub:5"):
        for offload in (False, True):
            chosen = {} if regime == "none" else {"p": 1.0}
            run = trained(options, regime, **chosen, offload=offload)
            lines = map(json.loads, (run / "metrics.jsonl").read_text("utf-8").splitlines())
            seconds = [line["time"]["step_seconds"] for line in lines if "time" in line]
            row = {"steps": len(seconds), "median": median(seconds)}
            emit([row], *row, regime=named(regime), offload=offload)


if __name__ == "__main__":
    main()
