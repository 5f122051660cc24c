"""Language, heuristics, filters and quality of pages."""

import json
import random
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.crawl import LANGUAGES, paragraphs, records_of
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.corpus import quality
from modtok_cli.corpus.build import corpus_build
from modtok_cli.corpus.filters import Repetition, is_blocked
from modtok_cli.corpus.heuristics import faults, letter_shares
from modtok_cli.corpus.language import (
    LanguageModel,
    as_fasttext,
    bundled_model,
    check_model,
    load_fasttext,
)
from modtok_cli.corpus.quality import QualityModel, corpus_train_quality


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel()


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_of_pages_and_paragraphs(model: LanguageModel, language: str) -> None:
    text = paragraphs(language)
    found = [model.page(text[n : n + 4]) for n in range(0, 16, 4)]
    assert {name for name, _ in found} == {language}
    assert min(score for _, score in found) > model.threshold(language)
    assert model.page([one.upper() for one in text])[0] == language
    for other in ("en", "fi", "el", "fr"):
        foreign = [model.is_other_language(text, language) for text in paragraphs(other)]
        assert sum(foreign) == (0 if other == language else len(foreign)), other
    assert not model.is_other_language("Only a few words.", language)
    assert not model.is_other_language("1234 5678 " * 30, language)


def test_paragraphs_in_another_script_do_not_decide(model: LanguageModel) -> None:
    """The model is surer of a script than of a language."""
    for language in ("en", "fr", "sw"):
        text = [text[:300] for text in paragraphs(language)[:4]]
        foreign = paragraphs("el")[0][:300]
        assert model.page([*text[:2], foreign, *text[2:]])[0] == language
        code = "\x0bfor (int i = 0; i < n; i++) {\x0b\tprintf(values[i]);\x0b}" * 20
        assert model.page([text[0], code])[0] == language
        assert not model.is_other_language(code, language)


def test_one_long_line_does_not_decide_the_language(model: LanguageModel) -> None:
    lines = ["Avaa tiedosto.", "Tallenna kuva levylle.", "Valitse väri.", "Poista taso."] * 8
    english = "This command has not been translated yet, and so it stands here in English words."
    assert model.page([*lines, english])[0] == "fi"
    assert model.is_other_language(english, "fi")
    assert model.is_other_language(CHINESE, "en")  # 34 characters, but a sentence
    assert not model.is_other_language(CHINESE, "zh")


def test_related_languages_are_not_dropped(model: LanguageModel) -> None:
    danish = (
        "Regeringen vil i dag fremlægge et nyt forslag om skoler, og ministeren siger, at "
        "der skal være mere tid til børnene i de små klasser."
    )
    assert not model.is_other_language(danish, "no")
    assert model.is_other_language(danish, "fi")
    croatian = "Danas je lijep dan i djeca se igraju u parku, a njihovi roditelji sjede na klupi."
    name, score = model.identify(croatian)
    assert name in {"hr", "bs", "sr", "sh"}
    assert score > 0.8  # of all four together


def test_requested_languages(tmp_path: Path) -> None:
    bokmaal = (
        "Regjeringen la i dag frem et nytt forslag, og statsråden sa at skolen trenger mer tid."
    )
    assert LanguageModel(wanted=["nb", "fi"]).identify(bokmaal)[0] == "nb"
    assert LanguageModel(wanted=["no"]).identify(bokmaal)[0] == "no"
    with pytest.raises(UsageError, match=r"does not know tlh.*GlotLID"):
        LanguageModel(wanted=["fi", "tlh"])
    with pytest.raises(ModtokError, match="does not exist"):
        load_fasttext(tmp_path / "none.bin")
    (tmp_path / "text.bin").write_bytes(b"no model at all" * 9)
    with pytest.raises(ModtokError, match="incomplete fastText model"):
        load_fasttext(tmp_path / "text.bin")


@pytest.mark.parametrize("share", [0, 0.0001, 0.01, 0.3, 0.6, 0.999])
def test_truncated_model_is_an_error(tmp_path: Path, share: float) -> None:
    """The library itself would read words out of nothing until the memory is full."""
    whole = bundled_model().read_bytes()
    check_model(bundled_model())
    (tmp_path / "cut.ftz").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(ModtokError, match=r"(not a|incomplete) fastText model"):
        load_fasttext(tmp_path / "cut.ftz")


