"""Every example of every help and man page runs, as written, in a workspace that holds its files.

Only sizes differ: vocabularies, steps and model sizes stand below in `SMALL`. What needs a cluster,
eight GPUs, an hour or the hub is checked as far as its words (`CLUSTER`).
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from helpers.documented import code_lines
from helpers.python_processes import SOCKET, server
from helpers.sample import ROOT, SAMPLE, needs
from helpers.shell import shell
from modtok_cli.base.extras import EXTRAS
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes
from modtok_cli.model.cost import timing

TREE = {node.path: node for node in nodes(command_tree())}
FLAGS = {path: {f for line in node.lines for f in line.flags} for path, node in TREE.items()}
LANGUAGES = ("en", "fi", "fr")
CLUSTER = re.compile(r"--executor slurm|--gpus 8(?!.*--dry-run)|eval fetch")
SMALL = (
    (r"--size \d+", "--size 400"),
    ("modtok serve", "modtok serve --offload --prepare"),
    ("--port 8080", "--port 0"),
    (r"-k \d+", "-k 600"),
    (r"(modtok extract .*)--top \d+", r"\1--top 300"),
    (r"--steps \d+", "--steps 2"),
    (r"(modtok cost .*)--model \S+", r"\1--model tiny"),
    (r"--superwords \d+", "--superwords 100"),
    (r"sub:[2-9]", "sub:2"),  # of three languages
    (r"--seeds [\d,]+", "--seeds 0"),
    (r"--limit \d+", "--limit 2"),
)
SETTINGS = """
[default]
k = 600
[pretrain]
workers = 0
steps = 3
batch_size = 16
seq_length = 32
eval_every = 3
[generate]
max_tokens = 4
[cost]
model = ["tiny"]
limit = 1
[eval.bpb]
limit = 2
[eval.compare]
limit = 2
[eval.mcq]
limit = 2
[eval.mt]
limit = 2
max_tokens = 4
[eval.sum]
limit = 2
max_tokens = 4
"""


def examples(path: tuple[str, ...]) -> list[str]:
    """The lines of a command's examples, without comments, continued lines joined."""
    text = inspect.cleandoc(TREE[path].command.epilog or "").replace("\\\n", " ")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


COMMANDS = [path for path in TREE if examples(path)]


REPLACING = "|".join(" ".join(path) for path, flags in FLAGS.items() if "--force" in flags)


def small(line: str) -> str:
    for pattern, replacement in SMALL:
        line = re.sub(pattern, replacement, line)
    if "--force" in line:
        return line
    return re.sub(rf"modtok ({REPLACING})(?![\w-])(?! (-h|--help)\b)", r"\g<0> --force", line)


def must(*words: str) -> None:
    assert run(command_tree(), words) == 0, words


