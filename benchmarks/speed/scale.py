"""Tables of docs/scale.md: memory, bytes moved and step time of runs on 8 to 512 GPUs.

    python -m benchmarks scale            # print the tables
    python -m benchmarks scale --write    # replace them in docs/scale.md
    python -m benchmarks scale --check    # exit status 1 if the page has others

Everything is calculated, by the functions of `modtok pretrain --dry-run` and of the exchange of
rows. Nothing is measured here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from modtok_cli.training.config import Config
from modtok_cli.training.memory import StepRows, memory_parts, total
from modtok_cli.training.resolve import resolve
from modtok_cli.training.rows.exchange import sent_bytes
from modtok_cli.training.settings import RunSettings

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN, END = "<!-- tables: python -m benchmarks scale --write -->\n", "<!-- end of tables -->\n"

# NVIDIA's data sheet of the H100 SXM: dense bfloat16 FLOP/s; bytes a second in one direction of
# NVLink and of a 400 Gbit/s network port per GPU; bytes of memory. A node has eight.
PEAK, NVLINK, NETWORK, MEMORY, NODE = 989e12, 450e9, 50e9, 80e9, 8
UTILIZATION = 0.4
# Sequential BPE, k = 24,000: rows of T per language, and an output vocabulary of three languages.
ROWS_PER_LANGUAGE, ACTIVE = 340_147 / 21, 72_000
MODELS = ("0.5b", "1b", "2.5b", "7b", "12b", "30b")
GPUS = (8, 64, 512)
LANGUAGES = (21, 100, 250)
GIB = 2**30


@dataclass(frozen=True)
class Run:
    """A run on some GPUs: its configuration, memory by part, and bytes that a GPU sends a step."""

    config: Config
    gpus: int
    memory: dict[str, tuple[int, int]]
    rows: int
    backbone: int
    tensor: int

    @property
    def compute(self) -> float:
        """Seconds of a step's FLOPs at the assumed utilization."""
        config = self.config
        flops = config.shape.step_flops(config.seq_length, [(config.step_tokens, ACTIVE)])
        return flops / (PEAK * UTILIZATION * self.gpus)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by part, without overlap. Replicas of several nodes meet on the network."""
        link = NVLINK if self.gpus <= NODE else NETWORK
        return {
            "compute": self.compute,
            "rows": self.rows / link,
            "gradients": self.backbone / link,
            "tensor parallel": self.tensor / NVLINK,
        }


def run_of(model: str, gpus: int, languages: int, *, offload: bool = False) -> Run | None:
    """The run with the smallest tensor-parallel size that fits a GPU; None if none fits."""
    size = int(languages * ROWS_PER_LANGUAGE)
    rows = StepRows(ACTIVE, ACTIVE, ACTIVE)
    for tp in (1, 2, 4, 8):
        replicas = gpus // tp
        settings = RunSettings(
            model=model, gpus=gpus, tp=tp, draw="step", batch_size=max(64, replicas), micro_batch=1,
            offload=offload, distributed_optimizer=replicas > 1,
        )  # fmt: skip
        config = resolve(settings, gpu=True)
        memory = memory_parts(config, size, rows, gpus)
        if total(memory) > MEMORY * 0.94:
            continue
        shape, tables = config.shape, config.shape.tables
        active = tables * ACTIVE // tp
        sent = sent_bytes(active, -(-active // replicas), tables, shape.hidden_size, 2, replicas)
        # Reduce-scatter of float32 gradients, all-gather of bfloat16 weights.
        backbone = 6 * (shape.parameters // tp) * (replicas - 1) // replicas
        # Two all-reduces per layer and pass, or as many bytes in two pairs of all-gather and
        # reduce-scatter; recomputation is a third pass. One for the embeddings. With sequence
        # parallelism the backward pass gathers two inputs of a layer again, and the result is
        # gathered. The loss: the gradient of the hidden states in float32, three numbers a token.
        parallel = config.switches(replicas).sequence_parallel
        passes = (3 if config.recompute else 2) + parallel / 2
        reduced = 2 * passes * shape.layers + 1 + parallel / 2
        tokens = config.step_tokens // replicas
        numbers = shape.hidden_size * (2 * reduced + 4) + 12
        tensor = int(2 * (tp - 1) * tokens * numbers / tp)
        return Run(config, gpus, memory, sent, backbone, tensor)
    return None


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    line = _row(["---", *["---:"] * (len(head) - 1)])
    return _row(head) + line + "".join(map(_row, rows))


def memory_table() -> str:
    """GiB per GPU by part, for 21 and 250 languages."""
    head = ["model", "GPUs", "--tp", "backbone", "tables of 21", "100", "250 languages"]
    head += ["active rows", "activations, working", "all, 21 languages", "host per node, 250"]
    rows = []
    for model in MODELS:
        for gpus in GPUS:
            run = run_of(model, gpus, LANGUAGES[0])
            if run is None:
                rows.append([model, str(gpus), "does not fit", *[""] * (len(head) - 3)])
                continue
            part = {name: size / GIB for name, (_, size) in run.memory.items()}
            shape = run.config.shape
            tables = [
                12 * shape.table_parameters(-(-int(n * ROWS_PER_LANGUAGE) // gpus)) / GIB
                for n in LANGUAGES
            ]
            rest = part["activations"] + part["working memory"]
            figures = [part["backbone"], *tables, part["active rows"], rest]
            figures += [total(run.memory) / GIB, tables[-1] * NODE]
            rows.append([model, str(gpus), str(run.config.tp), *[f"{x:.1f}" for x in figures]])
    return _table(head, rows)


def time_table() -> str:
    """Bytes that a GPU sends in a step, and seconds."""
    head = ["model", "GPUs", "sequences", "rows, MB", "gradients, MB", "tensor parallel, MB"]
    head += ["compute, s", "rows, s", "gradients, s", "tensor parallel, s", "limit"]
    rows = []
    for model in MODELS:
        for gpus in GPUS:
            run = run_of(model, gpus, LANGUAGES[0])
            if run is None:
                continue
            seconds = run.seconds
            sent = [f"{size / 1e6:,.0f}" for size in (run.rows, run.backbone, run.tensor)]
            parts = [f"{one:.3f}" for one in seconds.values()]
            limit = max(seconds, key=lambda name: seconds[name])
            rows.append([model, str(gpus), str(run.config.batch_size), *sent, *parts, limit])
    return _table(head, rows)


def tables() -> str:
    """Both tables as they are in the page."""
    return (
        f"### Memory, GiB per GPU\n\n{memory_table()}\n"
        f"### Bytes sent by a GPU in a step, and seconds without overlap\n\n{time_table()}"
    )


def updated(page: str) -> str:
    """The page with the tables of today."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(updated(page), encoding="utf-8")
    elif sys.argv[1:] == ["--check"]:
        if updated(page) != page:
            print(f"{PAGE.name} is not what the formulas give; python -m benchmarks scale --write")
            return 1
    else:
        print(tables())
    return 0
