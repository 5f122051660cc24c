"""Questions and their answers by hand, for tests of multiple choice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from modtok_cli.model.generate.sliced_model import SlicedModel

QUESTIONS = {
    "train": [
        {"question": "Qui lit ?", "choices": ["un marin", "un loup"], "answer": 0},
        {"question": "Où est la reine ?", "choices": ["sur le toit", "au centre"], "answer": 1},
    ],
    "test": [
        {"question": "Que faut-il ?", "choices": ["du temps", "du plomb, du bois"], "answer": 0},
        {"question": "Quand ?", "choices": ["le soir", "jamais", "à quatre heures"], "answer": 2},
        {"question": "De quoi ?", "choices": ["de plomb", "d’une quinzaine"], "answer": "de plomb"},
        {"question": "Combien ?", "choices": ["six", "deux", "onze mille", "9"], "answer": 1},
    ],
}
SHOWN = "Question: Qui lit ?\nRéponse: un marin\n\n"


def lay_out(root: Path, task: str, language: str, **files: Sequence[object]) -> Path:
    """DIR/mcq/<task>/<lang>.jsonl, and <lang>.train.jsonl; DIR."""
    folder = root / "mcq" / task
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in files.items():
        name = f"{language}.jsonl" if part == "test" else f"{language}.{part}.jsonl"
        text = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        (folder / name).write_text(text, "utf-8")
    return root


def own_task(root: Path, normalization: str, shots: int = 1) -> None:
    """The task.yaml of a task "own", beside its questions."""
    (root / "mcq" / "own" / "task.yaml").write_text(
        f'task: own\nprompt: "{{Question}}: {{question}}\\n{{Answer}}:"\n'
        f"shots: {shots}\nnormalization: {normalization}\n"
    )


def by_hand(model: SlicedModel, context: str, continuation: str) -> float:
    """Log-likelihood from the logits of one sequence."""
    rows = [model.end_of_text, *model.encode_in(context)]
    tail = model.encode_out(continuation)
    fed = rows + model.vocabularies.row_of_out[tail].tolist()
    logs = model.logits(torch.tensor([fed]))[0].double().log_softmax(-1)
    return sum(float(logs[len(rows) - 1 + n, token]) for n, token in enumerate(tail))