def skip_without(*modules: str) -> None:
    for name in modules:
        if not find_spec(name):
            pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every example may find: text in all forms, tokenizers of all kinds."""
    from modtok_cli.construct.bpe import bpe
    from modtok_cli.construct.bpe_seq import bpe_seq
    from modtok_cli.construct.unigram import unigram
    from modtok_cli.construct.unigram_merge import unigram_merge

    place = tmp_path_factory.mktemp("base")
    (place / "modtok.toml").write_text(SETTINGS)
    (place / "data").mkdir()
    (place / "results").mkdir()
    parallel = {name: (SAMPLE / "parallel" / f"{name}.txt") for name in LANGUAGES}
    for name, text in parallel.items():
        shutil.copy(SAMPLE / "data" / f"{name}.jsonl", place / "data")
        for folder in ("", "texts", "flores", "flores/dev", "flores/devtest"):
            (place / folder).mkdir(exist_ok=True)
            shutil.copy(text, place / folder / f"{name}.txt")
    shutil.copy(parallel["fr"], place / "flores.txt")
    shutil.copy(parallel["fr"], place / "text.txt")
    shutil.copy(parallel["fr"], place / "news.fr.txt")
    shutil.copy(SAMPLE / "data" / "sw.jsonl", place / "stories.jsonl")
    data = place / "data"
    bpe_seq(data=data, output=place / "tokenizer", k=600)
    bpe_seq(("en", "fi"), data=data, output=place / "other-tokenizer", k=500)
    bpe(data=data, output=place / "bpe-joint", k=900, joint=True)
    bpe(("en",), data=data, output=place / "plain", k=500)
    shutil.copy(place / "plain" / "en.json", place / "gemma.json")
    unigram_merge(data=data, output=place / "unigram-merged", k=500, iterations=1)
    unigram(("en", "fi"), data=data, output=place / "models", k=500)
    shutil.copy(place / "models" / "en.model", place / "other.model")
    ranks = [bytes([b]) for b in range(256)] + [b"th", b"the", b" t", b" the"]
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks)]
    (place / "llama3.tiktoken").write_bytes(b"".join(lines))
    (place / "fi.tsv").write_text("talossa\ttalo|ssa\n")
    (place / "families.tsv").write_text("en\tEuropean\nfr\tEuropean\nfi\tEuropean\n")
    (place / "recipe.toml").write_text('[data]\nsampling = "sub:1"\n')
    prompts = [{"prompt": "Kirjasto"}, {"prompt": "La ville"}]
    (place / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    return place


def swedish(place: Path) -> None:
    """A further language; made up, since its words do not matter here."""
    text = (place / "data" / "fi.jsonl").read_text(encoding="utf-8")
    (place / "data" / "sv.jsonl").write_text(text.translate(str.maketrans("kiu", "göå")))


def packed(place: Path) -> None:
    import zstandard

    raw = (place / "data" / "fi.jsonl").read_bytes()
    (place / "fi.jsonl.zst").write_bytes(zstandard.compress(raw))
    (place / "data" / "fr.jsonl.zst").write_bytes(
        zstandard.compress((place / "data" / "fr.jsonl").read_bytes())
    )
    (place / "data" / "fr.jsonl").unlink()
    shutil.copy(place / "flores.txt", place / "stories.txt")


def crawl(place: Path) -> None:
    """Pages of the sample text as a crawl has them, and a classifier."""
    from helpers.crawl import compressed, http, page, paragraphs, record
    from helpers.fasttext_files import write_model

    skip_without("datatrove", "fastwarc")
    (place / "crawl").mkdir()
    for name in LANGUAGES:
        pages = [paragraphs(name)[n : n + 5] for n in range(0, 15, 5)]
        records = [
            record(http(page(p)), f"http://example.org/{name}/{n}") for n, p in enumerate(pages)
        ]
        content = b"".join(compressed(one, "gz") for one in records)
        (place / "crawl" / f"{name}.warc.gz").write_bytes(content)
    write_model(place / "quality.bin", {"the": "good", "buy": "bad"}, ["good", "bad"])


MADE: list[Path] = []


def equipped(place: Path) -> None:
    """A run, a published model, slices of both, and what they are evaluated on.

    Made once, then copied.
    """
    skip_without("megatron", "lm_eval")
    from helpers.external_models import build

    if MADE:
        shutil.copytree(MADE[0], place, symlinks=True, dirs_exist_ok=True)
        return
    build(place / "model")
    must("adopt", "model", "-o", "adopted")
    must("tokens", "model", "--langs", "fi,en", "--size", "400", "-o", "fi-en.txt")
    must("slice", "model", "--langs", "fr", "-o", "part")
    must("pretrain", "--sampling", "sub:2", "--seq-length", "128")
    must("slice", "runs/latest", "--langs", "fr,en", "-o", "fr-en/")
    for slice, output in (("fr-en", "merged"), ("part", "tuned")):
        (place / output).mkdir()
        for name in ("config.json", "model.safetensors"):  # as a trainer saves them
            shutil.copy(place / slice / name, place / output)
    tasks = place / "tasks"
    for folder in ("mt", "sum", "mcq/arc_easy", "mcq/hellaswag"):
        (tasks / folder).mkdir(parents=True)
    for name in LANGUAGES:
        shutil.copy(place / "data" / f"{name}.jsonl", place)
        shutil.copy(place / f"{name}.txt", tasks / "mt")
        for part in (".jsonl", ".train.jsonl"):
            shutil.copy(SAMPLE / "tasks" / "sum" / f"{name}{part}", tasks / "sum")
            for ours, suite in (("facts", "arc_easy"), ("endings", "hellaswag")):
                rows = SAMPLE / "tasks" / "mcq" / ours / f"{name}.jsonl"  # enough for 5 shots
                shutil.copy(rows, tasks / "mcq" / suite / f"{name}{part}")
    shutil.copytree(tasks / "sum", place / "wikilingua")
    rows = [(place / f"{name}.txt").read_text("utf-8").split("\n") for name in ("en", "fr")]
    lines = ["en\tfr", *map("\t".join, zip(*rows, strict=True))]
    (place / "news.tsv").write_text("\n".join(lines[:9]) + "\n", encoding="utf-8")
    MADE.append(place.parent / "made")
    shutil.copytree(place, MADE[0], symlinks=True)


def drafted(place: Path) -> None:
    """As `equipped`, with a model for drafts."""
    equipped(place)
    shutil.copytree(place / "model", place / "draft")


def growing(place: Path) -> None:
    """As `equipped`, with the model's tokenizer grown."""
    equipped(place)
    must("bpe-seq", "--append", "fi", "-t", "model", "-k", "20", "-o", "grown")


