"""Models of several architectures, sliced: logits, ids and configurations against the whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from support import SAMPLE

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.inference.model_directory import ModelDirectory

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

PADDED = 640
SMALL = {
    "vocab_size": PADDED, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": [2, 1], "pad_token_id": 3,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Mistral": {"head_dim": 8},
    "Qwen2": {"tie_word_embeddings": True},
    "Qwen3": {"head_dim": 8},
    "Phi3": {},
    "Gemma3Text": {"head_dim": 8, "tie_word_embeddings": True, "sliding_window": 32},
    "GPTNeoX": {},
}


def save_tokenizer(path: Path, kind: str) -> None:
    """A tokenizer of 600 tokens with special tokens at both ends of the ids."""
    lines = (SAMPLE / "parallel" / "en.txt").read_text(encoding="utf-8").splitlines()
    specials = ["<unk>", "<s>", "</s>", "<pad>"]
    if kind == "byte-level":
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=599,
            special_tokens=specials,
            show_progress=False,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        )
    else:  # as SentencePiece's BPE comes to transformers: characters, with byte fallback
        alphabet = [f"<0x{byte:02X}>" for byte in range(256)]
        tokenizer = tokenizers.Tokenizer(
            tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
        )
        tokenizer.normalizer = tokenizers.normalizers.Replace(" ", "▁")
        tokenizer.decoder = tokenizers.decoders.Sequence(
            [
                tokenizers.decoders.Replace("▁", " "),
                tokenizers.decoders.ByteFallback(),
                tokenizers.decoders.Fuse(),
            ]
        )
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=599, special_tokens=specials + alphabet, show_progress=False
        )
    tokenizer.train_from_iterator(lines, trainer)
    if kind != "byte-level":  # the trainer made them special; they are ordinary tokens
        document = orjson.loads(tokenizer.to_str())
        document["added_tokens"] = document["added_tokens"][: len(specials)]
        tokenizer = tokenizers.Tokenizer.from_str(orjson.dumps(document).decode())
    tokenizer.add_special_tokens(["<|im_end|>"])
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A <|im_end|>",
        special_tokens=[("<s>", 1), ("<|im_end|>", tokenizer.token_to_id("<|im_end|>"))],
    )
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        unk_token="<unk>",
    )  # fmt: skip
    wrapped.chat_template = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    wrapped.save_pretrained(path)


def build(path: Path, family: str, kind: str = "byte-level") -> Path:
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SMALL, **FAMILIES[family])
    name = f"{family.removesuffix('Text')}ForCausalLM"
    model = getattr(transformers, name)(config).eval()
    model.save_pretrained(path)
    (path / "generation_config.json").write_bytes(
        orjson.dumps({"bos_token_id": 1, "eos_token_id": [2, 600 - 1], "suppress_tokens": [3]})
    )
    (path / "tokenizer.model").write_bytes(b"the old vocabulary")
    (path / "LICENSE").write_text("a licence")
    save_tokenizer(path, kind)
    return path


def logits(path: Path, ids: list[int]) -> torch.Tensor:
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0]


def kept_of(path: Path, text: str) -> np.ndarray:
    return np.unique(transformers.AutoTokenizer.from_pretrained(path)(text)["input_ids"])


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_kept_tokens_are_the_whole_models(family: str, tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", family)
    directory = ModelDirectory(whole)
    wanted = np.arange(300, 500, 3, dtype=np.int32)
    made = directory.slice(wanted, tmp_path / "part")
    kept = np.union1d(wanted, directory.indispensable())
    assert set(made.rows.values()) == {(PADDED, len(kept))}
    assert made.tables[1] * PADDED == made.tables[0] * len(kept)
    assert made.total[0] - made.total[1] == made.tables[0] - made.tables[1] > 0
    some = np.random.default_rng(0).permutation(len(kept))[:20]
    torch.testing.assert_close(
        logits(made.output, some.tolist()),
        logits(whole, kept[some].tolist())[:, kept],
        atol=1e-5,
        rtol=1e-5,
    )


@pytest.mark.parametrize("kind", ["byte-level", "characters"])
def test_text_of_kept_tokens_has_the_same_ids(kind: str, tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "Llama", kind)
    directory = ModelDirectory(whole)
    text = "The morning was cold, and nobody said a word.  Ünïcode ☃ too"
    tokenizer = transformers.AutoTokenizer.from_pretrained(whole)
    # Every token that the derivation of the text passes through.
    names = tokenizer.convert_ids_to_tokens(kept_of(whole, text))
    pieces = {
        name[i:j] for name in names for i in range(len(name)) for j in range(i, len(name) + 1)
    }
    ids = [tokenizer.get_vocab()[piece] for piece in pieces if piece in tokenizer.get_vocab()]
    made = directory.slice(np.array(sorted(ids), np.int32), tmp_path / "part")
    kept = np.union1d(ids, directory.indispensable())
    part = transformers.AutoTokenizer.from_pretrained(made.output)
    assert kept[part(text)["input_ids"]].tolist() == tokenizer(text)["input_ids"]
    assert part.decode(part(text)["input_ids"]) == tokenizer.decode(tokenizer(text)["input_ids"])
    other = "Ein völlig anderer Satz, 1234."
    assert part.decode(part(other)["input_ids"], skip_special_tokens=True) == other


def test_ids_of_all_configurations_are_renumbered(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "Llama")
    made = ModelDirectory(whole).slice(np.arange(0, dtype=np.int32), tmp_path / "part")
    size = next(iter(made.rows.values()))[1]
    config = orjson.loads((made.output / "config.json").read_bytes())
    assert (config["vocab_size"], config["eos_token_id"]) == (size, [2, 1])
    generation = orjson.loads((made.output / "generation_config.json").read_bytes())
    assert generation == {
        "bos_token_id": 1, "eos_token_id": [2, size - 1], "suppress_tokens": [3],
    }  # fmt: skip
    tokenizer = transformers.AutoTokenizer.from_pretrained(made.output)
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") == size - 1
    assert tokenizer("a")["input_ids"][-1] == size - 1
    assert (
        tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
        == "a<|im_end|>"
    )
    assert (made.output / "LICENSE").read_text() == "a licence"
    assert made.left_out == ("tokenizer.model",)


def test_what_cannot_be_sliced(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no config\.json"):
        ModelDirectory(tmp_path)
    whole = build(tmp_path / "whole", "Llama")
    with pytest.raises(UsageError, match="token 640 has no row: the model has 640"):
        ModelDirectory(whole).slice(np.array([640], np.int32), tmp_path / "part")
    with pytest.raises(UsageError, match="the tokenizer has no token with id 639"):
        ModelDirectory(whole).slice(np.array([639], np.int32), tmp_path / "part")
    config = orjson.loads((whole / "config.json").read_bytes())
    (whole / "config.json").write_bytes(orjson.dumps({**config, "vocab_size": 700}))
    with pytest.raises(ModtokError, match="no embedding table with 700 rows"):
        ModelDirectory(whole).slice(np.array([5], np.int32), tmp_path / "part")
    assert not (tmp_path / "part").exists()
