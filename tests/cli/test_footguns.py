"""Every warning and refusal of warnings.md, produced by the command in its row."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from helpers import fake_slurm
from helpers.external_tokenizers import external_tokenizer, sentencepiece_model
from helpers.hf_models import save_model
from helpers.sample import SAMPLE, needs, sample_text
from helpers.small_run import run_settings
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.training import loop, metrics
from modtok_cli.training.loop import pretrain

PAGE = Path(__file__).with_name("warnings.md").read_text("utf-8").partition("refusals\n")[2]
ROWS = [
    [re.findall("`(.+?)`", cell.replace(r"\|", "|")) for cell in re.split(r"(?<!\\)\|", row)[1:3]]
    for row in PAGE.splitlines()[5:]
]
SETTINGS = """
[bpe]
k = 300
[bpe-merge]
k = 300
output = "merged"
[unigram-merge]
k = 300
output = "united"
[corpus.build]
output = "built"
[slice]
output = "sliced"
[graft]
output = "grafted"
[pretrain]
model = "toy-small"
steps = 6
"""
pytestmark = needs("transformers", "py3langid", "megatron")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, tokenizers, runs and models, each with what the page names."""
    root = tmp_path_factory.mktemp("footguns")
    texts = {
        "fr.txt": "un chat\n",
        "names/fr.txt": "un chat\n",
        "names/french.txt": "un chat\n",
        "splits/fi.train.txt": "koira\n",
        "splits/fi.test.txt": "koira\n",
        "splits/fin_Latn_removed/a.txt": "koira\n",
        "splits/notes.pdf": "",
        "fields.fr.jsonl": '{"text": "un chat"}\n{"content": "un chien"}\n',
        "words/fr.txt": "un chat " + "x" * 70_000,
        "tables/fr.counts.tsv": "chat\t4\n",
        "modtok.toml": SETTINGS,
        "talks/fr.jsonl": json.dumps({"messages": [
            {"role": "user", "content": "?"}, {"role": "assistant", "content": "a<|im_end|>"}
        ]}) + "\n",
        "adapter/adapter_config.json": "{}",
        "eagle/config.json": '{"vocab_size": 602}',
        "ids.json": "[1, 2]",
    }  # fmt: skip
    sample_text(root / "data", "en", "fr")
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    with (root / "long.fr.txt").open("wb") as file:
        file.truncate(2**28 + 1)
    (root / "pieces").mkdir()
    lines = (SAMPLE / "parallel" / "fr.txt").read_text("utf-8").splitlines()
    options = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    pieces = sentencepiece_model(lines, vocab_size=3000, split_by_whitespace=False, **options)
    for language in ("en", "fr"):
        (root / "pieces" / f"{language}.model").write_bytes(pieces)
    bpe_seq(data=root / "data", output=root / "tokenizer", k=400)
    turns = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe_seq(data=root / "data", output=root / "turns", k=400, specials=turns)
    for name, seed in (("it", 0), ("other", 1)):
        pretrain(run_settings(root, name, seed=seed))
    shutil.copytree(root / "runs" / "it", root / "runs" / "torn")
    (root / "runs/torn/checkpoints/step-00000008/shard-0-of-1.safetensors").write_bytes(b"")
    slice_model(root / "runs" / "it", ["fr"], output=root / "part")
    slice_model(root / "runs" / "it", inputs=["en", "fr"], outputs=["fr"], output=root / "two")
    save_model("llama", root / "hf", external_tokenizer("byte-level"), rows=602)
    kinds: dict[str, dict[str, Any]] = {
        "sliding": {"model_type": "mistral", "sliding_window": 8},
        "yarn": {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
        "quantized": {"quantization_config": {"quant_method": "awq"}},
        "more": {},
    }
    for name, fields in kinds.items():
        shutil.copytree(root / "hf", root / name)
        config = json.loads((root / name / "config.json").read_text())
        (root / name / "config.json").write_text(json.dumps(config | fields))
    tokenizer = json.loads(external_tokenizer("byte-level"))
    tokenizer["added_tokens"].append(
        tokenizer["added_tokens"][-1] | {"id": 602, "content": "<mine>"}
    )
    (root / "more" / "tokenizer.json").write_text(json.dumps(tokenizer))
    save_file({"fc.weight": torch.zeros(4, 8)}, root / "eagle" / "model.safetensors")
    return root


def _live(call: Callable[..., Any], place: Path, patch: pytest.MonkeyPatch) -> None:
    """Jobs that wait."""
    patch.setenv("PATH", str(fake_slurm.install(place / "slurm")), prepend=":")
    (place / "slurm" / "held").touch()
    options = ["--executor-option", "partition=p", "--executor-option", "time=1:00:00"]
    status, _, err = call("corpus", "count", "--executor", "slurm", "-o", "jobs", *options)
    assert status == 75, err


def _jump(call: Callable[..., Any], place: Path, patch: pytest.MonkeyPatch) -> None:
    """The losses of step 5 are three times as large."""
    whole = loop.train_step

    def spiking(run: Any, model: Any, feed: Any, step: int) -> Any:
        def finished(before: float) -> Any:
            line, ended = finish(before)
            for figures in line["languages"].values() if step == 5 else ():
                figures["nats_per_token"] *= 3
            return line, ended

        finish = whole(run, model, feed, step)
        return finished

    patch.setattr(loop, "train_step", spiking)
    patch.setattr(metrics, "_LEAST", 1)


def _settings(call: Callable[..., Any], place: Path, patch: pytest.MonkeyPatch) -> None:
    settings = place / "modtok.toml"
    settings.unlink()  # linked to the world's
    settings.write_text("[bpe]\nforce = true\n")


BEFORE = {"jobs": _live, "spike": _jump, "modtok.toml": _settings}


@pytest.mark.parametrize(("situation", "lines"), ROWS, ids=lambda cell: " ".join(cell)[:40])
def test_the_command_says_the_line(
    situation: list[str],
    lines: list[str],
    world: Path,
    workspace: Path,
    here: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shutil.copytree(world, workspace, copy_function=os.link, dirs_exist_ok=True)
    words = shlex.split(situation[-1])
    for name, prepare in BEFORE.items():
        if name in [*situation, *words]:
            prepare(here, workspace, monkeypatch)
    _, _, err = here(*words)
    for line in lines:
        pattern = ".*".join(map(re.escape, line.split("…")))
        assert re.search(f"^modtok: .*{pattern}$|^{pattern}$", err, re.MULTILINE), err
