"""The report: every section there, nothing fetched, nothing wider than its window."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from base64 import b64decode
from collections import Counter, defaultdict
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.reports import legend
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import GENERATOR
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.measure.check import check
from modtok_cli.measure.fairness import fairness
from modtok_cli.measure.nsl import nsl
from modtok_cli.measure.origin import origin
from modtok_cli.reports.charts import Dots
from modtok_cli.reports.kinds import kinds
from modtok_cli.reports.report import report
from modtok_cli.reports.report_page import Section
from modtok_cli.reports.report_page import page as page_of
from modtok_cli.reports.runs import TrainingRun
from modtok_cli.reports.tables import Table

DATA, PARALLEL = SAMPLE / "data", SAMPLE / "parallel"
TEXTS = [PARALLEL / f"{language}.txt" for language in ("el", "en", "fi", "fr", "ne", "sw")]


def save(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a tokenizer, a joint one, and rows of every kind."""
    place = tmp_path_factory.mktemp("ws & <co>")
    bpe_seq(data=DATA, output=place / "tokenizer", k=600)
    bpe(data=DATA, output=place / "bpe-joint", k=1500, joint=True)
    specs = [f"{place}/tokenizer", f"{place}/tokenizer@each", f"{place}/bpe-joint"]
    save(place / "results" / "nsl.jsonl", nsl(specs, TEXTS))
    save(place / "results" / "check.jsonl", check(specs, TEXTS))
    save(place / "results" / "fairness.jsonl", fairness(specs, TEXTS))
    save(place / "results" / "origin.jsonl", origin(specs[0], TEXTS))
    return place


@pytest.fixture(scope="module")
def page(workspace: Path) -> Path:
    path = workspace / "report.html"
    report(workspace, path, force=True)
    return path


