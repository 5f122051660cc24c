"""The table of docs/scale.md: memory and step time of runs on 8 and 64 GPUs.

    python -m benchmarks scale            # print the table
    python -m benchmarks scale --write    # replace it in docs/scale.md
    python -m benchmarks scale --check    # exit status 1 if the page has another

Everything is calculated, by the functions of `modtok pretrain --dry-run` and the sizes of messages.
Nothing is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean

from benchmarks.common import parser_of
from modtok_cli.model.architecture.arithmetic import recomputed_flops, step_flops
from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import Draw, Mixture
from modtok_cli.training.resolve import resolve
from modtok_cli.training.run_memory import StepRows, memory_parts, recomputed, total
from modtok_cli.training.settings import RunSettings

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN, END = "<!-- table: python -m benchmarks scale --write -->\n", "<!-- end of table -->\n"

# NVIDIA's data sheet of the H100 SXM: dense bfloat16 FLOP/s; bytes a second in one direction of
# NVLink and of a 400 Gbit/s network port per GPU; bytes of memory. A node has eight.
PEAK, NVLINK, NETWORK, MEMORY, NODE = 989e12, 450e9, 50e9, 80e9, 8
UTILIZATION = 0.4
# Sequential BPE, k = 24,000: rows of T per language, and of a union of m languages K · m ** POWER.
ROWS_PER_LANGUAGE, K, POWER = 340_147 / 21, 24_000, 0.87
# Steps that numbers of rows are means of.
SAMPLED = 8
MODELS = ("2.5b", "7b", "30b")
GPUS = (8, 64)
LANGUAGES = (21, 250)
GIB = 2**30


def sent_bytes(
    needed: float, asked: float, tables: int, width: int, size: int, replicas: int
) -> float:
    """Bytes that a rank sends to others in a step for rows of `tables` tables.

    Args:
        needed: rows of other replicas that this one needs, of all tables together.
        asked: rows of this one that others need, each counted once for each of them.
        width, size: values of a row, bytes of a value on the device.
        replicas: R.

    Example: 2 replicas, 50 rows of each needed by the other, of 4 float32: counts 16, ids 200,
    rows 800, gradients 800 bytes.

    >>> sent_bytes(50, 50, 2, 4, 4, 2)
    1816
    """
    return 8 * tables * (replicas - 1) + 4 * needed + width * (asked * size + 4 * needed)


@dataclass(frozen=True)
class Run:
    """A run on some GPUs: its configuration, memory by part, and bytes that a GPU sends a step."""

    config: Config
    gpus: int
    step: StepRows
    memory: dict[str, tuple[int, int]]
    rows: int
    backbone: int

    @property
    def compute(self) -> float:
        """Seconds of a step's FLOPs at the assumed utilization."""
        config = self.config
        shape, length, tokens = config.shape, config.data.seq_length, config.step_tokens
        flops = step_flops(shape, length, [(tokens, self.step.active)])
        flops += recomputed_flops(shape, length, tokens, config.parallelism.recompute or 0)
        return flops / (PEAK * UTILIZATION * self.gpus)

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by part, without overlap. Replicas of several nodes meet on the network."""
        link = NVLINK if self.gpus <= NODE else NETWORK
        return {
            "compute": self.compute,
            "rows": self.rows / link,
            "gradients": self.backbone / link,
        }


def step_rows(config: Config, languages: int, replicas: int) -> StepRows:
    """Mean numbers of rows in a step; the text of all languages but English has the same size."""
    mixture = Mixture.of({"en": 1, **{f"x-{n}": 1 for n in range(languages - 1)}})
    groups = config.data.batch_size // config.group_size
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


def run_of(model: str, gpus: int, languages: int) -> Run | None:
    """The run with the smallest tensor-parallel size that fits a GPU; None if none fits."""
    size = int(languages * ROWS_PER_LANGUAGE)
    for tp in (1, 2, 4, 8):
        replicas = gpus // tp
        settings = RunSettings(
            model=model, gpus=gpus, tp=tp, batch_size=max(64, replicas), micro_batch=1,
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
        return Run(config, gpus, rows, memory, sent, backbone)
    return None


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    line = _row(["---", *["---:"] * (len(head) - 1)])
    return _row(head) + line + "".join(map(_row, rows))


def tables() -> str:
    """The table as it is in the page."""
    head = ["model", "GPUs", "--tp", "recomputed", "backbone", "tables, 21", "tables, 250", "rows"]
    head += ["activations", "all, 21", "compute, s", "rows, s", "gradients, s"]
    rows = []
    for model, gpus in product(MODELS, GPUS):
        run = run_of(model, gpus, LANGUAGES[0])
        if run is None:
            rows.append([model, str(gpus), "does not fit", *[""] * (len(head) - 3)])
            continue
        part = {name: size / GIB for name, (_, size) in run.memory.items()}
        shape, seconds = run.config.shape, run.seconds
        owned = (
            12 * shape.table_parameters(-(-int(n * ROWS_PER_LANGUAGE) // gpus)) / GIB
            for n in LANGUAGES
        )
        rest = part["activations"] + part["working memory"]
        memory = [part["backbone"], *owned, part["active rows"], rest, total(run.memory) / GIB]
        times = [seconds["compute"], seconds["rows"], seconds["gradients"]]
        figures = [*(f"{x:.1f}" for x in memory), *(f"{x:.2f}" for x in times)]
        rows.append(
            [
                model,
                str(gpus),
                str(run.config.parallelism.tp),
                str(run.config.parallelism.recompute),
                *figures,
            ]
        )
    return _table(head, rows)


def updated(page: str) -> str:
    """The page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    page = PAGE.read_text(encoding="utf-8")
    if options.write:
        PAGE.write_text(updated(page), encoding="utf-8")
    elif options.check:
        if updated(page) != page:
            print(f"{PAGE.name} is not what the formulas give; python -m benchmarks scale --write")
            return 1
    else:
        print(tables())
    return 0
