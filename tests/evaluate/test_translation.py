"""Translation: prompts, what is written after them, and what sacreBLEU makes of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
import torch

from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.evaluate import generation
from modtok_cli.evaluate.evaluate import evaluate_mt
from modtok_cli.evaluate.generation import ExamplePrompt, TextPart, encode, fit, parse_pairs, write
from modtok_cli.evaluate.models import Models
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.results import SEED, resampled_sums
from modtok_cli.evaluate.text_scores import corpus_metrics
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.load import load, open_model
from modtok_cli.model.slice.slice import slice as slice_model

TASKS = SAMPLE / "tasks"
SMALL = {"shots": 2, "max_tokens": 12, "limit": 6}


@pytest.fixture(scope="module")
def models(few_steps: Path) -> Models:
    return Models(open_model(few_steps))


def lines(language: str) -> list[str]:
    return (SAMPLE / "parallel" / f"{language}.txt").read_text(encoding="utf-8").split("\n")[:-1]


def test_scores_equal_sacrebleu(few_steps: Path) -> None:
    found = evaluate_mt(few_steps, "en-fr", data=TASKS, **SMALL)
    outputs = [row["output"] for row in found.examples]
    references = lines("fr")[5:11]
    assert len({*outputs}) > 3
    assert [row["reference"] for row in found.examples] == references
    value = {result.metric: result.value for result in found.results}
    assert value["BLEU"] == sacrebleu.corpus_bleu(outputs, [references]).score
    assert value["chrF++"] == sacrebleu.corpus_chrf(outputs, [references], word_order=2).score
    for result in found.results:
        assert result.low is not None
        assert result.high is not None
        assert result.low <= result.high
        assert "checkpoint:it@12/" in result.signature
    assert "sacrebleu:#:1/c:mixed/e:no/tok:13a/s:exp/v:" in found.results[0].signature


def bad_translations(language: str) -> tuple[list[str], list[str]]:
    """References, and texts that share more or less with them."""
    references = lines(language)
    others = [" ".join(line.split()[n % 3 :]).upper() if n % 5 else "" for n, line in
              enumerate(references)]  # fmt: skip
    return [other if n % 2 else line for n, (line, other) in
            enumerate(zip(references, others, strict=True))], references  # fmt: skip


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("language", ["fr", "ne", "el"])
def test_summed_statistics_give_the_corpus_metric(language: str, lowercase: bool) -> None:
    outputs, references = bad_translations(language)
    bleu, chrf = corpus_metrics(language, lowercase=lowercase)
    expected = (
        sacrebleu.corpus_bleu(outputs, [references], lowercase=lowercase).score,
        sacrebleu.CHRF(word_order=2, lowercase=lowercase).corpus_score(outputs, [references]).score,
    )
    for metric, value in zip((bleu, chrf), expected, strict=True):
        assert metric.score(metric.statistics(outputs, references).sum(0)) == value


def test_resampled_metric_equals_metric_of_the_resampled_sentences() -> None:
    outputs, references = bad_translations("fr")
    for metric in corpus_metrics("fr"):
        statistics = metric.statistics(outputs, references)
        generator = np.random.default_rng(SEED)
        drawn = generator.integers(0, len(outputs), len(outputs))
        again = metric.statistics([outputs[i] for i in drawn], [references[i] for i in drawn])
        assert metric.of_sums(resampled_sums(statistics, 1))[0] == metric.score(again.sum(0))


def test_outputs_are_in_the_order_of_the_prompts(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lengths(_: object, prompts: list[list[int]], __: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(text=f"{len(rows)}", ids=rows, reason="stop") for rows in prompts]

    monkeypatch.setattr(generation, "generate", lengths)
    prompts = [ExamplePrompt((1,) * length, 0) for length in (5, 3, 9, 1, 4)]
    found = write(models, models.of(Infer(("fr",))), prompts, max_tokens=4, batch_size=2)
    assert [output.text for output in found] == ["5", "3", "9", "1", "4"]


def greedy(model: SlicedModel, rows: list[int], allowed: np.ndarray, most: int) -> str:
    """Plain generation over all of T, without a cache, tokens outside `allowed` at -inf."""
    outside = torch.ones(model.tokenizer_out.size, dtype=torch.bool)
    outside[allowed] = False
    written: list[int] = []
    while len(written) < most and b"\n" not in model.tokenizer_out.decode_bytes(written):
        logits = model.logits(torch.tensor([rows + written]))[0, -1]
        token = int(logits.masked_fill(outside, -torch.inf).argmax())
        if token == model.end_of_text:
            break
        written.append(token)
    return model.tokenizer_out.decode(written).split("\n")[0].strip()


def test_crossed_prompt_equals_rows_by_hand(few_steps: Path, models: Models) -> None:
    """Source sides by English alone, target sides by Greek alone, also in the shots."""
    found = evaluate_mt(few_steps, "en-el", data=TASKS, infer="src|tgt", **SMALL)
    whole = models.of(Infer("full"))
    sides = [load(few_steps, [name]).tokenizer_in for name in ("en", "el")]
    english, greek = lines("en"), lines("el")
    prompt = [whole.end_of_text]
    for shot in range(2):
        for side, text in zip(sides, (f"{english[shot]} =", f" {greek[shot]}\n"), strict=True):
            prompt += side.global_ids[side.encode(text)].tolist()
    for index, row in enumerate(found.examples):
        asked = sides[0].global_ids[sides[0].encode(f"{english[5 + index]} =")].tolist()
        assert row["prompt_tokens"] == len(prompt) + len(asked)
        target = sides[1].global_ids.astype(np.int64)
        assert row["output"] == greedy(whole, prompt + asked, target, 12)
    model = models.of(Infer(("en",), ("el",), crossed=True))
    pieces = [TextPart("The cat ="), TextPart(" Η γάτα\n", target=True)]
    crossed, plain = (encode(model, pieces, crossed=flag) for flag in (True, False))
    assert len(crossed) < len(plain)  # English spells Greek out


def test_combined_prompt_is_one_text(models: Models) -> None:
    model = models.of(Infer(("en", "fr")))
    pieces = [TextPart("The cat ="), TextPart(" Le chat\n", target=True), TextPart("A dog =")]
    rows = [model.end_of_text, *model.encode_in("The cat = Le chat\nA dog =")]
    assert encode(model, pieces, crossed=False) == rows


def test_shots_that_do_not_fit_are_dropped_first_ones_first(models: Models) -> None:
    model = models.of(Infer(("en",)))
    shots = [[TextPart(f"number {n} " * 12)] for n in range(5)]
    question = [TextPart("last =")]
    found = fit(model, shots, question, max_tokens=16, crossed=False)
    assert 0 < found.shots < 5
    assert len(found.rows) <= model.context - 16
    kept = [piece for shot in shots[-found.shots :] for piece in shot]
    assert list(found.rows) == encode(model, [*kept, *question], crossed=False)
    wider = [piece for shot in shots[-found.shots - 1 :] for piece in shot]
    assert len(encode(model, [*wider, *question], crossed=False)) > model.context - 16
    alone = fit(model, shots, [TextPart("word " * 400)], max_tokens=16, crossed=False)
    assert (alone.shots, alone.cut) == (0, True)
    both, one = (
        write(models, model, prompts, max_tokens=4, batch_size=2)
        for prompts in ([alone, found], [found])
    )
    assert [output.reason for output in both] == ["long", one[0].reason]


def test_share_in_the_target_language(models: Models) -> None:
    texts = ["Le chat dort dans la cuisine.", "The cat sleeps in the kitchen.", "", ".", "3 - 4"]
    told = {name: models.in_language(name, texts) for name in ("fr", "en", "el", "fi")}
    assert told["fr"] == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert told["en"] == [0.0, 1.0, 0.0, 0.0, 0.0]
    assert told["el"] == told["fi"] == [0.0] * 5
    assert models.in_language("sw", texts) is None


def test_pairs() -> None:
    languages = ["el", "en", "fr"]
    assert parse_pairs(None, languages) == [("en", "el"), ("en", "fr")]
    assert len(parse_pairs("all", languages)) == 6
    assert parse_pairs("eng_Latn-fr, el-en", languages) == [("en", "fr"), ("el", "en")]
    for wrong, message in {
        **dict.fromkeys(("en", "en-", "en-fr-el", "", "xx-fr"), "is not a pair of languages"),
        "en-en": "'en-en' has one language twice",
        "en-fr,eng_Latn-fr": "'eng_Latn-fr' occurs twice",
    }.items():
        with pytest.raises(UsageError, match=message):
            parse_pairs(wrong, languages)
    with pytest.raises(UsageError, match="no language pairs"):
        parse_pairs(None, ["fr", "el"])
    with pytest.raises(UsageError, match="the model has fewer than two languages: fi"):
        parse_pairs("all", ["fi"])


def test_pairs_without_text_are_reported_and_others_evaluated(few_steps: Path) -> None:
    found = evaluate_mt(few_steps, "en-fr,en-de,sv-fr", data=TASKS, infer="full", **SMALL)
    assert {result.language for result in found.results} == {"en-fr"}
    assert [line.partition(" in /")[0] for line in found.skipped] == [
        "no text in de",
        "no text in sv",
    ]
    with pytest.raises(ModtokError, match=r"incomplete: no text in de .*; no text in sv"):
        found.require_complete()
    with pytest.raises(UsageError, match="the model has"):
        evaluate_mt(few_steps, "en-de", data=TASKS, **SMALL)


def test_slice_keeps_its_vocabularies(few_steps: Path, tmp_path: Path) -> None:
    slice_model(few_steps, inputs=["en"], outputs=["fr"], output=tmp_path / "en-to-fr")
    found = evaluate_mt(tmp_path / "en-to-fr", "en-fr", data=TASKS, **SMALL)
    whole, crossed = (
        evaluate_mt(model, "en-fr", data=TASKS, infer="src|tgt", **SMALL)
        for model in (few_steps, tmp_path / "en-to-fr")
    )
    assert {result.infer for result in found.results} == {"slice"}
    assert {result.metric for result in found.results} == {"BLEU", "chrF++"}  # none to judge by
    assert [row["output"] for row in crossed.examples] == [row["output"] for row in whole.examples]
    with pytest.raises(UsageError):
        evaluate_mt(tmp_path / "en-to-fr", "en-fr", data=TASKS, infer="full")


def test_dropped_shots_are_reported(few_steps: Path) -> None:
    heard = Said()
    more = {"max_tokens": 60, "limit": 2, "progress": heard}
    found = evaluate_mt(few_steps, "en-fr", data=TASKS, **more)
    (result, *_), used = found.results, [row["shots"] for row in found.examples]
    assert result.facts["shots_dropped"] == 10 - sum(used) > 0
    assert result.shots == sum(used) / 2
    assert any("shots were dropped" in note for note in heard.notes)
