"""`--profile`: a trace of training steps by the torch profiler, as a file of the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.profiler import ProfilerActivity, profile, schedule

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_file, scratch_directory
from modtok_cli.training.run import Run

PROFILE = "profile.json.gz"


@contextmanager
def profiled(run: Run) -> Iterator[Callable[[], None]]:
    """Yield what to call after each step; rank 0 writes the trace that --profile asks for.

    Two steps come before the trace: one that is not recorded, and one to warm up. A run that ends
    earlier has a trace of fewer steps. A trace that cannot be written is a warning.
    """

    def write(profiler: profile) -> None:
        final = run.directory.path / PROFILE
        try:
            with scratch_directory() as scratch, atomic_file(final) as beside:
                profiler.export_chrome_trace(str(scratch / PROFILE))  # compressed, by its name
                shutil.copyfile(scratch / PROFILE, beside)
        except (ModtokError, RuntimeError) as error:
            run.progress.warn(f"no profile: {error}")
        else:
            run.progress.note(f"{final} has the profile")

    if run.config.profile is None or not run.ranks.first:
        yield lambda: None
        return
    activities = [ProfilerActivity.CPU]
    if run.ranks.device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    window = schedule(wait=1, warmup=1, active=run.config.profile, repeat=1)
    with profile(activities=activities, schedule=window, on_trace_ready=write) as profiler:
        yield profiler.step
