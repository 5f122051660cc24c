"""What the scripts share: arguments, rows, and tokenizers of a script's directory in WORK."""

import argparse
import json
import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import modtok_cli as modtok

warnings.filterwarnings("ignore", message=".*is (already )?finished")
PROGRESS = modtok.CommandProgress()
EUROPE = "bg,cs,da,de,el,en,es,et,fi,fr,hu,it,lt,lv,nl,pl,pt,ro,sk,sl,sv"


def parser(text: str | None, langs: str = EUROPE) -> argparse.ArgumentParser:
    """Arguments of every script: DATA is learned from, TEXTS are measured."""
    made = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    made.add_argument("data", type=Path, help="text to learn from: DATA/fi.jsonl.zst, ...")
    made.add_argument("texts", type=Path, help="text to measure: TEXTS/fi.txt, ...")
    made.add_argument("work", type=own, help="directory of directories, one for each script")
    made.add_argument("--langs", default=langs, type=lambda value: value.split(","))
    made.add_argument("-k", default=24000, type=int, help="tokens of a language")
    made.add_argument("--seed", default=0, type=int)
    return made


def own(value: str) -> Path:
    """The directory of this script."""
    return Path(value) / Path(sys.argv[0]).stem


def training(text: str | None) -> argparse.ArgumentParser:
    """Arguments of scripts that train: TEXTS are tasks, as `modtok eval fetch` writes them."""
    made = parser(text)
    made.add_argument("--settings", default={}, type=json.loads, help="JSON: of RunSettings")
    made.add_argument("--eval", default={}, type=json.loads, help="JSON: such as limit, shots")
    made.add_argument("--tasks", default=None, help="names of multiple-choice tasks")
    made.add_argument("--bpe", action="store_true", help="sequential BPE, not merged Unigram")
    return made


def emit(rows: list[dict[str, Any]], *fields: str, **facts: Any) -> list[dict[str, Any]]:
    """Print rows as JSON lines and return them: `facts`, then those fields of each row."""
    shown = [facts | {name: row[name] for name in fields if name in row} for row in rows]
    for row in shown:
        print(json.dumps(row), flush=True)
    return shown


def texts(options: argparse.Namespace, langs: Any = ()) -> list[Path]:
    """The test texts of languages."""
    return [options.texts / f"{language}.txt" for language in langs or options.langs]


def sequential(options: argparse.Namespace, k: int = 0) -> Path:
    """Sequential BPE of all languages, alphabetical, with references of k tokens."""
    output: Path = options.work / f"bpe-seq-{k or options.k}"
    modtok.bpe_seq(
        options.langs, data=options.data, output=output, k=k or options.k, progress=PROGRESS
    )
    return output


def orders(options: argparse.Namespace, number: int) -> Iterator[tuple[list[str], Path, Any]]:
    """Orders of the languages, alphabetical at first: sequential BPE of each, and its report."""
    draw, order = random.Random(options.seed), sorted(options.langs)
    for each in range(number):
        output: Path = options.work / f"order-{options.seed}-{each}"
        report = modtok.bpe_seq(
            order, order="given", data=options.data, output=output, k=options.k, references=False,
            progress=PROGRESS,
        )  # fmt: skip
        yield order, output, report
        order = draw.sample(order, len(order))


def joint(options: argparse.Namespace, size: int, learn: Any = modtok.bpe) -> Path:
    """An ordinary tokenizer of all languages, BPE or Unigram."""
    output: Path = options.work / f"{learn.__name__}-joint-{size}"
    learn(options.langs, data=options.data, output=output, k=size, joint=True, progress=PROGRESS)
    return output


def concatenated(references: Path, languages: Sequence[str]) -> str:
    """The tokenizer.json of the first language, with what it lacks of each further one appended.

    With a+b → ab in the first, and b+c → bc, a+bc → abc in the second, "abc" becomes [ab, c]: the
    token abc exists but cannot be formed. Sequential BPE avoids this.
    """
    files = [json.loads((references / f"{each}.json").read_text("utf-8")) for each in languages]
    whole = files[0]["model"]
    del whole["modtok"]  # languages and signature, which are no longer true
    present = set(map(tuple, whole["merges"]))
    for each in (file["model"] for file in files[1:]):
        for token in sorted(each["vocab"], key=each["vocab"].__getitem__):
            whole["vocab"].setdefault(token, len(whole["vocab"]))
        whole["merges"] += [pair for pair in each["merges"] if tuple(pair) not in present]
        present |= set(map(tuple, each["merges"]))
    return json.dumps(files[0], ensure_ascii=False)
