"""Training on conversations: the ids and answers of transformers' chat templates, in the loss."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.microbatches import packer
from helpers.text_store import text_store
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.export.export import export
from modtok_cli.model.slice.graft import graft
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.hf_directory import TEMPLATES, write_hf_directory
from modtok_cli.training import step
from modtok_cli.training.data.conversation import MARK, ChatFormat, chat_format, pieces
from modtok_cli.training.data.sampling import Regime
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.loop import pretrain
from modtok_cli.training.rows.microbatch import Prefetcher
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE

transformers = pytest.importorskip("transformers")
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}{{ m.content }}"
    "<|im_end|>{% endif %}\n{% endfor %}"
)


@pytest.fixture(scope="module")
def chat_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chat") / "tokenizer"
    bpe_seq(("en", "fi"), data=SAMPLE, output=path, k=600, specials=SPECIALS, references=False)
    return path


@pytest.fixture(scope="module")
def subsets(chat_tokenizer: Path) -> SubtokenizerCache:
    return SubtokenizerCache.load(chat_tokenizer)


@pytest.fixture(scope="module")
def theirs(subsets: SubtokenizerCache, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tokenizer of Finnish in transformers."""
    path = tmp_path_factory.mktemp("theirs") / "fi"
    write_hf_directory(path, subsets.of(("fi",)).to_json(), chat_template="chatml")
    return transformers.AutoTokenizer.from_pretrained(path)


def format_of(subsets: SubtokenizerCache, name: str = "chatml") -> ChatFormat:
    template = MARKED if name == "marked" else TEMPLATES[name][2]
    return ChatFormat(template, {"eos_token": "<|im_end|>"}, tuple(subsets.specials))


def talk(*texts: str) -> list[dict[str, str]]:
    return [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]


def read(subsets: SubtokenizerCache, store: TextStore, length: int, rows: int) -> list[Any]:
    one = packer(subsets, {"fi": store}, regime=Regime.parse("none"), length=length)
    return [one.batch(step) for step in range(1, rows + 1)]


# A token may not span the begin of an answer, which transformers encodes with what is before it.
TEXTS = st.text(st.sampled_from("aeiknoäö .,?!\n€😀"), min_size=1, max_size=40).filter(
    lambda text: text[0].isalpha()
)


