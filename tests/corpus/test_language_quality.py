"""Language, filters and quality of pages."""

import json
from pathlib import Path

import pytest
from datatrove.data import Document

from helpers.crawl import LANGUAGES, paragraphs, records_of
from helpers.fasttext_files import write_model
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.build_plan import FILTERS
from modtok_cli.corpus.fasttext_file import check_model, load_fasttext
from modtok_cli.corpus.filters import FilterPages, known_languages, stop_words
from modtok_cli.corpus.language import LanguageModel
from modtok_cli.corpus.quality import QualityModel, cut_of


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel()


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_of_pages(model: LanguageModel, language: str) -> None:
    text = paragraphs(language)
    for page in (text[:4], [one.upper() for one in text[4:8]], [*text[8:12], "x" * 5000]):
        name, score = model.identify("\n".join(page))
        assert name == language
        assert score > model.threshold
    other = "".join(paragraphs("fr" if language == "en" else "en"))[:2100]
    for half in (f"{other}\n{' '.join(text)}", f"{' '.join(text)}\n{other}"):
        assert len(half) > 5 * 2100 // 2
        assert model.identify(half)[0] == language
    assert model.identify("")[1] < model.threshold
    assert model.identify("1234 5678 " * 30)[1] < model.threshold


CROATIAN = "Danas je lijep dan i djeca se igraju u parku, a njihovi roditelji sjede na klupi."


def test_score_is_of_close_languages_together(model: LanguageModel) -> None:
    name, score = model.identify(CROATIAN)
    assert name in {"hr", "bs", "sr"}
    assert score > model.threshold
    # Only where texts hardly differ a wanted language is preferred.
    assert LanguageModel(wanted=["hr", "fi"]).identify(CROATIAN)[0] == "hr"
    assert LanguageModel(wanted=["bs"]).identify(CROATIAN)[0] == "bs"
    assert LanguageModel(wanted=["en", "fi"]).identify(CROATIAN)[0] == name
    asked: list[str] = []
    ranked = [("hr", 0.5), ("fr", 0.2), ("bs", 0.125), ("sr", 0.0625)]
    own = LanguageModel()
    own._rank = lambda text: asked.append(text) or ranked
    assert own.identify("DANAS JE Dan") == own.identify("Danas je Dan") == ("hr", 0.6875)
    assert asked == ["danas je dan", "Danas je Dan"]  # capitals confuse models


def test_requested_languages(tmp_path: Path) -> None:
    bokmaal = (
        "Regjeringen la i dag frem et nytt forslag, og statsråden sa at skolen trenger mer tid."
    )
    assert LanguageModel(wanted=["nb", "fi"]).identify(bokmaal)[0] == "nb"
    assert LanguageModel(wanted=["no"]).identify(bokmaal)[0] == "no"
    with pytest.raises(UsageError, match=r"py3langid: .* not know tlh; .*GlotLID; it knows"):
        LanguageModel(wanted=["fi", "tlh"])
    own = write_model(tmp_path / "own.bin", {"jaH": "tlh", "ja": "fi"}, ["tlh", "fin_Latn"])
    assert LanguageModel(own, ["fi", "tlh"]).identify("jaH ja jaH")[0] == "tlh"
    with pytest.raises(ModtokError, match="does not exist"):
        load_fasttext(tmp_path / "none.bin")
    (tmp_path / "text.bin").write_bytes(b"no model at all" * 9)
    with pytest.raises(ModtokError, match="incomplete fastText model"):
        load_fasttext(tmp_path / "text.bin")


@pytest.mark.parametrize("quantized", [False, True])
def test_truncated_model_is_an_error(tmp_path: Path, quantized: bool) -> None:
    """The library itself would read words out of nothing until the memory is full."""
    words = {f"word{n}": "ab"[n % 2] for n in range(50)}
    path = write_model(tmp_path / "whole.bin", words, ["a", "b"], quantized=quantized)
    whole = path.read_bytes()
    check_model(path)
    assert load_fasttext(path).predict("word1")[0] == ("__label__b",)
    for share in (0, 0.0001, 0.01, 0.1, 0.3, 0.6, 0.999):
        (tmp_path / "cut.bin").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(ModtokError, match=r"(not a|incomplete) fastText model"):
            load_fasttext(tmp_path / "cut.bin")


