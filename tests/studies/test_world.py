"""The controlled world: what its texts say, in which languages."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import orjson
import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.studies.world.corpus import WorldSettings, read_settings, write_world
from modtok_cli.studies.world.facts import World, make_world
from modtok_cli.studies.world.languages import LANGUAGES, Language, languages
from modtok_cli.studies.world.text import STATED_BY, Event, Writer, questions, tell_event, tell_fact

SMALL = WorldSettings(seed=3, documents=60, people=8, towns=6, sentences=30)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(3, SMALL.languages, people=8, towns=6)


def test_languages_differ_and_share_no_words() -> None:
    words = [set(language.words.values()) for language in languages(0, list(LANGUAGES)).values()]
    assert all(len(each) == len(words[0]) for each in words)
    for number, each in enumerate(words):
        for other in words[number + 1 :]:
            assert len(each & other) < 4


def test_sentences_follow_the_grammar() -> None:
    event = Event("give", "baker", adjective="old", thing="apple", plural=True, receiver="king")
    told = {code: Language(code, 0) for code in LANGUAGES}
    first, second, third, fourth = told.values()

    def of(language: Language, *concepts: str) -> list[str]:
        return [language.words[concept] for concept in concepts]

    old, baker, gave, king, apple = of(first, "old", "baker", "give", "king", "apple")
    expected = f"du {old} {baker} {gave}ed ti du {king} du {apple}es."
    assert tell_event(event, first).lower() == expected.lower()
    # cases and harmony
    assert second.ending("talo", "ssa") == "talossa"
    assert second.ending("mökki", "ssa") == "mökkissä"
    # verb last, with a word after each role
    assert tell_event(event, third).endswith(f" om {third.words['give']}mashi.")
    assert f" {third.words['king']} ni " in tell_event(event, third)
    # verb first, the adjective after the noun and of its gender
    gender = fourth.gender["baker"]
    phrase = f"{('lo', 'la')[gender]} {fourth.words['baker']} {fourth.words['old']}{'oa'[gender]}"
    assert tell_event(event, fourth).lower().startswith(f"{fourth.words['give']}ait {phrase} ")


def test_only_the_languages_that_know_a_fact_state_it(world: World) -> None:
    tongues = languages(3, SMALL.languages)
    for code, tongue in tongues.items():
        draw = random.Random(0)
        writer = Writer(world, tongues, code, quotes=0.0)
        text = "\n".join(writer.document(draw) for _ in range(400))
        for fact, told in zip(world.facts, world.stated, strict=True):
            assert (tell_fact(fact, tongue) in text) is (code in told)


def test_synonyms_are_further_words() -> None:
    for code in LANGUAGES:
        language = Language(code, 3)
        synonyms = language.synonyms(5)
        every = [word for words in synonyms.values() for word in words]
        assert len(set(every)) == len(every) == 6 * len(language.words)
        assert {concept: words[0] for concept, words in synonyms.items()} == language.words
        other = language.with_words({"king": "pi"})
        assert other.words == {**language.words, "king": "pi"}
        assert language.words["king"] != "pi"


def test_as_many_words_are_foreign_as_asked_for(world: World) -> None:
    tongues = languages(3, SMALL.languages)
    known = {
        code: {word for words in tongue.synonyms(4).values() for word in words}
        for code, tongue in tongues.items()
    }
    synonyms = {code: tongue.synonyms(4) for code, tongue in tongues.items()}

    # Names of the world and endings of the language are of no other one.
    @cache
    def is_strange(word: str) -> bool:
        return not any(word.startswith(own) for own in known["qaa"]) and any(
            word.startswith(each)
            for code in known
            if code != "qaa"
            for each in known[code]
            if len(each) > 3
        )

    def share(foreign: float) -> tuple[float, set[str]]:
        draw = random.Random(1)
        writer = Writer(world, tongues, "qaa", quotes=0.0, foreign=foreign, synonyms=synonyms)
        text = " ".join(writer.document(draw) for _ in range(2000))
        quoted = {each.split()[0] for each in text.split('"')[1::2]}
        words = [word.strip('."').lower() for word in text.split()]
        return sum(map(is_strange, words)) / len(words), quoted

    none, few, more = share(0.0), share(0.04), share(0.12)
    assert not none[1]  # nothing is quoted
    assert few[1]
    assert more[1]
    # Short foreign words look like own ones, and names of people like foreign words.
    assert 0.4 < (few[0] - none[0]) / 0.04 < 1.2
    assert 2.5 < (more[0] - none[0]) / (few[0] - none[0]) < 3.5


def test_documents_of_translations_have_the_lines_asked_for(world: World) -> None:
    writer = Writer(world, languages(3, SMALL.languages), "qab", quotes=1.0, lines=4)
    draw = random.Random(2)
    assert {len(writer.document(draw).split("\n")) for _ in range(100)} == {2, 3, 4}


def test_one_answer_of_a_question_is_true(world: World) -> None:
    for code, tongue in languages(3, SMALL.languages).items():
        true = {tell_fact(fact, tongue) for fact in world.facts}
        rows = questions(world, tongue, seed=3)
        assert {stated for _, stated in rows} == set(STATED_BY)
        for row, stated in rows:
            told = world.stated[int(str(row["id"]))]
            expected = "all" if len(told) > 1 else "own" if code in told else "other"
            assert stated == expected
            choices = row["choices"]
            assert isinstance(choices, list)
            assert len(set(choices)) == 4
            assert [choice in true for choice in choices] == [
                number == row["answer"] for number in range(4)
            ], code


def test_what_is_written(tmp_path: Path) -> None:
    from modtok_cli.evaluate.parallel import find_parallel
    from modtok_cli.evaluate.questions import Folder
    from modtok_cli.evaluate.suite import read_suite
    from modtok_cli.text.readers import read_documents

    for name in ("a", "b"):
        write_world(tmp_path / name, SMALL)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    rows = (tmp_path / "a/tasks/mt/test.tsv").read_text("utf-8").splitlines()
    assert rows[0].split("\t") == list(LANGUAGES)
    tested = {cell for row in rows[1:] for cell in row.split("\t")}
    quoted = False
    for code in LANGUAGES:
        documents = list(read_documents(tmp_path / "a/data" / f"{code}.jsonl"))
        assert len(documents) == 60
        for document in documents:
            lines = [line for line in document.text.decode().split("\n") if " = " in line]
            quoted = quoted or bool(lines)
            assert not tested & {side for line in lines for side in line.split(" = ")}
    assert quoted
    assert set(find_parallel(tmp_path / "a/tasks").languages) == set(LANGUAGES)
    folder = Folder(tmp_path / "a/tasks")
    for group in STATED_BY:
        suite = read_suite(tmp_path / "a/tasks/mcq" / f"facts-{group}" / "task.yaml")
        found = folder.of(suite.task, "qad")
        assert found is not None
        assert suite.render(found[0][0].question, "", "qad") == found[0][0].question
    described = orjson.loads((tmp_path / "a/world.json").read_bytes())
    assert read_settings(tmp_path / "a") == SMALL
    facts = described["facts"]
    assert len(facts) == 8 * 5 + 6 + 2 * 2
    before = (tmp_path / "a/data/qaa.jsonl").read_bytes()
    said = Silent()
    assert (
        write_world(tmp_path / "a", SMALL, said).facts == write_world(tmp_path / "a", SMALL).facts
    )
    assert said.warnings == [f"{tmp_path / 'a'} is already finished with these settings"]
    assert (tmp_path / "a/data/qaa.jsonl").read_bytes() == before
    (tmp_path / "file").touch()
    (tmp_path / "a/data/qab.jsonl").unlink()
    for place, settings in (
        ("a", SMALL), ("b", replace(SMALL, documents=61)), ("b", replace(SMALL, foreign=0.1)),
        ("b/data", SMALL), ("file", SMALL),
    ):  # fmt: skip
        with pytest.raises(UsageError, match="already exists"):
            write_world(tmp_path / place, settings)


def test_the_default_world_is_what_it_was(tmp_path: Path) -> None:
    """Its texts are those of the version before foreign words and synonyms."""
    write_world(tmp_path / "a", SMALL)
    digest = hashlib.sha256()
    for file in sorted(path for path in (tmp_path / "a").glob("*/**/*") if path.is_file()):
        digest.update(file.read_bytes())
    assert digest.hexdigest() == "66a307d5135ec76011cd072735eb274ae059079cbfc1222edd069af8fdae84ef"


def test_settings_are_checked() -> None:
    with pytest.raises(UsageError, match="choose two or more"):
        WorldSettings(languages=("qaa", "fr"))
    with pytest.raises(UsageError, match="quotes: expected at least 0 and at most 1"):
        WorldSettings(quotes=2.0)
