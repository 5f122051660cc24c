"""Seconds of a training step with rows and moments on the device, and in host memory.

tab:offload_poc
"""

import json
import time
from statistics import median
from typing import Any

from common import emit, training
from figures import figure
from models import named, regimes, trained

import modtok_cli as modtok


def main() -> None:
    """A row for each regime and place: K = 1 is none, K = 6 is sub:5 with p = 1.

    `off_gpu`: gather and update in host memory; `transfer`: the rows of a step up and their
    gradients down, alone, on a GPU.
    """
    arguments = training(__doc__)
    arguments.add_argument("--regimes", nargs="*", default=[])
    options = arguments.parse_args()
    every = []
    for regime in regimes(options, "none", "sub:5"):
        for offload in (False, True):
            chosen = {} if regime == "none" else {"p": 1.0}
            run = trained(options, regime, **chosen, offload=offload)
            lines = [json.loads(line) for line in (run / "metrics.jsonl").open(encoding="utf-8")]
            steps = [line for line in lines if "time" in line]
            times = [step["time"] for step in steps]
            row = {"steps": len(times), "median": median(each["step_seconds"] for each in times)}
            if offload:
                host = [each["offload"]["fetch"] + each["offload"]["update"] for each in times]
                row |= {"off_gpu": median(host), "transfer": transfer(run, steps[-1]["draws"])}
            every += emit([row], *row, regime=named(regime), offload=offload)
    columns = {"step": "median", "off the GPU": "off_gpu", "transfer": "transfer"}
    parts = [
        {"part": f"{name}, {'host memory' if row['offload'] else 'resident'}",
         "seconds": row.get(field), "regime": row["regime"]}
        for row in every for name, field in columns.items()
    ]  # fmt: skip
    figure(options, parts, {"seconds": "seconds"}, ["regime"], x="part")


def transfer(run: Any, draws: list[str]) -> float | None:
    """Seconds that rows of such draws take to a GPU and their gradients back; None on a CPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    config = json.loads((run / "config.json").read_text("utf-8"))["config"]
    whole, rows = modtok.load(run / "tokenizer"), 0
    for draw in draws:
        own, _, read = draw.partition(":")
        rows += whole.subset(own).size + (whole if read == "full" else whole.subset(read)).size
    up = torch.empty(rows, config["architecture"]["hidden_size"], dtype=torch.bfloat16)
    up, down = up.pin_memory(), torch.empty(up.shape).pin_memory()
    seconds = []
    for _ in range(12):
        torch.cuda.synchronize()
        began = time.perf_counter()
        gradients = up.to("cuda", non_blocking=True).float()
        down.copy_(gradients, non_blocking=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return median(seconds)


if __name__ == "__main__":
    main()