@pytest.mark.parametrize("language", LANGUAGES)
def test_text_in_every_script_is_accepted(language: str) -> None:
    assert faults("\n".join(paragraphs(language))) == [None] * 17


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("这是一个没有空格的中文句子。" * 9, None),
        ("สวัสดีชาวโลก นี่คือข้อความภาษาไทย", None),
        ("Vuonna 1974 hinta oli 12,50 markkaa.", None),
        ("| 12.30 | 45.10 | 7/8 |", "symbols"),
        ("=" * 70, "symbols"),
        ("", "symbols"),
        ("x" + "QUJDREVGR0g" * 12, "no words"),
        ("Une phrase cass\ufffde par un octet.", "broken characters"),
    ],
)
def test_faults(text: str, why: str | None) -> None:
    assert faults(text) == [why]
    assert faults(f"Before.\n{text}\nAfter.") == [None, why, None]


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_that_repeat_a_sentence_are_found(language: str) -> None:
    text = paragraphs(language)
    one = text[0][:120]
    repetition = Repetition()
    code = "\x0b" + "\x0b".join(["    x = f(a, b, c, d, e, f, g, h)"] * 30)
    assert repetition.reason("\n".join([*text, code])) is None
    for repeated in (" ".join([one] * 12), "\n".join([one] * 12), "\n".join([*text, one] * 6)):
        assert repetition.reason("\n".join([*text[1:], repeated])), repeated


CHINESE = "该菜单包含用于编辑当前文档内容的命令，以及撤消最后一个条目的命令。"


def test_repetition_in_a_script_without_spaces() -> None:
    assert Repetition().reason("这是一个没有空格的中文句子。" + CHINESE) is None
    assert Repetition().reason(CHINESE * 6) == "phrase"
    twice = " ".join(paragraphs("en")[0].split()[:40])
    assert Repetition().reason(f"{twice}\n{twice}") is None  # deduplication leaves one
    assert Repetition().reason(f"{twice} {twice}") == "duplicated_10_n_grams"


