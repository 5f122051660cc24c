"""Attacks by settings files, external tokenizers and terminal escapes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from benchmarks.robustness.engine.arena import Arena, attack

TRAINING = (
    "pretrain -t bpe --langs en,fi --model tiny --sampling none --steps 1 --batch-size 2 "
    "--micro-batch 1 --seq-length 32 --workers 0"
)
PRETRAIN = TRAINING.split()
EVAL = ["eval", "mcq", "runs/tiny", "--tokenizer", "bpe", "--langs", "en", "--limit", "2"]
OSC = "\x1b]52;c;ZXZpbA==\x07"  # writes into the clipboard of a terminal


def rows_of(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith(b"{")]


def settings(arena: Arena, text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    (arena.place / "modtok.toml").write_bytes(data)


# Settings files


@attack("settings")
def include_in_settings(arena: Arena) -> None:
    """modtok.toml names a folder of lm-eval tasks with `!function`"""
    tasks(arena)
    settings(arena, '[eval.mcq]\ninclude = "evil"\n')
    arena.modtok(*EVAL, "--tasks", "evil", seconds=300)
    arena.check(not (arena.place / "executed").exists(), "code of the folder was run")


@attack("settings")
def include_on_the_command_line(arena: Arena) -> None:
    """--include of a folder with `!function`, without a flag that allows code"""
    tasks(arena)
    done = arena.modtok(*EVAL, "--tasks", "evil", "--include", "evil", seconds=300)
    arena.check(not (arena.place / "executed").exists(), "code of the folder was run")
    arena.check(done.status in (1, 2), "it was not refused")


def tasks(arena: Arena) -> None:
    folder = arena.place / "evil"
    folder.mkdir()
    (folder / "evil.py").write_text("open('executed', 'w').close()\ndef f(doc):\n    return 'x'\n")
    (folder / "evil.yaml").write_text(
        "task: evil\ndataset_path: json\ndataset_kwargs:\n  data_files: evil/d.jsonl\n"
        "test_split: train\noutput_type: multiple_choice\ndoc_to_text: !function evil.f\n"
        "doc_to_target: 0\ndoc_to_choice: ['a', 'b']\nmetric_list:\n  - metric: acc\n"
    )
    (folder / "d.jsonl").write_text('{"q": "x"}\n')


@attack("settings")
def force_and_output_in_settings(arena: Arena) -> None:
    """modtok.toml says force = true and an output outside the workspace"""
    victim = arena.place.parent / "victim.json"
    victim.write_text("precious")
    for output in (str(victim), "../victim.json"):
        settings(arena, f'[extract]\nforce = true\noutput = "{output}"\n')
        done = arena.modtok("extract", "-t", "bpe", "--langs", "fi")
        arena.check(victim.read_text() == "precious", f"{output} was overwritten")
        arena.check(done.status != 0 or b"{" in done.out, "done without a word")
    victim.unlink()


@attack("settings")
def outputs_in_settings(arena: Arena) -> None:
    """modtok.toml puts a plot, runs or a tokenizer outside the workspace"""
    outside = arena.place.parent / "outside"
    shutil.rmtree(outside, ignore_errors=True)
    for table, words in {
        f'[nsl]\nplot = "{outside}/n.svg"\n': "nsl -t bpe parallel/en.txt",
        f'[bpe]\noutput = "{outside}/t"\n': "bpe --langs en -k 300",
        f'[corpus.count]\noutput = "{outside}/c"\n': "corpus count --langs en",
        f'[pretrain]\nruns = "{outside}/runs"\n': " ".join(PRETRAIN),
    }.items():
        settings(arena, table)
        arena.modtok(*words.split())
        arena.check(not outside.exists(), f"{table!r} was written")


@attack("settings")
def settings_that_are_no_settings(arena: Arena) -> None:
    """modtok.toml with 5,000 brackets, a number of 100,000 digits, a link to /dev/zero, a typo"""
    for text in (
        "a = " + "[" * 5000 + "]" * 5000,
        "[bpe]\nk = " + "9" * 100_000,
        "[bpe]\nk = 99999999999999999999\n",
        b'[bpe]\ndata = "\xff\xfe"\n',
        f'[bpe]\ndata = "{OSC!r}"\n{OSC} = 1\n',
        "[bpe\n",
    ):
        settings(arena, text)
        done = arena.modtok("bpe", "--langs", "en", "-o", "t")
        arena.check(done.status == 2, f"{text[:20]!r}: status {done.status}")
        found = arena.modtok("doctor", seconds=300)
        arena.check(found.status in (0, 1), f"doctor: status {found.status} with {text[:20]!r}")
        arena.check(b"numpy" in found.out + found.err, "doctor was stopped by modtok.toml")
    (arena.place / "modtok.toml").unlink()
    (arena.place / "modtok.toml").symlink_to("/dev/zero")
    arena.modtok("bpe", "--langs", "en", "-k", "300", "-o", "t")


# External tokenizers


@attack("external tokenizers")
def stored_truncation_padding_dropout(arena: Arena) -> None:
    """A tokenizer.json that stores truncation, padding or dropout is counted without them"""
    text = arena.place / "parallel" / "en.txt"
    for name in ("external.json", "bpe.json"):
        plain = json.loads((arena.place / name).read_bytes())
        cut = {"direction": "Right", "max_length": 16, "strategy": "LongestFirst", "stride": 0}
        pad = {
            "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<|pad|>",
        }  # fmt: skip
        noisy = {**plain, "model": {**plain["model"], "dropout": 0.5}}
        changes = {"truncation": {**plain, "truncation": cut}, "padding": {**plain, "padding": pad}}
        right = measured(arena, name, text)
        for what, document in {**changes, "dropout": noisy}.items():
            (arena.place / "changed.json").write_text(json.dumps(document))
            for turn in range(2 if what == "dropout" else 1):
                found = measured(arena, "changed.json", text)
                arena.check(found == right, f"{name}, {what}, {turn}: other numbers")


def measured(arena: Arena, tokenizer: str, text: Path) -> dict[str, Any]:
    """Tokens of a text by every command that counts them."""
    ids = arena.line(f"encode -t {tokenizer} {text}")
    found: dict[str, Any] = {"ids": [row["ids"] for row in rows_of(ids.out)]}
    for command in ("nsl --references bpe/references", "corpus stats",
                    "cost --references bpe/references"):  # fmt: skip
        done = arena.line(f"{command} -t {tokenizer} {text} --json")
        found[command] = [row["tokens"] for row in rows_of(done.out)]
        arena.check(bool(found[command]), f"{command}: {done.error}")
    return found


@attack("external tokenizers")
def pattern_of_ours_in_a_bpe_file(arena: Arena) -> None:
    """A byte-level BPE file with our Unigram pattern gives the ids of the `tokenizers` library"""
    from tokenizers import Tokenizer

    plain = json.loads((arena.place / "bpe.json").read_bytes())
    pieces = json.loads((arena.place / "unigram.json").read_bytes())
    text = json.dumps(pieces.get("pre_tokenizer"))
    splits = [part for part in _dicts(json.loads(text)) if part.get("type") == "Split"]
    document = json.loads(json.dumps(plain))
    for part in _dicts(document["pre_tokenizer"]):
        if part.get("type") == "Split" and splits:
            part["pattern"] = splits[0]["pattern"]
    (arena.place / "mixed.json").write_text(json.dumps(document))
    line = "L'homme, 12 345 mots — déjà !  «Ça» va?  don't"
    done = arena.modtok("encode", "-t", "mixed.json", stdin=line.encode())
    library = Tokenizer.from_file(str(arena.place / "mixed.json"))
    right = library.encode(line, add_special_tokens=False).ids
    (row,) = rows_of(done.out)
    arena.check(row["ids"] == right, f"{row['ids']} for {right}")


def _dicts(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict):
        return [node, *(each for value in node.values() for each in _dicts(value))]
    if isinstance(node, list):
        return [each for value in node for each in _dicts(value)]
    return []


# Escapes


@attack("escapes")
def names_with_escapes(arena: Arena) -> None:
    """File, tokenizer and run names with OSC 52, in tables, captions, errors and progress"""
    text = arena.place / f"en{OSC}.txt"
    shutil.copy(arena.place / "parallel" / "en.txt", text)
    shutil.copytree(arena.place / "bpe", arena.place / f"bpe{OSC}")
    for words in (
        ["nsl", "-t", f"bpe{OSC}", text.name, "--lang", "en"],
        ["nsl", "-t", "bpe", text.name, "--lang", "en", "--plot", "-"],
        ["corpus", "stats", text.name, "--lang", "en"],
        ["inspect", "-t", f"bpe{OSC}"],
        ["encode", "-t", f"missing{OSC}"],
        ["bpe", "--langs", "en", "-k", "300", "-o", f"out{OSC}"],
        [*PRETRAIN, "--name", f"run{OSC}"],
    ):
        arena.modtok(*words, terminal=True)


@attack("escapes")
def tokens_with_escapes(arena: Arena) -> None:
    """Tokens that hold OSC 52: `inspect --find`, `encode --tokens` on a terminal, the plot"""
    (arena.place / "evil").mkdir()
    (arena.place / "evil" / "en.txt").write_text(f"word{OSC} {OSC} x\n" * 400)
    arena.modtok("bpe-seq", "--data", "evil", "--langs", "en", "-k", "290", "-o", "evil-t")
    (arena.place / "evil.txt").write_text(f"word{OSC} {OSC}\n")
    for words in (
        ["inspect", "-t", "evil-t", "--find", "52"],
        ["inspect", "-t", "evil-t", "--find", "]"],
        ["inspect", "-t", "evil-t"],
        ["corpus", "stats", "--data", "evil", "--langs", "en"],
        ["origin", "-t", "evil-t", "evil.txt", "--lang", "en", "--plot", "-"],
    ):
        arena.modtok(*words, terminal=True)


@attack("escapes")
def report_of_hostile_names(arena: Arena) -> None:
    """A report over names with quotes, semicolons, tags and escapes"""
    results = arena.place / "results"
    results.mkdir()
    row = (arena.place / "shown" / "results" / "nsl.jsonl").read_bytes()
    (results / f"x; touch executed; '\"<script>{OSC}.jsonl").write_bytes(row)
    shutil.copytree(arena.place / "runs" / "tiny", arena.place / "runs" / "a; touch executed")
    arena.modtok("report", "-o", "names.html", terminal=True)
    page = arena.place / "names.html"
    html = page.read_text()
    arena.check("<script>" not in html, "a tag of a name is in the page")
    arena.check("\x1b" not in html, "an escape of a name is in the page")
    arena.check("runs/a; touch" not in html or "'runs/a; touch" in html, "an unquoted command")
