"""`modtok pretrain`: a decoder on sampled subtokenizers."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import Stopped, UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.processes import MESSAGES
from modtok_cli.base.public import located
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_document, emit_rows, parse_columns
from modtok_cli.evaluate.pretrain import pretrain
from modtok_cli.training.settings import RunSettings

COLUMNS = parse_columns(
    "language, text, bits_per_byte=bits/byte:ratio, nats_per_token=nats/token:ratio, tokens:int, "
    "bytes:int"
)
PLAN_COLUMNS = parse_columns("part, parameters:int, bytes=memory:bytes")
TEXT_COLUMNS = parse_columns("language, documents:int, bytes=text:bytes, store=directory")


ConfigFile = Annotated[
    Path | None,
    Option("Recipe (TOML): options of the run, tables [[stage]] of later stages.", metavar="FILE"),
]
Set = Annotated[
    list[str] | None,
    Option(
        "Set a key of a recipe, as schedule.final_lr=1e-5. --dry-run prints all keys. Repeatable.",
        flags="--set",
        metavar="SECTION.KEY=VALUE",
    ),
]
DryRun = Annotated[bool, Option("Print the recipe, memory and time of the run; exit.")]
Prepare = Annotated[bool, Option("Prepare, and exit. Unpacks the text of the run.")]


@command(
    "pretrain",
    pretrain,
    first="sampling model steps data tokenizer langs mix lr batch_size micro_batch seq_length "
    "init_from gpus valid name resume config set dry_run",
    examples="""
    # data/ and tokenizer/ to runs/sub-2-tiny, some minutes on a CPU
    modtok pretrain --sampling sub:2
    # memory and time of the paper's run on eight GPUs
    modtok pretrain --model 2.5b --gpus 8 --dry-run
    # every key in a file, as --dry-run prints it
    modtok pretrain --dry-run > recipe.toml
    modtok pretrain --config recipe.toml --name again
    # resume after an interruption
    modtok pretrain --resume
    """,
)
def show(
    call: Call,
    config: ConfigFile = None,
    assignments: Set = None,
    dry_run: DryRun = False,
    prepare: Prepare = False,
    json: Json = False,
) -> None:
    require_training()
    from modtok_cli.training.distributed.launch import launch, needs_launch

    resume = call.value("resume")
    settings, sources = _settings(call, config, assignments or (), resume=resume)
    if dry_run:
        _show_plan(settings, sources, call, resume=resume, json=json)
        return
    gpus = settings.parallelism.gpus or 1
    if resume and settings.parallelism.gpus is None:
        from modtok_cli.training.opening import stored_run

        gpus = stored_run(settings)[1].parallelism.gpus
    if prepare or needs_launch(gpus):
        from modtok_cli.training.prepare import prepare_text

        # Ranks would wait for rank 0 in a collective, which has a time limit.
        texts = prepare_text(settings, resume=resume, progress=call.progress)
        if prepare:
            emit_rows(texts, TEXT_COLUMNS, title="Text", json=json)
            return
    if needs_launch(gpus):
        status = launch(call.session.args, gpus)
        if status:
            raise typer.Exit(status)
        return
    try:
        report = call(settings=settings)
    except (UsageError, Stopped) as error:
        # Every rank fails in the same way. Under torchrun rank 0 reports it; `launch` prints
        # the messages of its ranks once.
        if is_first_rank() or MESSAGES in os.environ:
            raise
        raise typer.Exit(error.exit_code) from error
    else:
        if is_first_rank():
            caption = f"{report.output}, after {report.step:,} steps"
            emit_rows(report.rows(), COLUMNS, title="Evaluation", json=json, caption=caption)


def _settings(
    call: Call, recipe: Path | None, assignments: Sequence[str], *, resume: bool
) -> tuple[RunSettings, dict[str, str]]:
    """Return settings, and the source of each given one.

    The command line overrides a recipe, which overrides modtok.toml. With `resume`, only the
    command line counts, and what says where runs are: modtok.toml holds defaults of new runs.
    """
    from modtok_cli.training.recipe import read_assignments, read_recipe
    from modtok_cli.training.settings import OPTIONS, RunSettings

    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for name, value in call.groups["settings"].items():
        if name in call.explicit or not resume or not OPTIONS[name].section:
            values[name] = value
            sources[name] = OPTIONS[name].flag if name in call.explicit else "modtok.toml"
    given = {} if recipe is None else {"stages": (), **read_recipe(recipe)}
    for name, value in given.items():
        if name not in call.explicit:
            values[name], sources[name] = value, f"{recipe}"
    for name, value in read_assignments(assignments).items():
        if name in call.explicit:
            raise UsageError(
                f"is given as {OPTIONS[name].flag} too",
                where=f"--set {OPTIONS[name].section}.{name}",
                remedy="give one of them",
            )
        values[name], sources[name] = value, "--set"
    settings = RunSettings(**values)
    return located(None, settings, call.progress), sources


def require_training() -> None:
    """Prepare for importing torch and Megatron-Core, without importing them.

    Raises:
        UsageError: they are not installed.
    """
    from modtok_cli.base.extras import require

    # Threads of torch that spin while they wait slow a busy CPU down many times. OpenMP reads
    # this when it is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    require("pretraining", lm=("torch", "megatron"))


def is_first_rank() -> bool:
    """Return whether this process reports for all ranks."""
    return os.environ.get("RANK", "0") == "0"


def _show_plan(
    settings: RunSettings, sources: Mapping[str, str], call: Call, *, resume: bool, json: bool
) -> None:
    from modtok_cli.training.plan import plan
    from modtok_cli.training.reads import in_words, number, warn_of
    from modtok_cli.training.recipe import write_recipe

    planned = plan(settings, resume=resume, progress=call.progress)
    for note in planned.notes:
        call.progress.note(note)
    warn_of(planned.reads, call.progress)
    rows = planned.rows()
    facts = rows[0]
    for stage, own in zip(facts["stages"], planned.stages, strict=True):
        if len(planned.stages) > 1:
            call.progress.note(
                f"stage {stage['stage']}: {stage['steps']:,} steps of {stage['batch_size']:,} "
                f"sequences of {stage['seq_length']:,} tokens are {stage['tokens']:,} tokens, "
                f"about {stage['hours']:.3g} hours; learning rate {stage['lr']:.3g} to "
                f"{stage['last_lr']:.3g}; {in_words(own.reads)}"
            )
        if own.period.config.sampling.sources or own.period.config.sampling.max_epochs is not None:
            texts = [f"{name} {stage['mixture'][name]:.1%}, read {number(reads)} times"
                     for name, reads in own.reads.items()]  # fmt: skip
            call.progress.note(f"stage {stage['stage']}: {'; '.join(texts)}")
    caption = (
        f"{facts['backbone_parameters']:,} parameters in the backbone, "
        f"{facts['table_parameters']:,} in tables of {facts['vocabulary']:,} rows, of which "
        f"{facts['active_rows']:,} are active in a batch; {facts['steps']:,} steps of "
        f"{facts['tokens'] // facts['steps']:,} tokens are {facts['tokens']:,} tokens; about "
        f"{facts['step_seconds']:.3g} s a step on {planned.ranks} × {facts['device']}, "
        f"{facts['hours']:.3g} hours in all; {in_words(planned.reads)}; {facts['evaluation']}"
    )
    if planned.config.precision.dtype == "bfloat16" or planned.recompute:
        caption += f"; {planned.recomputation}"
    if planned.words:
        caption += f"; in host memory {planned.words}, on one node"
    emit_document(
        write_recipe(planned.config, {**planned.sources, **sources}),
        rows,
        PLAN_COLUMNS,
        title="Memory per device",
        json=json,
        caption=caption,
    )
    planned.check()
