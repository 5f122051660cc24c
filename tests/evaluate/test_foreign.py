"""Models of other programs: the likelihoods of lm-eval's own class, for each kind of tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import tokenizers
import transformers
from lm_eval.models.huggingface import HFLM
from tokenizers import decoders, models, normalizers, processors

from helpers.external_tokenizers import SPECIALS, external_tokenizer
from helpers.handmade_tokenizers import write_text
from helpers.sample import SAMPLE
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree
from modtok_cli.evaluate.bits import compare_directories
from modtok_cli.evaluate.evaluate import evaluate_bpb
from modtok_cli.evaluate.lm import ModtokLM
from modtok_cli.measure.texts import load_texts
from modtok_cli.model.load import load, open_model
from modtok_cli.text.reading import Reading

from .test_mcq import request

LINES = (SAMPLE / "parallel" / "fr.txt").read_text("utf-8").splitlines()[:60]
BEGIN = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
PAIRS = [
    ("Question: Où ?\nAnswer:", " le roi"),
    ("Question: Où ?\nAnswer:", " dans la maison rouge"),
    ("Question: Où ?\nAnswer: ", "le roi"),
    ("Le", "ur maison"),  # inside a word
    ("<s>Le roi", " dort"),  # it begins the text already
    ("", "Le roi"),
]


def tokenizer_of(kind: str) -> tokenizers.Tokenizer:
    """A tokenizer of one kind; that of GPT-2 puts nothing before a text, the others <s>."""
    if kind == "prepend":  # Llama 2
        made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        made.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=300, special_tokens=SPECIALS, show_progress=False
        )
        made.train_from_iterator([word for line in LINES for word in line.split()], trainer)
    else:
        made = tokenizers.Tokenizer.from_buffer(external_tokenizer(kind))
    made.post_processor = None if kind == "byte-level" else BEGIN
    return made


def save(path: Path, kind: str, rows: Callable[[int], int], **settings: Any) -> Path:
    """A random model with such a tokenizer."""
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of(kind), bos_token="<s>", eos_token="</s>", pad_token="</s>",
        unk_token="<unk>", **settings,
    )  # fmt: skip
    tokenizer.save_pretrained(path)
    transformers.set_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=rows(len(tokenizer)), hidden_size=32, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
    model.save_pretrained(path)
    return path


@pytest.mark.parametrize("padding", [0, 64])
@pytest.mark.parametrize("kind", ["byte-level", "unigram", "prepend"])
def test_likelihoods_of_lm_eval(tmp_path: Path, kind: str, padding: int) -> None:
    path = save(tmp_path / "model", kind, lambda size: size + padding)
    ours = ModtokLM(load(path), batch_size=4)
    theirs = HFLM(pretrained=str(path), batch_size=1, device="cpu")
    asked = [request("loglikelihood", *pair) for pair in PAIRS]
    expected = theirs.loglikelihood(asked, disable_tqdm=True)
    found = ours.loglikelihood(asked)
    assert [nats for nats, _ in found] == pytest.approx([nats for nats, _ in expected], abs=1e-3)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    assert open_model(path).begins == ("none" if kind == "byte-level" else "<s>")
    # A choice that the context has no space for with what precedes it.
    context, choice = "a " * 100, " b"
    assert not ours.fits(context, [choice])


def test_settings_of_transformers_decide_what_begins_a_text(tmp_path: Path) -> None:
    """They take precedence over what tokenizer.json does."""
    path = save(tmp_path / "none", "prepend", int, add_bos_token=False)
    model = load(path)
    assert open_model(path).begins == "none"
    assert model.prompt("Le roi") == model.encode_in("Le roi")
    assert model.prompt("") == [1]
    path = save(tmp_path / "some", "byte-level", int, add_bos_token=True)
    assert load(path).prompt("Le roi")[0] == 1


def test_unknown_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A count and a warning; no bits where they are more than 1% of the tokens or bytes."""
    path = save(tmp_path / "model", "unigram", int)
    lines = {"some": [*LINES[:40], "Le roi dort, 日."], "much": [LINES[0], "日本語の文です。" * 20]}
    files = write_text(tmp_path, fr=LINES[:40])
    for name, text in lines.items():
        files += [tmp_path / f"{name}.fr.txt"]
        files[-1].write_text("".join(f"{line}\n" for line in text), "utf-8")
    progress = Silent()
    found = evaluate_bpb(path, files, progress=progress)
    _, some, much = found.rows
    assert [row["unknown_tokens"] for row in found.rows] == [0, 1, 1]  # one for a run of them
    assert [row["bits_per_byte"] is None for row in found.rows] == [False, False, True]
    bits = ("bits_per_byte", "low", "high", "bits_per_character", "bits_per_token")
    assert {much[name] for name in bits} == {None}
    assert {row["id"].rpartition("/")[2].partition(":")[0] for row in found.examples} == {
        "fr.txt",
        "some.fr.txt",
    }
    assert len(progress.warnings) == 2
    assert f"1 unknown tokens stand for 3 of {some['bytes']:,} bytes" in progress.warnings[0]
    assert "bits per byte would be too few and are left out" in progress.warnings[1]
    # Tables, charts and what they say about the rows.
    place = ["--plot", str(tmp_path / "bits.svg"), "--table"]
    assert run(command_tree(), ["eval", "bpb", str(path), *map(str, files), *place]) == 0
    assert run(command_tree(), ["eval", "bpb", str(path), str(files[2]), "--plot", "-"]) == 0
    assert "much.fr.txt" in capsys.readouterr().out
    # What a slice or graft changes: not measured where either side cannot write the text.
    texts = load_texts(files, language=None, references=None, keep_documents=True,
                       reading=Reading(), progress=SILENT)  # fmt: skip
    rows = compare_directories(path, path, texts)
    assert [row["change"] for row in rows] == [0.0, 0.0, None]
    assert [row["full_unknown_tokens"] for row in rows] == [0, 1, 1]


def test_text_that_is_dropped(tmp_path: Path) -> None:
    """A BPE model without an unknown token and without bytes has no token for it."""
    document = orjson.loads(tokenizer_of("prepend").to_str())
    document["model"]["unk_token"] = None
    path = save(tmp_path / "model", "prepend", int)
    (path / "tokenizer.json").write_bytes(orjson.dumps(document))
    (file,) = write_text(tmp_path, fr=["Le roi 日本 dort"])
    progress = Silent()
    (row,) = evaluate_bpb(path, file, progress=progress).rows
    assert (row["unknown_tokens"], row["bits_per_byte"]) == (0, None)
    assert "no token stands for 6 of 18 bytes" in progress.warnings[0]
