"""Multiple choice: scores by hand, under every mode; against lm-eval's own class; bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from helpers.questions import QUESTIONS, SHOWN, by_hand, lay_out, own_task
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.evaluate.cloze import ClozeTask
from modtok_cli.evaluate.evaluate import evaluate_mcq
from modtok_cli.evaluate.lm import ModtokLM
from modtok_cli.evaluate.mcq import _mean as mean_of
from modtok_cli.evaluate.questions import as_question
from modtok_cli.evaluate.results import Evaluation
from modtok_cli.evaluate.suite import suites
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.load import load
from modtok_cli.model.slice.slice import slice as slice_model

TASKS = SAMPLE / "tasks"
MODES = {
    "lang": (["fr"], None),
    "full": ("full", None),
    "full-lang": ("full", ["fr"]),
    "en,fr": (["en", "fr"], None),
}


def ask(run: Path, data: Path, mode: str | None = None, **settings: Any) -> Evaluation:
    return evaluate_mcq(run, ["fr"], data=data, infer=mode, **settings)


@pytest.fixture(scope="module")
def model(few_steps: Path) -> SlicedModel:
    return load(few_steps, ["fr"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("normalization", ["none", "characters", "pmi"])
def test_scores_by_hand(
    few_steps: Path, model: SlicedModel, tmp_path: Path, mode: str, normalization: str
) -> None:
    data = lay_out(tmp_path, "own", "fr", **QUESTIONS)
    own_task(data, normalization)
    found = ask(few_steps, data, mode, batch_size=2)
    under = model.with_vocabulary(*MODES[mode])
    rights = []
    for row, asked in zip(found.examples, QUESTIONS["test"], strict=True):
        prompt = f"{SHOWN}Question: {asked['question']}\nRéponse:"
        choices = [str(choice) for choice in asked["choices"]]  # type: ignore[attr-defined]
        nats = [by_hand(under, prompt, f" {choice}") for choice in choices]
        assert row["nats"] == pytest.approx(nats, abs=2e-4)
        if normalization == "characters":
            nats = [value / len(choice) for value, choice in zip(nats, choices, strict=True)]
        if normalization == "pmi":
            bare = [by_hand(under, "Réponse:", f" {choice}") for choice in choices]
            assert row["nats_bare"] == pytest.approx(bare, abs=2e-4)
            nats = [value - without for value, without in zip(nats, bare, strict=True)]
        best = int(np.argmax(nats))
        assert row["chosen"] == best
        gold = asked["answer"] if isinstance(asked["answer"], int) else choices.index("de plomb")
        rights.append(float(best == gold))
        assert row["scores"][found.results[0].metric] == rights[-1]
    result = found.results[0]
    assert result.value == pytest.approx(100 * np.mean(rights))
    assert (result.n, result.shots, result.normalization) == (4, 1, normalization)
    assert result.infer == mode
    assert result.facts["chance"] == pytest.approx(100 * (1 / 2 + 1 / 3 + 1 / 2 + 1 / 4) / 4)
    assert not found.skipped


def test_choices_by_letter(few_steps: Path, model: SlicedModel, tmp_path: Path) -> None:
    data = lay_out(tmp_path, "own", "fr", **QUESTIONS)
    own_task(data, "characters")
    found = ask(few_steps, data, tasks=["own:letters", "own"])
    letters, plain = (
        [row for row in found.examples if row["task"] == task] for task in ("own:letters", "own")
    )
    shown = "Question: Qui lit ?\nA. un marin\nB. un loup\nRéponse: A\n\n"
    for row, other in zip(letters, plain, strict=True):
        listed = "".join(f"\n{'ABCD'[n]}. {text}" for n, text in enumerate(other["choices"]))
        prompt = f"{shown}Question: {other['question']}{listed}\nRéponse:"
        choices = "ABCD"[: len(other["choices"])]
        nats = [by_hand(model, prompt, f" {letter}") for letter in choices]
        assert row["nats"] == pytest.approx(nats, abs=2e-4)
        assert row["answer"] == other["answer"]
        assert row["chosen"] == int(np.argmax(nats))
    results = {result.task: result for result in found.results}
    assert results.keys() == {"own:letters", "own"}  # and no mean of both
    assert results["own:letters"].metric == "acc"
    with pytest.raises(UsageError, match="hellaswag:letters: the prompt of hellaswag does not end"):
        ask(few_steps, data, tasks=["hellaswag:letters"])
    with pytest.raises(UsageError, match="nope:letters: there is no suite 'nope', and "):
        ask(few_steps, data, tasks=["nope:letters"])
    many = [{"question": "Qui ?", "choices": [str(n) for n in range(27)], "answer": 0}]
    with pytest.raises(ModtokError, match="question 1 has 27 choices, more than letters"):
        ask(few_steps, lay_out(data, "own", "fr", test=many), tasks=["own:letters"])


def test_whole_texts_and_answers_are_those_of_lm_evals_class(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On what `modtok slice` wrote, as transformers opens it; the end of text is written out."""
    path = slice_model(few_steps, ["en", "fr"], output=tmp_path / "en-fr").output
    ours = ModtokLM(load(path), batch_size=2)
    # The end of text is added by hand below: lm-eval would also score it in whole texts.
    theirs = HFLM(pretrained=str(path), batch_size=4, device="cpu", add_bos_token=False)
    text = (SAMPLE / "parallel" / "fr.txt").read_text("utf-8")[:1500]
    texts = [request("loglikelihood_rolling", text[:size]) for size in (1500, 40)]
    assert len(ours.model.encode_out(text)) > 2 * ours.model.context
    assert ours.loglikelihood_rolling(texts) == pytest.approx(
        theirs.loglikelihood_rolling(texts, disable_tqdm=True), rel=1e-5
    )

    asked = {"until": ["\n", "é"], "max_gen_toks": 12, "do_sample": False}
    pairs = [("Le vélo", asked), ("Le train de nuit a six voitures, dont", asked)]
    pairs += [("The", asked | {"max_gen_toks": 5})]  # runs apart
    pairs += [("Le chat", asked)]  # of a second batch
    said = ours.generate_until([request("generate_until", *pair) for pair in pairs])
    marked = [request("generate_until", f"<|endoftext|>{text}", each) for text, each in pairs]
    assert said == theirs.generate_until(marked, disable_tqdm=True)
    assert len({*said}) == 4
    # No batch takes more memory than there is, also of the last.
    sizes: list[tuple[int, int]] = []
    monkeypatch.setattr(type(ours.model), "check_batch", lambda _, *size: sizes.append(size))
    ours.generate_until([request("generate_until", *pair) for pair in pairs])
    prompts = sorted((len(ours.context_rows(text)) for text, _ in pairs[:2] + pairs[3:]))[::-1]
    batches = [(2, prompts[0] + 12), (1, prompts[2] + 12), (1, len(ours.context_rows("The")) + 5)]
    assert sizes == batches


