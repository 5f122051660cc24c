"""`modtok pretrain`: a decoder on sampled subtokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Data, Errors, Force, Json, Langs, split_languages
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    from modtok_cli.pretrain.config import Settings

COLUMNS = (
    Column("language", "language"),
    Column("bits_per_byte", "bits/byte", "ratio"),
    Column("nats_per_token", "nats/token", "ratio"),
    Column("tokens", "tokens", "int"),
    Column("bytes", "bytes", "int"),
)
PLAN_COLUMNS = (
    Column("part", "part"),
    Column("parameters", "parameters", "int"),
    Column("bytes", "memory", "bytes"),
)
EXTRA = "pip install 'modtok[lm]'"


Sampling = Annotated[
    str,
    typer.Option(
        "--sampling",
        metavar="REGIME",
        help="none: each batch by its language's tokenizer; full: or by the whole; sub:N: or "
        "with N more languages; joint: always by the whole.",
    ),
]
P = Annotated[
    float, typer.Option("--p", metavar="P", min=0, max=1, help="Share of batches cut by more.")
]
Mix = Annotated[
    str | None,
    typer.Option(
        "--mix", metavar="LANG=SHARE,...", help="Shares of languages; en=0.7 if English is there."
    ),
]
MixRest = Annotated[
    Literal["data", "uniform"],
    typer.Option("--mix-rest", help="The other languages: by their text, or equally."),
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="tiny, small, 0.5b, 1b, 2.5b, 7b, 12b, 30b; by default tiny, on a GPU 0.5b.",
    ),
]
Gpus = Annotated[
    int | None,
    typer.Option(
        "--gpus", metavar="N", min=1, help="Processes to start, one a GPU; without GPUs, on CPU."
    ),
]
Tp = Annotated[
    int, typer.Option("--tp", metavar="N", min=1, help="GPUs that share one replica's weights.")
]
Steps = Annotated[
    int | None, typer.Option("--steps", metavar="N", min=1, help="Steps to train; tiny: 300.")
]
BatchSize = Annotated[
    int | None,
    typer.Option("--batch-size", metavar="N", min=1, help="Sequences a step; tiny: 8."),
]
MicroBatch = Annotated[
    int | None,
    typer.Option(
        "--micro-batch", metavar="N", min=1, help="Sequences of one language and subtokenizer."
    ),
]
SeqLength = Annotated[
    int | None,
    typer.Option("--seq-length", metavar="N", min=8, help="Tokens a sequence; tiny: 256."),
]
Rate = Annotated[
    float | None,
    typer.Option("--lr", metavar="RATE", min=0, help="Highest learning rate; it falls to a tenth."),
]
Warmup = Annotated[
    int | None, typer.Option("--warmup", metavar="N", min=0, help="Steps of warm-up.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of all draws.")]
Update = Annotated[
    Literal["sparse", "dense"],
    typer.Option("--update", help="Rows to update: those active, or all (equals a full softmax)."),
]
Tied = Annotated[bool, typer.Option("--tied", help="One table for input and output.")]
Recompute = Annotated[
    bool, typer.Option("--recompute", help="Compute activations again rather than keep them.")
]
DistributedOptimizer = Annotated[
    bool,
    typer.Option(
        "--distributed-optimizer", help="Deal the backbone's masters and moments to the GPUs."
    ),
]
Precision = Annotated[
    Literal["bfloat16", "float32"] | None,
    typer.Option("--dtype", help="Numbers of the backbone; bfloat16 on a GPU, float32 on a CPU."),
]
OffloadFlag = Annotated[
    bool, typer.Option("--offload", help="Keep the tables in host memory; the GPU has active rows.")
]
OffloadDelay = Annotated[
    int | None,
    typer.Option(
        "--offload-delay",
        metavar="N",
        min=0,
        max=1,
        help="Steps by which their updates lag: 1 hides them behind the step; 0 does not lag.",
    ),
]
OffloadMoments = Annotated[
    Literal["bfloat16", "float32"] | None,
    typer.Option("--offload-moments", help="How their moments are stored; float32."),
]
OffloadFile = Annotated[
    Path | None,
    typer.Option(
        "--offload-file", metavar="DIR", help="Keep them as files in DIR, on a fast disk."
    ),
]
EvalEvery = Annotated[
    int | None,
    typer.Option("--eval-every", metavar="N", min=1, help="Steps between evaluations."),
]
SaveEvery = Annotated[
    int | None,
    typer.Option("--save-every", metavar="N", min=1, help="Steps between checkpoints."),
]
Workers = Annotated[
    int,
    typer.Option("--workers", metavar="N", min=0, help="Tokenizing processes a rank."),
]
TensorBoardFlag = Annotated[
    bool, typer.Option("--tensorboard", help="Write the metrics for TensorBoard too.")
]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Directory below runs/; after the settings."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with runs/latest, or the run of --name.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and do nothing.")]
ModularDirectory = Annotated[
    Path, typer.Option("-t", "--tokenizer", metavar="TOKENIZER", help="The modular directory.")
]
Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where runs go.")]


@command(
    "pretrain",
    examples="""
    # data/ and tokenizer/ to runs/sub-2-tiny, some minutes on a CPU
    modtok pretrain --sampling sub:2
    # what the paper's run would take, then the run, on eight GPUs
    modtok pretrain --sampling sub:2 --model 2.5b --gpus 8 --dry-run
    modtok pretrain --sampling sub:2 --model 2.5b --gpus 8
    # the tables of many languages in the node's memory, a step's rows on the GPUs
    modtok pretrain --sampling sub:5 --model 2.5b --gpus 8 --offload --dry-run
    # go on after an interruption
    modtok pretrain --resume
    """,
)
def pretrain(
    session: Session,
    sampling: Sampling = "sub:2",
    p: P = 0.5,
    mix: Mix = None,
    mix_rest: MixRest = "data",
    langs: Langs = None,
    model: ModelName = None,
    gpus: Gpus = None,
    tp: Tp = 1,
    steps: Steps = None,
    batch_size: BatchSize = None,
    micro_batch: MicroBatch = None,
    seq_length: SeqLength = None,
    lr: Rate = None,
    warmup: Warmup = None,
    seed: Seed = 0,
    update: Update = "sparse",
    tied: Tied = False,
    recompute: Recompute = False,
    offload: OffloadFlag = False,
    offload_delay: OffloadDelay = None,
    offload_moments: OffloadMoments = None,
    offload_file: OffloadFile = None,
    distributed_optimizer: DistributedOptimizer = False,
    dtype: Precision = None,
    eval_every: EvalEvery = None,
    save_every: SaveEvery = None,
    workers: Workers = 1,
    tensorboard: TensorBoardFlag = False,
    name: Name = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    data: Data = Path("data"),
    tokenizer: ModularDirectory = Path("tokenizer"),
    runs: Runs = Path("runs"),
    errors: Errors = "strict",
    force: Force = False,
    json: Json = False,
) -> None:
    """Pretrain a decoder on sampled subtokenizers.

    Each microbatch is text of one language, cut by one subtokenizer, and predicted over
    that subtokenizer's vocabulary only. Megatron-Core trains, on GPUs by NCCL and on a CPU
    by gloo; under torchrun or srun every process is a rank.

    runs/NAME keeps settings, metrics (loss, bits per byte by language) and checkpoints.
    """
    languages = split_languages(langs)
    require_training()
    from modtok_cli.pretrain.config import Settings
    from modtok_cli.pretrain.distributed.launch import launch, needs_launch

    settings = Settings(
        sampling=sampling,
        p=p,
        mix=mix,
        mix_rest=mix_rest,
        langs=tuple(sorted(languages)) if languages else None,
        model=model,
        steps=steps,
        batch_size=batch_size,
        micro_batch=micro_batch,
        seq_length=seq_length,
        lr=lr,
        warmup=warmup,
        seed=seed,
        tp=tp,
        update=update,
        tied=tied,
        recompute=recompute,
        offload=offload,
        offload_delay=offload_delay,
        offload_moments=offload_moments,
        offload_file=offload_file,
        distributed_optimizer=distributed_optimizer,
        dtype=dtype,
        eval_every=eval_every,
        save_every=save_every,
        workers=workers,
        errors=errors,
        tensorboard=tensorboard,
        name=name,
        data=data,
        tokenizer=tokenizer,
        runs=runs,
    )
    if dry_run:
        _show_plan(settings, gpus or 1, json)
        return
    if needs_launch(gpus):
        status = launch(session.args, gpus or 1)
        if status:
            raise typer.Exit(status)
        return
    from modtok_cli.pretrain.loop import finish, pretrain

    try:
        report = pretrain(settings, resume=resume, force=force, progress=session.progress)
    except UsageError as error:
        if is_first_rank():
            raise
        raise typer.Exit(error.exit_code) from error  # every rank finds the same: one says it
    else:
        if is_first_rank():
            caption = f"{report.output}, after {report.step:,} steps"
            emit_rows(report.rows(), COLUMNS, title="Held-out text", json=json, caption=caption)
    finally:
        finish()


def require_training() -> None:
    """Make ready for torch and Megatron-Core, or say what to install; imports neither.

    Raises:
        UsageError: one is not installed.
    """
    import os
    from importlib.util import find_spec

    # Threads of torch that spin while they wait make a busy CPU many times slower; the
    # library reads this when it is first loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for module in ("torch", "megatron"):
        if find_spec(module) is None:
            raise UsageError(f"pretraining needs {module}, which is not installed", remedy=EXTRA)


def is_first_rank() -> bool:
    """Whether this process speaks for all."""
    import os

    return os.environ.get("RANK", "0") == "0"


def _show_plan(settings: Settings, ranks: int, json: bool) -> None:
    from modtok_cli.pretrain.plan import plan

    found = plan(settings, ranks=ranks)
    rows = found.rows()
    facts = rows[0]
    caption = (
        f"{facts['backbone_parameters']:,} parameters in the backbone, "
        f"{facts['table_parameters']:,} in tables of {facts['vocabulary']:,} rows, of which "
        f"{facts['active_rows']:,} are active in a batch; {facts['steps']:,} steps of "
        f"{facts['step_tokens']:,} tokens are {facts['tokens']:,} tokens; about "
        f"{facts['step_seconds']:.3g} s a step on {ranks} × {facts['device']}, "
        f"{facts['hours']:.3g} hours in all"
    )
    if found.words:
        caption += f"; in host memory {found.words}, on one node"
    emit_rows(rows, PLAN_COLUMNS, title="Memory per device", json=json, caption=caption)
