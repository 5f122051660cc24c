"""`unigram` and `unigram_merge`: outputs, models, EM, errors."""

from __future__ import annotations

import io
from pathlib import Path

import orjson
import pytest
import sentencepiece

from helpers.contents import contents
from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe import bpe
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.unigram import unigram
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.construct.unigram_models import parse_weights
from modtok_cli.learn.merges import LARGEST_BUDGET
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.subset_check import check_subsets
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

DATA = SAMPLE / "data"
LANGUAGES = ["fi", "ne", "sw"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("unigram") / "models"
    unigram(LANGUAGES, data=DATA, output=place, k=700)
    return place


@pytest.fixture(scope="module")
def merged(models: Path) -> Path:
    output = models.parent / "tokenizer"
    unigram_merge(LANGUAGES, data=DATA, models=models, output=output, k=700)
    return output


def test_json_and_model_for_each_language(models: Path) -> None:
    assert sorted(path.name for path in models.iterdir()) == [
        f"{language}.{suffix}" for language in LANGUAGES for suffix in ("json", "model")
    ]
    for language in LANGUAGES:
        ours = open_tokenizer(str(models / f"{language}.json"))
        assert ours.size <= 700
        assert ours.signature == open_tokenizer(str(models / f"{language}.model")).signature
        text = (SAMPLE / "parallel" / f"{language}.txt").read_text("utf-8") + "  ▁\t"
        assert ours.decode(ours.encode(text)) == text
    counts = orjson.loads((models / "sw.json").read_bytes())["model"]["modtok"]["counts"]
    assert sum(counts) > 1000


def test_joint_is_one_vocabulary(tmp_path: Path) -> None:
    report = unigram(["fi", "sw"], data=DATA, output=tmp_path / "joint", k=900, joint=True)
    tokenizer = ModularTokenizer.load(tmp_path / "joint")
    assert tokenizer.algorithm == "unigram"
    assert tokenizer.size == report.lines[0]["tokens"] == 900
    assert tokenizer.token_membership[:].all()
    assert tokenizer.languages == ("fi", "sw")


def test_merged_contains_all_pieces_and_is_deterministic(
    models: Path, merged: Path, tmp_path: Path
) -> None:
    tokenizer = ModularTokenizer.load(merged)
    assert check_subsets(tokenizer, samples=2).sound
    for language in LANGUAGES:
        own = open_tokenizer(str(models / f"{language}.json"))
        assert isinstance(own, Subtokenizer)
        cut = tokenizer.subset([language])
        assert set(cut.vocabulary.tokens()) == set(own.vocabulary.tokens())
    unigram_merge(LANGUAGES, data=DATA, models=models, output=tmp_path / "t", k=700, threads=3)
    assert contents(tmp_path / "t") == contents(merged)
    assert "tokenizer.model" in contents(merged)


def test_references_are_the_monolingual_models(models: Path, merged: Path) -> None:
    references = read_references(merged)
    assert sorted(references) == LANGUAGES
    for language, data in references.items():
        model = orjson.loads((models / f"{language}.json").read_bytes())
        del model["model"]["modtok"]["learner"]  # a reference is no output of a command
        assert orjson.loads(data) == model


def test_fitting_models_are_used_and_others_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    unigram(["fi", "sw"], data=DATA, k=700)
    (tmp_path / "unigram" / "sw.json").write_bytes((models / "fi.json").read_bytes())
    said = Said()
    unigram_merge(["fi", "ne", "sw"], data=DATA, k=700, progress=said)
    assert [note for note in said.notes if "using" in note] == [
        "fi: using the model unigram/fi.json"
    ]
    assert any(note.startswith("EM 1: log-likelihood") for note in said.notes)
    again = Said()
    unigram_merge(["fi", "ne", "sw"], data=DATA, k=700, progress=again)
    assert "already finished" in again.warnings[0]
    assert again.notes == []
    with pytest.raises(UsageError, match="other settings"):
        unigram_merge(["fi", "ne", "sw"], data=DATA, k=700, weights="equal")


def test_budgets_by_parallel_text(tmp_path: Path) -> None:
    names = ["en", "fi", "sw"]
    lines = {name: (SAMPLE / "parallel" / f"{name}.txt").read_text("utf-8") for name in names}
    options = {"data": DATA, "k": 500, "iterations": 0}
    spread = {}
    for place, fair in (("equal", None), ("fair", SAMPLE / "parallel")):
        unigram_merge(names, output=tmp_path / place, fair=fair, progress=Said(), **options)  # type: ignore[arg-type]
        made = ModularTokenizer.load(tmp_path / place)
        sizes = dict(zip(made.languages, made.token_membership.sizes().tolist(), strict=True))
        assert sizes == {name: made.k_of(name) for name in names}
        assert sum(sizes.values()) == 3 * 500
        tokens = [len(made.subset(name).encode(lines[name])) for name in names]
        spread[place] = max(tokens) / min(tokens)
        assert check_subsets(made).sound
        references = {n: made.directory / "references" / f"{n}.json" for n in names}
        assert {n: open_tokenizer(str(path)).size for n, path in references.items()} == sizes
    assert made.k == 500
    assert made.budgets
    assert spread["fair"] < spread["equal"]
    with pytest.raises(UsageError, match="fair and models exclude each other"):
        unigram_merge(names, models=tmp_path, fair=SAMPLE / "parallel", **options)  # type: ignore[arg-type]
    (tmp_path / "short").mkdir()
    for name in names:
        (tmp_path / "short" / f"{name}.txt").write_text("a\n" * (2 if name == "fi" else 1))
    with pytest.raises(ModtokError, match="not line-aligned: 2 lines in fi, 1 in en"):
        unigram_merge(names, output=tmp_path / "o", fair=tmp_path / "short", **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="fair_share: requires fair"):
        unigram_merge(names, output=tmp_path / "o", fair_share=0.5, **options)  # type: ignore[arg-type]


def test_budgets_by_parallel_text_of_the_largest_k(tmp_path: Path) -> None:
    """Four times k is more than ids have room for: the curve ends before."""
    for name in ("en", "fi"):
        (tmp_path / f"{name}.txt").write_bytes((SAMPLE / "parallel" / f"{name}.txt").read_bytes())
    made = bpe_seq(
        ["en", "fi"], data=tmp_path, output=tmp_path / "o", k=LARGEST_BUDGET, fair=tmp_path,
        references=False, progress=Said(),
    )  # fmt: skip
    assert {row["tokens"] < 10_000 for row in made.rows()} == {True}


def trained(where: Path, **options: object) -> Path:
    """A `.model` as SentencePiece itself makes it, from the Swahili sample."""
    model = io.BytesIO()
    lines = [orjson.loads(line)["text"] for line in (DATA / "sw.jsonl").read_bytes().splitlines()]
    settings: dict[str, object] = {
        "vocab_size": 600, "normalization_rule_name": "identity", "byte_fallback": True,
        "split_digits": True, "allow_whitespace_only_pieces": True, "minloglevel": 2,
        "hard_vocab_limit": False,
    }  # fmt: skip
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **(settings | options)
    )
    where.mkdir(exist_ok=True)
    (where / "sw.model").write_bytes(model.getvalue())
    return where


