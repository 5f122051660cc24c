"""Reading of a run's text: whether it has an answer to train on, and how often it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.text.languages import the_one
from modtok_cli.text.readers import is_text, read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.training.config import Config
from modtok_cli.training.data.conversation import FIELD, MARK, ChatFormat, chat_format, in_loss
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.data.slot_packer import place_of
from modtok_cli.training.data.stream import State, skipped
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.run import Run, Stage

MOST = 4
"""Text that is read more often teaches little more (Muennighoff et al. 2023, arXiv:2305.16264)."""

# Text of a language that tells how many bytes its tokens have; bytes of files that tell how much
# text they hold.
_SAMPLE, _MEASURED = 1 << 16, 1 << 20
_NAMED = 5
# Documents of a text, and its bytes; by its name.
Samples = dict[str, tuple[Sequence[bytes], float]]


def chat_of(
    config: Config, subtokenizers: SubtokenizerCache, run: Path | None
) -> ChatFormat | None:
    """How conversations become text; the format of `run`, if it was started."""
    if config.data.chat_template is None:
        return None
    names = {index: name for name, index in subtokenizers.specials.items()}
    end, specials = names[subtokenizers.end_of_text], tuple(subtokenizers.specials)
    return chat_format(
        config.data.chat_template, specials, end, model=config.init.init_from, run=run
    )


def reading_of(config: Config, chat: ChatFormat | None) -> Reading:
    """How the text of a run is read."""
    reading = config.data.reading
    if chat is None:
        return reading
    return replace(reading, field=FIELD if reading.field == "text" else reading.field,
                   renderer=chat)  # fmt: skip


def check_answers(config: Config, stores: Mapping[str, TextStore], progress: Progress) -> None:
    """Refuse conversations of a language without answers; say how many have one if not all do.

    Raises:
        UsageError: no training document of a language has text in the loss.
    """
    for language, store in stores.items():
        count = sum(map(in_loss, store.training_texts))
        if not count:
            raise _no_answer(config, language, store.training_size)
        if count < store.training_size:
            progress.note(
                f"{count:,} of {store.training_size:,} documents of {language} have an answer"
            )


def _no_answer(config: Config, language: str, count: int) -> UsageError:
    return UsageError(
        f"0 of {count:,} documents of language '{language}' have an answer to train on",
        where=config.data.data,
        remedy="give answers the role 'assistant', and see that --chat-template writes them "
        "(between {% generation %} and {% endgeneration %}, if it has these)",
    )


def planned_reads(run: Run) -> dict[str, float]:
    """How often a run reads each text, about: by name, and directory where stages differ."""
    stages = []
    for stage in run.stages:
        what = stage.mixture, run.subtokenizers, samples_of(stage.stores)
        stages.append((stage.config.data.data, reads_of(stage.config, len(stage.steps), *what)))
    return added(stages)


def samples_of(stores: Mapping[str, TextStore]) -> Samples:
    """The begin of each text, and the bytes of its training documents."""
    return {
        name: (list(_first(store.training_texts)), store.training_bytes)
        for name, store in stores.items()
    }


def limited(config: Config, mixture: Mixture, reads: Mapping[str, float]) -> Mixture:
    """The mixture under `max_epochs`, from how often it reads each text.

    Raises:
        UsageError: a share of --mix, or all text together, is read more often.
    """
    if config.sampling.max_epochs is None:
        return mixture
    most = {
        language: weight
        * config.sampling.max_epochs
        / max(times for name, times in reads.items() if name.partition("/")[0] == language)
        for language, weight in mixture.as_dict().items()
    }
    fixed = {the_one(name, mixture.languages) or name for name in config.sampling.mix or ()}
    return mixture.capped(most, fixed)


def added(stages: Sequence[tuple[Path, Mapping[str, float]]]) -> dict[str, float]:
    """How often each text is read in all stages, from the directory and the reads of each.

    >>> added([(Path("data"), {"en": 1, "fi": 2}), (Path("best"), {"en": 3})])
    {'en': 1, 'fi': 2, 'en of best': 3}
    """
    found: dict[str, float] = {}
    for data, reads in stages:
        for language, times in reads.items():
            name = language if data == stages[0][0] else f"{language} of {data}"
            found[name] = found.get(name, 0) + times
    return found


def samples_of_files(
    config: Config, files: Mapping[str, Sequence[Path]], reading: Reading
) -> Samples:
    """As `samples_of` before text is unpacked; sizes by the begin of the files of each language.

    Raises:
        UsageError: a language has no text, or no document with text in the loss.
    """
    samples: Samples = {}
    for language, paths in files.items():
        own = [path for path in paths if is_text(path)]
        taken: list[float] = []
        documents: list[bytes] = []
        before, size, count, trained = 0.0, 0.0, 0, False
        for document in chain.from_iterable(
            read_documents(path, reading.of(language), advance=taken.append, may_be_empty=True)
            for path in own
        ):
            if sum(taken) > before:  # until now, text of the bytes `before`
                if before >= _MEASURED and trained:
                    size *= sum(path.stat().st_size for path in own) / before
                    break
                before = sum(taken)
            if size < _SAMPLE:
                documents.append(document.text)
            size, count = size + len(document.text), count + 1
            trained = trained or in_loss(document.text)
        if not trained and config.data.chat_template is None:
            raise UsageError(f"language '{language}' has no text", where=config.data.data)
        if not trained:
            raise _no_answer(config, language, count)
        samples[language] = list(_first(documents)), size
    return samples


def reads_of(
    config: Config,
    steps: int,
    mixture: Mixture,
    subtokenizers: SubtokenizerCache,
    samples: Samples,
) -> dict[str, float]:
    """How often the steps of a stage read each text, about: their tokens in bytes, over its own."""
    found = {}
    for name, weight in mixture.of_texts().items():
        texts, size = samples[name]
        subset = subtokenizers.of(config.sampling.regime.own(name.partition("/")[0]))
        parts = [part for text in texts for part in subtokenizers.pieces_of(text)]
        tokens = len(texts) + sum(map(len, subtokenizers.encode(subset, parts)))
        read = steps * config.step_tokens * weight
        found[name] = read * sum(map(len, texts)) / tokens / size
    return found


def reads_until_now(stage: Stage, positions: State) -> dict[str, float]:
    """How often the training documents of each text of a stage have been read in the run, from the
    positions of the slots of this rank. Collective.
    """
    stores, ranks = stage.stores, stage.run.ranks
    slots, seed = stage.config.data.batch_size, stage.config.init.seed
    mine = dict.fromkeys(stores, 0.0)
    for slot, places in positions.items() if ranks.shard == 0 else ():
        for language, store in stores.items():
            place = place_of(language, store)
            number, start = places.get(place, (0, 0))
            document = store.training_document(number * slots + slot, seed)
            mine[language] += number + start / store.length(document) - skipped(places, place)
    every = gather_json(ranks, mine)
    return {
        language: round(sum(one[language] for one in every) / store.training_size, 4)
        for language, store in stores.items()
    }


def in_words(reads: Mapping[str, float]) -> str:
    """How often text is read, for people.

    >>> in_words({"en": 0.25, "fi": 41.2})
    'each text is read 0.25 (en) to 41 (fi) times'
    """
    least, most = min(reads, key=reads.__getitem__), max(reads, key=reads.__getitem__)
    if least == most:
        return f"the text is read {number(reads[most])} times"
    low, high = number(reads[least]), number(reads[most])
    return f"each text is read {low} ({least}) to {high} ({most}) times"


def number(value: float) -> str:
    """How often, for people: `0.25`, `41`, `1,234`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def warn_of(reads: Mapping[str, float], progress: Progress) -> None:
    """Warn of text that is read more than `MOST` times."""
    often = sorted((name for name in reads if reads[name] > MOST), key=lambda name: -reads[name])
    if not often:
        return
    words = [f"{name} {number(reads[name])} times" for name in often[:_NAMED]]
    more = f", and {len(often) - _NAMED} more languages" if often[_NAMED:] else ""
    progress.warn(
        f"text is read again and again: {', '.join(words)}{more}; more than {MOST} times teaches "
        "little: use fewer --steps or more text, or change --mix"
    )


def _first(documents: Iterable[bytes]) -> Iterator[bytes]:
    """The first documents, `_SAMPLE` bytes in all or more."""
    size = 0
    for document in documents:
        if not document.startswith(MARK):
            document = document[:_SAMPLE].decode("utf-8", "ignore").encode()
        yield document
        size += len(document)
        if size >= _SAMPLE:
            return
