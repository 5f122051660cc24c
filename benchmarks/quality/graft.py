"""Graft a slice of a model that was trained some steps, and compare all weights bit for bit.

    python -m benchmarks graft MODEL TEXT [--steps 4] [--threads 1]

MODEL is a Hugging Face directory, as `python -m benchmarks published_models` converts SmolLM2. It
is sliced to the tokens of TEXT (lines), trained on them by AdamW, saved by save_pretrained, grafted
and sliced again. Exits with 1 if a check fails. A JSON line:

    rows           rows of the model, and of the slice.
    changed        parameters that training changed, of all.
    again          whether the slice of the result has the weights that were grafted, bit for bit.
    others         whether all other rows are those of the model, bit for bit.
    files          whether all other files are those of the model.
    seconds        of graft; `peak_mib`: of this process, training included.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from benchmarks.common import emit, parser_of, peak_of_self
from modtok_cli.model.hf.slice_hf import TokenSelection, slice_directory
from modtok_cli.model.slice.graft import graft


def train(part: Path, output: Path, lines: list[str], steps: int) -> None:
    """A few steps on lines of text, saved as transformers saves a model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(part)
    tokenizer = AutoTokenizer.from_pretrained(part)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        ids = torch.tensor([tokenizer(lines[step % len(lines)])["input_ids"][:64]])
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(output)


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model, selection = options.model, TokenSelection(texts=(options.text,))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        ids = slice_directory(model, selection, place / "part", verify=False).ids
        lines = [line for line in options.text.read_text("utf-8").splitlines() if line]
        train(place / "part", place / "tuned", lines, options.steps)
        began = time.perf_counter()
        report = graft(place / "tuned", model, original=place / "part", output=place / "new")
        seconds = time.perf_counter() - began
        slice_directory(place / "new", selection, place / "again", verify=False)
        before, after, tuned, part, again = (
            load_file(path / "model.safetensors")
            for path in (model, *(place / name for name in ("new", "tuned", "part", "again")))
        )
        kept = np.ones(report.tokens[0], dtype=np.bool_)
        kept[ids] = False
        checks = {
            "again": tuned.keys() == again.keys()
            and all(same(tensor, again[name]) for name, tensor in tuned.items()),
            "others": all(
                same(tensor[kept], after[name][kept])
                for name, tensor in before.items()
                if tensor.shape != tuned[name].shape
            ),
            "files": all(
                (place / "new" / file.name).read_bytes() == file.read_bytes()
                for file in model.iterdir()
                if file.suffix != ".safetensors"
            ),
        }
        changed = sum(int((tensor != part[name]).sum()) for name, tensor in tuned.items())
    emit(
        {
            "model": model.name,
            "rows": report.tokens,
            "steps": options.steps,
            "changed": [changed, sum(tensor.numel() for tensor in tuned.values())],
            **checks,
            "seconds": round(seconds, 2),
            "peak_mib": round(peak_of_self()),
        }
    )
    if not all(checks.values()):
        raise SystemExit(1)
