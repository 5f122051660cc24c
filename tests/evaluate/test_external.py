"""lm-eval's own kinds of task by name, and rows of the hub's datasets."""

from __future__ import annotations

import json
import math
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from huggingface_hub import constants
from jinja2.exceptions import SecurityError

from helpers.questions import by_hand
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.evaluate import harness, hub_tasks
from modtok_cli.evaluate.compare import compare
from modtok_cli.evaluate.evaluate import evaluate_mcq
from modtok_cli.evaluate.lm import options_of
from modtok_cli.evaluate.questions import Question
from modtok_cli.evaluate.suite import HubSource, suites
from modtok_cli.model.load import load

DOCS = [
    {"text": "Notre bibliothèque a commencé par une caisse.", "word": "caisse"},
    {"text": "Le marché ouvre à l’arrivée de la charrette.", "word": "charrette"},
]
KINDS = {
    "choice": """output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_target: 0
doc_to_choice: "{{[word, 'marché']}}"
""",
    "whole": """output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: bits_per_byte}]
""",
    "surprise": """output_type: loglikelihood
doc_to_text: "{{text}}"
doc_to_target: "{{word}}"
metric_list: [{metric: perplexity, aggregation: perplexity, higher_is_better: false}, {metric: acc}]
""",
    "share": """output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_target: 0
doc_to_choice: "{{[word, 'marché']}}"
metric_list:
- {metric: acc, aggregation: median, higher_is_better: false}
- {metric: f1}
""",
    "write": """output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{word}}"
generation_kwargs: {until: ["."], max_gen_toks: 4, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
""",
    "filtered": """output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: ""
generation_kwargs: {until: ["."], max_gen_toks: 4, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list:
- name: strict
  filter: [{function: regex, regex_pattern: "(?!)", fallback: x}, {function: take_first}]
- name: loose
  filter: [{function: regex, regex_pattern: "(?!)", fallback: ""}, {function: take_first}]
""",
}


@pytest.fixture
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "tasks of lm-eval"
    folder.mkdir()
    file = folder / "docs.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in DOCS))
    for name, body in KINDS.items():
        (folder / f"{name}.yaml").write_text(
            f"task: {name}_fr\ndataset_path: json\ntest_split: test\n"
            f'dataset_kwargs: {{data_files: {{test: "{file}"}}}}\n{body}'
        )
    return folder


