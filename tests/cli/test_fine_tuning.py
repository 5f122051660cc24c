"""Fine-tuning as other tools do it: graft, PEFT settings and the commands of the guide."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from helpers.documented import joined
from helpers.sample import SAMPLE

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "fine-tuning.md"
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture
def model(workspace: Path) -> Path:
    if not find_spec("transformers"):
        pytest.skip("needs the extra [lm]")
    from helpers.external_models import build

    (workspace / "data").mkdir()
    for language in ("en", "fi", "fr"):
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", workspace / "data")
    return build(workspace / "model", "Qwen2")


def modtok(here: Any, line: str) -> tuple[int, str, str]:
    result: tuple[int, str, str] = here(*line.split())
    return result


def steps_of_the_guide() -> list[str]:
    """Its commands and programs, in order."""
    found: list[str] = []
    program: str | None = None
    for line in joined(PAGE).splitlines():
        if line == "```python":
            program = ""
        elif line == "```" and program is not None:
            found.append(program)
            program = None
        elif program is not None:
            program += line + "\n"
        elif line.startswith("    modtok"):
            found.append(line.strip())
    return found


def test_the_commands_and_programs_of_the_guide_run(
    workspace: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("datasets", "peft", "transformers", "trl"):
        pytest.importorskip(name)
    import torch
    from safetensors.torch import load_file

    from helpers.external_models import build

    (workspace / "data").mkdir()
    (workspace / "chats").mkdir()
    model = build(workspace / "model", "Qwen2")
    (model / "chat_template.jinja").write_text(TEMPLATE)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (model / "tokenizer_config.json").write_text(json.dumps({**settings, "pad_token": "<pad>"}))
    for language in ("en", "fi", "fr"):
        shutil.copy(SAMPLE / "data" / f"{language}.jsonl", workspace / "data")
        lines = (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()[:40]
        (workspace / f"{language}.txt").write_text("\n".join(lines[:5]), "utf-8")
    talks = [
        {
            "messages": [
                {"role": "user", "content": text[:20]},
                {"role": "assistant", "content": text},
            ]
        }
        for text in lines
    ]
    (workspace / "chats" / "fi.jsonl").write_text("\n".join(map(json.dumps, talks)))
    (workspace / "modtok.toml").write_text("[pretrain]\nworkers = 0\nseq_length = 32\n")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    names: dict[str, Any] = {}
    for step in steps_of_the_guide():
        if step.startswith("modtok"):
            line = re.sub(r"-k \d+", "-k 600", step)
            status, _, err = here(*shlex.split(line)[1:])
            assert status == 0, f"{line}: {err}"
        else:
            exec(re.sub(r"max_steps=\d+", "max_steps=2", step), names)
    # The slice of the result is what PEFT merged, and conversations trained the whole model.
    assert here("slice", "finnish", "--langs", "fi", "-o", "again")[0] == 0
    merged, again = (load_file(f"{each}/model.safetensors") for each in ("merged", "again"))
    assert merged.keys() == again.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in merged.items())
    before, after = (load_file(f"{each}/model.safetensors") for each in ("model", "chat"))
    table = "model.embed_tokens.weight"
    changed = (before[table] != after[table]).any(1)
    assert 0 < int(changed.sum()) < len(changed)
