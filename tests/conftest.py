"""Settings of every test."""

import gc
import os
import re
import resource
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from helpers.examples import TIMES
from helpers.python_processes import executable, start_server

TESTS = Path(__file__).parent

# Programs that tests start run this checkout, and find `helpers`.
paths = [str(TESTS.parent), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(paths)

# What a machine sets for its users: a proxy also before this machine, colours, a width, buffers,
# options of modtok. The others are of `.ci` and of the tests.
THEIRS = r"\w+_proxy|\w*color\w*|columns|lines|github_actions|pythonunbuffered"
THEIRS += r"|modtok_(?!(core|contexts|durations|examples|gpu_check)$)\w+"
for name in os.environ:
    if re.fullmatch(THEIRS, name, re.IGNORECASE):
        del os.environ[name]
# No network, and numbers of a CPU; `make gpu-check` runs some tests on a GPU.
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
if "MODTOK_GPU_CHECK" not in os.environ:
    os.environ["MODTOK_DEVICE"] = "cpu"

# Several tests run at once: threads of one on the cores of another only wait. And the order of sums
# and the need for memory do not depend on the number of cores.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# Processes are killed here, machines are not: what is written is there without waiting for a disk.
os.fsync = lambda _: None  # type: ignore[assignment]

# The same examples each time: a change is judged by what it changes. A busy machine is no failure.
settings.register_profile(
    "modtok",
    deadline=None,
    derandomize=TIMES == 1,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("modtok")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Start the server of processes before several workers start."""
    if session.config.getoption("numprocesses", None):  # not the case in a worker
        start_server()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave modules and tests out of garbage collections, which take a thirtieth of the time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown() -> None:
    """Collect garbage that holds many files: each training of a test has left 65 sockets in it."""
    if len([*Path("/dev/fd").iterdir()]) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8:
        gc.collect()


@pytest.fixture
def forked_executable(monkeypatch: pytest.MonkeyPatch) -> str:
    """Programs started with `sys.executable` are forked, see `helpers.python_processes`."""
    monkeypatch.setattr(sys, "executable", executable())
    return sys.executable