def test_the_index_of_lm_eval_is_announced_before_it_is_read(
    include: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Said()
    monkeypatch.setattr(harness, "_all_tasks", lambda *_: pytest.fail(heard.notes[0]))
    with pytest.raises(pytest.fail.Exception, match=r"^looking for other in lm-eval's index"):
        harness.find_tasks(["write_fr", "other"], include=include, progress=heard)


def test_tasks_of_lm_eval_by_name(few_steps: Path, include: Path) -> None:
    names = tuple(f"{name}_fr" for name in KINDS)
    settings = {"tasks": names, "infer": "full-lang"}
    found = evaluate_mcq(few_steps, ["fr"], data=None, include=include, **settings)
    by_metric = {(result.task, result.metric): result for result in found.results}
    assert set(by_metric) == {
        ("choice_fr", "acc"),
        ("choice_fr", "acc_norm"),
        ("whole_fr", "bits_per_byte"),
        ("surprise_fr", "perplexity"),
        ("surprise_fr", "acc"),
        ("share_fr", "acc"),
        ("share_fr", "f1"),
        ("write_fr", "exact_match"),
        ("filtered_fr", "exact_match,strict"),
        ("filtered_fr", "exact_match,loose"),
    }
    strict, loose = (
        by_metric["filtered_fr", f"exact_match,{name}"] for name in ("strict", "loose")
    )
    assert (strict.value, strict.n, loose.value, loose.n) == (0, 2, 100, 2)
    model = load(few_steps, "full", ["fr"])
    right = [
        by_hand(model, row["text"], f" {row['word']}") > by_hand(model, row["text"], " marché")
        for row in DOCS
    ]
    result = by_metric["choice_fr", "acc"]
    assert (result.value, result.n, result.language) == (50 * sum(right), 2, "fr")
    assert result.low is not None
    nats = sum(by_hand(load(few_steps, ["fr"]), "", row["text"]) for row in DOCS)
    size = sum(len(row["text"].encode()) for row in DOCS)
    bits = by_metric["whole_fr", "bits_per_byte"]
    assert bits.value == pytest.approx(-nats / size / 0.6931471805599453, rel=1e-4)
    assert bits.low is None
    assert len(found.examples) == 12
    assert "infer:full-lang:full>fr" in result.signature


def test_metrics_are_compared_as_their_tasks_declare_them(
    few_steps: Path, include: Path, tmp_path: Path
) -> None:
    """The values of eval mcq; lower perplexities and bits are better. No document gives an f1."""
    names = tuple(f"{name}_fr" for name in ("choice", "whole", "surprise", "share"))
    values = []
    for name, mode in (("a", "full"), ("b", "full-lang")):
        settings = {"tasks": names, "infer": mode, "include": include}
        found = evaluate_mcq(few_steps, ["fr"], data=None, **settings)
        write_lines(tmp_path / name, found.examples)
        values.append({(row["task"], row["metric"]): row["value"] for row in found.rows})
        declared = {(row["task"], row["metric"]): row["higher_is_better"] for row in found.rows}
        assert declared == {
            ("choice_fr", "acc"): True, ("choice_fr", "acc_norm"): True,
            ("whole_fr", "bits_per_byte"): False, ("surprise_fr", "perplexity"): False,
            ("surprise_fr", "acc"): True, ("share_fr", "acc"): False, ("share_fr", "f1"): True,
        }  # fmt: skip
    rows = {(row["task"], row["metric"]): row for row in compare(tmp_path / "a", tmp_path / "b")}
    assert values[0]["surprise_fr", "perplexity"] != values[1]["surprise_fr", "perplexity"]
    for key, row in rows.items():
        assert [row["a"], row["b"]] == pytest.approx([values[0][key], values[1][key]], rel=1e-9)
        assert row["higher_is_better"] == declared[key]
    assert rows.keys() == declared.keys()
    assert {key for key, row in rows.items() if row["p"] is None} == {
        ("share_fr", "acc"), ("share_fr", "f1")
    }  # fmt: skip


def test_a_score_that_json_does_not_have_is_left_out() -> None:
    """`eval compare` would refuse the file; it says that only some documents have the metric."""
    row = {"doc_id": 3, "filter": "none", "metrics": ["acc", "ppl"], "acc": 1.0}
    for odd in (math.inf, -math.inf, math.nan):
        ((_, scores),) = harness._by_document([{**row, "ppl": odd}])
        assert scores == {"acc": 1.0}


def test_the_whole_vocabulary_needs_no_language(few_steps: Path, include: Path) -> None:
    whole = {"tasks": ("choice_fr",), "infer": "full", "limit": 1}
    found = evaluate_mcq(few_steps, data=None, include=include, **whole)
    assert {(result.language, result.n) for result in found.results} == {("full", 1)}


CODE = {
    "function": "doc_to_target: !function evil.run",
    "importable": "process_docs: !function os.getcwd",
    "class": "class: !function evil.run",
    "template": 'doc_to_target: "{{ text.__class__.__mro__ }}"',
    "metric": "metric_list: [{metric: ./evil}]",
    "downloaded metric": "metric_list: [{metric: exact_match, hf_evaluate: true}]",
}


@pytest.mark.parametrize("kind", CODE)
def test_task_files_that_run_code_are_refused(few_steps: Path, include: Path, kind: str) -> None:
    ran = include / "ran"
    code = f"open({str(ran)!r}, 'w')\ndef run(*args, **kwargs):\n    return ''\n"
    (include / "evil.py").write_text(code)
    text = (include / "write.yaml").read_text()
    field = CODE[kind].partition(":")[0]
    lines = [line for line in text.splitlines() if not line.startswith(field)]
    (include / "write.yaml").write_text("\n".join([*lines, CODE[kind]]) + "\n")
    settings = {"tasks": ("write_fr",)}
    said = "unsafe" if kind == "template" else "the task runs code .*allow_code"
    with pytest.raises((ModtokError, SecurityError), match=said):
        evaluate_mcq(few_steps, ["fr"], data=None, include=include, **settings)
    assert not ran.exists()


def test_task_files_with_code_run_if_allowed(few_steps: Path, include: Path) -> None:
    (include / "mine.py").write_text("def target(doc):\n    return doc['word']\n")
    text = (include / "write.yaml").read_text()
    code = text.replace('doc_to_target: "{{word}}"', "doc_to_target: !function mine.target")
    (include / "write.yaml").write_text(code)
    settings = {"tasks": ("write_fr",), "allow_code": True}
    found = evaluate_mcq(few_steps, ["fr"], data=None, include=include, **settings)
    assert [row["target"] for row in found.examples] == ["caisse", "charrette"]


def test_unknown_task(few_steps: Path, include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """lm-eval's whole index, which takes 14 s, is read once a process; here it is not."""
    import lm_eval.tasks

    manager = lm_eval.tasks.TaskManager
    wholes = []

    def small(**settings: Any) -> Any:
        if settings.get("include_defaults", True):
            wholes.append(settings)
        return manager(**{**settings, "include_defaults": False})

    monkeypatch.setattr(lm_eval.tasks, "TaskManager", small)
    for _ in range(2):
        with pytest.raises(UsageError, match="unknown task 'chance'"):
            evaluate_mcq(few_steps, ["fr"], data=None, include=include, tasks=("chance",))
    assert len(wholes) == 1


def test_options() -> None:
    greedy = options_of({"until": "\n\n", "temperature": 0.7, "max_gen_toks": 9})
    assert (greedy.temperature, greedy.stop, greedy.max_tokens) == (0.0, ("\n\n",), 9)
    drawn = options_of({"do_sample": True, "temperature": 0.7, "top_p": 0.9})
    assert (drawn.temperature, drawn.top_p, drawn.stop, drawn.max_tokens) == (0.7, 0.9, (), 256)


ARC = {
    "id": "q7",
    "question": " Why? ",
    "choices": {"text": ["so", "no"], "label": ["A", "B"]},
    "answerKey": "B",
}
# A row of each data set, and its question.
ROWS: dict[str, tuple[dict[str, Any], Question]] = {
    "arc_easy": (ARC, Question("q7", "Why?", ("so", "no"), 1)),
    "csqa": (ARC, Question("q7", "Why?", ("so", "no"), 1)),
    "hellaswag": (
        {
            "activity_label": "Knitting",
            "ctx_a": "[header] How to knit [title] Take wool.",
            "ctx_b": "she",
            "endings": ["knits  a hat.", "[step] sleeps."],
            "label": "1",
        },
        Question("1", "Knitting: How to knit. Take wool. She", ("knits a hat.", "sleeps."), 1),
    ),
    "mmlu": (
        {"question": "1?", "choices": ["a", "b"], "answer": 1, "id": "anatomy/test/3"},
        Question("1", "1?", ("a", "b"), 1, group="anatomy"),
    ),
    "piqa": (
        {"goal": "Open", "sol1": "pull", "sol2": "push", "label": 0},
        Question("1", "Open", ("pull", "push"), 0),
    ),
    "siqa": (
        {
            "context": "Jo ran.",
            "question": "Why?",
            **{f"answer{letter}": letter for letter in "ABC"},
            "label": "3",
        },
        Question("1", "Why?", ("A", "B", "C"), 2, "Jo ran."),
    ),
    "belebele": (
        {
            "flores_passage": "It rained. ",
            "question": "What?",
            **{f"mc_answer{number}": str(number) for number in range(1, 5)},
            "correct_answer_num": "2",
        },
        Question("1", "What?", ("1", "2", "3", "4"), 1, "It rained."),
    ),
    "xnli": (
        {"premise": "He ran.", "hypothesis": "He moved.", "label": 2},
        Question("1", "He ran., right?", ("Yes, He moved.", "Also, He moved.", "No, He moved."), 2),
    ),
    "xcopa": (
        {
            "premise": "L'uomo aprì il rubinetto.",
            "choice1": "Il gabinetto si riempì d'acqua.",
            "choice2": "Dell'acqua fluì dal beccuccio.",
            "question": "effect",
            "label": 1,
        },
        Question(
            "1",
            "L'uomo aprì il rubinetto quindi",
            ("il gabinetto si riempì d'acqua.", "dell'acqua fluì dal beccuccio."),
            1,
        ),
    ),
    "xstorycloze": (
        {
            "story_id": "ab-1",
            **{f"input_sentence_{number}": f"S{number}." for number in range(1, 5)},
            "sentence_quiz1": "Good.",
            "sentence_quiz2": "Bad.",
            "answer_right_ending": 2,
        },
        Question("ab-1", "S1. S2. S3. S4.", ("Good.", "Bad."), 1),
    ),
    "global_mmlu": (
        {
            "sample_id": "anatomy/test/3",
            "subject": "anatomy",
            "question": "1? ",
            **{f"option_{letter}": letter for letter in "abcd"},
            "answer": "C",
        },
        Question("anatomy/test/3", "1?", ("a", "b", "c", "d"), 2, group="anatomy"),
    ),
}


def source_of(task: str) -> tuple[HubSource, str]:
    """The source of a suite in English, else in Italian."""
    for language in ("en", "it"):
        if source := suites()[task].source(language):
            return source, language
    raise AssertionError(task)


@pytest.mark.parametrize("task", ROWS)
def test_rows_of_the_hub(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a row without a right answer is left out, and said."""
    row, expected = ROWS[task]
    source, language = source_of(task)
    without = {**row, "label": "", "answerKey": "", "answer": None, "correct_answer_num": ""}
    without["answer_right_ending"] = None
    asked: list[tuple[Any, ...]] = []

    def loaded(dataset: str, split: str, **place: Any) -> list[Any]:
        asked.append((dataset, split, place["config"] or place["files"] or ""))
        return [row, without]

    monkeypatch.setattr(hub_tasks, "rows", loaded)
    found, shown = hub_tasks.questions(source, language)
    assert found == [expected]
    assert len(shown) == (1 if source.train else 0)
    template, code = source.config or source.files or "", source.languages[language]
    assert asked == [
        (source.dataset, split, template.replace("{code}", code).replace("{split}", split))
        for split in (source.test, source.train)
        if split
    ]


def test_selected_examples_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """OLMES's, by their ids; a dataset that lacks some keeps the order of its rows."""
    source, _ = source_of("arc_challenge")
    names = [source.examples[2], "x", source.examples[0], "y"]
    rows = [{**ARC, "id": name, "question": name} for name in names]
    monkeypatch.setattr(hub_tasks, "rows", lambda *_, **__: rows)
    questions, shown = hub_tasks.questions(source, "en")
    assert [row.name for row in questions] == names
    assert [row.name for row in shown] == [names[2], names[0], "x", "y"]
    for task in ("arc_easy", "arc_challenge", "csqa"):
        source, _ = source_of(task)
        assert len(set(source.examples)) == suites()[task].shots


def test_questions_from_the_hub_are_evaluated(
    few_steps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub here is a stand-in that knows one suite."""

    def loaded(dataset: str, split: str, files: str | None, **_: Any) -> list[Any]:
        if dataset != "openGPT-X/arcx" or "easy" not in str(files):
            raise ModtokError("cannot load the dataset (404)", where=dataset)
        return [{**ARC, "question": f"{files} {split} {number}?"} for number in range(6)]

    monkeypatch.setattr(hub_tasks, "rows", loaded)
    monkeypatch.setattr(hub_tasks, "reachable", lambda: True)
    found = evaluate_mcq(few_steps, ["fr"], data=None, limit=4)
    assert [(result.task, result.n, result.shots) for result in found.results] == [
        ("arc_easy", 4, 5)
    ]
    assert found.examples[0]["question"] == "*easy_FR_test.jsonl test 0?"
    assert len(found.skipped) == 6  # the other suites in French
    assert "404" in found.skipped[0]


def test_a_lost_connection_is_one_line(few_steps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy the hub counts as reachable; each try may take half a minute."""
    tries = []

    def refused(*_: Any, **__: Any) -> Any:
        tries.append(1)
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as error:
            raise FileNotFoundError("not cached") from error

    monkeypatch.setattr("datasets.load_dataset", refused)
    monkeypatch.setattr(hub_tasks, "reachable", lambda: True)
    with pytest.raises(
        ModtokError, match=r"^no questions for en, fr: .*reached; run .* where it can"
    ):
        evaluate_mcq(few_steps, ["en", "fr"], data=None)
    assert len(tries) == 1


def test_the_hub_is_asked_once_whether_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the library, which knows its endpoint, proxies and offline mode."""
    answers = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)  # 501 is an answer
    Thread(target=answers.serve_forever, daemon=True).start()
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{answers.server_port}")
    for offline, expected in ((True, False), (False, True)):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
        hub_tasks.reachable.cache_clear()
        assert hub_tasks.reachable() is expected
    answers.shutdown()
    answers.server_close()
    assert hub_tasks.reachable()
    hub_tasks.reachable.cache_clear()
    assert not hub_tasks.reachable()
    hub_tasks.reachable.cache_clear()
