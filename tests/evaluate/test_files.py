"""Files as people write them: questions, documents, parallel text; none loses hours of work."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from helpers.questions import QUESTIONS, lay_out
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.cli.commands.eval_mcq import all_local
from modtok_cli.cli.evaluation_output import emit_evaluation, writing_examples
from modtok_cli.cli.execute import run
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.output import TABLES
from modtok_cli.evaluate import hub_tasks, mcq
from modtok_cli.evaluate.compare import compare
from modtok_cli.evaluate.documents import Documents, read_documents
from modtok_cli.evaluate.evaluate import evaluate_mt, evaluate_sum
from modtok_cli.evaluate.parallel_text import Parallel, find_parallel
from modtok_cli.evaluate.questions import Folder, read_questions
from modtok_cli.evaluate.results import Evaluation, Result, example, read_examples
from modtok_cli.evaluate.suite import read_suite, suites
from modtok_cli.evaluate.task_files import Example

BOM = b"\xef\xbb\xbf"
ROW = {"question": "Two?", "choices": ["1", "2"], "answer": "2"}


def put(path: Path, *rows: Any, end: bytes = b"\n", mark: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(mark + b"".join(json.dumps(row).encode() + end for row in rows))
    return path


def test_names_of_questions_are_unique(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one name would be refused by compare, in the very file that was kept."""
    path = put(tmp_path / "a.jsonl", ROW | {"id": 7}, ROW | {"id": 7}, ROW | {"id": None}, ROW)
    assert [row.name for row in read_questions(path)] == ["7", "7 (line 2)", "3", "4"]
    arc = {"choices": {"text": ["a", "b"], "label": ["A", "B"]}, "answerKey": "A", "id": "x"}
    monkeypatch.setattr(
        hub_tasks, "rows", lambda *_, **__: [arc | {"question": text} for text in "12"]
    )
    found, _ = hub_tasks.questions(suites()["arc_easy"].hub[0], "en")
    assert [row.name for row in found] == ["x", "x (line 2)"]
    document = {"document": "a", "summary": "b", "id": None}
    path = put(tmp_path / "b.jsonl", document, document, document | {"id": 1})
    assert [row.name for row in read_documents(path)] == ["1", "2", "1 (line 3)"]