def test_quality_models(tmp_path: Path) -> None:
    """Words that look like labels are none, and the label decides, not its place."""
    words = {"quiet": "good", "spam": "bad"}
    scorer = QualityModel(write_model(tmp_path / "q.bin", words, ["good", "bad"]))
    assert scorer.score("QUIET\nquiet") > 0.99
    assert scorer.score("__label__spam") < 0.01
    assert scorer.score("") == 0.5
    assert scorer.score("unknown " * 700 + "spam") == 0.5  # behind what is classified
    with pytest.raises(ModtokError, match="expected the labels good and bad, got __label__en, __l"):
        QualityModel(write_model(tmp_path / "l.bin", {"a": "en", "b": "fi"}, ["en", "fi"]))
    assert cut_of({0.9: 1, 0.5: 2, 0.1: 7}, 0.0) == 1.0


@pytest.mark.parametrize("language", LANGUAGES)
def test_filters_keep_good_text(language: str) -> None:
    for start in range(0, 12, 4):
        text = "\n".join(paragraphs(language)[start : start + 4])
        for name in FILTERS:
            if language not in (known_languages(name) or ()):
                continue
            document = Document(text, "x", [], {"lang": language})
            assert FilterPages(name).reason(document) is None, name
            assert document.text == text


def test_stop_words_are_of_the_language() -> None:
    text = "\n".join(paragraphs("fi")[:4])
    finnish, english = (Document(text, "x", [], {"lang": name}) for name in ("fi", "en"))
    assert FilterPages("gopher-quality").reason(finnish) is None
    reason = "gopher-quality: gopher_enough_stop_words"
    assert FilterPages("gopher-quality").reason(english) == reason
    assert all(len(words) >= 8 for words in stop_words().values())


def test_filters_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is counted in the report; by default there is none."""
    monkeypatch.chdir(tmp_path)
    text = paragraphs("en")
    mail = f"{text[0]} Write to ann@mill.fi or 8.8.8.8."
    pages = {
        "http://good.example/": "\n".join([mail, text[1], "A line without its end"]),
        "http://casino-sex-porn.example/": "\n".join(text[2:4]),
        "http://good.example/repeats": "\n".join([text[6], " ".join([text[7]] * 12)]),
        "http://good.example/keywords": "river mills bridge council spring mayor town " * 2
        + " ".join(word for word in " ".join(text[8:14]).split() if word.isalpha() and word[4:]),
    }
    lines = [json.dumps({"url": url, "text": page}) + "\n" for url, page in pages.items()]
    Path("pages.jsonl").write_text("".join(lines), "utf-8")

    def build(**options: object) -> tuple[list[str], dict[str, str], list[str]]:
        report = corpus_build("pages.jsonl", "en", workers=1, force=True, **options)
        texts = [one["text"] for one in records_of(Path("data/en"))]
        reasons = {row["reason"]: row["step"] for row in report.dropped if row["characters"]}
        return texts, reasons, [row["reason"] for row in report.changed]

    every = "pii,c4,gopher-quality,gopher-repetition,url"
    texts, dropped, changed = build(filters=every)
    (page,) = texts
    assert page == "\n".join([mail, text[1]]).replace("ann@mill.fi", "email@example.com").replace(
        "8.8.8.8", "192.0.2.1"
    )
    assert {reason.split(":")[0]: step for reason, step in dropped.items()} == {
        "url": "url",
        "gopher-repetition": "gopher-repetition",
        "gopher-quality": "gopher-quality",
        "lines": "c4",
    }
    assert changed == ["addresses replaced"]
    assert len(build()[0]) == len(build(filters=["pii"])[0]) == 4
    for languages, names, said in (
        ("en,ja", "gopher-quality", "gopher-quality does not know ja"),
        ("en,ne", "url,c4", "c4 does not know ne"),
        (None, "gopher-repetition", "gopher-repetition does not know every language"),
    ):
        with pytest.raises(UsageError, match=f"filters: {said}; leave it out, or build with"):
            corpus_build("pages.jsonl", languages, filters=names, output="none")
