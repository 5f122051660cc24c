"""A whole build: exactly what was planted goes, the rest stays, also after a kill -9."""

import gzip
import signal
import subprocess
import time
import zlib
from collections import Counter
from contextlib import chdir
from pathlib import Path

import pytest

from helpers.crawl import (
    LANGUAGES,
    around,
    compressed,
    http,
    page,
    paragraphs,
    record,
    records_of,
)
from helpers.killed_stages import deadly, script
from helpers.processes import alive_in_session
from helpers.python_processes import Python
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.records import from_json
from modtok_cli.corpus import build, publish
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.build_plan import STAGES, BuildPlan, read_json
from modtok_cli.corpus.build_report import load_report, summary

CODE = "if a[1] < {2}:\n    return [\n        (),\n    ]"
NOISE = " ".join(f"{n:x}{n * 7919 % 1000:03d}" for n in range(300))
# Four pages of four paragraphs; the seventeenth paragraph stands on every page.
PER_PAGE = 4


def bodies(language: str) -> list[list[str]]:
    text = paragraphs(language)
    return [text[n : n + PER_PAGE] for n in range(0, 16, PER_PAGE)]


def crawl(place: Path) -> dict[str, list[str]]:
    """Two WARC files and a WET file full of plants; the text that must come out of them."""
    place.mkdir()
    first: list[bytes] = around()
    second: list[bytes] = []
    expected = {}
    for language in LANGUAGES:
        repeated = paragraphs(language)[16]
        kept = []
        for n, body in enumerate(bodies(language)):
            code = f"<pre>{CODE.replace('<', '&lt;')}</pre>" if n == 1 else ""
            html = page(body, extra=f"<p>{repeated}</p>{code}")
            url = f"http://{language}.example/{n}"
            first.append(record(http(html), url))
            ends = [repeated] if n == 0 else [CODE] * (n == 1)
            kept.append("\n".join([*body, *ends]))
            # The same page at another address, and its text again in other capitals.
            second.append(record(http(html), url + "?print=1"))
            shouted = [text.upper() if language != "el" else text for text in body]
            second.append(record(http(page(shouted)), url + "/loud"))
        second.append(record(http(page(["Short."])), f"http://{language}.example/short"))
        expected[language] = kept
    attributes = b" ".join(b"a%d=x" % n for n in range(60_000))
    first.insert(7, record(http(b"<div " + attributes + b">slow")))
    members = [compressed(raw, "gz") for raw in first]
    members.insert(9, compressed(record(http(page(paragraphs("en")[:4]))), "gz")[:200])
    (place / "CC-0.warc.gz").write_bytes(b"".join(members))
    second.append(record(http(gzip.compress(bytes(9_000_000)), GZIP)))
    second.append(record(http(page([NOISE])), "http://noise.example/"))
    (place / "CC-1.warc.gz").write_bytes(b"".join(compressed(raw, "gz") for raw in second))
    wet = "\n".join(paragraphs("fi")[:3]).encode()
    records = record(wet, kind="conversion", content_type="text/plain")
    (place / "CC-2.warc.wet.gz").write_bytes(compressed(records, "gz"))
    return expected


