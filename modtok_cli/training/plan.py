"""`--dry-run`: parameters, memory and time of a run, before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.architecture.arithmetic import recomputed_flops, step_flops
from modtok_cli.model.architecture.sizes import SIZES
from modtok_cli.text.readers import is_text
from modtok_cli.text.reading import Reading
from modtok_cli.training.config import Config, Period, check_ranks
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.data.sources import Sources
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import text_stores
from modtok_cli.training.evaluations import evaluation_plan
from modtok_cli.training.model.loss import CHUNK
from modtok_cli.training.opening import choose_run
from modtok_cli.training.reads import (
    added,
    chat_of,
    limited,
    reading_of,
    reads_of,
    samples_of,
    samples_of_files,
)
from modtok_cli.training.resolve import usual_sources
from modtok_cli.training.run_memory import (
    DEVICE,
    StepRows,
    capacity,
    check_fits,
    check_step_memory,
    gib,
    host_need,
    loss_chunk,
    memory_parts,
    recomputed,
    row_counts,
    total,
)
from modtok_cli.training.run_texts import TEXTS, by_source, sources_of, texts_by_stage
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.stages import RATE

# Typical model FLOPs utilization.
_UTILIZATION = 0.4
_H100 = 989e12
# Most parameters of a backbone that a CPU trains in days.
_CPU_PARAMETERS = 10**8
# Numbers of languages that a plan with offloaded rows reports besides the tokenizer's own.
_MORE_LANGUAGES = (100, 250)


@dataclass(frozen=True)
class StagePlan:
    """The plan of a stage; bytes are per device.

    Attributes:
        step_rows: mean numbers of rows in a step.
        recompute: number of layers whose activations are recomputed.
        memory: part → (parameters on this device, bytes); see `memory`.
        seconds: time of a step.
        reads: how often each text is read, about.
    """

    period: Period
    mixture: Mixture
    step_rows: StepRows
    recompute: int
    memory: dict[str, tuple[int, int]]
    seconds: float
    reads: dict[str, float]

    @property
    def row(self) -> dict[str, Any]:
        """Its figures by name."""
        config, steps = self.period.config, len(self.period.steps)
        rate = self.period.schedule.rate
        return {
            "stage": self.period.number,
            "steps": steps,
            "batch_size": config.data.batch_size,
            "seq_length": config.data.seq_length,
            "tokens": steps * config.step_tokens,
            "hours": round(self.seconds * steps / 3600, 3),
            "lr": rate(self.period.steps[0]),
            "last_lr": rate(self.period.steps[-1]),
            "mixture": {name: round(one, 4) for name, one in self.mixture.of_texts().items()},
            "epochs": {name: round(reads, 2) for name, reads in self.reads.items()},
        }


@dataclass(frozen=True)
class RunPlan:
    """Planned parameters, memory and time of a run; bytes are per device.

    Attributes:
        stages: its stages in order.
        available, owner: bytes that the device has for the run, None if unknown, and its name.
        host: part → bytes of a node's memory, for rows in host memory.
        words: how the host bytes are computed, for messages.
        evaluation: how often it evaluates, how much, and what that costs.
        notes: changes of a resumed run, and what is not here, as sentences.
        sources: where options that are not given have their values from, by name.
    """

    config: Config
    ranks: int
    vocabulary: int
    stages: Sequence[StagePlan]
    evaluation: str
    device: str
    host: dict[str, int] = field(default_factory=dict)
    words: str = ""
    available: int | None = None
    owner: str = ""
    notes: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Check that the run fits its device."""
        for stage in self.stages:
            config = stage.period.config.changed(recompute=stage.recompute)
            device = self.ranks, self.available, self.owner
            with stage.period.locating():
                check_fits(config, self.vocabulary, stage.step_rows, *device)

    @property
    def largest(self) -> StagePlan:
        """The stage that needs most memory."""
        return max(self.stages, key=lambda stage: total(stage.memory))

    @property
    def recompute(self) -> int:
        """Layers whose activations are recomputed, in all stages."""
        return max(stage.recompute for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Mean time of a step."""
        whole = sum(stage.seconds * len(stage.period.steps) for stage in self.stages)
        return whole / self.config.last_step

    @property
    def reads(self) -> dict[str, float]:
        """How often each text is read, about."""
        return added([(stage.period.config.data.data, stage.reads) for stage in self.stages])

    @property
    def recomputation(self) -> str:
        """How many layers are recomputed, and why, in words."""
        layers, of = self.recompute, self.config.shape.layers
        words = f"{layers} of {of} layers recompute their activations"
        if self.config.parallelism.recompute is not None:
            return f"{words}, by parallelism.recompute"
        room = DEVICE if self.available is None else f"{gib(self.available)} of {self.owner}"
        return f"{words}, the fewest that fit {room}" if layers < of else f"{words} to fit {room}"

    def rows(self) -> list[dict[str, Any]]:
        """A row per part of memory, each with the figures of the whole run.

        The parts of the device, their sum, then the parts of the host, if any.
        """
        config = self.config
        whole = {
            "model": config.architecture.model,
            "backbone_parameters": config.shape.parameters,
            "table_parameters": config.shape.table_parameters(self.vocabulary),
            "vocabulary": self.vocabulary,
            "recompute": self.recompute,
            "active_rows": round(self.largest.step_rows.active),
            "step_tokens": config.step_tokens,
            "steps": config.last_step,
            "tokens": config.tokens,
            "step_seconds": round(self.seconds, 4),
            "hours": round(self.seconds * config.last_step / 3600, 3),
            "device": self.device,
            "device_bytes": self.available,
            "evaluation": self.evaluation,
            "epochs": {language: round(reads, 2) for language, reads in self.reads.items()},
            "stages": [stage.row for stage in self.stages],
            "host": self.words or None,
        }
        parts = {**self.largest.memory, "all": (0, total(self.largest.memory))}
        parts.update({f"host, {part}": (0, size) for part, size in self.host.items()})
        return [
            {"part": part, "parameters": count or None, "bytes": size, **whole}
            for part, (count, size) in parts.items()
        ]


def plan(
    settings: RunSettings,
    *,
    resume: bool = False,
    ranks: int | None = None,
    device: str | None = None,
    progress: Progress = SILENT,
) -> RunPlan:
    """Parameters, memory and time of a new or resumed run on `ranks` devices.

    `ranks` is by default the number that the settings or the stored run have.
    """
    import torch

    from modtok_cli.training.metrics import measured_flops

    here = torch.cuda.is_available()
    gpu = here or device is not None or (ranks or 1) > 1 or _is_for_gpus(settings)
    directory, config, notes = choose_run(settings, resume=resume, gpu=gpu)
    ranks = ranks or config.parallelism.gpus
    gpu = gpu or _is_for_gpus(config)
    if gpu and not here:
        where = f"{ranks} × {device or 'H100'}"
        notes = [*notes, f"this machine has no GPU: the plan is for {where}"]
    subtokenizers = SubtokenizerCache.load(config.data.tokenizer)
    reading = reading_of(config, chat_of(config, subtokenizers, directory.path if resume else None))
    available, owner = capacity(config, gpu=gpu, here=ranks)
    name, peak = device or "H100", config.parallelism.device_flops or _H100
    if not gpu:
        name, peak = (
            "CPU",
            config.parallelism.device_flops
            or measured_flops(getattr(torch, config.precision.dtype)),
        )
    stages: list[StagePlan] = []
    planned: dict[str, StagePlan] = {}
    for period, files in zip(config.periods, texts_by_stage(config), strict=True):
        with period.locating():
            if (what := _planned_by(period)) not in planned:
                check_ranks(period.config, ranks)
                sources = sources_of(config, period.config, files)
                texts = _texts_plan(period, files, sources, subtokenizers, reading, progress)
                target = gpu, available, peak
                planned[what] = _stage_plan(period, *texts, subtokenizers, ranks, target)
            stages.append(replace(planned[what], period=period))
    step_rows = max((stage.step_rows for stage in stages), key=lambda rows: rows.union)
    host, words = {}, ""
    if config.parallelism.offload:
        need = host_need(config, subtokenizers.size, step_rows.union, ranks, ranks)
        host, words = {"tables": need.tables, "buffers": need.buffers}, need.words
        # T grows with the number of languages; transfers of a step and device memory do not.
        languages = len(subtokenizers.tokenizer.languages)
        for more in (count for count in _MORE_LANGUAGES if count > languages):
            size = subtokenizers.size * more // languages
            tables = host_need(config, size, step_rows.union, ranks, ranks).tables
            host[f"tables of {more} languages"] = tables
    return RunPlan(
        config,
        ranks,
        subtokenizers.size,
        stages,
        evaluation_plan(config, len(set().union(*(stage.mixture.languages for stage in stages)))),
        name,
        host,
        words,
        available,
        owner,
        notes,
        dict.fromkeys(OPTIONS, "the run") if resume else usual_sources(settings, config),
    )


def _planned_by(period: Period) -> str:
    """What the plan of a stage depends on: stages that differ in their rate only share one."""
    staged = (name for name, option in OPTIONS.items() if option.staged and name not in RATE)
    values = [period.config[name] for name in staged]
    return repr((len(period.steps), period.config.data.micro_batch, values))


def _texts_plan(
    period: Period,
    files: Mapping[str, Sequence[Path]],
    sources: Sources,
    subtokenizers: SubtokenizerCache,
    reading: Reading,
    progress: Progress,
) -> tuple[Mixture, dict[str, float]]:
    """The mixture of a stage by file sizes, and how often each text is read, about.

    Text is read as a whole only to count sources: it is unpacked, as the run would do.
    """
    config, steps = period.config, len(period.steps)
    mixture = _mixture(config, files)
    config.sampling.regime.check(mixture.languages)
    counted = {language: files[language] for language in sources.languages if language in files}
    stores = text_stores(
        counted, config.runs / TEXTS, reading=reading, sources=sources, progress=progress
    )
    mixture, texts = by_source(config, mixture, stores, progress)
    rest = {language: files[language] for language in files if language not in stores}
    samples = {**samples_of(texts), **samples_of_files(config, rest, reading)}
    reads = reads_of(config, steps, mixture, subtokenizers, samples)
    final = limited(config, mixture, reads)
    before = mixture.of_texts()
    return final, {name: reads[name] * w / before[name] for name, w in final.of_texts().items()}


def _stage_plan(
    period: Period,
    mixture: Mixture,
    reads: dict[str, float],
    subtokenizers: SubtokenizerCache,
    ranks: int,
    device: tuple[bool, int | None, float],
) -> StagePlan:
    """The plan of a stage; `device`: whether it is a GPU, its bytes, its FLOP/s."""
    config, size, (gpu, available, peak) = period.config, subtokenizers.size, device
    check_step_memory(config)
    step_rows = row_counts(config, mixture, subtokenizers, ranks // config.parallelism.tp)
    chosen = recomputed(config, size, step_rows, ranks, available)
    layers = chosen.parallelism.recompute or 0
    chunk = loss_chunk(chosen, size, step_rows, ranks, available) if gpu else CHUNK
    flops = step_flops(
        config.shape, config.data.seq_length, [(config.step_tokens, step_rows.active)]
    )
    flops += recomputed_flops(config.shape, config.data.seq_length, config.step_tokens, layers)
    return StagePlan(
        period,
        mixture,
        step_rows,
        layers,
        memory_parts(chosen, size, step_rows, ranks, chunk),
        flops / (peak * _UTILIZATION * ranks),
        reads,
    )


def _is_for_gpus(settings: RunSettings) -> bool:
    """Whether the settings are for a run on GPUs: by given options, or the preset's size."""
    known = SIZES.get(settings.architecture.model or "")
    large = known is not None and known.parameters > _CPU_PARAMETERS
    given = settings.parallelism.device_memory is not None or settings.precision.dtype == "bfloat16"
    return large or given or (settings.parallelism.gpus or 1) > 1


def _mixture(config: Config, files: Mapping[str, Sequence[Path]]) -> Mixture:
    """The mixture by file sizes: a plan does not read the whole text."""
    sizes = {
        language: sum(path.stat().st_size for path in paths if is_text(path))
        for language, paths in files.items()
    }
    for language, size in sizes.items():
        if not size:
            raise UsageError(f"language '{language}' has no text", where=config.data.data)
    return Mixture.of(sizes, config.sampling.mix, config.sampling.mix_rest)
