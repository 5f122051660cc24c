"""The scripts of examples/paper on the sample text: each finds what it made, and draws a figure."""

from __future__ import annotations

import importlib
import json
import runpy
import struct
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

import modtok_cli as modtok
from helpers.fasttext_files import write_model
from helpers.handmade_tokenizers import write_plain
from helpers.sample import ROOT, SAMPLE, needs
from modtok_cli.corpus.quality import QualityModel
from modtok_cli.model.cost import timing

PAPER = ROOT / "examples" / "paper"
APART = ("common", "figures", "models", "train_quality")
TIMED = "inference_time"  # whose rows differ each time
SCRIPTS = sorted(path.stem for path in PAPER.glob("*.py") if path.stem not in APART)
TRAINED = {
    path.stem for path in PAPER.glob("*.py") if "training(__doc__)" in path.read_text("utf-8")
}
SETTINGS = {
    "model": "tiny", "layers": 1, "hidden_size": 32, "ffn": 32, "heads": 1, "kv_heads": 1,
    "seq_length": 256, "batch_size": 2, "micro_batch": 2, "steps": 2, "warmup": 0, "workers": 0,
    "eval_bytes": 500,
}  # fmt: skip
FEW = {
    "nsl_bpe": "--joint 900 --budgets 400",
    "nsl_unigram": "--joint 900 --budgets 400",
    "nsl_frequency": "--joint 900 --top 300",
    "orders": "--orders 2",
    "growth": "--orders 2",
    "concatenation": "--sets 2 --orders 2",
    "parameters": "--scales 0.5b",
    "inference_time": "--scales tiny --lines 1 --joint 900 --budgets 400 --unigram",
    "regimes": "--regimes baseline joint none",
    "summarization": "--regimes none",
    "translation_pairs": "--regimes baseline",
    "more_languages": "--regimes none --sizes 2 --draws 1",
    "probability": "--p 1",
    "offload": "--regimes none",
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@needs("megatron", "lm_eval", "matplotlib")
@pytest.mark.parametrize("name", SCRIPTS)
def test_script(
    name: str, work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = SAMPLE / ("tasks" if name in TRAINED else "parallel")
    line = [name, str(SAMPLE / "data"), str(texts), str(work), "--langs", "en,fi", "-k", "500"]
    if name in TRAINED:
        shots = {"limit": 1, "shots": 0, "max_tokens": 2}
        line += ["--settings", json.dumps(SETTINGS), "--eval", json.dumps(shots)]
    monkeypatch.setattr(sys, "argv", [*line, *FEW.get(name, "").split()])
    monkeypatch.syspath_prepend(str(PAPER))
    monkeypatch.setattr(timing, "packed", partial(timing.packed, context=64))
    drawn, printed = work / name / f"{name}.svg", []
    for _ in range(1 if name == TIMED else 2):
        runpy.run_path(str(PAPER / f"{name}.py"), run_name="__main__")
        rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
        printed.append((rows, drawn.read_bytes()))
    assert printed[0] == printed[-1]
    assert rows
    assert all(len(row) > 1 for row in rows)
    picture = ElementTree.fromstring(printed[0][1])
    assert not {"nan", "inf"} & set(" ".join(picture.itertext()).lower().split())
    assert len(picture.findall(".//*[@id='legend_1']")) == 1
    # Each point is a marker.
    assert [each for each in picture.iter() if each.tag.endswith("}use")]
    assert {path.name for path in work.iterdir()} <= {*SCRIPTS, "models"}
    if name == "sampled_languages":  # two languages have no sub:2
        assert [row["regime"] for row in rows] == ["Baseline", "Samp_Sub1", "Samp_Full"]
    if name == "regimes":
        runs = [
            work / "models" / "runs" / f"unigram-500{each}-joint-seed-0"
            for each in ("-baseline", "")
        ]
        made = [modtok.load(run / "tokenizer") for run in runs]
        assert [each.algorithm for each in made] == ["unigram", "unigram-merge"]
        assert made[0].full().size == made[1].full().size


def test_a_token_of_a_concatenation_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ab first, "abc" is [ab, c] though abc is in the vocabulary; the other way it is one."""
    monkeypatch.syspath_prepend(str(PAPER))
    concatenated = importlib.import_module("common").concatenated
    write_plain(tmp_path / "1.json", [(b"a", b"b")])
    write_plain(tmp_path / "2.json", [(b"b", b"c"), (b"a", b"bc")])
    for order, pieces in (("12", ["ab", "c"]), ("21", ["abc"])):
        (tmp_path / "whole.json").write_text(concatenated(tmp_path, order), "utf-8")
        made = modtok.load(tmp_path / "whole.json")
        assert made.size == 259
        assert [made.decode([index]) for index in made.encode("abc")] == pieces


def test_scripts_are_short_and_use_the_public_api_only() -> None:
    assert FEW.keys() <= set(SCRIPTS)
    for path in PAPER.glob("*.py"):
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= (105 if path.stem in APART else 75), path
        assert "modtok_cli." not in text, path
    table = (PAPER / "README.md").read_text("utf-8")
    assert [name for name in SCRIPTS if f"`{name}.py`" not in table] == []


@needs("fasttext")
def test_quality_classifier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is that of fastText; the trainer, which tests do not install, is a stand-in."""
    words = {"river": "good", "council": "good", "login": "bad", "cart": "bad"}
    trained: list[str] = []

    class Model:
        def save_model(self, path: str) -> None:
            data = write_model(Path(path), words, ["good", "bad"]).read_bytes()
            Path(path).write_bytes(data[:52] + struct.pack("<2i", 1, 1) + data[52:])

    def train(path: str, **_: object) -> Model:
        trained.extend(Path(path).read_text("utf-8").splitlines())
        return Model()

    monkeypatch.setitem(sys.modules, "floret", SimpleNamespace(train_supervised=train))
    both = "The same on both sides, and so it teaches nothing at all. " * 2
    for name, word in (("good", "river council"), ("bad", "login cart")):
        texts = [f"{word} {n} " * 12 for n in range(20 if name == "good" else 60)]
        rows = [json.dumps({"text": text}) + "\n" for text in (*texts, texts[0], both, "short")]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    line = ["x", f"{tmp_path}/q.bin", "--good", f"{tmp_path}/good.jsonl"]
    monkeypatch.setattr(sys, "argv", [*line, "--bad", f"{tmp_path}/bad.jsonl"])
    runpy.run_path(str(PAPER / "train_quality.py"), run_name="__main__")
    row = json.loads(capsys.readouterr().out)
    assert row == {"good": 20, "bad": 60, "precision": 1.0, "recall": 1.0, "auc": 1.0}
    assert trained.count(min(trained)) in (1, 3)
    sides = [
        sum(line.startswith(f"__label__{side}") for line in trained) for side in words.values()
    ]
    assert sides[::2] == [17 * 3, 53]
    assert not any("teaches" in line for line in trained)
    assert QualityModel(tmp_path / "q.bin").score("River council") > 0.99