GZIP = "Content-Type: text/html\r\nContent-Encoding: gzip"
SETTINGS = {"page_seconds": 1.0, "shard_bytes": 1}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A finished build by two workers, and what it must hold."""
    place = tmp_path_factory.mktemp("build")
    expected = crawl(place / "crawl")
    with chdir(place):
        corpus_build(["crawl"], output=Path("data"), workers=2, **SETTINGS)
    return place, expected


def test_exactly_the_planted_duplicates_are_dropped(built) -> None:
    place, expected = built
    assert sorted(path.name for path in (place / "data").iterdir()) == [
        ".corpus-build",
        "corpus.json",
        *LANGUAGES,
    ]
    for language in LANGUAGES:
        texts = [one["text"] for one in records_of(place / "data" / language)]
        assert texts == expected[language]


def test_records_contain_their_source(built) -> None:
    place, _ = built
    data = (place / "crawl" / "CC-0.warc.gz").read_bytes()
    for one in records_of(place / "data" / "fr"):
        assert set(one) == {"text", "lang", "lang_score", "quality", "url", "date", "source"}
        assert (one["lang"], one["quality"], one["date"]) == ("fr", None, "2026-01-02T03:04:05Z")
        assert one["lang_score"] > 0.6
        name, offset = one["source"].rsplit(":", 1)
        assert name == "crawl/CC-0.warc.gz"
        member = zlib.decompressobj(wbits=31).decompress(data[int(offset) :], 400)
        head = member.decode(errors="replace")
        assert head.startswith("WARC/1.0\r\nWARC-Type: response\r\n")
        assert f"WARC-Target-URI: {one['url']}\r\n" in head


def test_report_lists_what_was_dropped_and_why(built) -> None:
    place, _ = built
    report = load_report(place / "data")
    dropped: Counter[str] = Counter()
    paragraphs_dropped: Counter[str] = Counter()
    for row in summary(report):  # which is of all languages
        dropped[row["reason"]] += row["pages"]
        paragraphs_dropped[row["reason"]] += row["paragraphs"]
    pages = 4 * len(LANGUAGES)
    assert +dropped == {
        "not a page: WARC warcinfo": 1,
        "not a page: WARC request": 1,
        "not a page: WARC metadata": 1,
        "not a page: not HTML": 1,
        "not a page: HTTP 4xx": 1,
        "bad record: damaged": 1,
        "bad record: too large": 1,
        "bad page: timeout": 1,
        "short": len(LANGUAGES),
        "language unsure": 1,
        "repeated": 2 * pages + 1,  # both copies of each page, and the WET record
    }
    # On 4 pages of each language four and a footer; once again with the page, four in capitals;
    # the lines of the code, and the paragraphs of the WET record.
    assert paragraphs_dropped["paragraph: repeated"] == len(LANGUAGES) * (3 + 20 + 16 + 4) + 3
    assert [row["language"] for row in report.languages] == list(LANGUAGES)
    assert {row["pages"] for row in report.languages} == {4}
    assert {row["paragraphs"] for row in report.languages} == {17 + 4}
    share = sum(row["share"] for row in report.dropped)
    assert share == pytest.approx(sum(row["share"] for row in summary(report)))
    assert 0 < share < 1
    rows = [*report.languages, *report.dropped]
    kept = [number < len(LANGUAGES) for number in range(len(rows))]
    assert report.rows() == [{"kept": each, **row} for each, row in zip(kept, rows, strict=True)]
    assert report.changed == []
    (place / "corpus.json").write_text("{}")
    with pytest.raises(ModtokError, match="not a report of modtok corpus build"):
        load_report(place)
    reasons = {one["reason"]: one["source"] for one in report.bad}
    assert set(reasons) == {"damaged", "too large", "timeout"}
    assert reasons["damaged"].startswith("crawl/CC-0.warc.gz:")
    # A page that is read and one that is dropped: every one is told of.
    assert report.seconds["extract"] > 0


def snapshot(data: Path) -> dict[str, bytes]:
    files = [*data.glob("*/*.jsonl.zst"), data / "corpus.json"]
    return {str(path.relative_to(data)): path.read_bytes() for path in files}


def test_one_worker_and_other_order_of_inputs_give_the_same_files(built) -> None:
    place, _ = built
    with chdir(place):
        inputs = sorted(Path("crawl").iterdir(), reverse=True)
        corpus_build([*inputs, "crawl"], output=Path("again"), workers=1, **SETTINGS)
    assert snapshot(place / "again") == snapshot(place / "data")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished build of three small files."""
    place = tmp_path_factory.mktemp("small")
    (place / "crawl").mkdir()
    for n, language in enumerate(("fi", "en", "fi")):
        pages = [" ".join(body).split() for body in bodies(language)]
        lines = "".join(f"{' '.join(words)}\n" for words in pages)
        (place / "crawl" / f"{n}.txt").write_text(lines, "utf-8")
    with chdir(place):
        corpus_build(["crawl"], output=Path("data"), workers=2, **SETTINGS)
    return place


