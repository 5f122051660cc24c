"""Multiple choice: questions per second of our class and lm-eval's HFLM.

    python -m benchmarks evaluation CORPUS [--langs en,fi,fr,...] [-k 24000] [--model tiny]

CORPUS/<lang>.jsonl.zst is what the tokenizer is learned on; the model is a step old, since time
does not depend on what it knows. Questions are made of the sample's parallel lines: how does a
line go on, four choices, 5 shots unless said. Both classes read what `modtok slice` wrote, the
same task, the same batch; they take turns, and medians are given, with the processor's seconds
too, since other jobs may run (load: of the last minute). "nats": the largest difference of a
log-likelihood. JSON lines.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import SAMPLE, emit


def questions(language: str, count: int) -> tuple[list[Any], list[Any]]:
    """(asked, shown): halves of lines, the choices from four lines each."""
    from modtok_cli.evaluate.questions import Question

    lines = (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()
    halves = []
    for line in lines:
        words = line.split(" ")
        halves.append((" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])))
    made = []
    for place, (begin, _) in enumerate(halves):
        others = dict.fromkeys(halves[(place + step) % len(halves)][1] for step in (0, 17, 41, 83))
        made.append(Question(str(place), begin, tuple(others), 0))
    return made[5 : 5 + count], made[:5]


def prepare(options: argparse.Namespace, work: Path) -> Path:
    """A run, one step old."""
    from modtok_cli.construct.bpe_seq import bpe_seq
    from modtok_cli.training.loop import pretrain
    from modtok_cli.training.settings import RunSettings

    languages = options.langs.split(",")
    bpe_seq(languages, data=options.corpus, output=work / "tokenizer", k=options.k)
    pretrain(
        RunSettings(
            model=options.model, sampling="none", langs=(options.language,),
            data=SAMPLE / "data", tokenizer=work / "tokenizer", runs=work / "runs",
            workers=0, steps=1, batch_size=1, micro_batch=1, seq_length=512, name="it",
        )
    )  # fmt: skip
    return work / "runs" / "it"


def measure(options: argparse.Namespace, path: Path, name: str) -> dict[str, Any]:
    from lm_eval.models.huggingface import HFLM

    from modtok_cli.evaluate.cloze import ClozeTask
    from modtok_cli.evaluate.lm import ModtokLM
    from modtok_cli.evaluate.suite import Suite
    from modtok_cli.inference.load import load

    suite = Suite("lines", "{Question}: {question}\n{Answer}:", options.shots, "characters")
    model = load(path)
    sides: dict[str, Any] = {
        "ours": ModtokLM(model, batch_size=options.batch_size),
        "theirs": HFLM(
            pretrained=str(path), batch_size=options.batch_size, device=str(model.device)
        ),
    }
    asked = questions(options.language, options.questions)
    spent: dict[str, list[float]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}
    found = {}
    for turn in range(options.turns + 1):
        for side, lm in sides.items():
            task = ClozeTask(suite, options.language, *asked)
            task.build_all_requests()
            for request in task.instances if side == "theirs" else ():
                context, continuation = request.arguments
                request.arguments = ("<|endoftext|>" + context, continuation)
            wall, cpu = time.perf_counter(), time.process_time()
            found[side] = lm.loglikelihood(task.instances, disable_tqdm=True)
            if turn:  # the first pays for allocations
                spent[side].append(time.perf_counter() - wall)
                processor[side].append(time.process_time() - cpu)
    apart = max(
        abs(one[0] - other[0]) for one, other in zip(found["ours"], found["theirs"], strict=True)
    )
    count = len(asked[0])
    return {
        "what": "loglikelihood",
        "vocabulary": name,
        "tokens": model.tokenizer_out.size,
        "model": options.model,
        "device": model.device.type,
        "questions": count,
        "shots": options.shots,
        "batch": options.batch_size,
        **{f"{side}_per_s": round(count / median(spent[side]), 2) for side in sides},
        **{f"{side}_cpu_s": round(median(processor[side]), 2) for side in sides},
        "ratio": round(median(spent["theirs"]) / median(spent["ours"]), 2),
        "cpu_ratio": round(median(processor["theirs"]) / median(processor["ours"]), 2),
        "nats": float(f"{apart:.1e}"),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--langs", default="el,en,fi,fr,ne,sw")
    parser.add_argument("--language", default="fi")
    parser.add_argument("-k", type=int, default=24_000)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
    from modtok_cli.inference.slice.slice import slice as slice_model

    with tempfile.TemporaryDirectory() as work:
        run = prepare(options, Path(work))
        for name, languages in ((options.language, [options.language]), ("full", "full")):
            path = Path(work) / f"slice-{name}"
            slice_model(run, languages, output=path)
            emit(measure(options, path, name))


if __name__ == "__main__":
    main()
