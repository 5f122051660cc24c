"""What a step trains on, by the definition: draws, sequences, microbatches, and what continues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.worlds import OFTEN, files, write
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.reference.packing import Place, draw, packed, parts
from modtok_cli.text.reading import Reading
from modtok_cli.training import heldout
from modtok_cli.training.data import sampling, slot_packer, stream
from modtok_cli.training.data.conversation import MARK
from modtok_cli.training.data.sampling import Draw, Mixture, Regime, uniforms
from modtok_cli.training.data.slot_packer import StreamPlan
from modtok_cli.training.data.sources import Sources
from modtok_cli.training.data.stream import BatchStream, positions_of
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore, mixed, permuted, text_stores
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.rows.copies import Copies
from modtok_cli.training.rows.microbatch import Prefetcher, Step

LANGUAGES = ("en", "fi", "sw")
TURN = "<|turn|>"
EPOCHS = [(1, 0), (1, 1), (2, 0)]  # seeds and epochs
ORDERS = [[0, 1, 2, 4, 3], [1, 2, 4, 0, 3], [3, 1, 2, 4, 0]]
NUMBERS = (12918191221454121869, [0.9337443921724664, 0.39039256465951866])
CHATS = [f"¦{TURN}ab? ¦ba ab{TURN}¦\n", f"¦{TURN}é¦¦a", f"¦ab¦日本¦{TURN}¦ab ab{TURN}¦"]


class Marked:
    """Documents with ¦ for the byte that begins a conversation, and begins and ends an answer."""

    key = "marked"

    def __call__(self, value: Any, where: str) -> bytes:
        text: bytes = value.encode()
        return text.replace("¦".encode(), MARK)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> SubtokenizerCache:
    """A tokenizer of languages that share some tokens."""
    place = tmp_path_factory.mktemp("packing")
    world = {name: [OFTEN[number:] * 2] for number, name in enumerate(LANGUAGES)}
    bpe_seq(data=write(world, place / "data"), output=place / "tokenizer", k=268, specials=[TURN],
            references=False)  # fmt: skip
    return SubtokenizerCache.load(place / "tokenizer")


@dataclass(frozen=True)
class Slots:
    """The definition of all slots of a plan: where each is in each text, and its next batch."""

    plan: StreamPlan
    stores: Mapping[str, TextStore]
    subtokenizers: SubtokenizerCache
    at: dict[int, dict[str, Place]]

    def document(self, text: str, number: int) -> int:
        """The index of a document of the endless order, of which each epoch is a permutation."""
        store = self.stores[text]
        own = [int(each) for each in store._documents] if store.source else [
            each for each in range(len(store)) if each not in store.held_out
        ]  # fmt: skip
        epoch, index = divmod(number, len(own))
        return own[permuted(index, len(own), self.plan.seed, epoch)]

    def batch(self, slot: int, step: int) -> Any:
        plan, cache = self.plan, self.subtokenizers
        numbers = uniforms(plan.seed, step, slot // plan.group, 3 + plan.regime.extra)
        weights, sources = plan.mixture.as_dict(), plan.mixture.sources
        what = draw(numbers, weights, sources, plan.regime.kind, plan.p, plan.regime.extra)
        language, languages, source = what
        text = f"{language}/{source}" if source else language
        store, subset = self.stores[text], cache.of(languages)
        local = subset.segmenter.selection.local_of_global
        name, stream = f"{text}:{store.checksum}", lambda number: number * plan.slots + slot

        def whole(number: int) -> bytes:
            return store.document(self.document(text, stream(number)))

        def is_plain(number: int) -> bool:
            return not whole(number).startswith(MARK)

        def pieces(place: Place) -> Sequence[Any]:
            number, start = place
            if is_plain(number):
                return parts(whole(number), start, slot_packer._PART)
            every = [(one.start, one.text, one.in_loss) for one in cache.pieces_of(whole(number))]
            cut = [(max(at, start), part[max(0, start - at) :], loss) for at, part, loss in every]
            return [each for each in cut if each[1]]

        def encode(place: Place, part: bytes) -> Iterator[tuple[int, int]]:
            if not is_plain(place[0]) and part.decode() in cache.specials:
                yield int(local[cache.specials[part.decode()]]), len(part)
                return
            key = mixed(mixed(stream(place[0]), plan.seed, store.checksum), place[1], 0)
            dropped = subset.encoder.dropped([part], [key], plan.dropout)[0]
            for index in dropped if plan.dropout else subset.encode_utf8([part], 1)[0]:
                yield int(index), len(subset.decode_bytes(np.array([index])))

        end, start = int(local[cache.end_of_text]), self.at[slot].get(name, (0, 0))
        ids, marks, size, after = packed(pieces, encode, is_plain, plan.length, start, end)
        self.at[slot] = {**self.at[slot], name: after}
        first = self.document(text, stream(start[0]))
        return SimpleNamespace(
            draw=what, inputs=[end, *ids[:-1]], targets=ids, marks=marks, size=size, first=first,
            rows=subset.global_ids.tolist(), end=end,
        )  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from(["none", "full", "joint", "sub:1", "sub:2", "sub:4"]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.tuples(*[st.integers(0, 9)] * 3),
)
def test_draws_are_those_of_the_definition(
    sizes: list[int], parts: list[int], regime: str, p: float, key: tuple[int, int, int]
) -> None:
    names = [f"x-{number}" for number in range(len(sizes))]
    shares = {f"{number}": part / sum(parts) for number, part in enumerate(parts)}
    mixture = Mixture(tuple(names), tuple(n / sum(sizes) for n in sizes), {names[0]: shares})
    kind, found = Regime.parse(regime), sampling.draw(Regime.parse(regime), p, mixture, *key)
    numbers = uniforms(*key, 3 + kind.extra)
    expected = draw(numbers, mixture.as_dict(), mixture.sources, kind.kind, p, kind.extra)
    assert (found.language, found.languages, found.source) == expected
    assert Draw.parse(str(found)) == found


def test_orders_and_numbers_are_frozen() -> None:
    """A run that is resumed under another version reads the same."""
    orders = [[permuted(index, 5, seed, epoch) for index in range(5)] for seed, epoch in EPOCHS]
    assert orders == ORDERS
    assert (mixed(1, 2, 3), uniforms(1, 2, 3, 2)) == NUMBERS


class InProcess:
    """A worker of a stream in this process: one batch after the other."""

    def __init__(self, plan: StreamPlan, slots: Any, state: Any, first: int, last: int) -> None:
        packers = plan.packers(slots, state)
        made = (packer.batch(step) for step in range(first, last + 1) for packer in packers)
        self.take = made.__next__

    def close(self) -> None:
        pass


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    length = draw(st.sampled_from([5, 8, 13]))
    micro = draw(st.sampled_from([1, 2]))
    number = draw(st.sampled_from([3, 2, 1]))
    return {
        "files": {name: draw(files(2, least=3)) for name in LANGUAGES[:number]},
        "sources": draw(st.booleans()), "chats": draw(st.booleans()),
        "regime": draw(st.sampled_from(["sub:2", "sub:1", "full", "joint", "none"][3 - number :])),
        "p": draw(st.sampled_from([0.0, 0.5, 1.0])), "seed": draw(st.integers(0, 3)),
        "slots": 2 * micro, "group": draw(st.sampled_from([micro, 2 * micro])), "micro": micro,
        "replicas": draw(st.sampled_from([1, 2])), "length": length,
        "dropout": draw(st.sampled_from([0.0, 0.4])), "workers": draw(st.integers(0, 2)),
        "part": draw(st.sampled_from([7, 1 << 16])), "restart": draw(st.integers(0, 5)),
    }  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(plans())
def test_steps_are_those_of_the_definition(
    cache: SubtokenizerCache, tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any]
) -> None:
    """Several epochs; the stream stops after one of the steps, and another one continues."""
    here = tmp_path_factory.mktemp("world")
    texts = {
        name: [[*those, *(CHATS if given["chats"] else ())] for those in each]
        for name, each in given["files"].items()
    }
    write(texts, here / "data")
    of = {name: sorted((here / "data").rglob(f"{name}*/*.jsonl")) or
          [here / "data" / f"{name}.jsonl"] for name in texts}  # fmt: skip
    split = [name for name, each in of.items() if len(each) > 1 and given["sources"]]
    reading, sources = Reading(renderer=Marked()), Sources(split, here / "data")
    whole = text_stores(of, here / "cache", reading=reading, sources=sources)
    known = {name: sorted(whole[name].sources) for name in split}
    weights = {f"{name}/{one}": 1.0 + int(one) for name in split for one in known[name]}
    sizes = {name: store.text_bytes for name, store in whole.items()}
    mixture = Mixture.of(sizes, {}, "data^0.5").with_sources(weights, known)
    regime = Regime.parse(given["regime"])
    paths = {name: whole[name.partition("/")[0]].directory for name in mixture.of_texts()}
    names = ("p", "seed", "slots", "group", "length", "dropout")
    plan = StreamPlan(here, paths, regime, mixture=mixture, **{name: given[name] for name in names})
    stores = {name: TextStore(path, name.partition("/")[2]) for name, path in paths.items()}
    slots = Slots(plan, stores, cache, {slot: {} for slot in range(plan.slots)})
    share = plan.slots // given["replicas"]

    def feeds(first: int, state: stream.State) -> list[Prefetcher]:
        return [
            Prefetcher(
                BatchStream(plan, range(at, at + share), first_step=first, last_step=6,
                            state=state, workers=given["workers"]),
                cache, start_ranks(), min(given["micro"], share),
            )
            for at in range(0, plan.slots, share)
        ]  # fmt: skip

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_StreamProcess", InProcess)
        patch.setattr(SubtokenizerCache, "load", lambda _: cache)
        patch.setattr(slot_packer, "_PART", given["part"])
        running = feeds(1, {})
        for step in range(1, 7):
            now = [feed.step(step) for feed in running]
            if step != given["restart"]:  # what is made ahead is no part of the state
                more = [feed.ahead(step + 1) is not None for feed in running]
                assert more == [step < 6] * len(running)
            expected = [slots.batch(slot, step) for slot in range(plan.slots)]
            check(now, expected, plan.length, min(given["micro"], share))
            state = {slot: at for feed in running for slot, at in feed.stream.state.items()}
            assert state == slots.at
            if step == given["restart"]:
                running = feeds(step + 1, positions_of(state, plan.slots))


def check(steps: Sequence[Step], slots: Sequence[Any], length: int, micro: int) -> None:
    """What replicas work on is what slots give, `micro` of them a microbatch."""
    batches = [(batch, micro) for step in steps for batch in step.batches]
    device = [microbatch for step in steps for microbatch in step.microbatches]
    share = len(slots) // len(steps)
    for number, ((batch, _), on_device) in enumerate(zip(batches, device, strict=True)):
        own = slots[number * micro : (number + 1) * micro]
        replica = slots[number * micro // share * share :][:share]
        assert {each.draw for each in own} == {
            (batch.draw.language, batch.draw.languages, batch.draw.source)
        }
        inputs, targets, marks = (
            np.array([getattr(each, name) for each in own]).reshape(-1, length)
            for name in ("inputs", "targets", "marks")
        )
        ids = np.array(own[0].rows)
        np.testing.assert_array_equal(batch.inputs, ids[inputs])
        np.testing.assert_array_equal(batch.targets, targets)
        found = np.ones_like(marks) if batch.in_loss is None else batch.in_loss
        np.testing.assert_array_equal(found, marks)
        assert (batch.bytes, batch.first_document) == (sum(e.size for e in own), own[0].first)
        assert batch.end_of_text == own[0].end
        # On the device: ids of T; each token in the loss has the same weight in the step.
        total = sum(sum(each.marks) for each in replica)
        np.testing.assert_array_equal(on_device.inputs, ids[inputs])
        np.testing.assert_array_equal(on_device.targets, ids[targets].ravel())
        np.testing.assert_array_equal(on_device.vocabulary, ids)
        np.testing.assert_allclose(on_device.weights, marks.ravel() / max(1, total), rtol=1e-6)
        begins = (inputs == own[0].end) | (np.arange(length) == 0)
        bounds = [*np.flatnonzero(begins), begins.size]
        np.testing.assert_array_equal(on_device.documents, bounds)
    for step, at in zip(steps, range(0, len(slots), share), strict=True):
        assert [batch.slot for batch in step.sequences] == list(range(at, at + share))
        assert step.sizes == [
            (micro * length, len(slots[at + i].rows)) for i in range(0, share, micro)
        ]


TEXTS_AT = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 9), st.integers(0, 2)))


@given(st.lists(TEXTS_AT, max_size=4), st.integers(1, 5))
def test_another_number_of_slots_begins_behind_all_that_was_begun(
    places: list[dict[str, Place]], slots: int
) -> None:
    """No document is read twice in an epoch, and no slot leaves out more than it must."""
    state = dict(enumerate(places))
    found = positions_of(state, slots)
    if len(state) in (0, slots):
        assert found == state
        return
    assert [*found] == [*range(slots)]
    for text in {text for each in places for text in each}:
        behind = max(
            (number + (start > 0)) * len(state)
            for each in places for number, start in [each.get(text, (0, 0))]
        )  # fmt: skip
        for slot in range(slots):
            number, start = found[slot][text]
            assert start == 0
            assert number * slots >= behind > (number - 1) * slots


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.sampled_from([*OFTEN, *CHATS]).filter(bool), min_size=1, max_size=6),
    st.integers(3, 9), st.integers(1, 3),
)  # fmt: skip
def test_held_out_text_is_one_stream(
    cache: SubtokenizerCache, documents: list[str], length: int, micro: int
) -> None:
    """An end-of-text token before each document and at the end; the last sequence is padded."""
    subset, ranks = cache.of(("en", "fi")), start_ranks()
    local = subset.segmenter.selection.local_of_global
    stage: Any = SimpleNamespace(
        run=SimpleNamespace(subtokenizers=cache, ranks=ranks),
        config=SimpleNamespace(data=SimpleNamespace(seq_length=length, micro_batch=micro)),
    )  # fmt: skip
    texts = [Marked()(text, "") for text in documents]
    found = list(heldout.microbatches(stage, SimpleNamespace(copies=Copies()), texts, subset))  # type: ignore[arg-type]
    end = int(local[cache.end_of_text])
    stream, marks, size = [end], [False], 0
    for text in texts:
        for piece in cache.pieces_of(text):
            ids = subset.encode_utf8([piece.text], 1)[0].tolist()
            if piece.special:
                ids = [int(local[cache.specials[piece.text.decode()]])]
            stream, marks = stream + ids, marks + [piece.in_loss] * len(ids)
            size += len(piece.text) * piece.in_loss
        stream, marks = [*stream, end], [*marks, False]
    rows = -(-(len(stream) - 1) // length)
    padding = [end] * (rows * length + 1 - len(stream))
    whole = subset.global_ids[np.array(stream + padding)]
    assert np.concatenate([one.inputs.numpy() for one, *_ in found]).ravel().tolist() == (
        whole[:-1].tolist()
    )
    assert [int(each) for one, *_ in found for each in one.targets] == whole[1:].tolist()
    counted = [bool(each) for _, chosen, _ in found for each in chosen]
    assert counted == marks[1:] + [False] * len(padding)
    assert [len(one.inputs) for one, *_ in found[:-1]] == [micro] * (len(found) - 1)
    assert [each for *_, each in found] == [size] + [0] * (len(found) - 1)
    for one, *_ in found:
        begins = one.inputs.numpy() == cache.end_of_text
        begins[:, 0] = True
        assert one.documents is not None
        assert one.documents.tolist() == [*np.flatnonzero(begins), begins.size]
