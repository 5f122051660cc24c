"""Text that trains nothing is refused; how often it is read; text of --valid is evaluated."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from helpers.metrics import read_metrics
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT
from modtok_cli.training import loop, reads
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.loop import pretrain
from modtok_cli.training.plan import plan
from modtok_cli.training.prepare import prepare_text
from modtok_cli.training.settings import RunSettings

from .conftest import SAMPLE


@pytest.fixture
def small(tokenizer: Path, tmp_path: Path) -> RunSettings:
    (tmp_path / "data").mkdir()
    return RunSettings(
        model="toy", sampling="none", data=tmp_path / "data", tokenizer=tokenizer,
        runs=tmp_path / "runs", workers=0, eval_every=9, eval_bytes=300, save_every=9, steps=9,
        name="it", mix={"en": 0.3},
    )  # fmt: skip


def test_how_often_text_is_read(small: RunSettings) -> None:
    """Documents of 50 bytes: one of each hundred, or one at least, is not trained on."""
    assert small.data.data is not None
    assert small.runs is not None
    for language, count in (("en", 200), ("fi", 4)):
        lines = [
            f"{language} {number:03} kala the water ".ljust(50, "x") for number in range(count)
        ]
        (small.data.data / f"{language}.txt").write_text("".join(f"{line}\n" for line in lines))
    progress = Said()
    pretrain(small, progress=progress)
    *steps, evaluation = read_metrics(small.runs / "it")
    size: dict[str, int] = {"en": 0, "fi": 0}
    for step in steps:
        for language, figures in step["languages"].items():
            size[language] += figures["bytes"]
    read = {"en": size["en"] / (198 * 50), "fi": size["fi"] / (3 * 50)}
    assert evaluation["epochs"] == pytest.approx(read, rel=0.01)
    assert read["fi"] > reads.MOST > read["en"] > 0
    (warning,) = progress.warnings
    assert warning.startswith("text is read again and again: fi ")
    assert "en" not in warning.split(";")[0].split(": ")[1]
    assert any("each text is read" in note and "(fi) times" in note for note in progress.notes)
    # Stages of other batches leave documents out, which are not read.
    stages = ({"steps": 9, "batch_size": 6}, {"steps": 9, "batch_size": 2})
    several = small.changed(stages=stages, batch_size=8, micro_batch=1, name="several")
    told: list[dict[str, float]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "warn_of", lambda reads, _: told.append(reads))
        pretrain(several)
    read = dict.fromkeys(size, 0.0)
    for line in read_metrics(small.runs / "several"):
        for language, figures in line.get("languages", {}).items() if "loss" in line else ():
            read[language] += figures["bytes"] / ({"en": 198, "fi": 3}[language] * 50)
    epochs = [line["epochs"] for line in read_metrics(small.runs / "several") if "epochs" in line]
    assert epochs[-1] == pytest.approx(read, rel=0.02)
    sums = [198 * 50 * one["en"] + 3 * 50 * one["fi"] for one in (*told, read)]
    assert sums[0] == pytest.approx(sums[1], rel=0.1)  # bytes of all stages
    planned = plan(small)
    # As many bytes as the mixture has, not as the few draws had.
    together = sum(size.values())
    expected = {"en": 0.3 * together / (200 * 50), "fi": 0.7 * together / (4 * 50)}
    assert planned.rows()[0]["epochs"] == pytest.approx(expected, rel=0.1)
    # At most twice: what Finnish had beyond goes to English, in the plan and in the run.
    capped = small.changed(max_epochs=2, mix={}, mix_rest="uniform", steps=8, name="capped")
    share = 2 * 4 * 50 / (together * 8 / 9)
    assert plan(capped).stages[0].mixture.as_dict()["fi"] == pytest.approx(share, rel=0.1)
    pretrain(capped)
    trained = read_metrics(small.runs / "capped")[-1]["shares"]
    assert trained["fi"]["planned"] == pytest.approx(share * 3 / 4, rel=0.1)  # one is held out
    with pytest.raises(UsageError, match="--steps: cannot change: the mixture follows from max_ep"):
        pretrain(capped.changed(steps=9), resume=True)
    (small.data.data / "fi.txt").unlink()
    rows = [{"text": f"fi {number:03} kala", "from": "abc"[number % 3]} for number in range(9)]
    (small.data.data / "fi.jsonl").write_text(
        "".join(orjson.dumps(row).decode() + "\n" for row in rows)
    )
    of_sources = small.changed(sources={"fi/a": 1, "fi/b": 3}, source_field="from")
    (stage,) = plan(of_sources, progress=progress).stages
    assert [*stage.reads] == ["en", "fi/a", "fi/b"]
    # "a" has three documents, "b" as many and three times the weight; of "c" the last is held out.
    assert stage.reads["fi/b"] == pytest.approx(3 * stage.reads["fi/a"])
    assert progress.notes[-1] == "fi: text of c is not read, see data.sources"
    (small.data.data / "fi.jsonl").unlink()
    (small.data.data / "fi.txt").write_text("\n")
    with pytest.raises(UsageError, match="language 'fi' has no text"):
        plan(small)


def test_a_plan_measures_compressed_text(
    small: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of the text is estimated from the begin of a file."""
    monkeypatch.setattr(reads, "_MEASURED", 1 << 19)
    letters = np.random.default_rng(1).choice(list("aeiklnost "), (20_000, 150))
    text = "\n".join(map("".join, letters))
    assert small.data.data is not None
    (small.data.data / "en.txt").write_text(text)
    exact = plan(small.changed(langs=("en",), mix={"en": 1.0})).reads["en"]
    (small.data.data / "en.txt").unlink()
    with gzip.open(small.data.data / "en.txt.gz", "wt") as file:
        file.write(text)
    assert (small.data.data / "en.txt.gz").stat().st_size > 1 << 20  # only its begin is read
    found = plan(small.changed(langs=("en",), mix={"en": 1.0})).reads["en"]
    assert found == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(
    ("role", "template"),
    [
        ("gpt", "{% for m in messages %}{{ m.content }}\n{% endfor %}"),
        ("assistant", "{% for m in messages %}{{ m.content if m.role == 'user' }}{% endfor %}"),
        ("assistant", "{% generation %}{% endgeneration %}{{ messages[0].content }}"),
    ],
)
def test_conversations_without_answers_are_refused(
    small: RunSettings, tmp_path: Path, role: str, template: str
) -> None:
    assert small.data.data is not None
    (tmp_path / "chat.jinja").write_text(template)

    def write(language: str, roles: list[str]) -> None:
        talks = [
            {"messages": [{"role": "user", "content": f"Who {number}?"},
                          {"role": who, "content": "The water."}]}
            for number, who in enumerate(roles)
        ]  # fmt: skip
        lines = b"\n".join(map(orjson.dumps, talks))
        (small.data.data / f"{language}.jsonl").write_bytes(lines)

    write("fi", [role] * 8)
    (small.data.data / "en.txt").write_text("Plain text.\n" * 3)
    chat = small.changed(chat_template=str(tmp_path / "chat.jinja"))
    calls: list[tuple[Any, dict[str, Any]]] = [
        (pretrain, {}),
        (plan, {}),
        (prepare_text, {"resume": False, "progress": SILENT}),
    ]
    for command, keywords in calls:
        with pytest.raises(UsageError, match=r"0 of [78] documents of language 'fi' have an ans"):
            command(chat, **keywords)
    assert not (chat.runs / "it").exists()
    if role == "gpt":  # one answer is enough, and how many there are is said
        write("fi", ["assistant", *[role] * 7])
        progress = Said()
        prepare_text(chat, resume=False, progress=progress)
        assert progress.notes == ["1 of 7 documents of fi have an answer"]
        plan(chat)
        # The only answer is held out.
        write("fi", [*[role] * 7, "assistant"])
        with pytest.raises(UsageError, match="0 of 7 documents"):
            pretrain(chat)
        shutil.copytree(small.data.data, tmp_path / "later")
        write("fi", ["assistant"] * 8)
        staged = chat.changed(stages=({"steps": 1, "data": str(tmp_path / "later")},))
        with pytest.raises(UsageError, match=r"^\[\[stage\]\] data: 0 of 7 documents"):
            prepare_text(staged, resume=False, progress=SILENT)