def published(place: Path) -> None:
    """A Unigram tokenizer of another program."""
    from helpers.external_tokenizers import external_tokenizer

    (place / "xlm-roberta").mkdir()
    (place / "xlm-roberta" / "tokenizer.json").write_bytes(external_tokenizer("unigram"))


MODELS = {
    "adopt", "tokens", "generate", "serve", "graft", "transplant", "export", "cost", "eval",
}  # fmt: skip
SETUP = {
    **{path: equipped for path in COMMANDS if MODELS & {*path}},
    ("slice",): drafted,
    ("transplant",): growing,
    ("unigram-merge",): published,
    ("tokens",): drafted,
    ("pretrain",): lambda _: skip_without("megatron"),
    ("corpus", "build"): crawl,
    ("corpus", "count"): lambda _: skip_without("datatrove"),
    ("corpus", "stats"): packed,
    ("extract",): packed,
    ("bpe-seq",): swedish,
    ("bpe-merge",): swedish,
}


def workspace(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of `base` to work in, where commands may write the same output more than once."""
    place = tmp_path / "workspace"
    shutil.copytree(base, place)
    shutil.copytree(base, tmp_path / "home" / "languages")
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(timing, "packed", partial(timing.packed, context=64))
    for name in os.environ:
        if name.startswith("MODTOK_"):
            monkeypatch.delenv(name)
    return place


ABSENT = [name for names in EXTRAS.values() for name in names]
BLOCKED = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.fixture(scope="module")
def no_extras(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A server of processes in which the packages of extras are not installed."""
    server()  # of the other processes: its variable is there to be restored
    place = tmp_path_factory.mktemp("absent")
    (place / "sitecustomize.py").write_text(BLOCKED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{place}:{os.environ['PYTHONPATH']}")
        patch.delenv(SOCKET, raising=False)
        return server()


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: "-".join(path) or "modtok")
def test_examples_run(
    path: tuple[str, ...], base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    no_extras: str,
) -> None:  # fmt: skip
    """Without extras, or they say what to install, and run where it is.

    On real inputs: what is imported late must be told as what is imported first.
    """
    place = workspace(base, tmp_path, monkeypatch)
    SETUP.get(path, lambda _: None)(place)
    for line in examples(path):
        if CLUSTER.search(line):
            words = shlex.split(line)[1:]
            named = path if tuple(words[: len(path)]) == path else tuple(words[:1])
            assert {word for word in words if word.startswith("-")} <= FLAGS[named], line
            continue
        if path == ("bpe-seq",) and "--append" in line:  # to a tokenizer that lacks Swedish
            shutil.rmtree(place / "tokenizer")
            shutil.copytree(base / "tokenizer", place / "tokenizer")
        done = shell(small(line), place, no_extras)
        status, said = done.returncode, done.stderr
        if "pip install 'modtok[" in said:
            assert not re.search("internal error|Traceback", said), f"{line}\n{said}"
            status, said = tried(small(line), place)
        assert status == 0, f"{line}\n{said}"


def sampled(place: Path) -> None:
    """What README.md uses: the sample text alone, and a published model."""
    from helpers.external_models import build

    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    must("sample", "written")
    for path in (place / "written").iterdir():
        path.rename(place / path.name)
    (place / "written").rmdir()
    shutil.copy(place / "parallel" / "fi.txt", place)
    build(place / "llama")


TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def talked(place: Path, model: Path, *languages: str) -> None:
    """Conversations, and a model that is for them."""
    (model / "chat_template.jinja").write_text(TEMPLATE)
    (place / "chats").mkdir()
    for name in languages:
        lines = (place / f"{name}.txt").read_text("utf-8").splitlines()
        talks = [
            {"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]}
            for a, b in pairwise(lines)
        ]
        (place / "chats" / f"{name}.jsonl").write_text("\n".join(map(json.dumps, talks)))


def grown(place: Path) -> None:
    """A run whose tokenizer lacks French, and published models, one for conversations."""
    from helpers.external_models import build

    build(place / "SmolLM2-135M")
    talked(place, build(place / "SmolLM2-135M-Instruct"), "en", "fr")
    must("adopt", "SmolLM2-135M-Instruct", "--langs", "en,fr", "-o", "adopted")
    must("pretrain", "-t", "other-tokenizer", "--langs", "en,fi", "--name", "old")


def adopting(place: Path) -> None:
    """Text of many documents, and a few lines of news."""
    drafted(place)
    shutil.rmtree(place / "fr-en")  # of the run
    for name in LANGUAGES:
        (place / "data" / f"{name}.jsonl").unlink()
        shutil.copy(place / f"{name}.txt", place / "data")
        lines = (place / f"{name}.txt").read_text("utf-8").splitlines()
        (place / f"news.{name}.txt").write_text("\n".join(lines[:5]) + "\n", "utf-8")


def tuning(place: Path) -> None:
    """What the programs of the guide train."""
    for name in ("datasets", "peft", "trl"):
        pytest.importorskip(name)
    from helpers.external_models import build

    model = build(place / "model", "Qwen2")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (model / "tokenizer_config.json").write_text(json.dumps({**settings, "pad_token": "<pad>"}))
    talked(place, model, "fi")


def tuned(place: Path) -> None:
    """The slice of the result is what PEFT merged; conversations trained the whole model."""
    import torch
    from safetensors.torch import load_file

    must("slice", "finnish", "--langs", "fi", "-o", "again")
    merged, again, before, after = (
        load_file(place / name / "model.safetensors")
        for name in ("merged", "again", "model", "chat")
    )
    assert merged.keys() == again.keys()
    assert all(torch.equal(tensor, again[name]) for name, tensor in merged.items())
    table = "model.embed_tokens.weight"
    changed = (before[table] != after[table]).any(1)
    assert 0 < int(changed.sum()) < len(changed)


def staged(place: Path) -> None:
    """The recipes of the page, with few steps, and text for its second stage."""
    page = (ROOT / "docs/guides/annealing.md").read_text(encoding="utf-8")
    page = re.sub(r"(steps|warmup) = \d+", r"\1 = 2", page)
    first, more = re.findall(r"(?m)^    \[(?:.|\n(?=\n?    \S))*?(?=\n\n    modtok|\n\n\S)", page)
    (place / "stages.toml").write_text(inspect.cleandoc(first))
    (place / "more.toml").write_text(f"{inspect.cleandoc(first)}\n{inspect.cleandoc(more)}")
    shutil.copytree(place / "data", place / "best")
    (place / "best" / "fr.jsonl").unlink()


def compared(place: Path) -> None:
    """The answers of two systems."""
    equipped(place)
    for name in ("a", "b"):
        must("eval", "mt", "--pairs", "en-fr", "--infer", "lang", "--examples", f"{name}.jsonl")


# Pages whose commands run, and what they find.
PAGES: dict[str, Callable[[Path], None]] = {
    "README.md": sampled,
    "docs/evaluation-generation.md": compared,
    "docs/fewest-tokens.md": lambda place: None,
    "docs/guides/annealing.md": staged,
    "docs/guides/draft-vocabulary.md": adopting,
    "docs/guides/existing-models.md": adopting,
    "docs/guides/fine-tuning.md": tuning,
    "docs/guides/grow-a-tokenizer.md": grown,
    "docs/guides/other-servers.md": equipped,
    "docs/inference.md": equipped,
    "docs/measuring.md": lambda place: None,
    "docs/pretraining.md": grown,
    "docs/superwords.md": lambda place: None,
}
# Beside those of `CLUSTER`: the home directory, eight GPUs.
NOT_RUN = re.compile(r"--install-completion|--config recipe.toml")


@needs("megatron", "lm_eval")
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run(
    page: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = workspace(base, tmp_path, monkeypatch)
    PAGES[page](place)
    if PAGES[page] is tuning:  # `load_dataset` writes to the home directory
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {}
    for line in code_lines(page, programs=PAGES[page] is tuning):
        if "\n" in line:
            exec(re.sub(r"max_steps=\d+", "max_steps=2", line), names)
            continue
        line = re.sub(r"\s+# .*", "", line)
        if not (CLUSTER.search(line) or NOT_RUN.search(line)):
            if "bpe-seq --append fr" in line:  # to a tokenizer that lacks French
                shutil.rmtree(place / "tokenizer")
                shutil.copytree(place / "other-tokenizer", place / "tokenizer")
            status, said = tried(small(line), place)
            assert status == 0, f"{line}\n{said}"
    if PAGES[page] is tuning:
        tuned(place)


def tried(line: str, place: Path) -> tuple[int, str]:
    """Exit status and what was said on failure: in this process where no shell is needed."""
    if not re.search(r"[|<>*~]", line):
        return run(command_tree(), shlex.split(line)[1:]), "(it stands above)"
    done = shell(line, place)
    return done.returncode, done.stderr


def test_every_command_has_examples() -> None:
    groups = {path for path, node in TREE.items() if node.is_group}
    assert set(COMMANDS) | groups == set(TREE)
