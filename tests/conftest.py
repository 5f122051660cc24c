"""Settings of every test."""

import os
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parent

# Programs that tests start run this checkout, and find `helpers`.
paths = [str(TESTS.parent), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(paths)

# On a busy machine a single example may take a second, at first use of a kernel many.
settings.register_profile("modtok", deadline=None)
settings.load_profile("modtok")
