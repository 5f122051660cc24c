"""Slices of Hugging Face directories: by language, text and keep-list; ids, logits, refusals."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from helpers.external_models import build
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.model.architecture.stored_model import INDEX, HfDirectory
from modtok_cli.model.draft.list_files import read_list
from modtok_cli.model.hf import weight_files
from modtok_cli.model.hf.model_directory import NAME, ModelDirectory
from modtok_cli.model.hf.model_files import with_ids
from modtok_cli.model.hf.slice_hf import TokenSelection, slice_directory
from modtok_cli.model.hf.weight_files import Cut, cut_tensor, rewrite
from modtok_cli.model.kinds import MODEL, model_kind
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.adopted.adopt import adopt
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.vocabulary import unspell

from .test_directory_model import logits

transformers = pytest.importorskip("transformers")
DATA = SAMPLE / "parallel"


@pytest.fixture(scope="module", params=["byte-level", "characters"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("whole"), "Llama", request.param)


def test_text_of_the_languages_has_the_same_ids_and_logits(whole: Path, tmp_path: Path) -> None:
    made = slice_directory(whole, TokenSelection(("fr", "en"), data=DATA), tmp_path / "part")
    assert model_kind(made.output) == MODEL
    tokenizer = transformers.AutoTokenizer.from_pretrained(whole)
    part = transformers.AutoTokenizer.from_pretrained(made.output)
    for line in (DATA / "fr.txt").read_text("utf-8").splitlines()[:10]:
        ids = part(line)["input_ids"]
        assert made.ids[ids].tolist() == tokenizer(line)["input_ids"]
    other = "Ein völlig anderer Satz, 1234 ☃."
    assert part.decode(part(other)["input_ids"], skip_special_tokens=True) == other
    few = ids[:8]
    expected = logits(whole, made.ids[few].tolist())[:, made.ids]
    assert np.allclose(logits(made.output, few), expected, atol=1e-5)
    facts = orjson.loads((made.output / NAME).read_bytes())
    assert facts["ids"] == made.ids.tolist()
    assert {*made.tensors.values()} == {(640, len(made.ids))}
    rows = {row["part"]: row for row in made.rows()}
    assert rows["backbone"]["saved"] == 0
    assert rows["all"]["full_bytes"] - rows["all"]["bytes"] == (
        rows["vocabulary rows"]["full_bytes"] - rows["vocabulary rows"]["bytes"]
    )


def test_a_model_with_a_rank_file_alone_gives_the_same_slice(tmp_path: Path) -> None:
    """Its special tokens are in tokenizer_config.json, as Kimi's."""
    model = build(tmp_path / "model")
    expected = slice_directory(model, TokenSelection(("fr",), data=DATA), tmp_path / "expected")
    document = orjson.loads((model / "tokenizer.json").read_bytes())
    added = {str(token["id"]): token for token in document["added_tokens"]}
    ids = {name: i for name, i in document["model"]["vocab"].items() if str(i) not in added}
    codes = {i: base64.b64encode(unspell(name)).decode() for name, i in ids.items()}
    ranks = "".join(f"{code} {i}\n" for i, code in sorted(codes.items()))
    (model / "tokenizer.model").unlink()
    (model / "tokenizer.json").unlink()
    (model / "tiktoken.model").write_text(ranks)
    (model / "tokenizer_config.json").write_bytes(orjson.dumps({"added_tokens_decoder": added}))
    made = slice_directory(model, TokenSelection(("fr",), data=DATA), tmp_path / "made")
    assert made.ids.tolist() == expected.ids.tolist()
    tokenizers = [open_tokenizer(str(each.output)) for each in (made, expected)]
    for line in (DATA / "fr.txt").read_text("utf-8").splitlines()[:10]:
        first, second = (each.encode(line) for each in tokenizers)
        assert first.tolist() == second.tolist()
        assert tokenizers[0].decode(first) == line


def test_an_adopted_tokenizer_gives_the_same_slice(whole: Path, tmp_path: Path) -> None:
    adopted = tmp_path / "adopted"
    adopt(whole, ["en", "fi", "fr"], data=DATA).save(adopted)
    selected = TokenSelection(("fr",), tokenizer=adopted).ids(ModelDirectory(whole))
    assert (
        selected.tolist() == TokenSelection(("fr",), data=DATA).ids(ModelDirectory(whole)).tolist()
    )
    with pytest.raises(UsageError, match="no text selects tokens: omit top"):
        slice_model(whole, "fr", tokenizer=adopted, top=300, output=tmp_path / "part")
    document = orjson.loads((whole / "tokenizer.json").read_bytes())
    other = tmp_path / "other"
    other.mkdir()
    document["added_tokens"][-1]["content"] = "<other>"
    (other / "tokenizer.json").write_bytes(orjson.dumps(document))
    adopt(other, ["fr"], data=DATA).save(tmp_path / "wrong")
    with pytest.raises(UsageError, match="is not the tokenizer of"):
        TokenSelection(("fr",), tokenizer=tmp_path / "wrong").ids(ModelDirectory(whole))
    with pytest.raises(UsageError, match="is not a modular directory"):
        TokenSelection(("fr",), tokenizer=other).ids(ModelDirectory(whole))


