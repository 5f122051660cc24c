"""A path that does not exist is called so, whichever command and option has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.hf_models import save_model
from helpers.sample import needs
from modtok_cli.cli.command import REGISTERED
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes, options_of_command
from modtok_cli.model.slice.slice import slice as slice_model
from modtok_cli.tokenizer.extract import extract

TABLE = """
bpe-seq -k 500 -o new --data nope
bpe-seq -k 500 -o new --fair nope
bpe-seq -t nope --append fr -o new
bpe-merge -k 500 -o new --data nope
bpe-merge -k 500 -o new --fair nope
bpe-merge -t nope --append fr -o new
unigram-merge -k 500 -o new --data nope
unigram-merge -k 500 -o new --fair nope
unigram-merge -k 500 -o new --models nope
unigram-merge -t nope --append fr -o new
adopt nope --langs fr -o new
adopt model/tokenizer.json --langs fr -o new --data nope
bpe -k 500 -o new --data nope
unigram -k 500 -o new --data nope
extract nope --langs fr
extract -t nope --langs fr
extract --top 400 --text nope
extract --langs fr --hf new --chat-template nope
encode nope
encode -t nope fr.txt
decode nope
decode -t nope fr.txt
inspect nope
inspect --check nope
inspect --find x nope
inspect --merges x nope
inspect tokenizer nope
inspect -t nope
nsl nope
nsl -t nope fr.txt
nsl --references nope fr.txt
nsl --morphemes nope fr.txt
fairness nope
fairness -t nope fr.txt
fairness --references nope fr.txt
origin nope
origin -t nope fr.txt
check nope
check nope fr.txt
check tokenizer nope.txt
check -t nope fr.txt
cost nope
cost nope fr.txt
cost model nope.txt
cost -t nope fr.txt
cost --references nope fr.txt
explore nope
explore -t nope
report nope
pretrain --data nope
pretrain -t nope
pretrain --init-from nope
pretrain --config nope
pretrain --chat-template nope
slice nope --langs fr -o new
slice model --langs fr -o new --data nope
slice model --langs fr -o new --text nope --top 400
slice model --langs fr -o new -t nope
slice model --langs fr -o new --must-have nope
slice model -o new --head nope
slice model --langs fr -o new --report nope
graft nope --onto model -o new
graft part --onto nope -o new
graft model --slice nope --onto model -o new
graft part --onto model -o new --report nope
transplant nope -t tokenizer -o new
transplant model -t nope -o new
transplant model -t tokenizer -o new --distill nope
transplant model -t tokenizer -o new --fit nope
transplant model -t tokenizer -o new --report nope
tokens nope --langs fr
tokens nope --size 600
tokens nope --sizes
tokens nope --sizes --draft model
tokens nope --read fr.txt
tokens model --langs fr --data nope
tokens model --read nope
tokens model --size 600 --must-have nope
tokens model --sizes --test nope
tokens model --langs fr,en --sizes --draft nope
export nope -o new.gguf
export model -o new.gguf --probe nope
generate nope hello
generate model hello --references nope
eval mcq nope
eval mcq model --eval-data nope
eval mcq model --eval-data data --include nope
eval mt nope
eval mt model --eval-data nope
eval sum nope
eval sum model --eval-data nope
eval bpb nope
eval bpb nope fr.txt
eval bpb model nope
eval compare nope model fr.txt
eval compare model nope fr.txt
eval compare model model nope
corpus build nope -o new
corpus build fr.txt -o new --lang-model nope
corpus build fr.txt -o new --quality-model nope
corpus count --data nope
corpus stats nope
corpus stats --data nope
corpus stats -t nope
"""
LINES = TABLE.strip().splitlines()
OTHERS = {
    "--runs": "is created",
    "--special": "is a token",
    "--stop": "is text",
    "--from": "is for slices of runs",
    "--tokenizer": "of models: is for runs",
    "--eval-data": "of a comparison: is for questions",
    "MODEL": "of serve: needs vllm",
}
PLACES = {"PATH", "FILE", "DIR", "TEXT", "TEXTS", "LIST", "TEMPLATE", "WORKSPACE", "A", "B"}


def test_the_table_has_every_path() -> None:
    absent = set()
    for node in (node for node in nodes(command_tree()) if not node.is_group):
        name = " ".join(node.path)
        for option in options_of_command(node.command).values():
            if option.writes or not (option.hub or option.metavar in PLACES):
                continue
            own = [line for line in LINES if line.startswith(f"{name} ")]
            flags = [""] if option.argument else [f" {flag} nope" for flag in option.all_flags]
            if not any(flag in line for flag in flags for line in own):
                absent.add((option.flag_of(None), name))
    assert {flag for flag, _ in absent} == OTHERS.keys(), absent
    assert REGISTERED.keys() >= {name for _, name in absent}


@pytest.fixture(scope="module")
def models(learned: Path) -> Path:
    """A model, and a slice of it, in the workspace."""
    made = extract(learned / "tokenizer", "en,fr")
    save_model("llama", learned / "model", made.to_bytes(".json"), rows=made.size)
    slice_model(learned / "model", "fr", output=learned / "part", data=learned / "data")
    return learned


@pytest.mark.parametrize("line", LINES)
@needs("transformers", "megatron")
def test_a_missing_path_is_named(
    models: Path, at: Callable[..., tuple[int, str, str]], line: str
) -> None:
    status, out, err = at(*line.split())
    (error,) = (each for each in err.splitlines() if "error: " in each)
    (place,) = (each for each in line.split() if each.startswith("nope"))
    assert (status > 0, out) == (True, "")
    assert place in error
    assert "does not exist" in error
