"""Models of several architectures, sliced: logits, ids and configurations against the whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import orjson
import pytest

from helpers.external_models import build
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.inference.hf.model_directory import ModelDirectory
from modtok_cli.inference.hf.model_files import with_ids

transformers = pytest.importorskip("transformers")


def kept_of(path: Path, text: str) -> np.ndarray:
    return np.unique(transformers.AutoTokenizer.from_pretrained(path)(text)["input_ids"])


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
    size = next(iter(made.tensors.values()))[1]
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


def test_marks_that_the_chat_template_names_stay(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "Qwen3")
    file = whole / "tokenizer.json"
    document = orjson.loads(file.read_bytes())
    like = document["added_tokens"][0]
    document["added_tokens"] += [
        {**like, "id": 602 + index, "content": text, "special": False}
        for index, text in enumerate(("<think>", "<tool_call>", "\n\n"))
    ]
    file.write_bytes(orjson.dumps(document))
    template = whole / "chat_template.jinja"
    template.write_text(template.read_text() + "<think>\n\n")
    made = ModelDirectory(whole).slice(np.arange(0, dtype=np.int32), tmp_path / "part")
    part = transformers.AutoTokenizer.from_pretrained(made.output)
    assert part.tokenize("a<think>b<tool_call>")[:3] == ["a", "<think>", "b"]
    assert {"<tool_call>", "\n\n"}.isdisjoint(part.get_vocab())


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
    nested: list[object] = []
    for _ in range(300):
        nested = [nested]
    for field, value, message in (
        ("vocab_size", [640], r"field 'vocab_size' is \[640\]"),
        ("text_config", {"vocab_size": 641}, "field 'vocab_size' is 640 and 641"),
        ("layers", nested, "JSON nested too deeply"),
    ):
        (whole / "config.json").write_bytes(json.dumps({**config, field: value}).encode())
        with pytest.raises(ModtokError, match=message):
            ModelDirectory(whole).slice(np.array([5], np.int32), tmp_path / "part")
    (whole / "config.json").write_bytes(orjson.dumps(config))
    document = orjson.loads((whole / "tokenizer.json").read_bytes())
    document["model"]["merges"][2] = None
    (whole / "tokenizer.json").write_bytes(orjson.dumps(document))
    with pytest.raises(ModtokError, match=r"field 'model.merges\[2\]' is damaged"):
        ModelDirectory(whole).slice(np.array([5], np.int32), tmp_path / "part")
    assert not (tmp_path / "part").exists()


def test_ids_of_every_shape_are_renumbered_or_left_out(tmp_path: Path) -> None:
    whole = build(tmp_path / "whole", "Llama")
    (whole / "generation_config.json").write_bytes(
        orjson.dumps(
            {
                "eos_token_id": [2, 610],  # no token of the tokenizer has the id 610
                "pad_token_id": 610,
                "forced_decoder_ids": [[1, 480], [2, None], [3, 610]],
                "lang_to_id": {"<|fr|>": 480, "<|none|>": 610},
                "task_to_id": {"transcribe": 483},
                "suppress_tokens": [470, 486, -1],
                "begin_suppress_tokens": [470],
                "bad_words_ids": [[486, 480], [480, 470]],
                "force_words_ids": [[[486], [470]], [[470]]],
                "sequence_bias": [[[486, 480], -1.5], [[470], 2.0]],
                "chosen_ids": [[5, 6]],
                "speaker_id": 700,
                "max_new_tokens": 300,
                "num_beams": 4,
            }
        )
    )
    warned = Silent()
    made = ModelDirectory(whole).slice(
        np.array([486], dtype=np.int32), tmp_path / "part", progress=warned
    )
    new_of = {old: new for new, old in enumerate(made.ids.tolist())}
    assert 470 not in new_of  # only named to avoid it
    fr, transcribe, ordinary = (new_of[old] for old in (480, 483, 486))
    found = orjson.loads((made.output / "generation_config.json").read_bytes())
    assert found == {
        "eos_token_id": [2],
        "pad_token_id": None,
        "forced_decoder_ids": [[1, fr], [2, None]],
        "lang_to_id": {"<|fr|>": fr},
        "task_to_id": {"transcribe": transcribe},
        "suppress_tokens": [ordinary, -1],
        "begin_suppress_tokens": None,
        "bad_words_ids": [[ordinary, fr]],
        "force_words_ids": [[[ordinary]]],
        "sequence_bias": [[[ordinary, fr], -1.5]],
        "chosen_ids": [[5, 6]],
        "speaker_id": 700,
        "max_new_tokens": 300,
        "num_beams": 4,
    }
    assert warned.warnings == [
        "generation_config.json: ids of tokens that are not kept were left out of eos_token_id, "
        "pad_token_id, forced_decoder_ids, lang_to_id, suppress_tokens, begin_suppress_tokens, "
        "bad_words_ids, force_words_ids, sequence_bias",
        "generation_config.json: unchanged, though they may be token ids: chosen_ids",
    ]
    assert with_ids({"sequence_bias": {"(2, 5)": 1.0, "(2,)": 0.5}}, {2: 0}.get) == {
        "sequence_bias": {"(0,)": 0.5}
    }
