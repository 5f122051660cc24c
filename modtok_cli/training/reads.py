"""What a run reads of its text: whether it has an answer to train on, and how often it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.text.readers import is_text, read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.training.config import Config
from modtok_cli.training.data.conversation import FIELD, MARK, ChatFormat, chat_format, in_loss
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.data.slot_packer import place_of
from modtok_cli.training.data.stream import State
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import Ranks, gather_json
from modtok_cli.training.run import Run

MOST = 4
"""Text that is read more often teaches little more (Muennighoff et al. 2023, arXiv:2305.16264)."""

# Text of a language that tells how many bytes its tokens have; bytes of files that tell how much
# text they hold.
_SAMPLE, _MEASURED = 1 << 16, 1 << 20
_NAMED = 5


def chat_of(
    config: Config, subtokenizers: SubtokenizerCache, run: Path | None
) -> ChatFormat | None:
    """How conversations become text; that of `run`, if it was started."""
    if config.chat_template is None:
        return None
    names = {index: name for name, index in subtokenizers.specials.items()}
    end, specials = names[subtokenizers.end_of_text], tuple(subtokenizers.specials)
    return chat_format(config.chat_template, specials, end, model=config.init_from, run=run)


def reading_of(config: Config, chat: ChatFormat | None) -> Reading:
    """How the text of a run is read."""
    reading = config.reading
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
        count = sum(map(in_loss, _training_texts(store)))
        if not count:
            raise _no_answer(config, language, store.training_size)
        if count < store.training_size:
            progress.note(
                f"{count:,} of {store.training_size:,} documents of {language} have an answer"
            )


def _no_answer(config: Config, language: str, count: int) -> UsageError:
    return UsageError(
        f"0 of {count:,} documents of language '{language}' have an answer to train on",
        where=config.data,
        remedy="give answers the role 'assistant', and see that --chat-template writes them "
        "(between {% generation %} and {% endgeneration %}, if it has these)",
    )


def planned_reads(runs: Sequence[Run]) -> dict[str, float]:
    """How often a run reads each text, about: by language, and directory where stages differ."""
    stages = []
    for run in runs:
        texts, sizes = {}, {}
        for language, store in run.texts.stores.items():
            texts[language] = list(_first(_training_texts(store)))
            sizes[language] = store.text_bytes * store.training_size / len(store)
        rest = run.texts.mixture, run.texts.subtokenizers, texts, sizes
        stages.append((run.config.data, _reads(run.config, len(run.steps), *rest)))
    return added(stages)


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


def reads_of_files(
    config: Config,
    steps: int,
    mixture: Mixture,
    subtokenizers: SubtokenizerCache,
    files: Mapping[str, Sequence[Path]],
    reading: Reading,
) -> dict[str, float]:
    """The same of a stage before text is unpacked, from the begin of the files of each language.

    Raises:
        UsageError: a language has no text, or no document with text in the loss.
    """
    texts, sizes = {}, {}
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
        if not trained and config.chat_template is None:
            raise UsageError(f"language '{language}' has no text", where=config.data)
        if not trained:
            raise _no_answer(config, language, count)
        texts[language], sizes[language] = list(_first(documents)), size
    return _reads(config, steps, mixture, subtokenizers, texts, sizes)


def _reads(
    config: Config,
    steps: int,
    mixture: Mixture,
    subtokenizers: SubtokenizerCache,
    texts: Mapping[str, Sequence[bytes]],
    sizes: Mapping[str, float],
) -> dict[str, float]:
    """Tokens of the steps by the mixture, in bytes of `texts`, over the bytes of training text."""
    found = {}
    for language, weight in mixture.as_dict().items():
        subset = subtokenizers.of(config.regime.own(language))
        parts = [part for text in texts[language] for part in subtokenizers.pieces_of(text)]
        tokens = len(texts[language]) + sum(map(len, subtokenizers.encode(subset, parts)))
        read = steps * config.step_tokens * weight
        found[language] = read * sum(map(len, texts[language])) / tokens / sizes[language]
    return found


def reads_until_now(
    config: Config, stores: Mapping[str, TextStore], ranks: Ranks, positions: State
) -> dict[str, float]:
    """How often the training text of each language of a stage has been read in the run, from the
    positions of the slots of this rank. Collective.
    """
    slots, seed = config.batch_size, config.seed
    mine = dict.fromkeys(stores, 0.0)
    for slot, places in positions.items() if ranks.shard == 0 else ():
        for language, store in stores.items():
            number, start = places.get(place_of(language, store), (0, 0))
            document = store.training_document(number * slots + slot, seed)
            mine[language] += number + start / store.length(document)
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
        return f"the text is read {_number(reads[most])} times"
    low, high = _number(reads[least]), _number(reads[most])
    return f"each text is read {low} ({least}) to {high} ({most}) times"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def warn_of(reads: Mapping[str, float], progress: Progress) -> None:
    """Warn of text that is read more than `MOST` times."""
    often = sorted((name for name in reads if reads[name] > MOST), key=lambda name: -reads[name])
    if not often:
        return
    words = [f"{name} {_number(reads[name])} times" for name in often[:_NAMED]]
    more = f", and {len(often) - _NAMED} more languages" if often[_NAMED:] else ""
    progress.warn(
        f"text is read again and again: {', '.join(words)}{more}; more than {MOST} times teaches "
        "little: use fewer --steps or more text, or change --mix"
    )


def _training_texts(store: TextStore) -> Iterator[bytes]:
    return (store.document(n) for n in range(len(store)) if n not in store.held_out)


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
