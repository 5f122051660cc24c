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
from itertools import product
from pathlib import Path
from statistics import mean

from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import Draw, Mixture
from modtok_cli.training.memory import StepRows, memory_parts, recomputed, total
from modtok_cli.training.resolve import resolve
from modtok_cli.training.rows.exchange import sent_bytes
from modtok_cli.training.settings import RunSettings

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN, END = "<!-- tables: python -m benchmarks scale --write -->\n", "<!-- end of tables -->\n"

# NVIDIA's data sheet of the H100 SXM: dense bfloat16 FLOP/s; bytes a second in one direction of
# NVLink and of a 400 Gbit/s network port per GPU; bytes of memory. A node has eight.
PEAK, NVLINK, NETWORK, MEMORY, NODE = 989e12, 450e9, 50e9, 80e9, 8
UTILIZATION = 0.4
# Sequential BPE, k = 24,000: rows of T per language, and of a union of m languages K · m ** POWER.
ROWS_PER_LANGUAGE, K, POWER = 340_147 / 21, 24_000, 0.87
# Steps that numbers of rows are means of.
SAMPLED = 8
MODELS = ("0.5b", "1b", "2.5b", "7b", "12b", "30b")
GPUS = (8, 64, 512)
LANGUAGES = (21, 100, 250)
GIB = 2**30


@dataclass(frozen=True)
class Run:
    """A run on some GPUs: its configuration, memory by part, and bytes that a GPU sends a step."""

    config: Config
    gpus: int
    step: StepRows
    memory: dict[str, tuple[int, int]]
    rows: int
    backbone: int
    tensor: int

    @property
    def compute(self) -> float:
        """Seconds of a step's FLOPs at the assumed utilization."""
        config = self.config
        shape, length, tokens = config.shape, config.seq_length, config.step_tokens
        flops = shape.step_flops(length, [(tokens, self.step.active)])
        flops += shape.recomputed_flops(length, tokens, config.recompute or 0)
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


def step_rows(config: Config, languages: int, replicas: int) -> StepRows:
    """Mean numbers of rows in a step; the text of all languages but English has the same size."""
    mixture = Mixture.of({"en": 1, **{f"x-{n}": 1 for n in range(languages - 1)}})
    groups = config.batch_size // config.group_size(replicas)
    size = languages * ROWS_PER_LANGUAGE
    found: list[tuple[float, float, float]] = []

    def union(draws: list[Draw]) -> float:
        together = {name for one in draws for name in one.languages or ()}
        return min(size, K * len(together) ** POWER)

    for step in range(1, SAMPLED + 1):
        draws = config.draws(mixture, step, range(groups))
        active = mean(union([one]) for one in draws)
        found.append((active, union(draws[: -(-groups // replicas)]), union(draws)))
    return StepRows(*map(mean, zip(*found, strict=True)))


def run_of(model: str, gpus: int, languages: int, draw: str = "micro") -> Run | None:
    """The run with the smallest tensor-parallel size that fits a GPU; None if none fits."""
    size = int(languages * ROWS_PER_LANGUAGE)
    for tp in (1, 2, 4, 8):
        replicas = gpus // tp
        settings = RunSettings(
            model=model, gpus=gpus, tp=tp, draw=draw, batch_size=max(64, replicas), micro_batch=1,
            distributed_optimizer=replicas > 1, sampling="sub:2",
        )  # fmt: skip
        config = resolve(settings, gpu=True)
        if config.shape.kv_heads % tp:
            continue
        rows = step_rows(config, languages, replicas)
        config = recomputed(config, size, rows, gpus, int(MEMORY * 0.94))
        memory = memory_parts(config, size, rows, gpus)
        if total(memory) > MEMORY * 0.94:
            continue
        shape, tables = config.shape, config.shape.tables
        needed = (
            tables * rows.gathered / tp * (replicas - 1) / replicas
        )  # asked as many, on average
        sent = int(sent_bytes(needed, needed, tables, shape.hidden_size, 2, replicas))
        # Reduce-scatter of float32 gradients, all-gather of bfloat16 weights.
        backbone = 6 * (shape.parameters // tp) * (replicas - 1) // replicas
        # Two all-reduces per layer and pass, or as many bytes in two pairs of all-gather and
        # reduce-scatter; layers that are recomputed have a third pass. One for the embeddings.
        # With sequence parallelism the backward pass gathers two inputs of a layer again, and the
        # result is gathered. The loss: the gradient of the hidden states in float32, three numbers
        # a token.
        parallel = config.switches(replicas).sequence_parallel
        passes = 2 + (config.recompute or 0) / shape.layers + parallel / 2
        reduced = 2 * passes * shape.layers + 1 + parallel / 2
        tokens = config.step_tokens // replicas
        numbers = shape.hidden_size * (2 * reduced + 4) + 12
        tensor = int(2 * (tp - 1) * tokens * numbers / tp)
        return Run(config, gpus, rows, memory, sent, backbone, tensor)
    return None


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    line = _row(["---", *["---:"] * (len(head) - 1)])
    return _row(head) + line + "".join(map(_row, rows))


def memory_table() -> str:
    """GiB per GPU by part, for 21 and 250 languages."""
    head = [
        "model",
        "GPUs",
        "--tp",
        "recomputed layers",
        "backbone",
        "tables of 21",
        "100",
        "250 languages",
    ]
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
            layers = f"{run.config.recompute} of {shape.layers}"
            rows.append(
                [model, str(gpus), str(run.config.tp), layers, *[f"{x:.1f}" for x in figures]]
            )
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


def draw_table() -> str:
    """Rows of a step, by draw and number of languages."""
    head = ["model", "GPUs", "languages", "draw", "rows of V_S", "of a replica", "of a step"]
    head += ["active rows, GiB", "sent, MB", "sent, s"]
    rows = []
    for model, gpus, count, draw in product(("2.5b", "30b"), (8, 64), (21, 250), ("step", "micro")):
        run = run_of(model, gpus, count, draw)
        if run is None:
            continue
        step, memory = run.step, run.memory["active rows"][1] / GIB
        figures = [f"{x:,.0f}" for x in (step.active, step.gathered, step.union)]
        figures += [f"{memory:.1f}", f"{run.rows / 1e6:,.0f}", f"{run.seconds['rows']:.3f}"]
        rows.append([model, str(gpus), str(count), draw, *figures])
    return _table(head, rows)


def tables() -> str:
    """The tables as they are in the page."""
    return (
        f"### Memory, GiB per GPU\n\n{memory_table()}\n"
        f"### Bytes sent by a GPU in a step, and seconds without overlap\n\n{time_table()}\n"
        f"### Rows of a step by draw\n\n{draw_table()}"
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