class Reader(HTMLParser):
    """Counts elements, checks that they close in order, and collects what a test looks at."""

    VOID = frozenset({"meta", "link", "wbr", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: Counter[str] = Counter()
        self.ids: list[str | None] = []
        self.links: list[str] = []
        self.text: dict[str, list[str]] = defaultdict(list)
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.count[tag] += 1
        self.open += [tag] * (tag not in self.VOID)
        self.ids += [given.get("id")] * (tag == "section")
        self.links += filter(None, (given.get("href"), given.get("src")))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text[self.open[-1]].append(data)


def read(page: Path) -> Reader:
    return Reader(page.read_text(encoding="utf-8"))


def pictures(page: Path) -> list[str]:
    links = [link.partition("base64,") for link in read(page).links]
    return [b64decode(data).decode() for _, sign, data in links if sign]


def test_structure(page: Path) -> None:
    found = read(page)
    assert found.count["h1"] == 1
    headings = found.text["h2"]
    assert headings[0] == kinds()["nsl"].title
    assert headings[-2:] == ["Tokenizer bpe-joint", "Tokenizer tokenizer"]
    titles = {name: kind.title for name, kind in kinds().items()}
    models = ("evaluation", "generation", "bpb", "drafts")
    later = {titles[name] for name in models}
    assert set(titles.values()) - later <= set(headings)
    assert len(found.ids) == len(set(found.ids)) == found.count["section"]
    inner = [link[1:] for link in found.links if link.startswith("#")]
    assert inner == found.ids
    # check 1, nsl 1, fairness 3, origin 2, shared 1: the joint one shares all
    assert found.count["figure"] == 8
    assert found.count["img"] == 8
    assert found.count["table"] == found.count["caption"] >= 7


def test_page_loads_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = read(page)
    outer = {link for link in found.links if not link.startswith(("#", "data:image/svg+xml;"))}
    assert outer == {"data:,"}
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text
    assert "url(" not in text
    assert "Content-Security-Policy" in text


def test_report_has_commands_and_signatures(page: Path, workspace: Path) -> None:
    found = read(page)
    codes = "\n".join(found.text["code"])
    for kind in ("nsl|tok:", "fairness|tok:", "origin|tok:"):
        assert kind in codes
    assert "ws & <co>" in found.text["h1"][0] or "ws & " in found.text["title"][0]


def test_tables_and_summary_contain_the_numbers_of_the_rows(page: Path, workspace: Path) -> None:
    assert "has the lowest mean NSL, " in page.read_text("utf-8").split("<nav")[0]
    cells = set(read(page).text["td"])
    for row in map(orjson.loads, (workspace / "results" / "nsl.jsonl").read_bytes().splitlines()):
        assert f"{row['nsl']:.3f}" in cells
        shown = "".join(pictures(page))
        assert f"a monolingual tokenizer, k = {row['reference_size']:,}" in shown


def test_a_tokenizer_has_one_color_on_the_page(page: Path) -> None:
    colors: dict[str, set[str]] = defaultdict(set)
    for picture in pictures(page):
        for name, color in legend(picture).items():
            colors[name].add(color)
    names = ["tokenizer", "tokenizer@each", "bpe-joint"]
    assert [len(colors[name]) for name in names] == [1, 1, 1]
    assert len(set.union(*(colors[name] for name in names))) == 3


def test_report_is_deterministic(page: Path, workspace: Path, tmp_path: Path) -> None:
    report(workspace, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page.read_bytes()
    report(workspace, tmp_path / "again.html")  # its own page is replaced
    (tmp_path / "again.html").write_text(GENERATOR.format("explore"))
    with pytest.raises(UsageError, match="already exists"):
        report(workspace, tmp_path / "again.html")


def test_small_and_unusual_workspaces(tmp_path: Path) -> None:
    with pytest.raises(ModtokError, match="nothing to report"):
        report(tmp_path, tmp_path / "r.html")
    with pytest.raises(ModtokError, match="does not exist"):
        report(tmp_path / "none", tmp_path / "r.html")
    bpe_seq(["en", "fi"], data=DATA, k=400, output=tmp_path / "tokenizer")
    save(tmp_path / "s.jsonl", origin(tmp_path / "tokenizer", TEXTS[1:3]))
    shutil.rmtree(tmp_path / "tokenizer")
    (tmp_path / "notes.jsonl").write_text('{"hello": 1}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "cut.jsonl").write_text('{"signature": "nsl|x"}\n{"sig')
    (tmp_path / "old.jsonl").write_text('{"signature": "nsl|x"}\n')
    (tmp_path / "nan.jsonl").write_text('{"signature": "nsl|x", "nsl": NaN}\n')
    os.mkfifo(tmp_path / "pipe.jsonl")
    said = Silent()
    report(tmp_path, tmp_path / "r.html", progress=said)
    found = read(tmp_path / "r.html")
    assert found.text["h2"] == [kinds()["origin"].title]
    places = [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in said.warnings]
    assert places == ["cut.jsonl:2", "nan.jsonl:1", "old.jsonl", "pipe.jsonl"]


def test_table_headings() -> None:
    """They may break at signs of file names, but not within what stands for another sign."""
    table = Table("Caption", ["the prompt's #1 & <b>/a_b.json"], [["it's #1"]])
    reader = Reader(page_of("Title", [Section("s", "Section", tables=[table])]))
    assert "".join(reader.text["th"]) == table.headings[0]
    assert reader.count["wbr"] > 3
    assert reader.text["td"] == ["it's #1"]


def test_sections_of_one_kind_have_distinct_titles(workspace: Path, tmp_path: Path) -> None:
    for name, text in (("first", "en"), ("second", "fi")):
        rows = fairness([f"{workspace}/tokenizer"], [PARALLEL / f"{text}.txt"], pivot=text)
        save(tmp_path / "results" / f"{name}.jsonl", rows)
    report(tmp_path, tmp_path / "r.html")
    assert read(tmp_path / "r.html").text["h2"][:2] == [
        "Fairness across languages (first)",
        "Fairness across languages (second)",
    ]


def test_another_reference_is_another_section(workspace: Path, tmp_path: Path) -> None:
    """The same tokenizers and texts: neither file replaces the other, nor are they ranked."""
    rows = nsl([str(workspace / "tokenizer")], TEXTS)
    other = [{**row, "signature": re.sub("ref:[^|]*", "ref:0", row["signature"])} for row in rows]
    for age, (name, those) in enumerate((("a", rows), ("b", other), ("c", rows))):
        save(tmp_path / "results" / f"{name}.jsonl", those)
        os.utime(tmp_path / "results" / f"{name}.jsonl", (age, age))
    report(tmp_path, output=tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert re.findall("Rows: ([^<]*)<", text) == [
        "results/a.jsonl, results/c.jsonl", "results/b.jsonl",
    ]  # fmt: skip


def test_files_that_measure_tokenizers_are_one_section(workspace: Path, tmp_path: Path) -> None:
    """All tokenizers in one chart; of two rows about the same, that of the newer file."""
    specs = [f"{workspace}/tokenizer", f"{workspace}/bpe-joint"]
    references = workspace / "tokenizer" / "references"
    for age, (name, each) in enumerate([("b", specs[0]), ("a", specs[1])]):
        rows = nsl([each], [PARALLEL / "fi.txt"], references=references)
        save(tmp_path / "results" / f"{name}.jsonl", rows)
        os.utime(tmp_path / "results" / f"{name}.jsonl", (age, age))
    old = [{**row, "nsl": 9.875} for row in nsl([specs[0]], [PARALLEL / "fi.txt"])]
    save(tmp_path / "results" / "old.jsonl", old)
    os.utime(tmp_path / "results" / "old.jsonl", (0, -1))
    report(tmp_path, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    found = read(tmp_path / "r.html")
    assert found.text["h2"] == ["Tokens relative to monolingual tokenizers"]
    (picture,) = pictures(tmp_path / "r.html")
    assert {"tokenizer", "bpe-joint", "Finnish"} <= set(re.findall(">([^<]+)</text>", picture))
    assert "9.875" not in text
    assert "Rows: results/a.jsonl, results/b.jsonl, results/old.jsonl" in text
    assert text.count('class="best"') == text.count('class="worst"') > 0


def test_files_with_and_without_a_field_are_one_section(workspace: Path, tmp_path: Path) -> None:
    """Rows with MorphScore beside rows without, and a tokenizer whose order is not of names."""
    rows = nsl([str(workspace / "tokenizer")], TEXTS[:2])
    save(tmp_path / "results" / "a.jsonl", [{**row, "morph_score": 0.375} for row in rows])
    save(tmp_path / "results" / "b.jsonl", [{**row, "tokenizer": "other"} for row in rows])
    bpe_seq(["el", "en", "fr"], data=DATA, k=300, output=tmp_path / "tokenizer")
    report(tmp_path, tmp_path / "r.html", progress=(said := Silent()))
    assert said.warnings == []
    found = read(tmp_path / "r.html")
    assert "results/a.jsonl, results/b.jsonl" in (tmp_path / "r.html").read_text("utf-8")
    assert "0.375" in found.text["td"]
    order = [cell for cell in found.text["td"] if cell in ("Greek", "English", "French")]
    assert order[-3:] == ["Greek", "English", "French"]  # in training order


RUN_CONFIG = {
    "command": "modtok pretrain --model tiny --sampling sub:2 --langs fi,sw",
    "config": {
        "data": {"sampling": "sub:2"}, "architecture": {"model": "tiny"}, "schedule": {"steps": 20},
    },
    "tokenizer": {"signature": "ab12"},
    "versions": {"torch": "2"},
}  # fmt: skip


def write_run(place: Path, less: float = 0.0) -> None:
    """A run as pretrain leaves it, half a line at the end; `less`: bits per byte."""
    place.mkdir(parents=True)
    command = f"{RUN_CONFIG['command']} --name {shlex.quote(place.name)}"
    (place / "config.json").write_bytes(orjson.dumps({**RUN_CONFIG, "command": command}))
    lines: list[dict[str, Any]] = []
    for step in (10, 20):
        figures = {"bits_per_byte": 4 - step / 10 - less, "bytes": 1000}
        time = {"model_flops_per_second": 1e9, "step_seconds": 0.5}
        lines.append({"step": step, "loss": 5.0, "tokens": 64 * step,
                      "languages": {"fi": figures}, "time": time})  # fmt: skip
        news = {"news": {"sw": {"bits_per_byte": 8 - step / 10, "bytes": 10}}}
        lines.append({"step": step, "held_out": {"fi": figures}, "valid": news})
        lines.append({"step": step, "tasks": {"fi": {"arc_easy": {"value": 20.0 + step}}}})
    (place / "metrics.jsonl").write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in lines) + b'{"')


def test_a_run_and_generated_text(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "first")
    (tmp_path / "runs" / "latest").symlink_to("first")
    for name, config in (("broken", b"{}"), ("young", orjson.dumps(RUN_CONFIG))):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "config.json").write_bytes(config)
    (tmp_path / "runs" / "young" / "metrics.jsonl").write_text("")
    text = {"prompt": "Olipa <kerran>", "text": " talo", "languages": ["fi"], "prompt_tokens": 4}
    save(tmp_path / "results" / "said.jsonl", [{**text, "tokens": 1, "reason": "end"}])
    said = Silent()
    report(tmp_path, tmp_path / "r.html", progress=said)
    assert [line.split(":")[0] for line in said.warnings] == [str(tmp_path / "runs" / "broken")]
    found = read(tmp_path / "r.html")
    assert found.text["h2"] == ["Run first", "Generated text"]
    assert found.count["figure"] == 3  # curves of two texts and a task
    shown = "".join(pictures(tmp_path / "r.html"))
    for words in ("Bits per byte of news", "Accuracy of arc_easy"):
        assert words in shown
    assert {"2.000", "20", "2,000", "Olipa <kerran>"} <= set(found.text["td"])
    codes = "\n".join(found.text["code"])
    assert f"{RUN_CONFIG['command']} --name first" in codes
    assert "pretrain|tok:ab12|torch:2" in codes


@pytest.mark.parametrize("many", [3, 12])
def test_runs_are_compared_in_one_section(tmp_path: Path, many: int) -> None:
    for number in range(1, many + 1):
        write_run(tmp_path / "runs" / f"run{number}", number / 100)
    report(tmp_path, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    found = read(tmp_path / "r.html")
    assert found.text["h2"] == [f"{many} training runs"]
    assert found.count["figure"] == 3  # two texts and a task
    assert f'class="best">{2 - many / 100:.3f}<' in text
    # runs in the order of their numbers, the best and the worst in color
    names = [cell for cell in found.text["td"] if cell.startswith("run")]
    assert names[:many] == [f"run{number}" for number in range(1, many + 1)]
    shown = set(re.findall(">([^<]+)</text>", "".join(pictures(tmp_path / "r.html"))))
    colored = {name for name in names if name in shown}
    assert colored == (set(names) if many < 8 else {"run1", f"run{many}"})
    assert all(f"--name run{number}" in text for number in range(1, many + 1))


def test_two_runs_in_one_file_have_two_columns() -> None:
    """Rows of one mode are of one column only if they are of one checkpoint."""
    row = {
        "task": "arc", "language": "fi", "metric": "acc", "value": 10.0, "infer": "lang",
        "low": 0.0, "high": 99.0, "n": 5, "shots": 0,
    }  # fmt: skip
    kind = kinds()["evaluation"]
    for second, names in (("b@9/22", ("a@9", "b@9")), ("a@9/22", ("a@9 11", "a@9 22"))):
        rows = [
            {**row, "checkpoint": name, "signature": f"arc|lang:fi|checkpoint:{name}|modtok:0"}
            for name in ("a@9/11", second)
        ]
        columns = [f"{name} --infer lang" for name in names]
        titles = [table.caption for table in kind.tables(rows)]
        assert titles == [f"Scores, {column} (95% interval)" for column in columns]
        (chart,) = kind.charts(rows)
        assert isinstance(chart, Dots)
        assert list(chart.series) == columns


HOSTILE = "$(touch ran); 'x' <script>alert(1)</script>"


def test_names_are_quoted_in_commands_and_escaped_in_the_page(tmp_path: Path) -> None:
    bpe_seq(["en", "fi"], data=DATA, output=tmp_path / HOSTILE.replace("/", "|"), k=300)
    row = {
        "tokenizer": HOSTILE, "language": "fi", "text": HOSTILE, "nsl": 1.0,
        "tokens_per_character": 0.3, "signature": "nsl|x",
    }  # fmt: skip
    save(tmp_path / "results" / "nsl.jsonl", [row])
    scores = {
        "task": HOSTILE, "language": HOSTILE, "metric": "acc", "value": 1.0, "infer": HOSTILE,
        "low": 0.0, "high": 9.0, "n": 5, "shots": 0, "signature": "x",
    }  # fmt: skip
    save(tmp_path / "results" / "mcq.jsonl", [scores])
    write_run(tmp_path / "runs" / HOSTILE.replace("/", "|"))
    report(tmp_path, tmp_path / "r.html")
    assert "<script" not in (tmp_path / "r.html").read_text()
    commands = [
        line for text in read(tmp_path / "r.html").text["code"] for line in text.split("\n")
    ]
    commands = [line for line in commands if "touch" in line and line.startswith("modtok ")]
    assert len(commands) == 2  # inspect, pretrain
    for line in commands:
        words = [word for word in shlex.split(line) if "touch" in word]
        assert words
        assert all(HOSTILE[:20] in word for word in words)  # one word, nothing to expand
        subprocess.run(["sh", "-c", f"true {line}"], cwd=tmp_path, check=True)
    assert not (tmp_path / "ran").exists()


def test_a_stored_command_expands_to_nothing() -> None:
    run = TrainingRun("x", {"command": "modtok pretrain $(touch ran); x"}, [], [])
    assert run.command == "modtok pretrain '$(touch' 'ran);' x"


def test_control_characters_of_names_are_not_in_the_page() -> None:
    document = page_of("a\x1b]52;c;\x07\x9b", [], ["b\x1b[1m"])
    assert not {"\x1b", "\x07", "\x9b"} & set(document)
    assert "a�]52;c;��" in document
