"""Token lists for drafts: their order, coverage, files as engines read them, and reduced heads."""

from __future__ import annotations

import copy
import json
import re
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GenerationConfig
from transformers.generation import candidate_generator

import modtok_cli as modtok
from helpers.external_models import END, PADDED, build
from helpers.external_tokenizers import sentencepiece_model
from helpers.handmade_tokenizers import write_ranks
from helpers.said import Said
from helpers.sample import sample_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.public import ModtokWarning
from modtok_cli.model.draft.draft_vocabulary import DraftVocabulary
from modtok_cli.model.draft.formats import FORMATS, draft_map, write_list
from modtok_cli.model.draft.head import cut_head
from modtok_cli.model.draft.list_files import read_list
from modtok_cli.model.draft.ranking import Ranking
from modtok_cli.model.draft.reduced_head import open_draft
from modtok_cli.reports.kinds.drafts import tables

LANGUAGES = ["en", "fi", "fr"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, its tokenizer adopted, a learned tokenizer, a rank file, and text."""
    place = tmp_path_factory.mktemp("draft")
    sample_text(place / "data", *LANGUAGES, folder="parallel")
    build(place / "model")
    modtok.adopt(place / "model", "fi,fr", data=place / "data", output=place / "adopted")
    modtok.bpe_seq(
        "en,fi,fr", data=place / "data", k=420, output=place / "learned", references=False
    )
    return place


@pytest.mark.parametrize("source", ["model", "model/tokenizer.json", "adopted", "learned"])
def test_lists_are_ranked_by_the_mean_share_and_nested(place: Path, source: str) -> None:
    vocabulary = DraftVocabulary.open(str(place / source))
    ids = modtok.tokens(place / source, "fi,en", data=place / "data", size=460)
    assert isinstance(ids, list)
    assert modtok.tokens(place / source, "en,fi", data=place / "data", size=400) == ids[:400]
    # By the tokenizers library, one text at a time.
    file = place / source if source.endswith("json") else place / source / "tokenizer.json"
    library = tokenizers.Tokenizer.from_file(str(file))
    share = np.zeros(len(vocabulary.tokens))
    for language in ("fi", "en"):
        lines = (place / "data" / f"{language}.txt").read_text("utf-8").splitlines()
        batch = [library.encode(line, add_special_tokens=False) for line in lines]
        flat = [index for each in batch for index in each.ids]
        share += np.bincount(flat, minlength=len(share)) / len(flat)
    needed = np.flatnonzero(vocabulary.needed).tolist()
    assert len(needed) >= 256
    assert ids[: len(needed)] == needed
    rest = ids[len(needed) :]
    for one, two in pairwise(rest):
        assert share[one] > share[two] * (1 - 1e-9)
        assert one < two or share[one] > share[two]


@pytest.mark.parametrize("kind", ["model", "tiktoken"])
def test_lists_of_files_of_other_programs(place: Path, tmp_path: Path, kind: str) -> None:
    lines = (place / "data" / "en.txt").read_text("utf-8").splitlines()
    path = tmp_path / f"x.{kind}"
    if kind == "model":
        path.write_bytes(sentencepiece_model(lines, vocab_size=400, byte_fallback=True))
        library = sentencepiece.SentencePieceProcessor(model_file=str(path))
        names = "is_control", "is_unknown", "is_byte"
        size = library.vocab_size()
        needed = [i for i in range(size) if any(getattr(library, name)(i) for name in names)]
        flat = [index for ids in library.encode(lines) for index in ids]
    else:
        words = [" in", " the", " of", " and"]
        write_ranks(path, [word.encode() for word in words])
        size, needed = 256 + len(words), list(range(256))
        text = "\n".join(lines)
        flat = [256 + n for n, word in enumerate(words) for _ in re.findall(rf"{word}\b", text)]
    ids = modtok.tokens(path, "en", data=place / "data", size=len(needed) + 3)
    assert ids[: len(needed)] == needed
    rest = np.bincount(flat, minlength=size)
    rest[needed] = 0
    assert ids[len(needed) :] == np.argsort(-rest, kind="stable")[:3].tolist()


def test_counts_of_words_give_the_list_of_their_text(place: Path, tmp_path: Path) -> None:
    counts, learned = tmp_path / "counts", place / "learned"
    modtok.corpus_count("en,fi", data=place / "data", output=counts)
    listed = modtok.tokens(learned, "en,fi", data=counts, size=400)
    assert listed == modtok.tokens(learned, "en,fi", data=place / "data", size=400)
    mixed = sample_text(tmp_path / "mixed", "fi", folder="parallel") / "fi"
    mixed.mkdir()
    shutil.copy(counts / "fi.counts", mixed / "a.counts")
    (mixed.parent / "fi.txt").rename(mixed / "b.txt")
    tables, twice = (
        DraftVocabulary.open(str(learned)).count(each, ["fi"])["fi"][0]
        for each in (counts, mixed.parent)
    )
    assert (twice == 2 * tables).all()
    with pytest.raises(UsageError, match="word counts have no documents"):
        modtok.draft_coverage(learned, "fi", data=counts)


def test_tokens_that_the_text_lacks_follow_and_weights_count(place: Path) -> None:
    model, data = place / "model", place / "data"
    said = Said()
    ids = modtok.tokens(model, "fi", data=data, size=600, progress=said)
    vocabulary = DraftVocabulary.open(str(model))
    used = Ranking.of(vocabulary, {"fi": vocabulary.count(data, ["fi"])["fi"][0]}).used
    assert ids[used:] == sorted(ids[used:])
    assert f"the text uses {used} tokens; the other {600 - used} of the list" in said.notes[0]
    each = modtok.tokens(model, data=data, size=300, each=True)
    assert isinstance(each, dict)
    assert [*each] == [*LANGUAGES, "all"]
    assert each["fi"] == ids[:300]
    most = modtok.tokens(model, data=data, size=300, mix={"fi": 0.999998})
    assert len({*most} & {*ids[:300]}) > 295


def test_held_out_text_is_never_ranked(place: Path) -> None:
    model, data = place / "model", place / "data"
    vocabulary = DraftVocabulary.open(str(model))
    whole = vocabulary.count(data, ["fi"])["fi"][0]
    kept, held = vocabulary.count(data, ["fi"], hold_out=True)["fi"]
    assert (kept + held == whole).all()
    assert 0 < held.sum() < whole.sum() / 5
    rows = modtok.draft_coverage(model, "fi,en", data=data)
    assert [row["draft_rows"] for row in rows] == [512, 602] * 2
    assert rows[0]["bytes"] == 2 * 512 * 32
    assert 0.9 < rows[0]["coverage"] < rows[1]["coverage"] == 1
    counts = vocabulary.count(data, ["en", "fi"], hold_out=True)
    ranking = Ranking.of(vocabulary, {name: kept for name, (kept, _) in counts.items()})
    sizes = range(300, 603)
    expected = [held[ranking.order[:size]].sum() / held.sum() for size in sizes]
    assert ranking.coverage(held, sizes) == expected
    found = [row["coverage"] for row in rows if row["language"] == "fi"]
    assert found == [expected[512 - 300], 1]
    other = modtok.draft_coverage(model, "fi", data=data, test=data)
    assert other[0]["tokens"] == whole.sum()


def read_sglang(path: Path) -> list[int]:
    """As load_token_map of sglang/srt/speculative/spec_utils.py."""
    return torch.tensor(torch.load(path, weights_only=True), dtype=torch.int64).tolist()


def read_sglang_eagle3(path: Path) -> list[int]:
    """As load_weights of sglang/srt/models/llama_eagle3.py makes hot_token_id; so does vLLM."""
    for name, weight in load_file(path).items():
        if "d2t" in name:
            hot = weight + torch.arange(weight.shape[0])
    return hot.tolist()


def read_training_eagle3(path: Path) -> list[int]:
    """As EAGLE-3's training selects rows of the target by t2d."""
    return torch.arange(PADDED)[load_file(path)["t2d"]].tolist()


def read_llama_cpp(path: Path) -> list[int]:
    """As src/models/eagle3.cpp of llama.cpp, which takes d2t (I64) as rows of the logits."""
    gguf = pytest.importorskip("gguf")
    (tensor,) = gguf.GGUFReader(path).tensors
    assert (tensor.name, tensor.tensor_type) == ("d2t", gguf.GGMLQuantizationType.I64)
    return tensor.data.tolist()


def read_vllm_map(path: Path) -> list[int]:
    """As load_draft_token_map of vllm/v1/spec_decode/draft_vocab.py reads JSON and text."""
    text = path.read_text()
    return json.loads(text) if path.suffix == ".json" else [int(word) for word in text.split()]


def read_speculators(path: Path) -> list[int]:
    """As _load_mappings and load_vocab_mappings of speculators 0.9.0 take and check the files."""
    d2t, t2d = (torch.from_numpy(np.load(path / f"{name}-300.npy")) for name in ("d2t", "t2d"))
    assert (t2d.shape, t2d.dtype, d2t.dtype) == ((PADDED,), torch.bool, torch.long)
    assert int(t2d.sum(dtype=torch.long)) == 300 == d2t.shape[0]
    assert torch.arange(PADDED)[t2d].tolist() == (d2t + torch.arange(300)).tolist()
    return (d2t + torch.arange(300)).tolist()


def read_tensorrt(path: Path) -> list[int]:
    """As core/builder.py of TensorRT-Edge-LLM 0.11.0 checks vocab_map."""
    ids = load_file(path / "vocab_map.safetensors")["vocab_map"]
    assert ids.dtype == torch.int32
    assert ids.ndim == 1
    assert json.loads((path / "reduced_vocab.json").read_text()) == {
        "vocab_size": PADDED, "reduced_vocab_size": 300, "method": "modtok",
    }  # fmt: skip
    return ids.tolist()


def read_executorch(path: Path) -> list[int]:
    """As prune_output_vocab of ExecuTorch 1.5.1 takes rows, and logits go back by the values."""
    rows = {int(row): index for row, index in json.loads(path.read_text()).items()}
    assert [*rows] == [*range(len(rows))]  # so that values are in the order of the rows
    return [*rows.values()]


def read_request(path: Path) -> list[int]:
    """Tokens that fields of a request leave: vLLM's list, llama.cpp's and OpenAI's bias."""
    content = json.loads(path.read_text())
    if "allowed_token_ids" in content:
        return content["allowed_token_ids"]
    bias = content["logit_bias"]
    gone = {int(index) for index in bias} if isinstance(bias, dict) else {each for each, _ in bias}
    return [index for index in range(PADDED) if index not in gone]


@pytest.mark.parametrize(
    ("format", "read", "is_sorted"),
    [
        ("sglang", read_sglang, False),
        ("eagle3", read_sglang_eagle3, True),
        ("eagle3", read_training_eagle3, True),
        ("gguf", read_llama_cpp, True),
        ("json", read_vllm_map, False),
        ("ids", read_vllm_map, False),
        ("speculators", read_speculators, True),
        ("tensorrt-edge-llm", read_tensorrt, True),
        ("executorch", read_executorch, False),
        ("rtp-llm", read_vllm_map, False),  # a flat list: parse_output_tokens, August 2026
        ("vllm", read_request, False),
        ("llama.cpp", read_request, True),
        ("openai", read_request, True),
    ],
)
def test_engines_read_the_lists(
    tmp_path: Path, format: str, read: Callable[[Path], list[int]], is_sorted: bool
) -> None:
    """And so does `read_list`, but for a pickled file."""
    ids = np.random.default_rng(0).permutation(PADDED)[:300].tolist()
    file = tmp_path / f"list{FORMATS[format].suffix}"
    write_list(file, FORMATS[format].content(ids, PADDED))
    expected = sorted(ids) if is_sorted else ids
    assert read(file) == expected
    if format == "sglang":
        with pytest.raises(UsageError, match="reads no pickled file"):
            read_list(file, PADDED)
        return
    assert read_list(file, PADDED).tolist() == expected
    if format == "speculators":
        assert read_list(file / "t2d-300.npy", PADDED).tolist() == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", "is not a list of token ids"),
        ("a.json", "[]", "is not a list of token ids"),
        ("a.txt", "3 7\n3", "names token 3 twice"),
        ("a.json", "[1, 2.5]", "is not a list of token ids"),
        ("a.json", "[1, true]", "is not a list of token ids"),
        ("a.json", '["a"]', "is not a list of token ids"),
        ("a.json", "[1, -2]", "is not a list of token ids"),
        ("a.json", "[1, 9]", "of another vocabulary, which has a token 9; this one has 9 tokens"),
        ("a.json", '{"0": 4, "2": 5}', "is not a list of token ids"),
        ("a.json", '{"0": 4, "1": 4}', "names token 4 twice"),
        ("a.json", '{"logit_bias": [[1, -0.5]]}', "is not a list of token ids"),
        ("a.json", '{"logit_bias": {"a": -100}}', "is not a list of token ids"),
        ("a.json", '{"allowed_token_ids": 3}', "is not a list of token ids"),
        ("a.npy", "?", "is no array of NumPy"),
        ("a.gguf", "?", "is no GGUF file"),
        ("a.safetensors", {"x": np.arange(3)}, "has no d2t and no vocab_map"),
        ("a.safetensors", {"vocab_map": np.ones((2, 2), int)}, "'vocab_map' is I64"),
        ("a.safetensors", {"vocab_map": np.array([1.0])}, "'vocab_map' is F64"),
        ("a.safetensors", {"vocab_map": np.array([1, -1])}, "which has a token -1"),
        ("a.safetensors", {"d2t": np.array([4, 3])}, "'d2t' is not a map into the vocabulary"),
        ("a.npy", np.array([1.5]), "no vector of integers or booleans"),
        ("a.npy", np.zeros(12, bool), "of a vocabulary of 12 tokens, the model has 9"),
        ("a.npy", np.zeros(9, bool), "names no token"),
        ("a.npy", np.array([{}]), "is no array of NumPy"),
        ("empty", None, "has no files vocab_map.safetensors or d2t-N.npy"),
    ],
)
def test_wrong_lists_are_refused(tmp_path: Path, name: str, content: Any, message: str) -> None:
    file = tmp_path / name
    if content is None:
        file.mkdir()
    elif isinstance(content, str):
        file.write_text(content)
    elif isinstance(content, dict):
        save_file({key: torch.as_tensor(each) for key, each in content.items()}, file)
    else:
        np.save(file, content)
    with pytest.raises((ModtokError, UsageError), match=message) as error:
        read_list(file, 9)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_lists_of_other_programs_are_checked_and_completed(place: Path, tmp_path: Path) -> None:
    """By `read`, `must_have` and `multiple`; and measured beside ours."""
    model, data = str(place / "model"), place / "data"
    vocabulary = DraftVocabulary.open(model)
    needed = np.flatnonzero(vocabulary.needed)
    others = np.flatnonzero(vocabulary.tokens & ~vocabulary.needed)
    file, few = tmp_path / "theirs.json", tmp_path / "few.txt"
    theirs = [*others[::-1][:40].tolist(), *needed[1:].tolist()]
    file.write_text(json.dumps(theirs))
    few.write_text(f"{others[-1]} {others[0]}")
    with pytest.warns(ModtokWarning, match=rf"lacks 1 of the {len(needed)} .*is {needed[0]}"):
        assert modtok.tokens(model, read=file) == theirs
    include = tmp_path / "include.txt"
    include.write_text(f"{needed[0]}\n{others[0]}\n")
    found = modtok.tokens(model, read=file, must_have=include, multiple=64)
    assert isinstance(found, list)
    more = sorted({int(needed[0]), int(others[0])} - {*theirs})
    assert found[: len(theirs) + len(more)] == [*theirs, *more]
    rest = [index for index in others.tolist() if index not in {*theirs, *more}]
    assert len(found) % 64 == 0
    assert found[len(theirs) + len(more) :] == rest[: len(found) - len(theirs) - len(more)]
    size = len(needed) + 9
    plain = modtok.tokens(model, "fi,en", data=data, size=size)
    with_few = modtok.tokens(model, "fi,en", data=data, size=size, must_have=few)
    assert isinstance(plain, list)
    assert isinstance(with_few, list)
    wanted = {int(others[-1]), int(others[0])}
    assert {*with_few} == {*needed.tolist()} | wanted | {
        *[index for index in plain if index not in {*needed.tolist()} | wanted][:7]
    }
    with pytest.raises(UsageError, match=rf"{len(needed) + 2} must be in .*must_have lists"):
        modtok.tokens(model, "fi,en", data=data, size=len(needed) + 1, must_have=few)
    rounded = modtok.tokens(model, "fi,en", data=data, size=size, multiple=128)
    assert rounded == modtok.tokens(model, "fi,en", data=data, size=-(-size // 128) * 128)
    rows = modtok.draft_coverage(model, "fi,en", data=data, test=data, read=file)
    counts = vocabulary.count(data, ["en", "fi"])
    for row in rows:
        ids = theirs if row["list"] == "theirs.json" else None
        ids = ids or modtok.tokens(model, "fi,en", data=data, size=len(theirs))
        held = counts[row["language"]][0]
        assert row["coverage"] == held[ids].sum() / held.sum()
    assert [(row["language"], row["list"]) for row in rows] == [
        ("en", "ranked"), ("fi", "ranked"), ("en", "theirs.json"), ("fi", "theirs.json"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="size"):
        modtok.tokens(model, read=file, size=400)
    gap = int(np.flatnonzero(~vocabulary.tokens)[0])
    file.write_text(f"[{gap}]")
    with pytest.raises(UsageError, match=f"names id {gap}, which is no token of"):
        modtok.tokens(model, read=file)


def save_draft(path: Path, tensors: dict[str, Any], **config: Any) -> Path:
    path.mkdir()
    save_file({name: torch.as_tensor(each).clone() for name, each in tensors.items()},
              path / "model.safetensors")  # fmt: skip
    (path / "config.json").write_text(json.dumps({"vocab_size": 40} | config))
    (path / "LICENSE").write_text("a licence")
    return path


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
def test_drafts_lose_output_rows_only(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without torch."""
    rows = np.arange(40 * 4, dtype=np.float32).reshape(40, 4)
    own = np.array([*range(0, 30, 2), 35])  # what the draft of EAGLE-3 has
    d2t, t2d = draft_map(own.tolist(), 40)
    if kind == "eagle3":
        name, given = "lm_head.weight", {"d2t": d2t, "t2d": t2d, "midlayer.x.weight": rows[:16]}
        given["lm_head.bias"] = own.astype(np.float32)
        head, more = rows[own], {"draft_vocab_size": 16, "tie_word_embeddings": False}
    else:
        name, given = "model.layers.9.shared_head.head.weight", {"lm_head.weight": rows + 1}
        head, more, own = rows, {}, np.arange(40)
    given = {"embed_tokens.weight": rows + 5, **given}
    draft = save_draft(tmp_path / "draft", {name: head, **given}, **more)
    wanted = [35, 3, 8, 2]
    for suffix in ("eagle3", "json"):
        file = tmp_path / f"list{FORMATS[suffix].suffix}"
        write_list(file, FORMATS[suffix].content(wanted, 40))
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "torch", None)
            cut = cut_head(draft, file, tmp_path / suffix)
        kept = sorted({*wanted} & {*own.tolist()})
        assert cut.ids.tolist() == kept
        made = load_file(tmp_path / suffix / "model.safetensors")
        assert (made.pop(name).numpy() == rows[kept]).all()
        if kind == "eagle3":
            assert (made.pop("d2t").numpy() + np.arange(len(kept))).tolist() == kept
            assert np.flatnonzero(made.pop("t2d").numpy()).tolist() == kept
            assert made.pop("lm_head.bias").tolist() == kept
        assert {name: each.numpy().tolist() for name, each in made.items()} == {
            name: each.tolist() for name, each in given.items() if name in made
        }
        assert len(made) == len(given) - (3 if kind == "eagle3" else 0)
        config = json.loads((tmp_path / suffix / "config.json").read_text())
        assert (config["vocab_size"], config["draft_vocab_size"]) == (40, len(kept))
        assert json.loads((tmp_path / suffix / "modtok-head.json").read_text())["ids"] == kept
        assert (tmp_path / suffix / "LICENSE").is_file()
    if kind == "mtp":
        with pytest.raises(
            UsageError, match="runs on hidden states of its target: transformers does not open"
        ):
            open_draft(tmp_path / "json")


ROWS = np.arange(40 * 4, dtype=np.float32).reshape(40, 4)
WANTED = [35, 3, 8, 2]
KEPT = sorted(WANTED)


def cut(tmp_path: Path, tensors: dict[str, Any], **config: Any) -> tuple[dict[str, Any], Any, Any]:
    """Tensors and configuration of a draft cut to WANTED, and what the command said."""
    draft, few, said = save_draft(tmp_path / "draft", tensors, **config), tmp_path / "l.txt", Said()
    few.write_text(" ".join(map(str, WANTED)))
    made = cut_head(draft, few, tmp_path / "cut", progress=said)
    assert made.ids.tolist() == KEPT
    tensors = load_file(tmp_path / "cut" / "model.safetensors")
    return tensors, json.loads((tmp_path / "cut" / "config.json").read_text()), said


@pytest.mark.parametrize("names", ["medusa_heads.lm_heads.{}.weight", "{}.1.weight"])
def test_medusa_heads_get_a_map_of_tokens(tmp_path: Path, names: str) -> None:
    """As load_weights of vllm/model_executor/models/medusa.py reads them, 0.8.5 to 0.11.0."""
    heads = {names.format(each): ROWS + each for each in range(3)}
    others = {"0.0.linear.weight": ROWS[:4], "1.0.linear.bias": ROWS[0]}
    made, config, said = cut(tmp_path, heads | others, model_type="medusa")
    assert made["token_map"].tolist() == KEPT
    assert made["token_map"].dtype == torch.long
    assert (config["vocab_size"], config["truncated_vocab_size"]) == (40, 4)
    for name, whole in heads.items():
        logits = torch.full((40,), -torch.inf)
        logits[made["token_map"]] = made[name] @ torch.ones(4)
        assert logits[KEPT].tolist() == whole[KEPT].sum(1).tolist()
    for name, whole in others.items():
        assert (made[name].numpy() == whole).all()
    assert "0.8.5 to 0.11" in said.warnings[0]
    again = tmp_path / "again.txt"  # the map names the rows of a draft that is cut already
    again.write_text("8 35")
    cut_head(tmp_path / "cut", again, tmp_path / "two")
    made = load_file(tmp_path / "two" / "model.safetensors")
    assert made["token_map"].tolist() == [8, 35]
    assert (made[names.format(2)].numpy() == ROWS[[8, 35]] + 2).all()


def test_a_draft_of_dspark_loses_rows_of_its_bias_too(tmp_path: Path) -> None:
    """As vllm/model_executor/models/qwen3_dspark.py reads it, 0.33.0; DFlash is the same without.

    Its configuration is one of speculators, which leaves out a size that is the default.
    """
    own = np.array([*range(0, 30, 2), 35, 3])
    own.sort()
    d2t, t2d = draft_map(own.tolist(), 40)
    given = {
        "lm_head.weight": ROWS[own], "markov_head.markov_w1.weight": ROWS, "fc.weight": ROWS[:17],
        "markov_head.markov_w2.weight": -ROWS[own], "d2t": d2t, "t2d": t2d,
    }  # fmt: skip
    draft = save_draft(tmp_path / "draft", given, draft_vocab_size=17)
    (draft / "config.json").write_text('{"draft_vocab_size": 17, "transformer_layer_config": {}}')
    few = tmp_path / "list.txt"
    few.write_text(" ".join(map(str, WANTED)))
    cut_head(draft, few, tmp_path / "cut")
    made = load_file(tmp_path / "cut" / "model.safetensors")
    assert (made["d2t"] + torch.arange(4)).tolist() == KEPT
    assert torch.arange(40)[made["t2d"]].tolist() == KEPT
    assert (made["lm_head.weight"].numpy() == ROWS[KEPT]).all()
    assert (made["markov_head.markov_w2.weight"].numpy() == -ROWS[KEPT]).all()
    for name in ("markov_head.markov_w1.weight", "fc.weight"):
        assert (made[name].numpy() == given[name]).all()


def test_a_cut_head_is_tied_in_no_part_of_the_configuration(tmp_path: Path) -> None:
    tied = {"tie_word_embeddings": True}
    made, config, _ = cut(tmp_path, {"embed_tokens.weight": ROWS}, **tied, text_config=tied)
    assert (made["lm_head.weight"].numpy() == ROWS[KEPT]).all()
    assert [each["tie_word_embeddings"] for each in (config, config["text_config"])] == [False] * 2


def test_a_draft_of_dflash_with_all_rows_gets_a_map(tmp_path: Path) -> None:
    """Engines read no list beside the weights."""
    made, config, said = cut(tmp_path, {"lm_head.weight": ROWS, "fc.weight": ROWS})
    assert (made["d2t"] + torch.arange(4)).tolist() == KEPT
    assert config["draft_vocab_size"] == 4
    assert not said.warnings


@pytest.mark.parametrize(
    "parts",
    [
        {"weight": ROWS.astype(np.int8), "SCB": ROWS[:, 1]},
        {"weight_packed": ROWS.astype(np.int32), "weight_scale": ROWS[:, :2],
         "weight_shape": np.array([40, 32])},
        {"weight": ROWS.astype(np.uint8), "weight_scale": np.ones(1)},
    ],
)  # fmt: skip
def test_quantized_output_rows_are_cut_with_their_scales(
    tmp_path: Path, parts: dict[str, Any]
) -> None:
    given = {f"lm_head.{name}": part for name, part in parts.items()}
    made, *_ = cut(tmp_path, given | {"fc.weight": ROWS})
    for name, whole in parts.items():
        found = made[f"lm_head.{name}"].numpy()
        if name == "weight_shape":
            assert found.tolist() == [4, 32]
        else:
            assert (found == (whole[KEPT] if len(whole) == 40 else whole)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lm_head.qweight": ROWS}, "'lm_head' is quantized .awq.: its matrix is not cut by rows"),
        ({"lm_head.weight": ROWS.astype(np.uint8), "lm_head.weight.absmax": ROWS[:, 0]},
         "'lm_head.weight.absmax' F32 .40,. is not cut by rows"),
        ({"lm_heads.0.weight": ROWS, "lm_heads.1.weight": ROWS[:9]}, "matrices have 9 and 40 rows"),
        ({"lm_head.weight": ROWS, "refiner_head.readout.weight": ROWS}, "a refiner of X-Press"),
        ({"lm_head.weight": ROWS[:9]}, "the head has 9 rows, config.json says 40"),
        ({"lm_heads.0.weight": ROWS[:9], "token_map": np.arange(9) * 5 - 1}, "'token_map' is not"),
        ({"lm_heads.0.weight": ROWS[:9], "token_map": np.arange(8)}, "'token_map' has 8 ids"),
        ({"fc.weight": ROWS, "embed_tokens.weight": ROWS}, "it uses the target's"),
    ],
)  # fmt: skip
def test_heads_that_cannot_be_cut_are_refused(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    quantized = {"quantization_config": {"quant_method": "awq"}}
    draft, few = save_draft(tmp_path / "draft", given, **quantized), tmp_path / "list.txt"
    few.write_text("3 4")
    with pytest.raises((ModtokError, UsageError), match=message) as error:
        cut_head(draft, few, tmp_path / "o")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("wrong", ["absolute", "never filled"])
def test_a_map_that_contradicts_its_mask_is_refused(tmp_path: Path, wrong: str) -> None:
    """SGLang and vLLM read d2t, training reads t2d: a draft has both, of the same tokens."""
    own = np.array([*range(0, 30, 2), 35])
    d2t = own if wrong == "absolute" else own * 0
    maps = {"d2t": d2t, "t2d": np.isin(np.arange(60), own)}
    head = {"lm_head.weight": np.ones((16, 4), np.float32), "midlayer.x.weight": np.ones((2, 4))}
    draft = save_draft(tmp_path / "draft", {**head, **maps}, vocab_size=60, draft_vocab_size=16)
    few = tmp_path / "list.txt"
    few.write_text("0 4 35")
    with pytest.raises(ModtokError, match="tensors 'd2t' and 't2d' name other tokens: 16 and 16"):
        cut_head(draft, few, tmp_path / "o")
    given = tmp_path / "list.safetensors"
    save_file({name: torch.as_tensor(each) for name, each in maps.items()}, given)
    with pytest.raises(ModtokError, match="name other tokens"):
        read_list(given, 60)


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_a_small_model_gets_a_reduced_head(tmp_path: Path, family: str) -> None:
    """Untied, and tied with an output matrix of its own then: same logits, -inf elsewhere."""
    whole = AutoModelForCausalLM.from_pretrained(build(tmp_path / "model", family))
    (tmp_path / "list.txt").write_text("9\n300\n7\n")
    modtok.slice(tmp_path / "model", head=tmp_path / "list.txt", output=tmp_path / "small")
    text = torch.tensor([[1, 500, 30]])
    with torch.no_grad():
        expected, logits = whole(text).logits, open_draft(tmp_path / "small")(text).logits
    torch.testing.assert_close(logits[..., [7, 9, 300]], expected[..., [7, 9, 300]])
    assert logits.isfinite().sum() == 9
    (tmp_path / "fewer.txt").write_text("300\n7\n")
    modtok.slice(tmp_path / "small", head=tmp_path / "fewer.txt", output=tmp_path / "smaller")
    with torch.no_grad():
        logits = open_draft(tmp_path / "smaller")(text).logits
    torch.testing.assert_close(logits[..., [7, 300]], expected[..., [7, 300]])
    assert logits.isfinite().sum() == 6


def test_tokens_that_a_program_stops_at_or_writes_are_in_every_list(tmp_path: Path) -> None:
    """Of the chat template, the special tokens, config.json and generation_config.json."""
    model = build(tmp_path / "model")
    own = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
    rare = {own.id_to_token(index): index for index in (590, 591, 592, 593)}
    template, stop, more, tool = rare
    sample_text(tmp_path / "data", "en")
    plain = modtok.tokens(model, "en", data=tmp_path / "data", size=300)
    assert isinstance(plain, list)
    assert not {*rare.values()} & {*plain}
    document = json.loads((model / "tokenizer.json").read_text())
    document["added_tokens"].append(
        {"id": rare[template], "content": template, "special": False, "single_word": False,
         "lstrip": False, "rstrip": False, "normalized": False}
    )  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(document))
    (model / "chat_template.jinja").write_text("{{ messages[0].content }}" + template)
    (model / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [2, rare[stop]], "forced_bos_token_id": rare[more]})
    )
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "decoder_start_token_id": rare[tool]}))
    ids = modtok.tokens(model, "en", data=tmp_path / "data", size=300)
    assert {2, *rare.values()} <= {*ids}
    file = tmp_path / "list.txt"
    file.write_text(" ".join(map(str, plain)))
    with pytest.warns(ModtokWarning, match=f"lacks 4 of the .*the first is {min(rare.values())}"):
        modtok.tokens(model, read=file)


class Assisted:
    """Greedy decoding by transformers with a draft: its texts, and tokens of each round."""

    def __init__(self, target: Any, draft: Any) -> None:
        self.target, self.draft = target, draft
        self.rounds: list[tuple[int, int]] = []
        settings = GenerationConfig(do_sample=False, max_new_tokens=32, eos_token_id=[2, END])
        target.generation_config = settings
        draft.generation_config = settings = copy.deepcopy(settings)
        settings.num_assistant_tokens, settings.assistant_confidence_threshold = 4, 0.0
        settings.num_assistant_tokens_schedule = "constant"

    def text(self, ids: list[int], monkeypatch: pytest.MonkeyPatch, **draft: Any) -> list[int]:
        kind = candidate_generator.AssistedCandidateGenerator
        update = kind.update_candidate_strategy
        left = 32

        def updating(this: Any, ids: Any, scores: Any, matches: Any) -> Any:
            nonlocal left
            # This draft stops at an end that it drafts, those of other engines do not.
            self.rounds.append((int(matches), min(4, left - 1)))
            left -= int(matches) + 1
            return update(this, ids, scores, matches)

        start = torch.tensor([ids])
        with monkeypatch.context() as patch:
            patch.setattr(kind, "update_candidate_strategy", updating)
            whole = self.target.generate(start, attention_mask=torch.ones_like(start), **draft)
        return whole[0].tolist()


@pytest.mark.parametrize("family", ["Llama", "Qwen2"])
def test_accepted_tokens_are_those_of_speculative_decoding(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By transformers, with the cut draft; its text is the text without a draft."""
    monkeypatch.setattr("modtok_cli.model.draft.tokens.PROMPTS", 6)
    target, near, data = tmp_path / "model", tmp_path / "near", tmp_path / "data"
    build(target, family)
    shutil.copytree(target, near)
    tensors = load_file(near / "model.safetensors")
    torch.manual_seed(1)
    for name, each in tensors.items():
        tensors[name] = each + 0.02 * each.std() * torch.randn(each.shape)
    save_file(tensors, near / "model.safetensors", {"format": "pt"})
    sample_text(data, "fi", folder="parallel")
    rows = modtok.draft_coverage(target, "fi", data=data, test=data, draft=near)
    lists = tmp_path / "list.json"
    shares: set[float] = set()
    alone: dict[str, list[int]] = {}
    for row in rows:
        ids = modtok.tokens(target, "fi", data=data, size=row["draft_rows"])
        lists.write_text(json.dumps(ids))
        modtok.slice(near, head=lists, output=tmp_path / "cut", force=True)
        by_file = modtok.draft_coverage(
            target, "fi", data=data, test=data, read=lists, draft=tmp_path / "cut"
        )[-1]
        run = Assisted(AutoModelForCausalLM.from_pretrained(target), open_draft(tmp_path / "cut"))
        library = tokenizers.Tokenizer.from_file(str(target / "tokenizer.json"))
        begin = library.encode("").ids[:1]  # <s>, which transformers puts before a text
        lines = (data / "fi.txt").read_text("utf-8").splitlines()[:6]
        for line in lines:
            text = library.encode(line, add_special_tokens=False).ids
            prompt = [*begin, *text[: min(32, len(text) // 2)]]
            if line not in alone:
                alone[line] = run.text(prompt, monkeypatch)
            assert run.text(prompt, monkeypatch, assistant_model=run.draft) == alone[line]
        accepted, drafted = map(sum, zip(*run.rounds, strict=True))
        assert row["accepted"] == by_file["accepted"] == accepted / drafted
        assert row["rounds"] == len(run.rounds)
        assert row["tokens_per_round"] == pytest.approx(1 + accepted / len(run.rounds))
        shares.add(row["accepted"])
    by_language, sizes = tables(rows)[1:]
    assert by_language[0] == "Tokens of a round with drafts of N rows"
    assert by_language[1] == [
        {"language": "fi"} | {str(row["draft_rows"]): row["tokens_per_round"] for row in rows}
    ]
    assert [each["tokens_per_round"] for each in sizes[1]] == [
        row["tokens_per_round"] for row in rows
    ]
    assert len(shares) > 1
    assert 0 < min(shares) < max(shares) < 1


def test_drafts_that_cannot_run_alone_or_have_other_tokens_are_refused(
    place: Path, tmp_path: Path
) -> None:
    model, data = place / "model", place / "data"
    heads = {"lm_head.weight": ROWS, "fc.weight": ROWS}
    eagle = save_draft(tmp_path / "eagle", heads)
    other = build(tmp_path / "other")
    file = other / "tokenizer.json"
    file.write_text(file.read_text().replace("<|im_end|>", "<|other|>"))
    for draft, message in ((eagle, "runs on hidden states"), (other, "which has other tokens")):
        with pytest.raises(UsageError, match=message):
            modtok.draft_coverage(model, "fi", data=data, draft=draft)
    modtok.corpus_count("fi", data=data, output=tmp_path / "counts")
    learned = DraftVocabulary.open(str(place / "learned"))
    with pytest.raises(UsageError, match="word counts have no documents to continue"):
        learned.first_texts(tmp_path / "counts", ["fi"], 3)


def test_errors_name_the_reason(place: Path, tmp_path: Path) -> None:
    model, data = place / "model", place / "data"
    (tmp_path / "few").mkdir()
    (tmp_path / "few" / "fi.txt").write_text("yksi\n")
    (tmp_path / "few" / "fr.txt").write_text("\n")
    short, other, eagle = tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.safetensors"
    short.write_text("1 2")
    other.write_text("1 640")
    write_list(eagle, FORMATS["eagle3"].content([1, 2], 700))
    for call, message in (
        (lambda: modtok.tokens(model, "fi", data=data, size=260), "260 tokens are too few: 261"),
        (lambda: modtok.tokens(model, "fi", data=data, size=603), "has 602 tokens, cannot list"),
        (lambda: modtok.tokens(model, "sv", data=data, size=300), "no text of language 'sv'"),
        (lambda: modtok.tokens(model, "fr", data=tmp_path / "few", size=300), "'fr' is empty"),
        (lambda: modtok.tokens(model, data=data, size=300, mix={"sv": 0.5}), "no text of langu"),
        (lambda: modtok.tokens(model, "fi", data=data, size=300, top=300), "number of all tokens"),
        (lambda: modtok.tokens(model, "fi", data=data, each=True), "lists have no order"),
        (lambda: modtok.draft_coverage(model, "fi", data=tmp_path / "few"), "too few documents"),
        (lambda: cut_head(model, other, tmp_path / "o"), "which has a token 640"),
        (lambda: cut_head(model, eagle, tmp_path / "o"), "vocabulary of 700 tokens"),
        (lambda: cut_head(data, short, tmp_path / "o"), "has no config.json"),
        (lambda: modtok.draft_coverage(place / "learned", "fi", draft=model), "could accept tok"),
        (lambda: modtok.draft_coverage(model, "fi", draft=place / "nope"), "nope: does not exist"),
        (lambda: modtok.draft_coverage(place / "nope", draft=model), "nope: does not exist"),
        (lambda: cut_head(place / "nope", short, tmp_path / "o"), "nope: does not exist"),
    ):  # fmt: skip
        with pytest.raises((UsageError, ModtokError), match=message) as error:
            call()
        assert "\n" not in str(error.value)
    assert not (tmp_path / "o").exists()
