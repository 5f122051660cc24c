"""What is rehearsed: every combination of ranks, rows, numbers, and what is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common import SAMPLE

STEPS, STOP_AFTER = 4, 2
LANGUAGES = ("en", "fi", "fr")
_SHAPE: dict[str, Any] = {
    "model": "tiny",
    "layers": 2,
    "hidden_size": 32,
    "ffn": 64,
    "heads": 2,
    "kv_heads": 2,
    "head_width": 16,
}


@dataclass(frozen=True)
class Combination:
    """A run: `offload` is resident, or the delay of offloaded rows; `stages` are 1 or 2."""

    replicas: int
    tp: int
    offload: str = "resident"
    dtype: str = "float32"
    recompute: bool = False
    sampling: str = "sub:2"
    train: str = "all"
    attention: str = "packed"
    stages: int = 1

    @property
    def world(self) -> int:
        return self.replicas * self.tp

    @property
    def name(self) -> str:
        return "-".join(str(value).replace(":", "") for value in asdict(self).values())

    @property
    def twin(self) -> Combination:
        """The run on the CPU that this one must equal: only a delay changes what is computed."""
        delayed = self.offload == "delay 1"
        return replace(self, offload=self.offload if delayed else "resident", recompute=False)

    def settings(self, work: Path, runs: Path, name: str, **more: Any) -> Any:
        """`RunSettings` of the run `name` below `runs`, with the files of `prepare` in `work`."""
        from modtok_cli.training.settings import RunSettings

        started: dict[str, Any] = _SHAPE
        if self.train == "rows":
            started = {"init_from": work / "runs" / "first", "train": "rows"}
        if self.offload != "resident":
            more |= {"offload": True, "offload_delay": int(self.offload[-1])}
        if self.attention == "document":
            more |= {"seq_length": 512}  # documents of the sample end in it
        if self.stages > 1:
            longer = {"seq_length": 128, "rope_theta": 5e5, "batch_size": 8}
            more |= {"steps": 1, "stages": ({"steps": STEPS - 1, **longer},)}
        return RunSettings(
            **started,
            langs=LANGUAGES if self.sampling != "none" else ("fi",),
            tokenizer=work / "tokenizer",
            data=SAMPLE / "data",
            runs=runs,
            name=name,
            gpus=self.world,
            tp=self.tp,
            dtype=self.dtype,
            recompute=int(self.recompute),  # of two layers
            sampling=self.sampling,
            attention=self.attention,
            **(_run(STEPS) | more),
        )


def _run(steps: int) -> dict[str, Any]:
    return {
        "steps": steps,
        "batch_size": 4,
        "micro_batch": 1,
        "seq_length": 64,
        "save_every": steps,
        "eval_every": steps,
        "eval_bytes": 128,
        "workers": 0,
        "warmup": 1,
        "hang_timeout": 1.0,
    }


def combinations() -> list[Combination]:
    """All, those of the same ranks together."""
    ranks = ((1, 1), (2, 1), (1, 2), (2, 2))
    return (
        [
            Combination(replicas, tp, *rest)
            for (replicas, tp), *rest in product(
                ranks,
                ("resident", "delay 0", "delay 1"),
                ("bfloat16", "float32"),
                (False, True),
                ("sub:2", "none"),
                ("all", "rows"),
            )
        ]
        + [
            Combination(replicas, tp, dtype="bfloat16", recompute=again, attention="document")
            for (replicas, tp), again in product(ranks, (False, True))
        ]
        + [Combination(replicas, tp, "delay 1", stages=2) for replicas, tp in ranks]
    )


def prepare(work: Path) -> None:
    """A tokenizer of two languages, a run with it, and the tokenizer with a third language."""
    from modtok_cli.construct.bpe_seq import bpe_seq
    from modtok_cli.training.loop import finish, pretrain
    from modtok_cli.training.settings import RunSettings

    first = work / "first"
    bpe_seq(("en", "fr"), data=SAMPLE / "data", output=first, k=300)
    more = work / "tokenizer"
    bpe_seq(append=("fi",), tokenizer=first, data=SAMPLE / "data", output=more, references=False)
    settings = RunSettings(
        **_SHAPE, **_run(2), langs=("en", "fr"), tokenizer=first, data=SAMPLE / "data",
        runs=work / "runs", name="first",
    )  # fmt: skip
    pretrain(settings, force=True)
    finish()
