"""Text for the tests: the sample in the repository."""

from __future__ import annotations

from pathlib import Path

import modtok_cli

ROOT = Path(__file__).parents[2]
SAMPLE = Path(modtok_cli.__file__).parent / "samples"
