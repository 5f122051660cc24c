"""What a build tells its caller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modtok_cli.base.progress import Progress

# The end-of-text token separates documents in pretraining; padding fills batches.
DEFAULT_SPECIALS = ("<|endoftext|>", "<|pad|>")
DEFAULT_K = 24000


@dataclass
class BuildReport:
    """Where the output lies, and a row of figures per language or tokenizer."""

    output: Path
    signature: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """The rows, each with the place and the signature of what was written."""
        return [
            {**line, "output": str(self.output), "signature": self.signature} for line in self.lines
        ]


def warn_of_small(lines: Sequence[Mapping[str, Any]], k: int, progress: Progress) -> None:
    """Say which texts gave fewer tokens than asked for."""
    for line in lines:
        if line["tokens"] < k:
            progress.warn(
                f"{line['language']}: the text gives {line['tokens']:,} tokens, not {k:,}; "
                "the tokenizer was written with what there is"
            )
