"""The state of a run as it trains: model, streams of batches, checkpoints of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from modtok_cli.training import checkpoint
from modtok_cli.training.data.slot_packer import StreamPlan, place_of
from modtok_cli.training.data.stream import BatchStream, State, positions_of
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.heldout import evaluate_held_out
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.microbatch import Prefetcher
from modtok_cli.training.run import Run, Stage

# Bytes of held-out text that are evaluated before a checkpoint is saved.
_PROBE = 512


def build_model(run: Run) -> Model:
    """The model with its initial weights."""
    config = run.config
    offload = None
    if config.parallelism.offload:
        offload = Offload(
            delay=config.parallelism.offload_delay,
            moments=getattr(torch, config.parallelism.offload_moments),
            directory=config.parallelism.offload_file,
            warn=run.progress.warn,
        )
    return Model(
        config.shape,
        run.subtokenizers.size,
        run.ranks,
        seed=config.init.seed,
        dtype=getattr(torch, config.precision.dtype),
        recompute=run.recompute,
        chunk=run.chunk,
        adamw=config.optimizer.adamw,
        clip=config.optimizer.clip,
        z_loss=config.optimizer.z_loss,
        init=config.init.scales,
        distributed=config.parallelism.distributed_optimizer,
        execution=config.switches(run.ranks.replicas) if run.ranks.device.type == "cuda" else None,
        offload=offload,
        only_rows=run.only_rows,
        end_of_text=run.subtokenizers.end_of_text if config.data.attention == "document" else None,
        warn=run.progress.warn,
    )


def restore(run: Run, model: Model) -> tuple[int, State]:
    """Load the last valid checkpoint: (its step, stream positions by slot).

    The ranks share a pass over the files of the checkpoint; each then loads its part.
    """
    newest = checkpoint.newest(run.directory.checkpoints, run.progress, run.ranks)
    if newest is None:
        return 0, {}
    path, state = newest
    checkpoint.load(path, state, model)
    run.progress.note(f"resuming after step {state['step']:,}")
    return int(state["step"]), _read_positions(state["positions"])


def open_stream(stage: Stage, step: int, positions: State) -> Prefetcher:
    """The batches of this rank's slots from `step` on, to the end of the stage.

    `positions` are of all slots, maybe of the stage before.
    """
    config, run, ranks = stage.config, stage.run, stage.run.ranks
    plan = StreamPlan(
        tokenizer=run.tokenizer,
        stores={name: store.directory for name, store in stage.stores.items()},
        regime=config.sampling.regime,
        p=config.sampling.p,
        mixture=stage.mixture,
        seed=config.init.seed,
        slots=config.data.batch_size,
        group=config.group_size,
        length=config.data.seq_length,
        dropout=config.sampling.dropout,
    )
    stores = {place_of(name, store): store for name, store in stage.stores.items()}

    def length(text: str, place: int) -> int:
        store = stores.get(text)  # not of a text of other stages
        return (
            0 if store is None else store.length(store.training_document(place, config.init.seed))
        )

    share = config.data.batch_size // ranks.replicas
    mine = range(ranks.replica * share, (ranks.replica + 1) * share)
    stream = BatchStream(
        plan,
        mine,
        first_step=step,
        last_step=stage.steps.stop - 1,
        state=positions_of(positions, config.data.batch_size, length),
        workers=config.data.workers,
    )
    sequences = config.sequences(ranks.replicas)
    return Prefetcher(stream, run.subtokenizers, ranks, sequences, run.progress.warn)


def save_checkpoint(
    stage: Stage, model: Model, stream: BatchStream, step: int, *, evaluated: bool
) -> None:
    """Save weights, moments and stream positions. Collective: every rank calls it."""
    run = stage.run
    if not evaluated:  # look at a held-out loss: huge weights may still be finite
        names = sorted(run.held_out)
        evaluate_held_out(stage, model, step, _PROBE, [names[step % len(names)]])
    positions = {str(slot): one for slot, one in positions_after(run, stream).items()}
    try:
        run.checkpointer.save(model, step, {"positions": positions})
    except checkpoint.NotFinite as error:
        raise run.diverged(f"after step {step} {error}") from error


def positions_after(run: Run, stream: BatchStream) -> State:
    """Stream positions of the slots of all ranks. Collective."""
    every = gather_json(run.ranks, {str(slot): one for slot, one in stream.state.items()})
    return _read_positions({slot: one for part in every for slot, one in part.items()})


def _read_positions(stored: Mapping[str, Mapping[str, Sequence[int]]]) -> State:
    """Positions that were JSON, by slot in ascending order."""
    return {
        int(slot): {text: (number, at) for text, (number, at) in stored[slot].items()}
        for slot in sorted(stored, key=int)
    }