def request(kind: Any, *arguments: Any) -> Instance:
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def test_boundary_rule(model: SlicedModel) -> None:
    """Apart; white space before the join belongs to the continuation; an end of text first."""
    lm = ModtokLM(model)
    end = model.end_of_text
    king = [end, *model.encode_in("Le roi")]
    assert lm.request("Le roi", " dort") == (king, model.encode_out(" dort"))
    assert lm.request("Le roi ", "dort") == lm.request("Le roi", " dort")
    assert lm.request("", "dort") == ([end], model.encode_out("dort"))
    # "Le ro" + "i" is not cut as "Le roi" is; the parts are scored as they are.
    assert lm.request("Le ro", "i") == ([end, *model.encode_in("Le ro")], model.encode_out("i"))


def test_long_prompts_drop_examples_then_truncate(few_steps: Path, tmp_path: Path) -> None:
    shown = [{**row, "question": f"{row['question']} {'bien ' * 30}"} for row in QUESTIONS["train"]]
    long = {"question": "très " * 400, "choices": ["oui", "non"], "answer": 0}
    middle = {"question": "plus " * 50, "choices": ["oui", "non"], "answer": 0}
    data = lay_out(tmp_path, "own", "fr", test=[long, middle], train=shown)
    own_task(data, "none", shots=2)
    progress = Silent()
    found = evaluate_mcq(few_steps, ["fr"], data=data, progress=progress)
    facts = found.results[0].facts
    assert (facts["shortened"], facts["truncated"]) == (2, 2)  # both choices of the long one
    assert "2 contexts were truncated" in progress.warnings[0]
    ours = load(few_steps, ["fr"])
    asked = f"Question: {middle['question']}\nRéponse:"
    both = [f"Question: {row['question']}\nRéponse: " for row in shown]
    with_last = f"{both[1]}au centre\n\n{asked}"
    fits = len(ours.encode_in(with_last)) + 1 + len(ours.encode_out(" oui")) <= ours.context + 1
    expected = by_hand(ours, with_last if fits else asked, " oui")
    assert found.examples[1]["nats"][0] == pytest.approx(expected, abs=2e-4)