def test_columns_hold_conversations(subsets: SubtokenizerCache, tmp_path: Path) -> None:
    """The documents of JSON lines; a list of messages is no text without a template."""
    rows = [{"messages": talk("a", "b", "c\nd")}, {"messages": None}, {"messages": talk("e", "f")}]
    (tmp_path / "fi.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "fi.parquet")
    with pa.ipc.new_stream(tmp_path / "fi.arrow", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "fi.csv").write_text("messages\nhello\n")
    reading = Reading(field="messages", renderer=format_of(subsets))
    read = {
        name: [each.text for each in read_documents(tmp_path / f"fi.{name}", reading)]
        for name in ("jsonl", "parquet", "arrow")
    }
    assert len(read["jsonl"]) == 2
    assert read["parquet"] == read["arrow"] == read["jsonl"]
    with pytest.raises(ModtokError, match=r"fi\.csv:2: field 'messages' is no conversation"):
        list(read_documents(tmp_path / "fi.csv", reading))
    with pytest.raises(ModtokError, match=r"not a string; .* pretrain --chat-template"):
        list(read_documents(tmp_path / "fi.parquet", Reading(field="messages")))


@pytest.mark.parametrize("template", ["chatml", "headers", "marked"])
@settings(max_examples=15, deadline=None)
@example(conversations=[["a  a"], ["a"]])
@given(conversations=st.lists(st.lists(TEXTS, min_size=1, max_size=5), min_size=2, max_size=3))
def test_ids_and_answers_are_those_of_transformers(
    template: str,
    conversations: list[list[str]],
    subsets: SubtokenizerCache,
    theirs: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("property")
    chat = format_of(subsets, template)
    lines = [{"messages": talk(*texts)} for texts in conversations]
    (place / "fi.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    reading = Reading(field="messages", renderer=chat)
    store = text_store("fi", [place / "fi.jsonl"], place / "cache", reading=reading)
    expected, answers = [], []
    for number in (store.training_document(position, 3) for position in range(2)):
        found = theirs.apply_chat_template(
            lines[number]["messages"], chat_template=chat.template, return_dict=True,
        )["input_ids"]  # fmt: skip
        text = theirs.apply_chat_template(
            lines[number]["messages"], chat_template=chat.template, tokenize=False
        )
        encoding = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
        assert encoding["input_ids"] == found
        mask = spans_of(lines[number]["messages"], text, encoding["offset_mapping"])
        if template == "marked":
            assert mask == theirs.apply_chat_template(
                lines[number]["messages"], chat_template=MARKED, return_dict=True,
                return_assistant_tokens_mask=True,
            )["assistant_masks"]  # fmt: skip
        expected += [*found, theirs.convert_tokens_to_ids("<|endoftext|>")]
        answers += [*mask, 0]
    end, at = expected[-1], 0
    # Several batches, which begin inside of conversations. The rest of a character, or of a run of
    # spaces and marks, is segmented by itself at the begin of a batch.
    texts = [text for texts in conversations for text in texts]
    count = 8 if all(text.isascii() and not re.search("[^a-z]{2}", text) for text in texts) else 1
    size = len(expected) // count
    for batch in read(subsets, store, size, count) if size else []:
        # A batch begins after an end of text, which is not repeated.
        at += int(at > 0 and expected[at] == end)
        ids, marks = batch.targets.ravel().tolist(), np.ones(size)
        if batch.in_loss is not None:
            marks = batch.in_loss.ravel()
        left = min(size, len(expected) - at)
        assert ids[:left] == expected[at : at + left]
        assert marks.astype(int).tolist()[:left] == answers[at : at + left]
        at += left
        if left < size:
            break


def spans_of(
    messages: list[dict[str, str]], text: str, offsets: list[tuple[int, int]]
) -> list[int]:
    """The obvious way: find each message in the text, and the token that ends its turn."""
    mask, at = [0] * len(offsets), 0
    for message in messages:
        start = text.index("\n" + message["content"] + "<|", at) + 1
        at = text.index("|>", start) + 2
        if message["role"] == "assistant":
            for index, (first, last) in enumerate(offsets):
                mask[index] |= int(first < at and last > start)
    return mask


def test_a_long_conversation_is_encoded_once(
    subsets: SubtokenizerCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = format_of(subsets)
    line = {"messages": talk(*(f"kala number {number}" for number in range(150)))}
    (tmp_path / "fi.jsonl").write_bytes(2 * (orjson.dumps(line) + b"\n"))  # one is held out
    reading = Reading(field="messages", renderer=chat)
    store = text_store("fi", [tmp_path / "fi.jsonl"], tmp_path / "cache", reading=reading)
    size, encode, spent = len(store.document(0)), SubtokenizerCache.encode, [0]

    def counting(self: Any, subtokenizer: Any, parts: Any, *dropout: Any) -> Any:
        spent[0] += sum(len(part.text) for part in parts)
        return encode(self, subtokenizer, parts, *dropout)

    whole = read(subsets, store, 1_200, 1)[0].targets.ravel().tolist()
    monkeypatch.setattr(SubtokenizerCache, "encode", counting)
    batches = read(subsets, store, 16, 75)
    assert [int(one) for batch in batches for one in batch.targets.ravel()] == whole
    assert spent[0] < 3 * size


def test_each_part_of_a_format_changes_its_key(subsets: SubtokenizerCache) -> None:
    """The key is part of the name of unpacked text."""
    chat = format_of(subsets)
    others = [
        replace(chat, template=chat.template + " "),
        replace(chat, variables={"eos_token": "x"}),
        replace(chat, specials=chat.specials[1:]),
    ]
    assert len({each.key for each in (chat, *others)}) == 4


def test_what_templates_and_conversations_may_not_do(subsets: SubtokenizerCache) -> None:
    chat = format_of(subsets)
    for value, message in (
        ("text", "field 'messages' is no conversation; a conversation is a list such as"),
        ([{"content": "?"}], "is no conversation"),
        (talk("a", "b<|im_end|>c"), r"contains '<\|im_end\|>', a special token"),
        ([{"role": "user"}], r"the chat template fails \(UndefinedError"),
    ):
        with pytest.raises(ModtokError, match=message):
            chat(value, "fi.jsonl:3")
    for template, message in (
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{% for m in messages %}{{ loop.length }}{{ m.content }}{% endfor %}", "changes what is"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{# nothing #}", "writes nothing"),
    ):
        with pytest.raises(ModtokError, match=message) as caught:
            replace(chat, template=template)(talk("a", "b"), "fi.jsonl:3")
        assert caught.value.where == "fi.jsonl:3"
    no_answer = chat(talk("a"), "")
    assert no_answer.startswith(MARK)
    assert not any(piece.in_loss for piece in pieces(no_answer, subsets.pattern))
    with pytest.raises(UsageError, match=r"no special token <.*learn it with --special '<"):
        chat_format("chatml", ("<|endoftext|>",), "<|endoftext|>", model=None, run=None)
    with pytest.raises(UsageError, match="needs a Hugging Face model"):
        chat_format("model", (), "", model=None, run=None)
    with pytest.raises(UsageError, match="'nothing' does not exist"):
        chat_format("nothing", (), "", model=None, run=None)


def expected_line(batches: list[Batch], losses: list[torch.Tensor]) -> dict[str, Any]:
    """The obvious way: every token that is in the loss, one by one."""
    nats: list[float] = []
    by_language: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    for batch, nll in zip(batches, losses, strict=True):
        marks = np.ones_like(batch.targets) if batch.in_loss is None else batch.in_loss
        language = batch.draw.language
        sizes[language] = sizes.get(language, 0) + batch.bytes
        for target, mark, loss in zip(batch.targets.flat, marks.flat, nll.tolist(), strict=True):
            nats += [loss] if mark else []
            if mark and target != batch.end_of_text:
                by_language.setdefault(language, []).append(loss)
    figures = {
        language: {"nats_per_token": np.mean(every), "tokens": len(every), "bytes": sizes[language],
                   "bits_per_byte": np.sum(every) / np.log(2) / sizes[language]}
        for language, every in by_language.items()
    }  # fmt: skip
    bits = [each["bits_per_byte"] for each in figures.values()]
    return {"loss": np.mean(nats), "bits_per_byte": np.mean(bits), **figures}


def test_a_run_on_conversations_and_text(
    chat_tokenizer: Path,
    subsets: SubtokenizerCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Finnish conversations beside English text; a resumed run repeats the uninterrupted one."""
    (tmp_path / "data").mkdir()
    texts = [orjson.loads(line)["text"] for line in (SAMPLE / "fi.jsonl").read_bytes().splitlines()]
    lines = [{"messages": talk(text[:40], text[40:200])} for text in texts if len(text) > 60]
    (tmp_path / "data" / "fi.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    english = "\n\n".join(
        orjson.loads(line)["text"] for line in (SAMPLE / "en.jsonl").read_bytes().splitlines()
    )
    (tmp_path / "data" / "en.txt").write_text(english, "utf-8")
    options = RunSettings(
        model="tiny", layers=1, hidden_size=16, ffn=16, heads=2, kv_heads=1, sampling="none",
        data=tmp_path / "data", tokenizer=chat_tokenizer, runs=tmp_path / "runs", workers=0,
        steps=4, batch_size=4, micro_batch=2, seq_length=64, eval_bytes=600, eval_every=4,
        save_every=2, name="chat", chat_template="chatml", mix={"en": 0.4},
    )  # fmt: skip
    whole_step, whole_gradients, seen = Prefetcher.step, step.mean_gradients, []

    def stepped(feed: Prefetcher, number: int) -> Any:
        seen.append([whole_step(feed, number), None])
        return seen[-1][0]

    def gradients(*given: Any) -> Any:
        found = whole_gradients(*given)
        seen[-1][1] = found.losses
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Prefetcher, "step", stepped)
        patch.setattr(step, "mean_gradients", gradients)
        report = pretrain(options)
    assert {row["language"] for row in report.rows()} == {"en", "fi"}
    read_lines = (report.output / "metrics.jsonl").read_bytes().splitlines()
    metrics = [orjson.loads(line) for line in read_lines]
    steps = [line for line in metrics if "draws" in line]
    assert all(np.isfinite(line["loss"]) and line["loss"] < 10 for line in steps)
    for line, (now, losses) in zip(steps, seen, strict=True):
        expected = expected_line(now.batches, losses)
        found = {"loss": line["loss"], "bits_per_byte": line["bits_per_byte"], **line["languages"]}
        assert found.keys() == expected.keys()
        for name, figures in expected.items():
            assert found[name] == pytest.approx(figures, rel=1e-5), name
    # Text that is in the loss as a whole ends with a token that has no bytes.
    every = [line for line in steps if sum(f["tokens"] for f in line["languages"].values()) < 256]
    assert every
    shutil.rmtree(report.output / "checkpoints" / "step-00000004")
    shutil.copytree(report.output, tmp_path / "again")
    pretrain(RunSettings(runs=tmp_path / "runs").changed(name="chat"), resume=True)
    repeated = (report.output / "metrics.jsonl").read_bytes().splitlines()
    for before, after in zip(read_lines, repeated, strict=True):
        one, other = orjson.loads(before), orjson.loads(after)
        assert {**one, "time": 0} == {**other, "time": 0}
    slice_model(report.output, "fi", output=tmp_path / "fi")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "fi")
    assert "<|im_start|>assistant" in tokenizer.apply_chat_template(
        talk("Hei"), tokenize=False, add_generation_prompt=True
    )
    generation = orjson.loads((tmp_path / "fi" / "generation_config.json").read_bytes())
    stops = tokenizer.convert_ids_to_tokens(generation["eos_token_id"])
    assert sorted(stops) == ["<|endoftext|>", "<|im_end|>"]
    # Neither a GGUF file of the run or of the slice loses the template, nor what is grafted.
    gguf = pytest.importorskip("gguf")
    turn = tokenizer.convert_tokens_to_ids("<|im_end|>")
    for model, langs in ((report.output, "fi"), (tmp_path / "fi", None)):
        file = tmp_path / f"{model.name}.gguf"
        export(model, file, languages=langs, inexact=True)
        fields = gguf.GGUFReader(file).fields
        assert fields["tokenizer.chat_template"].contents() == tokenizer.chat_template
        assert fields["tokenizer.ggml.eot_token_id"].contents() == turn
        assert fields["tokenizer.ggml.eos_token_id"].contents() == generation["bos_token_id"]
    graft(tmp_path / "fi", report.output, output=tmp_path / "grafted")
    slice_model(tmp_path / "grafted", "fi", output=tmp_path / "again-fi")
    for name in ("chat_template.jinja", "generation_config.json", "model.safetensors"):
        assert (tmp_path / "again-fi" / name).read_bytes() == (tmp_path / "fi" / name).read_bytes()