def test_filters_of_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is counted in the report, and each can be switched off."""
    monkeypatch.chdir(tmp_path)
    text = paragraphs("en")
    mail = f"{text[0]} Write to ann@mill.fi or 8.8.8.8."
    pages = {
        "http://good.example/": "\n".join([mail, text[1]]),
        "https://cdn.spam.example/x": "\n".join(text[2:4]),
        "http://good.example/bad/": "\n".join(text[4:6]),
        "http://good.example/repeats": "\n".join([text[6], " ".join([text[7]] * 12)]),
        "http://good.example/keywords": "river mills bridge council spring mayor town " * 2
        + " ".join(word for word in " ".join(text[8:14]).split() if word.isalpha() and word[4:]),
    }
    lines = [json.dumps({"url": url, "text": page}) + "\n" for url, page in pages.items()]
    Path("pages.jsonl").write_text("".join(lines), "utf-8")
    Path("blocked").write_text("\ufeffSpam.example\n# hosts\nhttp://good.example/bad\n", "utf-8")

    def build(**options: object) -> tuple[list[str], set[str], list[str]]:
        report = corpus_build("pages.jsonl", "en", workers=1, force=True, **options)
        texts = [one["text"] for one in records_of(Path("data/en"))]
        reasons = {row["reason"] for row in report.dropped if row["pages"]}
        return texts, reasons, [row["reason"] for row in report.changed]

    every = ["repair", "repetition", "stop-words", "pii"]
    texts, dropped, changed = build(filters=every, blocked_urls="blocked")
    (page,) = texts
    assert page == pages["http://good.example/"].replace(
        "ann@mill.fi", "email@example.com"
    ).replace("8.8.8.8", "192.0.2.1")
    assert dropped == {"blocked address", "repetition: phrase", "few stop words"}
    assert changed == ["addresses replaced"]
    assert len(build(filters="none")[0]) == 5
    assert build()[1] == {"repetition: phrase", "few stop words"}
    assert is_blocked("http://a.spam.example.:80/", frozenset(["spam.example"]))
    assert not is_blocked("http://a.example/?to=http://spam.example/", frozenset(["spam.example"]))
    for line in ("0.0.0.0 spam.example", "||spam.example^", "*.spam.example"):
        Path("list").write_text(f"spam.example\n{line}\n")
        with pytest.raises(UsageError, match=r"list:2: .* is neither a host nor an address"):
            build(blocked_urls="list")


def test_marks_are_letters() -> None:
    assert letter_shares("नमस्ते दुनिया\n\na\u0301 1").tolist() == pytest.approx([1, 0, 2 / 3])


# Code points that Python's older Unicode does not know are left out: the table may.
LINES = st.text(
    st.characters(exclude_categories=("Cn", "Cs"), exclude_characters="\n")
    | st.sampled_from(" a1.\x1f")
)


@given(lines=st.lists(LINES, min_size=1, max_size=5))
def test_shares_of_letters_by_line_are_those_of_the_characters(lines: list[str]) -> None:
    slow = []
    for line in lines:
        # Python takes U+001C to U+001F for white space, the engine of the pre-tokenizer does not.
        solid = [one for one in line if not one.isspace() or "\x1c" <= one <= "\x1f"]
        letters = [one for one in solid if unicodedata.category(one)[0] in "LM"]
        slow.append(len(letters) / max(1, len(solid)))
    assert letter_shares("\n".join(lines)).tolist() == pytest.approx(slow)


def examples(tmp_path: Path) -> tuple[Path, Path]:
    """Two sides that differ in their words: sentences shuffled out of the sample, and menus."""
    chance = random.Random(3)
    words = " ".join(paragraphs("en")).split()
    menu = ["home", "login", "cart", "menu", "buy", "now", "click", "here", "sale", "share"]
    good = [" ".join(chance.choices(words, k=40)) for _ in range(300)]
    bad = [" ".join(chance.choices(menu + words[:60], k=40)) for _ in range(90)]
    both = "This one is on both sides, and so it teaches nothing at all about either of them."
    for name, lines in (("good", good), ("bad", bad)):
        (tmp_path / f"{name}.txt").write_text("\n".join([*lines, lines[0], both, "short"]))
    return tmp_path / "good.txt", tmp_path / "bad.txt"


def test_classifier_training_is_deterministic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = examples(tmp_path)
    report = corpus_train_quality([good], [bad], output=tmp_path / "q.bin")
    assert report.train_good + report.held_out_good == 300  # equal ones once, common ones never
    assert report.train_bad + report.held_out_bad == 90
    assert report.held_out_good > 15
    assert report.held_out_bad > 3
    assert report.precision > 0.9
    assert report.recall > 0.9
    assert report.auc > 0.95
    monkeypatch.setattr(quality, "precision_recall", lambda *_: (0.654321, 0.987654))
    monkeypatch.setattr(quality, "auc", lambda *_: 0.123456)
    again = corpus_train_quality([good], [bad], output=tmp_path / "again.bin")
    assert (again.precision, again.recall, again.auc) == (0.6543, 0.9877, 0.1235)
    assert (tmp_path / "q.bin").read_bytes() == (tmp_path / "again.bin").read_bytes()
    scorer = QualityModel(tmp_path / "q.bin")
    assert scorer.score(paragraphs("en")[3]) > 0.9
    assert scorer.score("Click here to login, share and subscribe.\nNext page") < 0.3
    assert 0 <= scorer.score("") <= 1
    with pytest.raises(UsageError, match="already exists"):
        corpus_train_quality([good], [bad], output=tmp_path / "q.bin")
    with pytest.raises(UsageError, match="names another format"):
        corpus_train_quality([good], [bad], output=tmp_path / "q.json")
    with pytest.raises(ModtokError, match="too few to train on"):
        corpus_train_quality([good], [good], output=tmp_path / "none.bin")
    assert not (tmp_path / "none.bin").exists()


def test_converted_model_equals_floret(tmp_path: Path) -> None:
    import fasttext
    import floret

    (tmp_path / "train.txt").write_text(
        "\n".join(
            f"__label__{side} {text}"
            for side, words in (("a", "one two three"), ("b", "four five six"))
            for text in [words] * 30
        )
    )
    model = floret.train_supervised(
        str(tmp_path / "train.txt"),
        dim=5,
        wordNgrams=2,
        minn=2,
        maxn=3,
        bucket=100,
        thread=1,
        verbose=0,
    )
    model.save_model(str(tmp_path / "floret.bin"))
    (tmp_path / "fast.bin").write_bytes(as_fasttext((tmp_path / "floret.bin").read_bytes()))
    other = fasttext.load_model(str(tmp_path / "fast.bin"))
    for text in ("one", "six five", "unknown words", ""):
        theirs = {label: score for score, label in model.f.predict(text + "\n", 2, 0.0, "strict")}
        labels, scores = other.predict(text, k=2)
        assert dict(zip(labels, scores, strict=True)) == pytest.approx(theirs)
    with pytest.raises(ModtokError, match="in an unknown format"):
        as_fasttext(b"x" * 100)
    with pytest.raises(ModtokError, match="expected the labels good and bad"):
        QualityModel(tmp_path / "fast.bin")
