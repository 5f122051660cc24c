"""A pytest plugin: coverage records which test runs a line, in processes that it starts too."""

import json
import os
from pathlib import Path

import coverage
import pytest

# Tests change the environment.
DURATIONS = None if "PYTEST_XDIST_WORKER" in os.environ else os.environ["MODTOK_DURATIONS"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    os.environ["MODTOK_TEST"] = item.nodeid  # the static context of processes, in contexts.toml
    if (measured := coverage.Coverage.current()) is not None:
        measured.switch_context(item.nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if DURATIONS is not None:
        with Path(DURATIONS).open("a") as file:
            print(json.dumps([report.nodeid, report.duration, report.outcome]), file=file)
