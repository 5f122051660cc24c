"""On real text in 27 languages: our encoder = SentencePiece = `tokenizers`, for any subset."""

from __future__ import annotations

import random

import pytest
import sentencepiece
import tokenizers

from helpers.sample import SHARED, needs_shared
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer

NTREX = SHARED / "data" / "ntrex"

pytestmark = needs_shared

LEARNED, TESTED = 300, 80  # lines of each language; the first are learned from, any are tested


def lines_of(language: str) -> list[str]:
    return [line for line in (NTREX / f"{language}.txt").read_text("utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def modular(tmp_path_factory: pytest.TempPathFactory) -> ModularTokenizer:
    data = tmp_path_factory.mktemp("ntrex") / "data"
    data.mkdir()
    for path in sorted(NTREX.glob("*.txt")):
        lines = lines_of(path.stem)[:LEARNED]
        (data / path.name).write_text("\n".join(lines), "utf-8")
    output = data.parent / "tokenizer"
    unigram_merge(data=data, output=output, k=800, references=False)
    return ModularTokenizer.load(output)


def check(tokenizer: Subtokenizer, texts: list[str]) -> None:
    library = tokenizers.Tokenizer.from_buffer(tokenizer.to_json())
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.to_model())
    ours = [ids.tolist() for ids in tokenizer.encode_batch(texts)]
    assert [encoding.ids for encoding in library.encode_batch(texts)] == ours
    assert processor.encode(texts) == ours
    for text, ids in zip(texts, ours, strict=True):
        assert tokenizer.decode(ids) == text
        assert processor.decode(ids) == text
        assert library.decode(ids, skip_special_tokens=False) == text


def sample(seed: int) -> list[str]:
    """Lines of every language, seen in learning and not, some joined to longer documents."""
    generator = random.Random(seed)
    texts = []
    for path in sorted(NTREX.glob("*.txt")):
        lines = lines_of(path.stem)
        texts += generator.sample(lines, TESTED)
        texts.append("\n".join(generator.sample(lines, 3)) + " \t▁")
    return texts


def test_27_languages(modular: ModularTokenizer) -> None:
    assert len(modular.languages) == 27


def test_all_languages_with_the_full_tokenizer(modular: ModularTokenizer) -> None:
    check(modular.full(), sample(1))


def test_single_languages_on_own_and_other_text(modular: ModularTokenizer) -> None:
    foreign = random.Random(2).sample(sample(2), 40)
    for language in modular.languages:
        check(modular.subset([language]), lines_of(language)[-TESTED:] + foreign)


@pytest.mark.parametrize("seed", range(6))
def test_random_subsets(modular: ModularTokenizer, seed: int) -> None:
    generator = random.Random(seed)
    chosen = generator.sample(modular.languages, generator.randint(2, 12))
    check(modular.subset(chosen), generator.sample(sample(seed), 500))