def test_texts_and_keep_lists_add_up(whole: Path, tmp_path: Path) -> None:
    model = ModelDirectory(whole)
    by_text = TokenSelection(texts=(DATA / "fr.txt",)).ids(model)
    assert by_text.tolist() == TokenSelection(("fr",), data=DATA).ids(model).tolist()
    keep = tmp_path / "keep"
    last = max(index for name, index in model.file.ids.items() if len(name) > 3 and index < 590)
    keep.write_text(f"{last}\n\n")
    by_list = TokenSelection(keep=keep).ids(model)
    assert last in by_list
    mask = np.zeros(model.file.size, dtype=np.bool_)
    mask[by_list] = True
    assert np.array_equal(model.file.closed(mask), mask)
    both = TokenSelection(texts=(DATA / "fr.txt",), keep=keep).ids(model)
    assert both.tolist() == np.union1d(by_text, by_list).tolist()
    english = TokenSelection(("en",), data=DATA).ids(model)
    for sides in (TokenSelection(("fr", "en"), data=DATA),
                  TokenSelection(("en",), data=DATA, texts=(DATA / "fr.txt",))):  # fmt: skip
        assert sides.ids(model).tolist() == np.union1d(by_text, english).tolist()
    keep.write_text(f"[{last}, 3]")
    assert read_list(keep, model.vocab_size).tolist() == [last, 3]
    for wrong in ("3 x", "", "[]"):
        keep.write_text(wrong)
        with pytest.raises(ModtokError, match="is not a list of token ids"):
            read_list(keep, model.vocab_size)
    keep.write_text("5000")
    with pytest.raises(UsageError, match="is of another vocabulary, which has a token 5000"):
        TokenSelection(keep=keep).ids(model)
    with pytest.raises(UsageError, match="no tokens selected"):
        TokenSelection().ids(model)
    with pytest.raises(UsageError, match=r"none: does not exist; .*omit --langs: --text suffices"):
        TokenSelection(("fr",), data=tmp_path / "none", texts=(DATA / "fr.txt",)).ids(model)


def test_outputs_are_not_overwritten(whole: Path, tmp_path: Path) -> None:
    selection = TokenSelection(texts=(DATA / "fr.txt",))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(UsageError, match="exists but is not a slice of a H"):
        slice_directory(whole, selection, tmp_path / "mine", force=True)
    slice_directory(whole, selection, tmp_path / "part")
    with pytest.raises(UsageError, match="already exists"):
        slice_directory(whole, selection, tmp_path / "part")
    slice_directory(whole, selection, tmp_path / "part", force=True)
    # A slice is a model, and can be sliced again.
    again = slice_directory(tmp_path / "part", selection, tmp_path / "again")
    assert next(iter(again.tensors.values())) == (len(again.ids), len(again.ids))


# --- ids of configurations ---


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


def test_names_of_tokens_that_are_not_kept_are_left_out(tmp_path: Path) -> None:
    """transformers would give them ids behind the last row."""
    whole, warned = build(tmp_path / "whole", "Llama"), Silent()
    document = orjson.loads((whole / "tokenizer.json").read_bytes())
    vocabulary, added = document["model"]["vocab"], document["added_tokens"]
    name = max(sorted(vocabulary.keys() - {token["content"] for token in added}), key=len)
    file = whole / "tokenizer_config.json"
    fields = orjson.loads(file.read_bytes()) if file.is_file() else {}
    file.write_bytes(orjson.dumps(fields | {"pad_token": name}))
    made = ModelDirectory(whole).slice(np.arange(0), tmp_path / "part", progress=warned)
    assert vocabulary[name] not in made.ids
    assert len(transformers.AutoTokenizer.from_pretrained(made.output)) == len(made.ids)
    line = f"tokenizer_config.json: tokens without an id are left out: {name}"
    assert line in warned.warnings


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