def test_examples_are_of_the_same_subject() -> None:
    def row(question: str, group: str) -> Any:
        data = {"question": question, "choices": ["x", "y"], "answer": 1, "group": group}
        return as_question(data, "here", question)

    shown = [row("a1", "a"), row("b1", "b"), row("a2", "a"), row("b2", "b")]
    asked = [row("a3", "a"), row("b1", "b")]
    task = ClozeTask(suites()["mmlu"], "en", asked, shown, shots=2)
    texts = [task.fewshot_context({"place": place}, 2) for place in (0, 1)]
    assert texts[0] == (
        "Question: a1\nAnswer: y\n\nQuestion: a2\nAnswer: y\n\nQuestion: a3\nAnswer:"
    )
    assert texts[1] == "Question: b2\nAnswer: y\n\nQuestion: b1\nAnswer:"  # not shown itself


BAD = {
    "no answer": {"question": "?", "choices": ["a", "b"]},
    "the answer 2 is not a choice": {"question": "?", "choices": ["a", "b"], "answer": 2},
    "the answer 'c' is not a choice": {"question": "?", "choices": ["a", "b"], "answer": "c"},
    "expected two or more choices, got 1": {"question": "?", "choices": ["a"], "answer": 0},
    "not a list of non-empty strings": {"question": "?", "choices": ["a", ""], "answer": 0},
    "no 'question'": {"choices": ["a", "b"], "answer": 0},
    "expected a JSON object": ["?"],
}


def test_rows_with_equal_choices_are_kept(few_steps: Path, tmp_path: Path) -> None:
    """As in lm-eval: the first of equal choices counts as chosen."""
    row = {"question": "?", "choices": ["oui", "oui", "non"], "answer": 1}
    data = lay_out(tmp_path, "hellaswag", "fr", test=[row])
    (example,) = ask(few_steps, data).examples
    assert example["nats"][0] == example["nats"][1]
    assert example["chosen"] != 1
    assert example["scores"]["acc_norm"] == 0.0