@pytest.fixture
def news(settings: RunSettings, tmp_path: Path) -> RunSettings:
    """A run with text of two languages to evaluate on, and one that the tokenizer lacks."""
    texts = tmp_path / "news"
    texts.mkdir()
    shutil.copy(SAMPLE / "sw.jsonl", texts)
    for language in ("fi", "fr"):
        document = orjson.loads((SAMPLE / f"{language}.jsonl").read_bytes().split(b"\n")[0])
        (texts / f"{language}.txt").write_text(document["text"].replace("\n", " ") + "\n", "utf-8")
    return settings.changed(valid={"news": texts})


def test_valid_is_evaluated_beside_held_out_text(
    news: RunSettings, subtokenizers: SubtokenizerCache
) -> None:
    notes = Said()
    report = pretrain(news, progress=notes)
    lines = [line for line in read_metrics(news.runs / "it") if "held_out" in line]
    assert [line["step"] for line in lines] == [3, 6]
    assert all(set(line["valid"]["news"]) == {"fi", "fr"} for line in lines)
    figures = lines[-1]["valid"]["news"]["fi"]
    text = (news.evaluation.valid["news"] / "fi.txt").read_bytes()[:-1]  # type: ignore[index]
    own, whole = (subtokenizers.of(of).encode_utf8([text])[0] for of in (("fi",), None))
    assert (figures["bytes"], figures["tokens"]) == (len(text), len(own))
    assert len(own) != len(whole)  # of all of T
    rows = [(row["text"], row["language"]) for row in report.rows()]
    assert rows[-2:] == [("news", "fi"), ("news", "fr")]
    assert rows[0] == ("held-out", "el")
    assert "--valid news: the tokenizer has no sw; not evaluated" in notes.notes
    assert any(note.startswith("step 6: news bits per byte fi ") for note in notes.notes)


def test_held_out_text_as_valid_gives_the_same_figures(
    settings: RunSettings, tmp_path: Path
) -> None:
    """A file with the held-out documents only gives what the held-out split gives."""
    documents = (SAMPLE / "fi.jsonl").read_bytes().splitlines(keepends=True)
    stride = min(100, len(documents))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "fi.jsonl").write_bytes(b"".join(documents[stride - 1 :: stride]))
    pretrain(settings.changed(valid=str(tmp_path / "copy"), steps=3))  # type: ignore[arg-type]
    line = read_metrics(settings.runs / "it")[-1]
    assert line["valid"]["copy"]["fi"] == line["held_out"]["fi"]


def test_wrong_directories(news: RunSettings, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(SAMPLE / "sw.jsonl", tmp_path / "other")
    for valid, message in (
        (news.data.data, "is the text of the run"),
        (tmp_path / "other", "no language of the tokenizer, but sw"),
        (tmp_path / "nowhere", "does not exist"),
        (f"a={tmp_path},a={tmp_path}", "two directories have the name 'a'"),
        ("a b=x", "expected directories such as news=DIR"),
    ):
        with pytest.raises(ModtokError, match=message):
            pretrain(news.changed(valid=str(valid)))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^valid: expected directories"):
        news.changed(valid=3)  # type: ignore[arg-type]
    assert not (news.runs / "it").exists()