def test_a_sentencepiece_model_is_used(tmp_path: Path) -> None:
    place = trained(tmp_path / "models", user_defined_symbols="")
    unigram_merge(["sw"], data=DATA, models=place, output=tmp_path / "t", k=700)
    tokenizer = ModularTokenizer.load(tmp_path / "t")
    assert b" na" in tokenizer.vocabulary.tokens()
    text = (SAMPLE / "parallel" / "sw.txt").read_text("utf-8")
    assert tokenizer.full().decode(tokenizer.full().encode(text)) == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization_rule_name": "nmt_nfkc"}, r"sw\.model: normalizes text \('nmt_nfkc'\)"),
        ({"model_type": "bpe"}, "of type 'bpe', not Unigram"),
        ({"user_defined_symbols": "<x>"}, "user-defined pieces"),
    ],
)
def test_unsuitable_models_are_refused(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    place = trained(tmp_path / "models", **options)
    with pytest.raises(ModtokError, match=message):
        unigram_merge(["sw"], data=DATA, models=place, output=tmp_path / "t", k=700)
    assert not (tmp_path / "t").exists()


def test_models_of_other_kinds_and_missing_models(tmp_path: Path, models: Path) -> None:
    place = tmp_path / "models"
    bpe(["sw"], data=DATA, output=place, k=400)
    merges = place / "sw.json"
    fewest = bpe_merge(["sw"], data=DATA, output=tmp_path / "fewest", k=400, references=False)
    for data in (
        merges.read_bytes(),
        ModularTokenizer.load(fewest.output).full().to_json(),  # also of type Unigram, with scores
    ):
        merges.write_bytes(data)
        with pytest.raises(ModtokError, match=r"sw\.json: is not a Unigram tokenizer of modtok"):
            unigram_merge(["sw"], data=DATA, models=place, output=tmp_path / "t", k=700)
    with pytest.raises(UsageError, match="no model for en; learn it"):
        unigram_merge(["en", "fi"], data=DATA, models=models, output=tmp_path / "t", k=700)
    with pytest.raises(UsageError, match="does not exist"):
        unigram_merge(["fi"], data=DATA, models=tmp_path / "no", output=tmp_path / "t", k=700)
    (place / "sw.json").unlink()
    (place / "sw.model").write_bytes(b"no model at all")
    with pytest.raises(ModtokError, match=r"sw\.model: not a SentencePiece model"):
        unigram_merge(["sw"], data=DATA, models=place, output=tmp_path / "t", k=700)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 258}, "too small"),
        ({"weights": "xx=1"}, "no language 'xx'"),
        ({"weights": "fi"}, "'fi' is not a weight"),
        ({"weights": "fi=-1"}, "is not a weight"),
        ({"weights": "fi=0"}, "all weights are 0"),
        ({"k": 10**20}, "k: expected at most"),
        ({"specials": ["a", "a"]}, "'a' cannot be a special token"),
        ({"specials": ["<0x0A>"]}, "name of a byte"),
        ({"languages": ["xx"]}, "xx"),
    ],
)
def test_invalid_settings(tmp_path: Path, options: dict[str, object], message: str) -> None:
    settings: dict[str, object] = {"languages": ["fi"], "k": 700, **options}
    with pytest.raises(UsageError, match=message):
        unigram_merge(data=DATA, output=tmp_path / "t", **settings)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_weights() -> None:
    assert parse_weights(None, ["en", "fi"]) == {"en": 1.0, "fi": 1.0}
    assert parse_weights("fi=2, en=0.5", ["en", "fi"]) == {"en": 0.5, "fi": 2.0}
    assert parse_weights("equal", ["en", "fi"]) == {}


def test_em_without_convergence_warns(models: Path, tmp_path: Path) -> None:
    said = Silent()
    unigram_merge(
        ["fi"], data=DATA, models=models, output=tmp_path / "t", k=700, iterations=2, progress=said
    )
    assert any("did not converge within 2" in warning for warning in said.warnings)
    settings = ModularTokenizer.load(tmp_path / "t").settings
    assert settings["em"]["iterations"] == 2
    assert settings["em"]["converged"] is False