# --- safetensors files rewritten as streams ---


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {
        "embed.weight": torch.randn(40, 6).to(torch.bfloat16),
        "norm": torch.randn(6),
        "head.bias": torch.randn(40),
        "logits.bias": torch.randn(1, 40),
        "turned": torch.randn(3, 40, 2),
        "flags": torch.tensor([True, False]),
        "one": torch.tensor(3.0),
        "none": torch.zeros(0, 4),
        "eight": torch.randn(4, 4).to(torch.float8_e4m3fn),
        "scales": torch.ones(4, 1).to(torch.float8_e8m0fnu),
        "four": torch.zeros(4, 6, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    }


@pytest.fixture
def single(tmp_path: Path) -> Path:
    save_file(tensors(), tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path


@pytest.mark.parametrize("chunk", [1 << 24, 7, 30])
def test_chosen_rows_and_all_else_untouched(
    single: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, chunk
) -> None:
    monkeypatch.setattr(weight_files, "_CHUNK", chunk)
    out = tmp_path_factory.mktemp("out")
    ids = np.array([0, 1, 2, 7, 9, 10, 39])
    model = HfDirectory(single)
    axes = {"embed.weight": 0, "head.bias": 0, "logits.bias": 1, "turned": 1}
    cuts = {name: cut_tensor(model.tensors[name], Cut(axis, ids)) for name, axis in axes.items()}
    written = rewrite(model, out, cuts)
    found = load_file(out / "model.safetensors")
    for name, tensor in tensors().items():
        keep = torch.from_numpy(ids)
        expected = tensor.index_select(axes[name], keep) if name in axes else tensor
        one, other = (each.flatten().view(torch.uint8) for each in (found[name], expected))
        assert torch.equal(one, other)
    assert written == HfDirectory(out).tensor_bytes < model.tensor_bytes


@pytest.mark.parametrize(
    "wrong",
    [
        b"", b"\xff" * 8, (2).to_bytes(8, "little") + b"{", (4).to_bytes(8, "little") + b"[1] ",
        (1 << 40).to_bytes(8, "little") + b"{}", {"data_offsets": [0, 1 << 50]},
        {"data_offsets": [8, 4]}, {"shape": [-1, 6]}, {"shape": [41, 6]}, {"dtype": "X9"},
    ],
    ids=str,
)  # fmt: skip
def test_a_damaged_file_is_named(single: Path, wrong: bytes | dict[str, Any]) -> None:
    file = single / "model.safetensors"
    if isinstance(wrong, dict):
        data = file.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = orjson.loads(data[8 : 8 + length])
        header["embed.weight"] |= wrong
        head = orjson.dumps(header)
        wrong = len(head).to_bytes(8, "little") + head + data[8 + length :]
    file.write_bytes(wrong)
    message = r"model\.safetensors: (is not a valid safetensors file|.* dtype X9, which)"
    with pytest.raises(ModtokError, match=message):
        HfDirectory(single).tensors  # noqa: B018


def test_files_of_weights_are_in_the_directory(tmp_path: Path) -> None:
    with pytest.raises(ModtokError, match=r"has no model\.safetensors"):
        HfDirectory(tmp_path).files  # noqa: B018
    (tmp_path / INDEX).write_bytes(orjson.dumps({"weight_map": {"a": "../secret"}}))
    with pytest.raises(ModtokError, match="weight_map"):
        HfDirectory(tmp_path).files  # noqa: B018


@pytest.mark.parametrize(("languages", "texts"), [("", "fr,en"), ("fr,en", ""), ("fr", "en")])
def test_what_changes_in_held_out_lines_is_told(languages: str, texts: str, tmp_path: Path) -> None:
    """A tenth of the lines of each language and of all texts, by the slice of the other lines."""
    model, held = build(tmp_path / "model", "Llama"), list[str]()
    for group in (*([name] for name in languages.split(",")), texts.split(",")):
        count = 0
        for name in filter(None, group):
            lines, kept = (DATA / f"{name}.txt").read_text("utf-8").splitlines()[:39], []
            for line in lines:
                count += 1
                (kept if count % 10 else held).append(line)
            for place, some in (("all", lines), ("rest", kept)):
                (tmp_path / place).mkdir(exist_ok=True)
                (tmp_path / place / f"{name}.txt").write_text("\n".join(some), "utf-8")

    def sliced(place: str) -> Any:
        files = [tmp_path / place / f"{name}.txt" for name in texts.split(",") if name]
        own = {"data": tmp_path / place} if languages else {}
        return slice_model(
            model, languages or None, texts=files, top=320, output=tmp_path / f"s-{place}",
            verify=False, **own,
        )  # fmt: skip

    report, rest = sliced("all"), sliced("rest")
    library = Tokenizer.from_file(str(model / "tokenizer.json"))
    ids = [library.encode(line, add_special_tokens=False).ids for line in held]
    lost = [~np.isin(line, rest.ids) for line in ids]
    row = report.rows()[-1]
    assert 0 < row["changed_lines"] == np.mean([line.any() for line in lost])
    card = (report.output / "README.md").read_text("utf-8")
    assert f"choose the tokens {row['changed_lines']:.0%} have other ids" in card
    assert row["changed_tokens"] == pytest.approx(np.concatenate(lost).mean())
