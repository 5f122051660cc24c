"""`modtok warmup`: compile every kernel and store it on disk."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from modtok_cli.base.progress import SILENT, Progress

# Covers every kernel: text and JSON lines, long and short words, digits.
_TEXT = {"en": "one two three, one two 33 threes\n", "fi": "yksi kaksi kolme, yksi kaksi 3\n"}


def _bpe(data: Path, output: Path) -> None:
    from modtok_cli.construct.bpe_seq import bpe_seq
    from modtok_cli.measure.nsl import nsl
    from modtok_cli.text.corpus import write_counts

    counts = output.with_suffix(".counts")
    write_counts(data=data, output=counts)
    bpe_seq(data=counts, output=output, k=270, passes=2)
    nsl([f"{output}@each", str(output)], [data])


def _fewest_tokens(data: Path, output: Path) -> None:
    from modtok_cli.construct.bpe_merge import bpe_merge
    from modtok_cli.measure.nsl import nsl

    bpe_merge(data=data, output=output, k=270)
    nsl([f"{output}@each"], [data])


def _unigram(data: Path, output: Path) -> None:
    from modtok_cli.construct.unigram_merge import unigram_merge
    from modtok_cli.measure.nsl import nsl

    unigram_merge(data=data, output=output, k=280)
    nsl([f"{output}@each"], [data])


def _pretokenizers(data: Path, output: Path) -> None:
    from modtok_cli.text.pretokenizer import pretokenizers

    for each in pretokenizers().values():
        _ = each.splitter  # compiled or loaded on first use


def _rows(data: Path, output: Path) -> None:
    import modtok_cli.training.rows.kernel  # noqa: F401 - explicit signatures: compiled on import


STEPS: dict[str, Callable[[Path, Path], None]] = {
    "BPE": _bpe,
    "fewest tokens": _fewest_tokens,
    "Unigram": _unigram,
    "pre-tokenizers": _pretokenizers,
    "rows": _rows,
}


def warmup(*, progress: Progress = SILENT) -> dict[str, float]:
    """Run a tiny job through every kernel; seconds by group of kernels."""
    seconds: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        progress.task("compiling", total=len(STEPS), unit="groups") as task,
    ):
        data = Path(directory) / "data"
        data.mkdir()
        for suffix, (language, text) in zip(("txt", "jsonl"), _TEXT.items(), strict=True):
            long = text * 5 + "a" * 200
            content = json.dumps({"text": long}) if suffix == "jsonl" else long
            (data / f"{language}.{suffix}").write_text(content)
        for name, step in STEPS.items():
            began = time.perf_counter()
            step(data, Path(directory) / name)
            seconds[name] = time.perf_counter() - began
            progress.note(f"{name} kernels ready after {seconds[name]:.1f} s")
            task.advance(1)
    return seconds
