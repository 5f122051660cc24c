"""What a run reports, on rank 0: metrics.jsonl, loggers, status lines, loss spikes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from modtok_cli.base.progress import Task
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.loggers import Loggers
from modtok_cli.training.prepare import Run
from modtok_cli.training.spikes import WINDOW, SpikeDetector
from modtok_cli.training.status import Status


class Reporter:
    """Reports of a run; does nothing on other ranks than the first."""

    def __init__(self, run: Run, step: int) -> None:
        """Continue the metrics and logs of the run after `step`."""
        self._directory, self._config, self._progress = run.directory, run.config, run.progress
        self._ranks, self._first = run.ranks, run.ranks.first
        self._spiking: set[str] = set()
        if not self._first:
            return
        self._directory.open_metrics(step)
        self._spikes = SpikeDetector()
        for line in self._directory.last_steps(WINDOW):
            self._spikes.add(line)
        self._status = Status(self._config.steps, self._config.step_tokens)
        self._loggers = Loggers(self._config, self._directory.path, step)

    def step(self, line: Mapping[str, Any], task: Task) -> None:
        """Report a training step."""
        if not self._first:
            return
        spikes = self._spikes.add(line)
        self._add({**line, "spikes": spikes} if spikes else line)
        for language in sorted(spikes.keys() - self._spiking):
            self._progress.warn(_spike(line["step"], language, spikes[language]))
        self._spiking = self._spiking - line["languages"].keys() | spikes.keys()
        self._status.add(line, time.monotonic())
        task.describe(str(self._status))
        task.advance(1)
        if not self._progress.draws and line["step"] % self._config.log_every == 0:
            self._progress.note(self._status.with_progress)

    def evaluation(self, line: Mapping[str, Any]) -> None:
        """Report an evaluation."""
        if not self._first:
            return
        self._add(line)
        for note in _evaluation_notes(line):
            self._progress.note(note)

    def tasks(self, line: Mapping[str, Any] | None) -> None:
        """Report an evaluation of tasks; None is one that failed."""
        if not self._first or line is None:
            return
        self._add(line)
        for language, tasks in line["tasks"].items():
            parts = [f"{task} {figures['value']:.1f}" for task, figures in tasks.items()]
            self._progress.note(f"step {line['step']:,}: {language} accuracy {', '.join(parts)}")

    def has_tasks(self, step: int) -> bool:
        """Whether the metrics have an evaluation of tasks at the last step. Collective."""
        found = self._first and self._directory.has_line(step, "tasks")
        return bool(gather_json(self._ranks, found)[0])

    def _add(self, line: Mapping[str, Any]) -> None:
        self._directory.add(line)
        self._loggers.add(line)

    def close(self) -> None:
        """Close the loggers; the metrics belong to the run's directory."""
        if self._first:
            self._loggers.close()


def texts_of(line: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Figures by language of every text of an evaluation."""
    return {"held-out": line["held_out"], **line.get("valid", {})}


def _evaluation_notes(line: Mapping[str, Any]) -> Iterator[str]:
    """A sentence per text of an evaluation."""
    for text, figures in texts_of(line).items():
        parts = [f"{name} {f['bits_per_byte']:.3f}" for name, f in figures.items()]
        yield f"step {line['step']:,}: {text} bits per byte {', '.join(parts)}"


def _spike(step: int, language: str, spike: Mapping[str, float]) -> str:
    return (
        f"step {step:,}: loss spike in {language}: {spike['loss']:.3f} nats per token, median "
        f"{spike['median']:.3f} of the last {WINDOW} steps"
    )