def test_batch_that_does_not_fit_is_an_error(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch size is limited by the number of requests: with few of them any size fits."""
    data = lay_out(tmp_path, "hellaswag", "fr", test=QUESTIONS["test"])
    assert ask(few_steps, data, batch_size=10**9).results[0].n == 4
    monkeypatch.setattr(SlicedModel, "scoring_bytes", lambda *_: 1 << 60)
    with pytest.raises(ModtokError, match=r"a batch of 4 sequences .* lower batch_size"):
        ask(few_steps, data, batch_size=4)


@pytest.mark.parametrize("what", BAD)
def test_invalid_row_names_file_and_line(few_steps: Path, tmp_path: Path, what: str) -> None:
    data = lay_out(tmp_path, "hellaswag", "fr", test=[QUESTIONS["test"][0], BAD[what]])
    with pytest.raises(ModtokError, match=rf"hellaswag/fr\.jsonl:2: .*{what}"):
        ask(few_steps, data)


def test_files_that_cannot_be_read(few_steps: Path, tmp_path: Path) -> None:
    data = lay_out(tmp_path, "hellaswag", "fr", test=[])
    path = data / "mcq" / "hellaswag" / "fr.jsonl"
    with pytest.raises(ModtokError, match=r"fr\.jsonl: contains no questions"):
        ask(few_steps, data)
    path.write_text("{")
    with pytest.raises(ModtokError, match=r"fr\.jsonl:1: invalid JSON"):
        ask(few_steps, data)
    path.rename(path.with_name("fr.jsonl.gz"))
    with pytest.raises(ModtokError, match=r"fr\.jsonl\.gz"):
        ask(few_steps, data)


def test_missing_tasks_are_reported_and_others_evaluated(few_steps: Path, tmp_path: Path) -> None:
    data = lay_out(tmp_path, "hellaswag", "fra_Latn", test=QUESTIONS["test"])
    lay_out(tmp_path, "arc_easy", "fr", **QUESTIONS)
    found = evaluate_mcq(few_steps, ["fr", "fi"], data=data, limit=3)
    assert [(result.task, result.n) for result in found.results] == [("hellaswag", 3)]
    told = "\n".join(found.skipped)
    assert "arc_easy has 2 few-shot examples, expected 5" in told
    assert "mcq/hellaswag in fi" in told
    with pytest.raises(ModtokError, match="incomplete: "):
        found.require_complete()
    fewer = ask(few_steps, data, shots=2, tasks=("arc_easy", "csqa"))
    assert [result.task for result in fewer.results] == ["arc_easy"]
    assert fewer.skipped == ["csqa does not exist in fr"]
    lay_out(tmp_path, "csqa", "en", test=QUESTIONS["test"])
    others = evaluate_mcq(few_steps, ["fr", "en"], data=data, shots=0, tasks=("csqa",))
    assert [(result.task, result.language) for result in others.results] == [("csqa", "en")]


def test_wrong_usage(few_steps: Path, tmp_path: Path) -> None:
    data = lay_out(tmp_path, "hellaswag", "fr", test=QUESTIONS["test"])
    with pytest.raises(UsageError, match="batch_size: expected at least 1, got 0"):
        ask(few_steps, data, batch_size=0)
    lay_out(tmp_path, "mine", "fr", test=QUESTIONS["test"])
    with pytest.raises(ModtokError, match=r"mcq/mine: .*task\.yaml"):
        ask(few_steps, data)
    with pytest.raises(ModtokError, match=r"mcq/mine: has no task\.yaml.*docs/evaluation\.md"):
        ask(few_steps, data, tasks=("hellaswag", "mine"))
    (data / "mcq" / "mine" / "task.yaml").write_text(
        "task: other\nprompt: x\nshots: 0\nnormalization: none\n"
    )
    with pytest.raises(ModtokError, match="describes the task 'other'"):
        ask(few_steps, data)


def test_suites_of_the_papers_mean() -> None:
    paper = {name: suite for name, suite in suites().items() if suite.in_mean}
    found = {name: (suite.shots, suite.normalization) for name, suite in paper.items()}
    assert found == {
        "arc_easy": (5, "characters"),
        "arc_challenge": (5, "pmi"),
        "hellaswag": (0, "characters"),
        "mmlu": (5, "characters"),
        "belebele": (0, "characters"),
        "csqa": (5, "pmi"),
        "piqa": (5, "characters"),
        "siqa": (5, "characters"),
    }
    for suite in paper.values():
        assert suite.source("en") is not None
    eu20 = "bg cs da de el es et fi fr hu it lt lv nl pl pt ro sk sl sv"
    for language in eu20.split(" "):
        covered = {name for name, suite in paper.items() if suite.source(language)}
        assert covered == {"arc_easy", "arc_challenge", "hellaswag", "mmlu", "belebele"}


def test_mean_is_over_the_papers_suites(few_steps: Path, tmp_path: Path) -> None:
    data = tmp_path
    for task in ("hellaswag", "belebele", "xstorycloze"):
        lay_out(data, task, "fr", test=QUESTIONS["test"])
    found = ask(few_steps, data)
    values = {result.task: result.value for result in found.results}
    assert list(values) == ["hellaswag", "belebele", "xstorycloze", "mean"]
    assert values["mean"] == pytest.approx((values["hellaswag"] + values["belebele"]) / 2)
    parts = found.results[:2]
    assert mean_of(parts, {}) == mean_of(parts[::-1], {})


@pytest.mark.parametrize(
    ("task", "prompt"),
    [
        ("piqa", "Goal: Open a can\nAnswer:"),
        ("siqa", "Question: Jo ran. Open a can\nAnswer:"),
        ("belebele", "Jo ran.\nQuestion: Open a can\nAnswer:"),
        ("global_mmlu", "Question: Open a can\nAnswer:"),
        ("xnli", "Open a can"),
    ],
)
def test_prompts(task: str, prompt: str) -> None:
    assert suites()[task].render("Open a can", "Jo ran.", "en") == prompt


def test_choice_longer_than_the_context(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before anything is asked, in whatever language it stands."""
    monkeypatch.setattr("modtok_cli.evaluate.mcq._run_job", None)
    row = {"id": "7", "question": "?", "choices": ["oui", "non " * 300], "answer": 0}
    lay_out(tmp_path, "hellaswag", "en", test=QUESTIONS["test"])
    data = lay_out(tmp_path, "hellaswag", "fr", test=[row])
    said = r"fr hellaswag: question 7 has a choice of \d+ tokens; the context has 192; remove it"
    with pytest.raises(ModtokError, match=said):
        evaluate_mcq(few_steps, ["en", "fr"], data=data)