def test_files_from_other_editors(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", ROW, ROW, end=b"\r\n", mark=BOM)
    assert len(read_questions(path)) == 2
    path = put(tmp_path / "b.jsonl", {"document": "a", "summary": "b"}, end=b"\r\n", mark=BOM)
    assert read_documents(path)[0].target == "b"
    path = put(tmp_path / "c.jsonl", example("a", "b", "1", {"acc": 1.0}), mark=BOM)
    assert read_examples(path)[0]["id"] == "1"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('prompt: "{question.x}"', "'prompt' may only contain the placeholders question, context"),
        ('prompt: "{question:>99999999}"', "'prompt' may only contain"),
        ('prompt: "{question!r}"', "'prompt' may only contain"),
        ('prompt: "{"', "'prompt' may only contain"),
        ('prompt: "\\ud800"', "'prompt' may only|invalid YAML"),
        ("shots: 2026-13-45", "invalid YAML"),
        ("title: 3", "'title' must be a string"),
        ("hub: 3", "unknown field 'hub'"),
        ("prompt", "'prompt' is missing"),
        ("normalization: much", "'normalization' must be one of none, characters, pmi"),
        ("normalization: []", "'normalization' must be one of none"),
        ("normalization", "'normalization' must be one of none, characters, pmi"),
        ("shots: -1", "'shots' must be"),
        ("about: " + "[" * 600, "invalid YAML"),
    ],
)
def test_damaged_task_is_a_one_line_error(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "task.yaml"
    sound = {"task": "own", "prompt": '"{question}"', "shots": "1", "normalization": "none"}
    name, _, value = change.partition(": ")
    text = "".join(f"{key}: {what}\n" for key, what in (sound | {name: value}).items() if what)
    path.write_text(text)
    with pytest.raises(ModtokError, match=said) as caught:
        read_suite(path)
    assert str(path) in str(caught.value)


def test_all_texts_are_validated_before_generation(
    few_steps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modtok_cli.evaluate.generation.generate", None)  # nothing is written
    for name, count in (("en", 9), ("fi", 9), ("fr", 8)):
        numbered(tmp_path / f"{name}.txt", "line", count)
    with pytest.raises(ModtokError, match="they differ from this line on"):
        evaluate_mt(few_steps, "en-fi,en-fr", data=tmp_path, max_tokens=2)
    put(tmp_path / "en.jsonl", *[{"document": "a", "summary": "b"}] * 9)
    put(tmp_path / "fr.jsonl", {"document": "a", "summary": ""})
    with pytest.raises(ModtokError, match=r"fr\.jsonl:1: the summary is empty"):
        evaluate_sum(few_steps, ["en", "fr"], data=tmp_path, max_tokens=2)


def test_language_code_that_is_a_word_is_reported_missing(tmp_path: Path) -> None:
    """Norwegian is "no", and so begins "no questions"."""
    data = lay_out(tmp_path, "hellaswag", "fr", **QUESTIONS)
    settings = mcq.McqSettings()
    own, _ = mcq.tasks_of(settings.tasks, data)
    _, skipped = mcq._collect_jobs(own, ["fr", "fi", "no"], data, settings, SILENT)
    assert skipped[-1] == "no questions in no"


def test_scores_and_examples_are_written_independently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = Evaluation(examples=[example("a", "b", "1", {"acc": 1.0})])
    with (
        pytest.raises(BrokenPipeError),
        writing_examples(tmp_path / "e.jsonl", evaluation.examples),
    ):
        raise BrokenPipeError
    assert len(read_examples(tmp_path / "e.jsonl")) == 1
    given: list[Any] = []
    monkeypatch.setattr(
        "modtok_cli.cli.evaluation_output.emit_tables", lambda rows, *_, **__: given.extend(rows)
    )
    result = Result("mt", "a-b", "BLEU", 1.0, None, None, 1, 0, "none", "lang", "mt|x")
    evaluation.results.append(result)
    (tmp_path / "taken").mkdir()
    with pytest.raises(ModtokError, match="cannot write"):
        emit_evaluation(None, evaluation, "", tmp_path / "taken", json=True)  # type: ignore[arg-type]
    assert len(given) == 1


def test_a_table_has_the_signature_of_its_mode(capsys: pytest.CaptureFixture[str]) -> None:
    modes = ("full", "lang")
    results = [
        Result("mt", "a-b", "BLEU", 1.0, None, None, 1, 0, "none", mode, f"mt|infer:{mode}")
        for mode in modes
    ]
    tables = TABLES.set(True)
    emit_evaluation(Mock(), Evaluation(results=results), "", json=False)
    TABLES.reset(tables)
    printed = capsys.readouterr().out
    places = [printed.index(f"{end}{mode}") for mode in modes for end in ("--infer ", "mt|infer:")]
    assert places == sorted(places)


def test_a_file_of_questions_is_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = put(tmp_path / "q.jsonl", ROW)
    for place, what in ((file, "is a file, not a directory"), (tmp_path / "no", "does not exist")):
        assert run(command_tree(), ["eval", "mcq", "--eval-data", str(place)]) == 2
        assert f"{place}: {what}; provide questions as DIR/mcq/" in capsys.readouterr().err


def test_local_tasks_do_not_use_the_network(tmp_path: Path) -> None:
    data = lay_out(tmp_path, "own", "fr", **QUESTIONS)
    assert all_local(data, None)
    assert all_local(data, ["own", "piqa"])
    assert not all_local(data, ["own", "lambada_openai"])


def test_nothing_to_compare_is_an_error(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", [example("a", "b", "1", {})])
    with pytest.raises(ModtokError, match="a: contains no scores and no translations"):
        compare(tmp_path / "a", tmp_path / "a")


def test_two_files_of_one_language_are_an_error(tmp_path: Path) -> None:
    for name in ("en.jsonl", "eng.jsonl"):
        put(tmp_path / "sum" / name, {"document": "a", "summary": "b"})
        put(tmp_path / "mcq" / "task" / name, ROW)
    with pytest.raises(UsageError, match=r"en\.jsonl and eng\.jsonl are both language 'en'"):
        Documents(tmp_path / "sum")
    with pytest.raises(UsageError, match=r"en\.jsonl and eng\.jsonl are both language 'en'"):
        Folder(tmp_path).has("task", "en")


# --- documents to summarize ---


def test_layouts(tmp_path: Path) -> None:
    lists = {"article": {"document": ["Boil  water.", "Add\ntea."], "summary": ["Make", "tea."]}}
    gem = {"gem_id": "x", "source": "Boil water.", "target": "Make tea."}
    path = put(tmp_path / "en.jsonl", lists, gem, {"document": "a", "summary": "b", "id": 7})
    assert read_documents(path) == [
        Example("1", "Boil water. Add tea.", "Make tea."),
        Example("2", "Boil water.", "Make tea."),
        Example("7", "a", "b"),
    ]
    assert Documents(tmp_path).languages == ["en"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "invalid JSON"),
        ("[]", 'no text in "document"'),
        ('{"document": "a"}', 'no text in "summary"'),
        ('{"document": "a", "summary": " \\n"}', "the summary is empty"),
        ('{"document": [], "summary": "a"}', "the document is empty"),
        ('{"document": [1], "summary": "a"}', 'no text in "document"'),
    ],
)
def test_invalid_rows_name_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "fr.jsonl"
    path.write_text('{"document": "a", "summary": "b"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(ModtokError, match=f"fr.jsonl:2: .*{said}") as told:
        read_documents(path)
    assert told.value.exit_code == 1


def test_missing_documents_list_the_layout(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModtokError, match=r"DIR/sum/fr\.train\.jsonl"):
            Documents(place)
    put(tmp_path / "fr.jsonl", *[{"document": "a", "summary": "b"}] * 3)
    with pytest.raises(ModtokError, match="too few rows in fr for 5 shots"):
        Documents(tmp_path).of("fr", 5)


# --- parallel text ---


def lines(path: Path, *texts: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def numbered(path: Path, name: str, count: int) -> None:
    lines(path, *(f"{name} {number}" for number in range(1, count + 1)))


def told(found: Parallel, shots: int) -> tuple[Sequence[Example], Sequence[Example]]:
    return found.pair("en", "fr", shots)


@pytest.mark.parametrize("place", ["", "mt", "mt/flores200_dataset"])
def test_flores(tmp_path: Path, place: str) -> None:
    for part, count in (("dev", 7), ("devtest", 3)):
        for code in ("eng_Latn", "fra_Latn", "npi_Deva"):
            numbered(tmp_path / place / part / f"{code}.{part}", f"{code[:2]} {part}", count)
    found = find_parallel(tmp_path)
    assert found.languages == ["en", "fr", "ne"]
    shots, tests = told(found, 2)
    assert shots == [Example("1", "en dev 1", "fr dev 1"), Example("2", "en dev 2", "fr dev 2")]
    assert [test.target for test in tests] == [f"fr devtest {n}" for n in (1, 2, 3)]


def test_line_by_line_keeps_the_first_lines_for_shots(tmp_path: Path) -> None:
    for name in ("en", "fr"):
        numbered(tmp_path / f"{name}.txt", name, 9)
    (tmp_path / "README.md").write_text("not text")
    found = find_parallel(tmp_path)
    for shots in (0, 3, 5):  # whatever is shown, the same are scored
        shown, tests = told(found, shots)
        assert len(shown) == shots
        assert [test.name for test in tests] == ["6", "7", "8", "9"]
    assert [test.name for test in told(found, 7)[1]] == ["8", "9"]


def test_tables(tmp_path: Path) -> None:
    rows = ["eng_Latn\tfr\tfi", *(f"en {n}\tfr {n}\t" for n in range(8))]
    for place in ("one.tsv", "mt/test.tsv", "other/any.tsv"):
        lines(tmp_path / place, *rows)
    for place in ("one.tsv", "mt", "", "other"):
        found = find_parallel(tmp_path / place)
        assert found.languages == ["en", "fi", "fr"]
        assert told(found, 1)[1][0] == Example("6", "en 5", "fr 5")
    lines(tmp_path / "mt" / "dev.tsv", "en\tfr", "en dev\tfr dev")
    assert told(find_parallel(tmp_path), 1)[0] == [Example("1", "en dev", "fr dev")]
    heard = Silent()
    with pytest.raises(ModtokError, match="too few lines"):
        find_parallel(tmp_path / "one.tsv").pair("en", "fi", 1, heard)
    assert "skipped 8 lines of en-fi that are empty on one side" in heard.warnings[0]


def test_json_lines(tmp_path: Path) -> None:
    """The same sentences as in a table, plain or as the datasets of the hub have them."""
    rows = [{"eng_Latn": f"en {n}", "fr": f"fr\n {n}", "n": n} for n in range(8)]
    lines(tmp_path / "one.jsonl", *map(json.dumps, rows))
    nested = [{"id": str(row["n"]), "translation": row} for row in rows]
    lines(tmp_path / "mt" / "test.jsonl", *map(json.dumps, nested))
    lines(tmp_path / "mt" / "dev.jsonl", json.dumps({"en": "en dev", "fr": "fr dev", "fi": "fi"}))
    for place in ("one.jsonl", "mt"):
        found = find_parallel(tmp_path / place)
        assert found.languages == ["en", "fr"]
        shown, tests = told(found, 1)
        assert tests[-1] == Example("8", "en 7", "fr 7")
    assert shown == [Example("1", "en dev", "fr dev")]
    packed = tmp_path / "packed" / "any.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress((tmp_path / "one.jsonl").read_bytes()))
    assert len(told(find_parallel(packed.parent), 0)[1]) == 3
    for wrong in ('{"en": "one"}', '["en", "fr"]', '{"translation": "one"}', '{"en": 1, "fr": 2}'):
        lines(tmp_path / "wrong.jsonl", json.dumps(rows[0]), wrong)
        with pytest.raises(ModtokError, match=r"wrong\.jsonl:2: has no sentences in two languages"):
            assert find_parallel(tmp_path / "wrong.jsonl").languages
    lines(tmp_path / "twice.jsonl", json.dumps({"en": "a", "fr": "b", "fra": "c"}))
    with pytest.raises(ModtokError, match="has fr as fr and fra"):
        assert find_parallel(tmp_path / "twice.jsonl").languages


def test_compressed_and_duplicate_languages(tmp_path: Path) -> None:
    (tmp_path / "en.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfa\r\nb\n" * 4))
    numbered(tmp_path / "zho_Hans.txt", "hans", 8)
    numbered(tmp_path / "zho_Hant.txt", "hant", 8)
    shown, _ = find_parallel(tmp_path).pair("en", "zh", 2)
    assert [(pair.source.lstrip("\ufeff"), pair.target) for pair in shown] == [
        ("a", "hans 1"),
        ("b", "hans 2"),
    ]


def test_files_of_different_length_name_the_line(tmp_path: Path) -> None:
    texts = ["short", "a rather long line of text", "x", "a line of middling length"] * 6
    lines(tmp_path / "en.txt", *texts)
    lines(tmp_path / "fr.txt", *texts[:9], *texts[10:])
    lines(tmp_path / "fi.txt", *texts)
    with pytest.raises(ModtokError, match=r"fr\.txt:10: has 23 lines, .*en\.txt has 24"):
        told(find_parallel(tmp_path), 2)
    assert len(find_parallel(tmp_path).pair("en", "fi", 2)[1]) == 19  # others are not disturbed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"en\tfr\na\tb\tc\n", "expected 2 columns, got 3"),
        (b"en\tfr\na\n", "expected 2 columns, got 1"),
        (b"hello\tworld one\n", "expected two or more languages in the first line"),
        (b"en\n", "expected two or more languages in the first line"),
        (b"en\teng_Latn\n", "expected two or more languages in the first line"),
        (b"", "expected two or more languages in the first line"),
        (b"en\tfr\na\xff\tb\n", "t.tsv:2: not UTF-8"),
    ],
)
def test_damaged_tables(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes(content)
    with pytest.raises(ModtokError, match=said) as error:
        assert find_parallel(path).languages == []
    assert error.value.exit_code == 1


def test_columns_of_a_table_without_a_header_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"hei {number}\thello {number}\n" for number in range(24)))
    shots, tests = find_parallel(path, columns=["fi", "en"]).pair("en", "fi", 1)
    pairs = {(each.source, each.target) for each in (*shots, *tests)}
    assert pairs <= {(f"hello {number}", f"hei {number}") for number in range(24)}
    assert ("hello 0", "hei 0") in pairs  # the first line is text
    with pytest.raises(ModtokError, match=r"t\.tsv:1: expected 3 columns, got 2"):
        assert find_parallel(path, columns=["fi", "en", "fr"]).languages
    path.write_text("fi\ten\nhei\thello\n")
    with pytest.raises(UsageError, match="first line names languages: fi, en; omit --columns"):
        assert find_parallel(path, columns=["fi", "en"]).languages
    (tmp_path / "t.jsonl").write_text('{"en": "a", "fi": "b"}\n')
    with pytest.raises(UsageError, match="--columns: is for TSV"):
        assert find_parallel(tmp_path / "t.jsonl", columns=["fi", "en"]).languages


def test_missing_parallel_text_lists_the_layouts(tmp_path: Path) -> None:
    lines(tmp_path / "en.txt", "alone")
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ModtokError, match=r"FLORES.*test\.tsv.*DIR/mt/en\.txt.*fetch"):
            find_parallel(place)
