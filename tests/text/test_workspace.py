"""Which file is whose: the layout of `data/`."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import combinations

import pytest

from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import save_counts, sources_of
from modtok_cli.text.workspace import by_language, files_in, language_files


def workspace(place, *names):
    for name in names:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("x\n")
    return place


@pytest.fixture
def data(tmp_path):
    return workspace(
        tmp_path, "fr.txt", "fr.devtest", "fr.tsv", "fi.jsonl.zst", "sv/part-1.jsonl",
        "sv/part-0.txt", "sv/Readme.fi.md", "sv/.part.txt", "flores.txt", "README.md", ".fr.txt",
        "abq.txt",
    )  # fmt: skip


def _names(data, found):
    return {
        language: [str(path.relative_to(data)) for path in paths]
        for language, paths in found.items()
    }


def test_all_languages(data):
    assert _names(data, language_files(data)) == {
        "fi": ["fi.jsonl.zst"],
        "fr": ["fr.devtest", "fr.tsv", "fr.txt"],
        "sv": ["sv/part-0.txt", "sv/part-1.jsonl"],
    }
    assert list(language_files(data)) == ["fi", "fr", "sv"]


def test_names_that_are_no_language_are_named(tmp_path):
    names = ["en", "french", "jp", "cz", "fr copy", "zh-Hant", "\u65e5\u672c\u8a9e", "Old Greek/a"]
    workspace(tmp_path, *(f"{name}.txt" for name in names), "more/README.md")
    heard = Silent()
    assert list(language_files(tmp_path, progress=heard)) == ["en", "zh"]
    assert heard.warnings == [
        f"{tmp_path}: left out, since the names are not languages: Old Greek, "
        "cz.txt (cs?), fr copy.txt (fr?), french.txt (fr?), jp.txt (ja?), \u65e5\u672c\u8a9e.txt; "
        "rename them to <lang>.txt, or list what you want with --langs"
    ]
    heard = Silent()
    assert list(language_files(tmp_path, ["zh-Hant"], progress=heard)) == ["zh"]
    assert not heard.warnings
    for path in tmp_path.glob("*.txt"):
        path.rename(path.with_name(f"French ({path.stem}).txt"))
    with pytest.raises(ModtokError, match=r"no language in .*French \(cz\)\.txt \(fr\?\)"):
        language_files(tmp_path)


@pytest.mark.parametrize(
    ("names", "language"),
    [
        (["en.txt", "eng.txt"], "en"),
        (["pt.txt", "por_BR.txt"], "pt"),
        (["pt.txt", "por/part.txt"], "pt"),
        (["he.txt", "iw.txt"], "he"),
        (["zh-cn.txt", "zh-tw.txt"], "zh"),
        (["sr_cyrl.txt", "sr_latn.txt"], "sr"),
        (["en-us.txt", "en.txt"], "en"),
        (["zh-classical.txt", "zh-min-nan.txt"], "zh"),
        (["hi.txt", "hi_rom.txt"], "hi"),
        (["pt.br.txt", "pt.pt.txt"], "pt"),
        (["pt.br/a.txt", "pt.pt/a.txt"], "pt"),
        (["zh.txt", "zh.classical.txt.gz"], "zh"),
        (["en_simple_clean_0.txt", "en_clean_0.txt"], "en"),
    ],
)
def test_two_spellings_of_one_language_are_an_error(tmp_path, names, language):
    workspace(tmp_path, "fi.txt", *names)
    first, second = sorted(name.split("/")[0] for name in names)
    for wanted in (None, [language]):
        with pytest.raises(UsageError, match=f"{first} and {second} are both language") as caught:
            language_files(tmp_path, wanted)
        assert str(tmp_path) in str(caught.value)
    assert list(language_files(tmp_path, ["fi"])) == ["fi"]


# Of Wikipedia, CC-100, mC4, OPUS, MADLAD-400: the names that have a code in common, and its form.
PUBLISHED = {
    "{}.txt": "zh zh_min_nan zh_classical zh_yue, zh-min-nan zh-classical, be be_x_old, "
    "nds nds_nl, roa_rup roa_tara, cbk cbk_zam, bat_smg fiu_vro map_bms, hi hi_rom, my my_zaw, "
    "en simple en_GB en_US, pt pt_br pt_BR, sr sr@latin sr_latin sr@ijekavian, de de_AT de_CH, "
    "zh_cn zh_tw zh_HK ze_zh zh_zh, ca ca@valencia, uz uz@cyrillic, crh crh_Latn, tt tt_RU",
    "20231101.{}/train-0.txt": "zh zh-min-nan zh-classical zh-yue, nds nds-nl, be be-x-old",
    "c4-{}.tfrecord-0-of-1.json.gz": "hi hi-Latn, bg bg-Latn, zh zh-Latn, iw he, no nb",
    "{}_clean_0000.txt": "el el_CY el_Latn, ms ms_Arab ms_Arab_BN, en en_xx_simple, az az_RU",
    "lang={}/0.txt": "zh-Hans zh-Hant zh, sr sr-Latn",
}


@pytest.mark.parametrize("form", PUBLISHED)
def test_two_published_names_are_never_one_language(tmp_path, form):
    """Two labels, an error, or a name that is left out with a warning."""
    for names in PUBLISHED[form].split(", "):
        for pair in combinations(names.split(), 2):
            place = tmp_path / "-".join(pair)
            workspace(place, *(form.format(name) for name in pair))
            heard = Silent()
            with suppress(ModtokError):
                found = language_files(place, progress=heard)
                assert len(found) == 2 or heard.warnings, pair


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["c4-fr.tfrecord-00000-of-01024.json.gz", "c4-fr-validation.tfrecord-0-of-1.json.gz"],
         {"fr": ["c4-fr-validation.tfrecord-0-of-1.json.gz",
                 "c4-fr.tfrecord-00000-of-01024.json.gz"]}),
        (["README.md", "v1.0/fra-Latn/a.txt", "v1.0/fin-Latn/a.txt"],
         {"fi": ["v1.0/fin-Latn/a.txt"], "fr": ["v1.0/fra-Latn/a.txt"]}),
        (["dev.fra_Latn", "dev.fin_Latn.gz"], {"fi": ["dev.fin_Latn.gz"], "fr": ["dev.fra_Latn"]}),
        (["en/c4-train.00000-of-01024.txt", "en/c4-validation.00000-of-00008.txt"],
         {"en": ["en/c4-train.00000-of-01024.txt"]}),
        (["lang=fr/split=train/0.txt", "lang=fr/split=test/0.txt"],
         {"fr": ["lang=fr/split=train/0.txt"]}),
        (["lang=fr/0.txt", "lang=zho_Hans/0.txt"],
         {"fr": ["lang=fr/0.txt"], "zh": ["lang=zho_Hans/0.txt"]}),
        (["fr.txt", "fr.part-00.jsonl", "fr.train.txt", "fr.dev"],
         {"fr": ["fr.part-00.jsonl", "fr.train.txt", "fr.txt"]}),
        (["el_CY/el_CY_clean_0000.txt", "el_CY/el_CY_noisy_0000.txt"],
         {"el": ["el_CY/el_CY_clean_0000.txt"]}),
    ],
)  # fmt: skip
def test_layouts_of_published_data(tmp_path, names, found):
    workspace(tmp_path, *names)
    assert _names(tmp_path, language_files(tmp_path)) == found


def test_several_files_with_one_spelling_belong_together(tmp_path):
    for name in ("en.txt", "en_b.txt", "en-000.jsonl", "EN.part.txt", "zh-cn.txt", "zh-cn_b.txt"):
        (tmp_path / name).write_text("{}\n")
    heard = Silent()
    found = language_files(tmp_path, progress=heard)
    assert ([len(files) for files in found.values()], heard.warnings) == ([4, 2], [])


def test_only_the_split_train_of_published_data_is_read(tmp_path):
    hub = tmp_path / "test/snapshot"  # the name of a split above the directory means nothing
    names = [
        "README.md", "data/fin_Latn/train/000.txt", "data/fin_Latn/test/000.txt",
        "data/fin_Latn_removed/train/000.txt", "data/20231101.fr/train-0-of-1.txt",
        "data/20231101.fr/validation-0-of-1.txt", "data/sv/test/0.txt", "data/de/dataset_dict.json",
        "data/de/train/0.txt", "data/de/small/0.txt", "data/mt/mt_clean_0.txt",
        "data/mt/mt_noisy_0.txt", "data/mt/a.html", "data/el/.cache/a.md", "data/el/a.dev",
        "data/el/a.devtest", "data/LICENSE.txt", "data/so/test/0.txt",
        "data/sv/clean-text/the-last-train.txt", "data/so/test.0.txt",
    ]  # fmt: skip
    workspace(hub, *names)
    more = tmp_path / "more"
    more.mkdir()
    (more / "b.txt").write_text("b\n")
    (hub / "data/sv/link").symlink_to(more)
    (more / "again").symlink_to(hub / "data/sv")
    (hub / "data/sv/gone.txt").symlink_to("nothing")
    read = {
        "de": ["de/train/0.txt"],
        "el": ["el/a.dev", "el/a.devtest"],
        "fi": ["fin_Latn/train/000.txt"],
        "fr": ["20231101.fr/train-0-of-1.txt"],
        "mt": ["mt/mt_clean_0.txt"],
        "so": ["so/test/0.txt", "so/test.0.txt"],
        "sv": ["sv/clean-text/the-last-train.txt", "sv/link/b.txt", "sv/test/0.txt"],
    }
    told = [
        "the split train is read; left out: noisy, small, test, validation "
        "(20231101.fr/validation-0-of-1.txt, de/small/0.txt, fin_Latn/test/000.txt and 1 more)",
        "of languages without a split train, all text is read: others, test, validation",
        "left out, since a filter removed this text: fin_Latn_removed",
        "left out, since these names are not those of text: mt/a.html, sv/gone.txt; expected .",
    ]
    for find in (
        lambda told: language_files(hub, progress=told),
        lambda told: by_language([hub / "data"], progress=told),
    ):
        heard = Silent()
        assert _names(hub / "data", find(heard)) == read
        assert len(heard.warnings) == 4
        for warning, start in zip(heard.warnings, told, strict=True):
            assert warning.startswith(f"{hub / 'data'}: {start}")
    heard = Silent()
    assert sorted(language_files(hub, ["fi", "so"], progress=heard)) == ["fi", "so"]
    assert heard.warnings[1].endswith("without a split train, all text is read: test")
    for wanted, others in ((["so"], 1), (["fi"], 0)):
        heard = Silent()
        language_files(hub, wanted, progress=heard)
        assert sum("all text is read: test" in each for each in heard.warnings) == others
    workspace(tmp_path, "two/fi/train/0.txt", "two/so/test/0.txt")
    heard = Silent()
    by_language([tmp_path / "two"], progress=heard)
    assert heard.warnings[-1].endswith("without a split train, all text is read: test")
    # One that is named is read.
    assert files_in(hub / "data/fin_Latn/test") == [hub / "data/fin_Latn/test/000.txt"]


def test_some_languages_by_any_code(data):
    assert list(language_files(data, ["swe", "fi"])) == ["fi", "sv"]
    assert _names(data, language_files(data, ["abq"])) == {"abq": ["abq.txt"]}


@pytest.mark.parametrize(
    ("place", "languages", "said"),
    [
        ("", ["fi", "pl"], r"no text of language 'pl'.*there are el, fi, fr, nl, sv"),
        ("", ["fil"], r"did you mean 'fi'\? there are el, fi, fr, nl, sv"),
        ("", ["french"], "'french' is not a language code"),
        ("", ["nl"], "language 'nl' has no text"),
        ("", ["el"], "language 'el' has no text"),
        ("none", None, "none: does not exist; put"),
        ("nl", None, "no language in this directory"),
        ("nl", ["fr"], "no text of language 'fr'"),
        ("README.md", None, "no language in the names of README.md"),
    ],
)
def test_missing_text_is_named(data, place, languages, said):
    (data / "nl").mkdir()
    (data / "el.txt").touch()
    with pytest.raises(ModtokError, match=said):
        language_files(data / place, languages)


def test_one_file(tmp_path):
    file = tmp_path / "french" / "fr.txt"
    file.parent.mkdir()
    file.write_text("text\n")
    assert language_files(file) == {"fr": [file]}
    with pytest.raises(UsageError, match="no text of language 'fi'"):
        language_files(file, ["fi"])
    file = tmp_path / "web.csv"
    file.write_text("text,language\na,fra_Latn\nb,fi\nc,sr-Cyrl\nd,srp_Latn\n")
    assert language_files(file, ["sv"]) == {"sv": [file]}
    of_two = Reading(lang_field="language")
    labels = ["fi", "fr", "sr-Cyrl", "sr-Latn"]
    assert language_files(file, None, of_two) == {label: [file] for label in labels}
    assert language_files(file, ["fi"], of_two) == {"fi": [file]}
    file.write_text("text,language\na,swe\n")  # what the file had is not remembered
    assert language_files(file, None, of_two) == {"sv": [file]}
    for place, languages in ((file, None), (file, ["fr", "fi"]), (tmp_path, ["fr", "fi"])):
        with pytest.raises(ModtokError, match="column of the language, name it with --lang-field"):
            language_files(place, languages)


def test_table_and_its_text_count_once(data):
    table = WordCounts.from_pairs([(b"x", 1)])
    texts = language_files(data, ["fi"])["fi"]
    save_counts(table, data / "fi.counts", "fi", sources_of(texts))
    assert _names(data, language_files(data, ["fi"])) == {"fi": ["fi.jsonl.zst"]}
    # One that was made of other text is more text.
    save_counts(table, data / "fi-1.counts", "fi")
    expected = {"fi": ["fi-1.counts", "fi.jsonl.zst"]}
    assert _names(data, language_files(data, ["fi"])) == expected
    # One of two texts, of which one is there, is more text too.
    (data / "fi-2.jsonl").write_text("{}")
    both = [*texts, data / "fi-2.jsonl"]
    save_counts(table, data / "fi-2.counts", "fi", sources_of(both))
    expected["fi"].insert(1, "fi-2.jsonl")
    assert _names(data, language_files(data, ["fi"])) == expected
    (data / "fi-2.jsonl").unlink()
    expected["fi"][1] = "fi-2.counts"
    assert _names(data, language_files(data, ["fi"])) == expected
    (data / "fi-2.counts").unlink()
    (data / "fi.jsonl.zst").unlink()
    expected = {"fi": ["fi-1.counts", "fi.counts"]}
    assert _names(data, language_files(data, ["fi"])) == expected


def test_files_in(data):
    assert files_in("-") == ["-"]
    assert files_in(data / "fr.tsv") == [data / "fr.tsv"]
    parts = ["sv/part-0.txt", "sv/part-1.jsonl"]
    assert files_in(data / "sv") == [data / part for part in parts]
    with pytest.raises(ModtokError, match="does not exist"):
        files_in(data / "no.counts")
    assert files_in(data / "README.md") == [data / "README.md"]  # named itself
    with pytest.raises(ModtokError, match="unknown text format"):
        files_in(workspace(data, "notes.pdf") / "notes.pdf")


def test_a_directory_among_files(data):
    (data / "flores.txt").unlink()
    (data / "abq.txt").unlink()
    found = by_language([data])
    assert {name: len(files) for name, files in found.items()} == {"fi": 1, "fr": 3, "sv": 2}
    assert by_language([data / "sv"]) == {"sv": found["sv"]}
    with pytest.raises(ModtokError, match="does not exist"):
        by_language([data / "en.txt"])


def test_by_language(data):
    paths = [data / "sv/part-0.txt", data / "fr.txt", data / "fr.devtest"]
    found = by_language(paths)
    assert _names(data, found) == {"fr": ["fr.devtest", "fr.txt"], "sv": ["sv/part-0.txt"]}
    assert list(by_language([data / "flores.txt"], "eng")) == ["en"]
    with pytest.raises(UsageError, match=r"flores\.txt: the file name contains no language"):
        by_language([data / "flores.txt"])


def test_a_workspace_of_labels(tmp_path):
    data = workspace(
        tmp_path, "fra_Latn.txt", "srp_Cyrl.txt", "sr-Latn.txt", "zh-Hans.txt", "zh-Hant/a.txt",
        "zh-Hant/b.txt", "code.txt", "math-0.txt", "math-1.txt", "x-law.txt", "fr-x-law.txt",
    )  # fmt: skip
    whole = {
        "code": ["code.txt"],
        "fr": ["fra_Latn.txt"],
        "fr-x-law": ["fr-x-law.txt"],
        "math": ["math-0.txt", "math-1.txt"],
        "sr-Cyrl": ["srp_Cyrl.txt"],
        "sr-Latn": ["sr-Latn.txt"],
        "x-law": ["x-law.txt"],
        "zh-Hans": ["zh-Hans.txt"],
        "zh-Hant": ["zh-Hant/a.txt", "zh-Hant/b.txt"],
    }
    assert _names(data, language_files(data)) == whole
    for wanted, labels_there in [
        (["srp_Cyrl", "fra_Latn", "code"], ["code", "fr", "sr-Cyrl"]),
        (["sr"], ["sr-Cyrl", "sr-Latn"]),
        (["zh", "zho_Hans"], ["zh-Hans", "zh-Hant"]),
        (["X-Law", "fr-x-law"], ["fr-x-law", "x-law"]),
    ]:
        found = _names(data, language_files(data, wanted))
        assert found == {name: whole[name] for name in labels_there}
    with pytest.raises(UsageError, match=r"no text of language 'sr-Arab'.*there are code, fr-Latn"):
        language_files(data, ["sr-Arab"])
    named = by_language([data / name for name in ("sr-Latn.txt", "srp_Cyrl.txt", "fra_Latn.txt")])
    assert list(named) == ["fr", "sr-Cyrl", "sr-Latn"]


def test_labels_of_a_tokenizer_name_the_text(tmp_path):
    data = workspace(tmp_path, "zho_Hans.txt", "fra_Latn.txt")
    assert list(language_files(data)) == ["fr", "zh"]
    known = ("fr", "zh-Hans", "zh-Hant")
    assert list(language_files(data, known=known)) == ["fr", "zh-Hans"]
    assert list(language_files(data, ["zho_Hans"], known=known)) == ["zh-Hans"]


def test_a_file_without_a_language_in_its_name_is_identified(tmp_path):
    pytest.importorskip("py3langid")
    for language, name in (("fi", "novel.txt"), ("en", "notes.txt")):
        shutil.copy(SAMPLE / "parallel" / f"{language}.txt", tmp_path / name)
    heard = Said()
    found = language_files(tmp_path, progress=heard)
    assert _names(tmp_path, found) == {"en": ["notes.txt"], "fi": ["novel.txt"]}
    assert f"{tmp_path}/novel.txt: identified as fi (name it fi.txt to set it)" in heard.notes
    heard = Said()
    (tmp_path / "novel.txt").rename(tmp_path / "novel.md")
    found = by_language([tmp_path / "novel.md"], progress=heard)
    assert _names(tmp_path, found) == {"fi": ["novel.md"]}
    assert heard.notes == [f"{tmp_path}/novel.md: identified as fi (name it fi.md to set it)"]
    # Half of it is in another language, or too short: nothing is guessed.
    lines = [(SAMPLE / "parallel" / f"{name}.txt").read_text("utf-8") for name in ("fi", "en")]
    for text in ("".join(lines), "abc\n"):
        (tmp_path / "novel.md").write_text(text, "utf-8")
        with pytest.raises(UsageError, match="the file name contains no language"):
            by_language([tmp_path / "novel.md"])
    # Names of other files change nothing, nor do languages that are asked for.
    shutil.copy(SAMPLE / "parallel" / "fr.txt", tmp_path / "fr.txt")
    expected = {"en": ["notes.txt"], "fr": ["fr.txt"]}
    assert _names(tmp_path, language_files(tmp_path)) == expected
    assert _names(tmp_path, language_files(tmp_path, ["en", "fr"])) == expected