def test_build_killed_in_the_first_and_the_last_stage_resumes_to_the_same_files(
    small, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each process resumes the build that the one before left, and is killed in a later stage."""
    data = small / "killed"
    call = f"build.corpus_build(['crawl'], output=Path('killed'), workers=2, **{SETTINGS!r})"
    for stage in (STAGES[0], STAGES[-1]):
        # The parent alone is killed: its workers must not live on, also while it is a zombie.
        program = script(stage, signal.SIGKILL, call)
        process = Python(["-c", program], cwd=small, start_new_session=True, stdout=subprocess.PIPE)
        process.communicate()  # first until no worker has the pipe
        assert process.returncode == -signal.SIGKILL, stage
        wait_for_the_end_of(process.pid)
        # The last stage writes the report, and was killed before it was known to be done.
        assert (data / "corpus.json").exists() == (stage == STAGES[-1]), stage
        with pytest.raises(UsageError, match="unfinished build with other inputs"):
            corpus_build([small / "crawl"], output=data, workers=2, **SETTINGS)
    monkeypatch.chdir(small)
    capfd.readouterr()
    corpus_build(["crawl"], output=Path("killed"), workers=2, **SETTINGS)
    assert capfd.readouterr().err == ""
    assert snapshot(data) == snapshot(small / "data")


def wait_for_the_end_of(session: int) -> None:
    """Wait until no process lives that was begun by the one that began the session."""
    deadline = time.monotonic() + 600
    while left := alive_in_session(session):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def test_killed_replacement_leaves_no_old_files(built, monkeypatch: pytest.MonkeyPatch) -> None:
    place, _ = built
    data = Path("replaced")
    monkeypatch.chdir(place)
    corpus_build(["crawl"], output=data, languages=["fi", "el"], workers=2, **SETTINGS)
    new = {"inputs": ["crawl/CC-2.warc.wet.gz"], "output": data, "languages": ["fi"]}
    with monkeypatch.context() as patched:
        patched.setattr(build, "stages_of", deadly(build.stages_of, STAGES[-2]))
        with pytest.raises(ModtokError, match="a worker was killed"):
            corpus_build(**new, force=True, **SETTINGS)
    content = read_json(data / ".corpus-build" / "plan.json")
    del content["version"]
    plan = from_json(BuildPlan, content, "plan")
    with monkeypatch.context() as patched:  # when the old report is gone, and its languages not

        def stop(_: Path) -> None:
            raise KeyboardInterrupt

        patched.setattr(publish, "_remove", stop)
        with pytest.raises(KeyboardInterrupt):
            list(build.stages_of(plan, force=True)[-1].blocks[0].run())
    assert not (data / "corpus.json").exists()
    corpus_build(**new, force=True, **SETTINGS)
    assert len(records_of(data / "fi")) == 1
    assert not (data / "el").exists()


def test_ctrl_c_leaves_no_worker_behind(small) -> None:
    call = "import sys\n"
    call += "sys.argv[1:] = ['corpus', 'build', 'crawl', '-o', 'broken-off', '--workers', '2']\n"
    call += "from modtok_cli.__main__ import main; sys.exit(main())"
    process = Python(
        ["-c", script(STAGES[0], signal.SIGINT, call)],
        cwd=small,
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    _, err = process.communicate()
    assert process.returncode == 130, err.decode()
    assert err.decode() == "modtok: interrupted; repeat the command to continue\n"
    wait_for_the_end_of(process.pid)
