"""Settings of every test."""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from helpers.python_processes import executable, start_server
from modtok_cli.cli.kernels import is_warm, kernels
from modtok_cli.cli.warmup import warmup

TESTS = Path(__file__).parent
# Kernels that `modtok warmup` has left out, if the tests had to run it.
STILL_COLD = "TEST_COLD_KERNELS"

# Programs that tests start run this checkout, and find `helpers`.
paths = [str(TESTS.parent), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(paths)

# Several tests run at once: threads of one on the cores of another only wait.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# On a busy machine a single example may take a second, at first use of a kernel many.
settings.register_profile("modtok", deadline=None)
settings.load_profile("modtok")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Before several workers start, do what each of them would do."""
    if not session.config.getoption("numprocesses", None):  # also the case in a worker
        return
    if not all(map(is_warm, kernels())):
        warmup()
        os.environ[STILL_COLD] = " ".join(one.name for one in kernels() if not is_warm(one))
    start_server()


@pytest.fixture
def forked_executable(monkeypatch: pytest.MonkeyPatch) -> str:
    """Programs started with `sys.executable` are forked, see `helpers.python_processes`."""
    monkeypatch.setattr(sys, "executable", executable())
    return sys.executable
