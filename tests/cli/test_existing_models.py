"""Commands on existing models and drafts, on a small random model."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import modtok_cli as modtok
from helpers.external_models import PADDED
from helpers.sample import SAMPLE, sample_text


@pytest.fixture
def model(workspace: Path) -> Path:
    if not find_spec("transformers"):
        pytest.skip("needs the extra [lm]")
    from helpers.external_models import build

    sample_text(workspace / "data", "en", "fi", "fr", folder="parallel")
    for language in ("en", "fi", "fr"):
        news = (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8").splitlines()[:5]
        (workspace / f"news.{language}.txt").write_text("\n".join(news) + "\n", "utf-8")
    return build(workspace / "model")


def test_the_report_is_read_first_and_compares_both_models(model: Path, here: Any) -> None:
    shutil.copy("news.fr.txt", "some.txt")
    line = "slice model --langs fr --top 400 -o part --table --report"
    status, _, err = here(*line.split(), "nowhere")
    assert (status, "nowhere: does not exist" in err, Path("part").exists()) == (2, True, False)
    status, out, err = here(*line.split(), "some.txt")
    assert status == 0, err
    assert "Size of the weights" in out
    assert f"Text in 400 of {PADDED} rows" in out
    assert "bits/byte before" in out
    assert "some.txt: identified as fr" in err


def test_a_list_on_a_terminal_is_summarized(
    model: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    listed = modtok.tokens("model", "fr", size=310)
    monkeypatch.setattr("modtok_cli.cli.output._is_terminal", lambda stream: True)
    status, out, err = here("tokens", "model", "--langs", "fr", "--size", "310")
    assert (status, out) == (0, "")
    library = AutoTokenizer.from_pretrained("model")
    texts = Path("data/fr.txt").read_text("utf-8").splitlines()
    used = [index for text in texts for index in library(text, add_special_tokens=False).input_ids]
    share = sum(index in set(listed) for index in used) / len(used)
    assert re.search(rf"fr +{100 * share:.2f} *\n", err)
    assert "310 of " in err
    assert f", {library.decode(listed[-1])!r}\n" in err
    _, _, err = here("tokens", "model", "--langs", "fr", "--size", "310", "-o", "fr.ids.txt")
    assert f"wrote 310 ids to fr.ids.txt; they cover {share:.3f} of fr\n" in err


def test_token_lists_of_all_formats(model: Path, here: Any) -> None:
    import torch

    assert here("adopt", "model", "--langs", "fr,en", "-o", "adopted")[0] == 0
    status, out, _ = here("tokens", "model", "--langs", "fr")
    assert status == 0
    ids = [int(line) for line in out.splitlines()]
    assert ids == sorted(set(ids))
    assert here("tokens", "adopted", "--langs", "fr")[1] == out
    assert json.loads(here("tokens", "model", "--langs", "fr", "--format", "json")[1]) == ids
    Path("ids.txt").write_text(out)
    status, out, _ = here("slice", "model", "--must-have", "ids.txt", "-o", "kept", "--json")
    assert status == 0
    assert json.loads(out.splitlines()[0])["tokens"] >= len(ids)
    fields = json.loads(here("tokens", "model", "--langs", "fr", "--format", "vllm")[1])
    assert fields == {"allowed_token_ids": ids}
    for source in ("model", "adopted"):
        fields = json.loads(here("tokens", source, "--langs", "fr", "--format", "llama.cpp")[1])
        assert {index for index, bias in fields["logit_bias"] if bias is False} == (
            set(range(PADDED)) - set(ids)
        )
        biases = json.loads(here("tokens", source, "--langs", "fr", "--format", "openai")[1])
        assert biases == {"logit_bias": {str(index): -100 for index, _ in fields["logit_bias"]}}
    line = "tokens model --langs fr --format sglang -o fr.pt"
    assert here(*line.split())[0] == 0
    assert torch.load("fr.pt", weights_only=True) == ids
    assert here(*line.split())[0] == 2
    _, _, err = here(*["tokens", "model", "--langs", "fr", "--format", "vllm", "-o", "vllm.json"])
    assert "ids to vllm.json, allowed_token_ids of requests" in err
    status, _, err = here(*["tokens", "model", "--langs", "fr", "--sizes", "--read", "vllm.json"])
    assert (status, "vllm.json may be made of the held-out documents; --test" in err) == (0, True)
    few = here("tokens", "model", "--langs", "fr", "--top", "300")[1].splitlines()
    assert len(few) == 300
    for given in ("--top 300", "--coverage 0.9", "--data nowhere", "--field body"):
        status, _, err = here(*f"tokens adopted --langs fr {given}".split())
        assert (status, "languages have tokens already: omit" in err) == (2, True)
    Path("modtok.toml").write_text("[tokens]\ntop = 300\n")  # for other lists than these
    assert [*map(int, here("tokens", "adopted", "--langs", "fr")[1].split())] == ids
    assert len(here("tokens", "model", "--langs", "fr", "--size", "310")[1].splitlines()) == 310
    line = "tokens model --langs fi,en --sizes --test data --mix fi=0.7 --plot sizes.svg"
    status, out, err = here(*line.split())
    assert (status, len(out.splitlines())) == (0, 4)
    assert "no knee" in err
    _, out, err = here(*line.split()[:-2], "--table")
    assert (out + err).count("no knee") == 1
    assert Path("sizes.svg").stat().st_size > 0


def test_errors_of_adopt_and_slice_are_one_line(model: Path, here: Any) -> None:
    for line, message in (
        ("tokens model --langs fr --format exl", "unknown format 'exl'"),
        ("tokens model", "no languages given"),
        ("tokens model/tokenizer.json --size 300 --format llama.cpp", "rows of its model is not"),
        ("tokens model --size 300 --each", "--each requires -o"),
        ("tokens model --langs fr --test data", "requires --sizes"),
        ("tokens model --langs fr --table", "--table: requires --sizes"),
        (
            "tokens model --langs fr --sizes --size 300 -o a",
            "compares sizes: omit -o, --size",
        ),
        ("tokens data --langs fr", "is not a modular directory and not a Hugging Face model"),
        ("tokens nothing --langs fr", "does not exist"),
        ("tokens model --read nothing.json", "nothing.json: does not exist; check the name"),
        ("adopt nothing", "does not exist"),
        ("adopt model -o model --force", "is TOKENIZER too and would be lost"),
        ("slice model --langs fr -o model --force", "is MODEL too and would be lost"),
        ("adopt model --coverage 0", "coverage 0.0 is not between 0 and 1"),
        ("adopt model --langs sv", "no text of language 'sv'"),
        ("slice model -o part", "no tokens selected"),
        (
            "slice model -t adopted --langs fr --data x -o part",
            "has the tokens of each language: omit",
        ),
        (
            "slice model --head ids.txt --langs fr -o part",
            "models, not for drafts (--head); omit",
        ),
        (
            "slice model --head ids.txt --bos -o part",
            "--bos is for runs and slices of runs, not",
        ),
        ("slice model --langs fr", "no output directory given"),
        ("slice model --must-have x --data y -o part", "no languages given: omit --data"),
        ("slice data --langs fr --from x -o part", "--from is for --append"),
        ("generate model --langs fr hello", "is a model with one vocabulary"),
        ("eval sum model --eval-data .", "has no languages; name them"),
        ("eval sum model --langs fr --infer fr --eval-data .", "is a model with one vocabulary"),
        ("slice model --in fr -o part", "--in is for runs and slices of runs, not"),
        ("slice data --text data/fr.txt --langs fr -o part", "data: is not a run"),
        ("eval bpb model news.fr.txt --infer fr", "model"),
        ("transplant model --errors skip -o part", "without --distill or --report: omit --errors"),
        (
            "export model -t adopted --step 4",
            "model: --step is for runs, not",
        ),
    ):
        status, _, err = here(*line.split())
        assert status in (1, 2), line
        assert message in err, err
        assert err.count("\n") <= 2, err
    assert not (Path.cwd() / "part").exists()


def test_python_refuses_what_the_command_line_refuses(model: Path, here: Any) -> None:
    """In the same words, with names of parameters in place of flags; modtok.toml is for others."""
    assert here("adopt", "model", "--langs", "fr,en", "-o", "adopted")[0] == 0
    body = modtok.Reading(field="body")
    names = {
        "--step": "step", "--bos": "bos", "--no-verify": "verify", "--top": "top", "--in": "inputs",
        "--head": "head", "--field": "reading.field", "--top-p": "top_p", "--data": "data",
        "--limit": "limit", "-t": "tokenizer", "--text": "texts", "--probe": "probe",
        "--size": "size", "--append": "append", "--temperature": "temperature", "--dtype": "dtype",
    }  # fmt: skip
    Path("l").write_text("1 2")
    m, runs = modtok, "runs and slices of runs, not for Hugging Face models; omit it"
    no_text = "no text selects tokens: omit top"
    for line, call, message in (
        ("slice model --langs fr --step 3 -o s", partial(m.slice, "model", "fr", step=3),
         f"model: step is for {runs}"),
        ("slice model --langs fr --bos -o s", partial(m.slice, "model", "fr", bos=True),
         f"model: bos is for {runs}"),
        ("slice model --head l --no-verify -o s",
         partial(m.slice, "model", head="l", verify=False),
         "model: verify is for runs, slices of runs and Hugging Face models, "
         "not for drafts (head); omit it"),
        ("slice model --must-have i --top 300 -o s",
         partial(m.slice, "model", must_have="i", top=300), no_text),
        ("slice model -t a --langs fr --top 300 -o s",
         partial(m.slice, "model", "fr", tokenizer="a", top=300), no_text),
        ("slice data --append fr --in fi", partial(m.slice, "data", append="fr", inputs="fi"),
         "append adds languages to both sides of a slice: omit inputs"),
        ("serve model --dtype float16 --prepare",
         partial(m.serve, "model", dtype="float16", prepare=True),
         "model: dtype is for runs, not for Hugging Face models; omit it"),
        ("export model -t adopted", partial(m.export, "model", tokenizer="adopted"),
         "model: tokenizer is for runs, not for Hugging Face models; omit it"),
        ("export model --field body", partial(m.export, "model", reading=body),
         "no text is read without probe: omit reading.field"),
        ("eval mcq model --step 3", partial(m.evaluate_mcq, "model", step=3),
         "model: step is for runs, not for Hugging Face models; omit it"),
        ("generate model hi --top-p 0.9", partial(m.generate, "model", ["hi"], top_p=0.9),
         "temperature 0 takes the most probable token: omit top_p"),
        ("tokens adopted --langs fr --top 300", partial(m.tokens, "adopted", "fr", top=300),
         "without size, languages have tokens already: omit top"),
        ("tokens model --size 400 --top 300", partial(m.tokens, "model", size=400, top=300),
         "size is the number of all tokens: omit top"),
        ("extract -t adopted --field body", partial(m.extract, "adopted", reading=body),
         "no text is read without texts: omit reading.field"),
        ("corpus stats a.txt --data b", partial(m.corpus_stats, "a.txt", data="b"),
         "TEXT is given: omit data"),
        ("cost --limit 2", partial(m.cost, limit=2), "no text given: omit limit"),
        ("eval compare l l --limit 2", partial(m.compare, "l", "l", limit=2),
         "two files are given: omit limit"),
    ):  # fmt: skip
        status, _, err = here(*line.split())
        said = re.sub(r"--?[a-z][\w-]*", lambda flag: names.get(flag[0], flag[0]), err.strip())
        assert (status, said.partition('; try "modtok ')[0]) == (2, f"modtok: error: {message}")
        with pytest.raises(modtok.UsageError) as refused:
            call()
        assert str(refused.value) == message


def test_a_report_of_the_settings_is_for_other_slices(model: Path, here: Any) -> None:
    """`report` is for Hugging Face models, and a draft has none."""
    Path("modtok.toml").write_text('[slice]\nreport = ["nowhere.txt"]\n')
    Path("list.txt").write_text("1\n2\n")
    status, _, err = here(*["slice", "model", "--head", "list.txt", "-o", "part"])
    assert (status, "nowhere" in err) == (0, False), err
    status, _, err = here(*["slice", "model", "--langs", "fr", "-o", "small"])
    assert (status, "nowhere.txt: does not exist" in err) == (2, True), err


def test_a_long_prompt_is_not_a_name(here: Any) -> None:
    status, _, err = here("generate", "Il était une fois " * 20)
    assert (status, "runs/latest: does not exist" in err) == (2, True), err


def test_a_slice_writes_text_and_is_evaluated(model: Path, here: Any) -> None:
    Path("modtok.toml").write_text(  # what is for runs
        '[slice]\ndtype = "float16"\nbos = false\nstep = 4\n[generate]\ntokenizer = "adopted"\n'
    )
    assert here(*["slice", "model", "--langs", "fr", "--top", "400", "-o", "part"])[0] == 0
    status, out, err = here("generate", "part", "Il était", "--max-tokens", "4", "--json")
    Path("modtok.toml").unlink()
    assert status == 0, err
    assert "part has no languages: its whole vocabulary is used" in err
    _, _, refused = here("generate", "part", "Il était", "--langs", "fr")
    assert "part: is a model with one vocabulary; leave --langs, --in, " in refused
    assert "whole vocabulary" not in refused
    assert "slice it first" not in refused
    assert "the model's vocabulary; " in err
    row = json.loads(out)
    assert (row["prompt"], row["languages"], row["tokens"]) == ("Il était", [], 4)
    shutil.copytree(SAMPLE / "tasks", "tasks")
    line = "eval sum part --langs fr --eval-data tasks --limit 2 --shots 0 --max-tokens 4 --json"
    status, out, err = here(*line.split())
    assert status == 0, err
    rows = [json.loads(each) for each in out.splitlines()]
    assert {(row["language"], row["infer"]) for row in rows} == {("fr", "model")}
    assert rows[0]["signature"]
    status, out, _ = here("cost", "part", "--json")
    assert status == 0
    found = json.loads(out.splitlines()[0])
    assert (found["model"], found["tokenizer"]) == ("part", "part")
