"""`--sampling auto`: documents with much of another language are read with its vocabulary."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import orjson
import pytest

from helpers.metrics import read_metrics
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.locks import alone
from modtok_cli.base.progress import SILENT
from modtok_cli.training.data import foreign
from modtok_cli.training.data.foreign import divide, in_words, others_of, streams
from modtok_cli.training.data.sampling import Draw, Mixture, Regime, draw
from modtok_cli.training.data.slot_packer import SlotPacker
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore, text_store
from modtok_cli.training.loop import pretrain
from modtok_cli.training.plan import plan
from modtok_cli.training.prepare import prepare_text
from modtok_cli.training.settings import RunSettings

from .conftest import LANGUAGES, SAMPLE
from .test_run import _toy, numbers, settings  # noqa: F401  (fixtures)

AUTO = Regime.parse("auto")


def sentences(language: str) -> list[str]:
    lines = (SAMPLE / f"{language}.jsonl").read_bytes().splitlines()
    return [orjson.loads(line)["text"][:120].replace("\n", " ") for line in lines]


def mixed(count: int, *languages: str) -> list[str]:
    """Documents that each have a sentence of every language."""
    every = [sentences(language) for language in languages]
    return [" ".join(one[i % len(one)] for one in every) + f" {i}" for i in range(count)]


DOCUMENTS = [*mixed(150, "fi"), *mixed(120, "fi", "en"), *mixed(60, "fi", "fr")]


@pytest.fixture
def fi(tmp_path: Path) -> TextStore:
    """150 documents in Finnish, 120 with English, 60 with French."""
    file = tmp_path / "fi.txt"
    file.write_text("".join(f"{text}\n" for text in DOCUMENTS), encoding="utf-8")
    return text_store("fi", [file], tmp_path / "cache")


def slow_other(text: str, language: str, subtokenizers: SubtokenizerCache) -> str:
    """The definition, one document at a time."""
    tokenizer = subtokenizers.tokenizer

    def tokens(*languages: str) -> list[int]:
        chosen = tokenizer.subset(languages)
        return [int(chosen.global_ids[index]) for index in chosen.encode(text)]

    own = set(tokenizer.subset((language,)).global_ids.tolist())
    lacking = [index for index in tokens(*tokenizer.languages) if index not in own]
    owned = {
        name: sum(index in set(tokenizer.subset((name,)).global_ids.tolist()) for index in lacking)
        for name in tokenizer.languages
    }
    other = max(owned, key=lambda name: owned[name]) if lacking else language
    alone, both = len(tokens(language)), len(tokens(*{language, other}))
    least = max(both, len(tokens(*tokenizer.languages)))
    return other if 5 * alone >= 6 * least else language


def test_others_are_as_defined(every_construction: SubtokenizerCache, tmp_path: Path) -> None:
    tokenizer = every_construction.tokenizer
    texts = [*mixed(5, "fi"), *mixed(5, "fi", "en"), *mixed(5, "fr", "fi"), *mixed(3, "el", "fi")]
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    store = text_store("fi", [file], tmp_path / "cache")
    for language in ("fi", "el"):
        found = others_of(store, tokenizer.languages.index(language), tokenizer)
        names = [tokenizer.languages[other] for other in found]
        assert names == [slow_other(text, language, every_construction) for text in texts]
        assert {"fi": {"fi", "en", "fr"}, "el": {"fi"}}[language] <= set(names)


def test_text_is_divided_by_content(fi: TextStore, subtokenizers: SubtokenizerCache) -> None:
    shares = divide({"fi": fi}, subtokenizers.tokenizer)["fi"]
    parts = dict(streams({"fi": fi}, subtokenizers.tokenizer.signature))
    assert list(shares) == ["fi", "en"]  # French has too few documents
    assert sum(shares.values()) == pytest.approx(1)
    assert set(parts) == {"fi", "fi+en"}
    read = {
        name: [part.training_document(place, 5) for place in range(part.training_size)]
        for name, part in parts.items()
    }
    assert sorted(chain(*read.values())) == sorted(set(range(len(fi))) - set(fi.held_out))
    assert set(read["fi+en"]) == set(range(150, 270)) - set(fi.held_out)
    sizes = {name: sum(map(fi.length, numbers)) for name, numbers in read.items()}
    assert shares["en"] == pytest.approx(sizes["fi+en"] / sum(sizes.values()))
    again = divide({"fi": replace(fi)}, subtokenizers.tokenizer)
    assert again == {"fi": shares}
    assert in_words(again) == f"{shares['en']:.1%} of fi has en"


def test_text_of_one_language_is_plain(stores: Any, subtokenizers: SubtokenizerCache) -> None:
    divided = divide(stores, subtokenizers.tokenizer)
    assert divided == {language: {language: 1.0} for language in LANGUAGES}
    assert in_words(divided) == ("no text has much of another language: --sampling auto is as none")


def test_draws_follow_the_shares() -> None:
    mixture = Mixture(
        ("en", "fi"), (0.5, 0.5), {"en": {"en": 1.0}, "fi": {"fi": 0.0, "en": 0.7, "fr": 0.3}}
    )
    drawn = Counter(draw(AUTO, 0.5, mixture, 1, step, 0) for step in range(4000))
    assert set(drawn) == {
        Draw("en", ("en",)), Draw("fi", ("en", "fi")), Draw("fi", ("fi", "fr")),
    }  # fmt: skip
    assert drawn[Draw("fi", ("en", "fi"))] / 4000 == pytest.approx(0.35, abs=0.03)


def test_further_languages_with_probability_p() -> None:
    weights = dict.fromkeys(("de", "en", "fi", "fr"), 0.25)
    mixture = Mixture(tuple(weights), tuple(weights.values()), {"fi": {"fi": 0.4, "en": 0.6}})
    mixture = replace(mixture, weights=(0.0, 0.0, 1.0, 0.0))
    even = replace(mixture, weights=(0.25,) * 4, divided={name: {name: 1.0} for name in weights})
    for p, sizes in ((0.0, {1, 2}), (1.0, {1, 2}), (0.5, {1, 2})):
        # Only Finnish has weight: there is nothing to add.
        drawn = [draw(Regime.parse("auto:2"), p, mixture, 3, step, 0) for step in range(200)]
        assert {len(each.languages or ()) for each in drawn} == sizes
    plain = [draw(Regime.parse("auto:2"), 0.5, even, 3, step, 0) for step in range(2000)]
    counts = Counter(len(each.languages or ()) for each in plain)
    assert set(counts) == {1, 3}
    assert counts[3] / 2000 == pytest.approx(0.5, abs=0.04)
    assert {each.source for each in plain} == set(weights)
    both = replace(even, divided={name: {"en": 1.0} for name in weights})
    every = [draw(Regime.parse("auto:2"), 1.0, both, 3, step, 0) for step in range(300)]
    assert {each.source for each in every} == {"de+en", "en", "fi+en", "fr+en"}
    assert all({each.language, "en"} <= set(each.languages or ()) for each in every)
    assert {len(each.languages or ()) for each in every if each.language != "en"} == {4}
    assert {len(each.languages or ()) for each in every if each.language == "en"} == {3}


def test_a_draw_reads_its_documents_and_resumes(
    fi: TextStore, subtokenizers: SubtokenizerCache
) -> None:
    divided = divide({"fi": fi}, subtokenizers.tokenizer)
    parts = dict(streams({"fi": fi}, subtokenizers.tokenizer.signature))

    def packer(positions: Any = None) -> SlotPacker:
        return SlotPacker(
            1, 2, stores=parts, subtokenizers=subtokenizers, regime=AUTO, p=0.5, seed=4,
            mixture=Mixture(("fi",), (1.0,), divided), rows=1, length=40, positions=positions,
        )  # fmt: skip

    reading = packer()
    batches = [reading.batch(step) for step in range(1, 30)]
    for batch in batches:
        assert batch.first_document in parts[batch.draw.source].chosen  # type: ignore[operator]
        chosen = subtokenizers.of(batch.draw.languages)
        assert set(batch.inputs.ravel()) <= set(chosen.global_ids)
    assert set(batches[-1].positions) == {"fi", "fi+en"}
    for cut in (1, 7, 20):
        resumed = packer(batches[cut - 1].positions)
        for before in batches[cut:]:
            again = resumed.batch(before.step)
            np.testing.assert_array_equal(again.targets, before.targets)
            assert again.positions == before.positions


def test_a_run_resumes(settings: RunSettings) -> None:  # noqa: F811
    assert settings.data is not None
    lines = [orjson.dumps({"text": text}) for text in DOCUMENTS]
    (settings.data / "fi.jsonl").write_bytes(b"\n".join(lines))
    run = replace(settings, sampling="auto", mix={"fi": 0.9})
    pretrain(replace(run, name="whole"))
    pretrain(replace(run, name="parts", steps=3, lr_steps=6))
    pretrain(RunSettings(runs=run.runs, name="parts", steps=6), resume=True)
    assert run.runs is not None
    assert numbers(run.runs / "whole") == numbers(run.runs / "parts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(foreign, "LEAST", 1000)  # as another version may divide
        with pytest.raises(ModtokError, match="the text has changed"):
            pretrain(RunSettings(runs=run.runs, name="parts", steps=7), resume=True)
    draws = {each for line in read_metrics(run.runs / "whole") for each in line.get("draws", ())}
    assert {"fi:fi", "fi:en,fi"} <= draws


def test_processes_wait_for_the_one_that_divides(
    fi: TextStore, subtokenizers: SubtokenizerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_POLL_SECONDS", 0.01)
    found: list[Any] = []
    other = Thread(target=lambda: found.append(divide({"fi": fi}, subtokenizers.tokenizer)))
    with alone(fi.directory) as is_alone:
        assert is_alone
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join(30)
    assert found == [divide({"fi": fi}, subtokenizers.tokenizer)]


def test_text_is_divided_beforehand(settings: RunSettings) -> None:  # noqa: F811
    assert settings.runs is not None
    rows = prepare_text(replace(settings, sampling="auto"), resume=False, progress=SILENT)
    for row in rows:
        assert list(Path(row["store"]).glob("foreign-*.json"))
    assert settings.data is not None
    (settings.data / "de.txt").write_text("Ein Satz.\nNoch einer.\n", encoding="utf-8")
    with pytest.raises(UsageError, match="the tokenizer has no language 'de'"):
        prepare_text(replace(settings, sampling="auto"), resume=False, progress=SILENT)


def test_a_plan_counts_another_language_in_every_batch(settings: RunSettings) -> None:  # noqa: F811
    most = plan(replace(settings, sampling="sub:1", p=1.0))
    assert plan(replace(settings, sampling="auto")).step_rows == most.step_rows
