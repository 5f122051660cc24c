"""A grown vocabulary: first weights of its rows, and training of the new rows only."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.microbatches import packer
from modtok_cli.architectures.families.llama import llama
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.modular.spelling import Spelling, spell
from modtok_cli.training.data.sampling import Regime
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.growth import grow_rows
from modtok_cli.training.rows.table import RowTable
from modtok_cli.training.step import optimizer_step

from .conftest import SAMPLE
from .test_model import micro_of, microbatches

SHAPE = llama(2, 32, 8, 88)


def slow_rows(old: torch.Tensor, spelling: Spelling, first: torch.Tensor) -> torch.Tensor:
    """The definition, token by token."""
    rows = first.clone()
    for token, ids in enumerate(np.split(spelling.ids, spelling.offsets[1:-1])):
        parts = old[torch.from_numpy(ids).long()]
        if len(ids) == 1:
            rows[token] = parts[0]
        elif len(ids) > 1:
            mean = parts.mean(0)
            rows[token] = mean * (parts.norm(dim=1).mean() / mean.norm())
    return rows


@pytest.mark.parametrize(("old_shards", "shards"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_rows_follow_the_definition(old_shards: int, shards: int) -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 5, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    spelling = Spelling(generator.integers(0, 17, offsets[-1]).astype(np.int32), offsets)
    old = torch.randn(17, 6)
    parts = [old[shard::old_shards].contiguous() for shard in range(old_shards)]
    for shard in range(shards):
        table = RowTable(40, 6, shard=shard, shards=shards)
        table.initialize(5)
        whole = RowTable(40, 6)
        whole.initialize(5)
        grow_rows(table, parts, spelling)
        expected = slow_rows(old, spelling, whole.weight)[shard::shards]
        torch.testing.assert_close(table.weight, expected)
        copied = torch.from_numpy(lengths == 1)[shard::shards]
        assert torch.equal(table.weight[copied], expected[copied])
        assert not table.moment1.any() and not table.steps.any()  # noqa: PT018


def test_the_worked_example() -> None:
    table = RowTable(1, 2)
    spelling = Spelling(np.array([0, 1], np.int32), np.array([0, 2]))
    grow_rows(table, [torch.tensor([[3.0, 0.0], [0.0, 1.0]])], spelling)
    torch.testing.assert_close(table.weight, torch.tensor([[1.8974, 0.6325]]), atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def grown(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of three languages, and the same with French appended."""
    path = tmp_path_factory.mktemp("grown")
    old = ("el", "en", "fi")
    bpe_seq(old, data=SAMPLE, output=path / "old", k=600)
    bpe_seq(old, data=SAMPLE, output=path / "new", k=600)
    bpe_seq(None, data=SAMPLE, output=path / "new", append=("fr",))
    return path


@pytest.mark.parametrize("tied", [False, True])
def test_old_languages_are_unchanged_bit_for_bit(grown: Path, stores, tied: bool) -> None:
    old = SubtokenizerCache.load(grown / "old")
    new = SubtokenizerCache.load(grown / "new")
    small = Model(replace(SHAPE, tied=tied), old.size, start_ranks())
    some = {name: stores[name] for name in ("el", "en", "fi")}
    for batch in microbatches(old, some, 3):
        optimizer_step(small, batch, 1e-2)

    tokenizer = new.tokenizer
    columns = [tokenizer.languages.index(name) for name in old.tokenizer.languages]
    only_new = torch.from_numpy(~tokenizer.token_membership[:, columns].any(axis=1))
    assert int(only_new.sum()) == new.size - old.size > 100
    large = Model(replace(SHAPE, tied=tied), new.size, start_ranks(), seed=9, only_rows=only_new)
    spelling = spell(tokenizer.vocabulary, old.of(None))
    with torch.no_grad():
        for name, table in large.tables.items():
            grow_rows(table, [small.tables[name].weight], spelling)
        for name, parameter in large.backbone.parameters.items():
            parameter.copy_(small.backbone.parameters[name])

    def batches(cache: SubtokenizerCache, language: str) -> list:
        only = {language: stores[language]}
        one = packer(cache, only, regime=Regime.parse("none"))
        return [micro_of(one.batch(step), cache) for step in (1, 2)]

    french = batches(new, "fr")
    before = [large.measure(batch).mean() for batch in french]
    rows = {name: table.weight.clone() for name, table in large.tables.items()}
    for _ in range(20):
        optimizer_step(large, french, 1e-2)
    for name, table in large.tables.items():
        assert torch.equal(table.weight[~only_new], rows[name][~only_new])
        assert not torch.equal(table.weight[only_new], rows[name][only_new])
        assert not table.steps[~only_new].any()
    after = [large.measure(batch).mean() for batch in french]
    assert sum(after) < sum(before) - 0.2
    for language in ("el", "en", "fi"):
        for one, other in zip(batches(old, language), batches(new, language), strict=True):
            assert torch.equal(small.measure(one), large.measure(other))


def test_nothing_else_is_trained(subtokenizers: SubtokenizerCache, stores) -> None:
    some = torch.zeros(subtokenizers.size, dtype=torch.bool)
    some[400:] = True
    model = Model(SHAPE, subtokenizers.size, start_ranks(), only_rows=some)
    before = {name: p.clone() for name, p in model.backbone.parameters.items()}
    for batch in microbatches(subtokenizers, stores, 2):
        _, norm = optimizer_step(model, batch, 1e-2)
        assert torch.isfinite(norm)
        assert norm > 0
    for name, parameter in model.backbone.parameters.items():
        assert torch.equal(parameter, before[name])
        assert not model.optimizer.state(name)["m"].any()
