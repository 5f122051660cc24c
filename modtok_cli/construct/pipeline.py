"""The pipeline of every construction: checks, counting, learning, saving.

    text → word counts → Learner → tokenizer directory

A killed build resumes from its journal; the output appears complete or not at all.
"""

from collections.abc import Callable, Mapping, Sequence

from modtok_cli.base.errors import UsageError
from modtok_cli.base.locks import locked
from modtok_cli.base.memory import return_large_blocks
from modtok_cli.base.progress import Progress
from modtok_cli.construct.budgets import own_budgets
from modtok_cli.construct.choose_budgets import ParallelText
from modtok_cli.construct.corpora import file_stamps
from modtok_cli.construct.journal import JournalDir, clear_finished
from modtok_cli.construct.learner import LearnedTokenizer, Learner
from modtok_cli.construct.outputs import (
    previous_version,
    prove_unchanged,
    refuse_disagreement,
)
from modtok_cli.construct.request import (
    DEFAULT_K,
    BuildReport,
    Destination,
    LearnerOptions,
    TrainingText,
    warn_of_small,
)
from modtok_cli.construct.work import Work
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


def construct(
    kind: type[Learner],
    options: LearnerOptions,
    text: TrainingText,
    destination: Destination,
) -> BuildReport:
    """Build a tokenizer with a learner of type `kind`.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    _refuse_mixtures(options, text, destination)
    return_large_blocks()
    progress = text.progress
    with locked(destination.path):
        base = None
        if destination.append or destination.remove:
            base = ModularTokenizer.load(destination.source)
        learner = _learner(kind, options, destination, base)
        if base is not None and destination.remove:
            return _remove(learner, base, destination, progress)
        learner.budgets = options.budgets
        learner.check()
        if base is not None:
            learner.start(base)
        named = destination.append or text.languages
        files = language_files(text.data, named, text.reading, progress=progress)
        languages = learner.order(list(files), named)
        before = base.budgets if base else {}
        learner.budgets = own_budgets(options.k, options.budgets, languages, learner.k, before)
        learner.check()  # -k of an append is known now
        parallel = _parallel_text(learner, options, languages, text, progress)
        added = None
        if base is not None:
            _refuse_present(base, destination, languages)
            added = languages
        if base is None or not destination.is_in_place:
            every = [*(base.languages if base else ()), *languages]
            existing = learner.check_output(destination, every)
            if existing is not None:
                return _finished(learner, existing, destination, progress, added)
        key = learner.journal_key(
            {
                "algorithm": learner.algorithm,
                "k": learner.k,
                "budgets": parallel.record if parallel else learner.budgets,
                "specials": learner.specials,
                "segmentation": learner.segmentation,
                "pretokenizer": learner.pretokenizer.name,
                "settings": learner.recorded(),
                "languages": languages,
                "append": base.signature if base else None,
                "references": destination.references,
                "memory": text.memory,
                "reading": text.reading.as_json(),
                "files": file_stamps(files),
            }
        )
        seconds = destination.journal_seconds
        if seconds is None:
            seconds = learner.journal_seconds
        journal = JournalDir(destination.path, key, seconds, destination.force)
        files = {language: files[language] for language in languages}
        with Work(learner, text, files, destination, journal, base) as work:
            work.resume()
            work.prepare()
            if parallel and not learner.budgets:
                learner.budgets = parallel.budgets(learner, work)
                learner.check()
            learner.learn(work)
            output = learner.result(work)
            # The files of T are written while the last references are still being learned.
            _save(output, destination, base, work.references.all, progress)
        journal.remove()
        return _report(learner, output, destination, progress, added)


def _refuse_mixtures(options: LearnerOptions, text: TrainingText, destination: Destination) -> None:
    lists = {
        "--langs": text.languages,
        "--append": destination.append,
        "--remove": destination.remove,
    }
    flags = [flag for flag, names in lists.items() if names is not None]
    if len(flags) > 1:
        raise UsageError(f"{' and '.join(flags)} exclude each other")
    own = options.budgets or None
    if own and destination.remove:
        raise UsageError("--remove and -k by language exclude each other")
    models = options.values.get("models")
    others = {**lists, "--langs": None, "-k by language": own, "--models": models}
    clash = [flag for flag, value in others.items() if value is not None]
    if options.fair is not None and clash:
        raise UsageError(f"--fair and {clash[0]} exclude each other")
    if destination.tokenizer is not None and not (destination.append or destination.remove):
        change = "--append or --remove" if "remove" in options.options else "--append"
        raise UsageError(f"--tokenizer requires {change}", where=destination.tokenizer)


def _parallel_text(
    learner: Learner,
    options: LearnerOptions,
    languages: Sequence[str],
    text: TrainingText,
    progress: Progress,
) -> ParallelText | None:
    """Return the parallel text that chooses budgets; None without `options.fair`."""
    if options.fair is None:
        if options.fair_share is not None:
            raise UsageError("requires --fair", where="--fair-share")
        return None
    parallel = ParallelText.read(
        options.fair,
        languages,
        1.0 if options.fair_share is None else options.fair_share,
        learner.pretokenizer,
        text.reading,
        progress,
    )
    learner.settings.fair, learner.is_fair = parallel.record, True
    return parallel


def _report(
    learner: Learner,
    output: LearnedTokenizer,
    destination: Destination,
    progress: Progress,
    languages: Sequence[str] | None = None,
) -> BuildReport:
    """Return the report of an output: of `languages` that were added, or of all."""
    lines = [
        row | ({"seconds": learner.seconds[name]} if name in learner.seconds else {})
        for row in learner.rows(output)
        for name in [row["language"]]
        if languages is None or name in languages
    ]
    k_of = output.k_of if isinstance(output, ModularTokenizer) else learner.k_of
    warn_of_small(lines, k_of, progress)
    return BuildReport(destination.path, output.signature, lines)


def _finished(
    learner: Learner,
    output: LearnedTokenizer,
    destination: Destination,
    progress: Progress,
    languages: Sequence[str] | None = None,
) -> BuildReport:
    """Return the report of an output that exists, after a warning that it does."""
    clear_finished(destination.path)
    progress.warn(
        f"{destination.path} is already finished with these settings; --force builds it again"
    )
    return _report(learner, output, destination, progress, languages)


def _save(
    output: LearnedTokenizer,
    destination: Destination,
    base: ModularTokenizer | None,
    references: Callable[[], Mapping[str, bytes]],
    progress: Progress,
) -> None:
    """Write the output; for an extended tokenizer, prove that nothing else changed."""
    path = destination.path
    if base is None:
        output.save(path, references)
        return
    assert isinstance(output, ModularTokenizer)
    old = read_references(destination.source)

    def remaining() -> dict[str, bytes]:
        every = {**old, **references()}
        return {name: every[name] for name in output.languages if name in every}

    proof = prove_unchanged(output, base) if destination.append else None
    if destination.is_in_place:
        with previous_version(path, base.signature) as previous:
            output.save(path, remaining)
        progress.note(f"previous version kept in {previous}")
    else:
        output.save(path, remaining)
    if proof:
        progress.note(f"{path}: {proof}")


def _learner(
    kind: type[Learner],
    options: LearnerOptions,
    destination: Destination,
    base: ModularTokenizer | None,
) -> Learner:
    """Return the learner with its settings: as given, or as of the tokenizer to extend."""
    specials = options.special_tokens(kind.first_specials)
    defaults = {name: options.options[name].default for name in options.values}
    if base is None:
        given = {name: value for name, value in options.values.items() if value is not None}
        return kind(DEFAULT_K if options.k is None else options.k, specials, defaults | given)
    if base.algorithm != kind.algorithm:
        raise UsageError(
            f"was built by {base.algorithm} and cannot be changed by {kind.algorithm}",
            where=destination.source,
            remedy=f"choose a directory that {kind.algorithm} wrote",
        )
    existing = kind.settings_of(base)
    chosen = specials if options.specials or not options.default_specials else None
    refuse_disagreement(
        destination.source,
        {
            "-k": (options.k if destination.remove else None, base.k),
            "--special": (chosen, base.vocabulary.specials),
            **{
                options.options[name].flag: (value, existing.get(name))
                for name, value in options.values.items()
            },
        },
    )
    values = {name: existing.get(name, default) for name, default in defaults.items()}
    if existing["fair"]:
        values["fair"] = existing["fair"]
    return kind(base.k, base.vocabulary.specials, values)


def _refuse_present(base: ModularTokenizer, destination: Destination, languages: list[str]) -> None:
    present = sorted(set(languages) & set(base.languages))
    if present:
        clear_finished(destination.path)
        raise UsageError(f"{destination.source} already has {', '.join(present)}", where="--append")


def _remove(
    learner: Learner, base: ModularTokenizer, destination: Destination, progress: Progress
) -> BuildReport:
    removed = base.resolve(destination.remove or ())
    if len(removed) == len(base.languages):
        raise UsageError("no language would remain", where="--remove")
    remaining = [name for name in base.languages if name not in removed]
    learner.budgets = {name: k for name, k in base.budgets.items() if name in remaining}
    if not destination.is_in_place:
        existing = learner.check_output(destination, remaining)
        if existing is not None:
            return _finished(learner, existing, destination, progress)
    tokenizer = learner.without(base, sorted(removed))
    _save(tokenizer, destination, base, dict, progress)
    return _report(learner, tokenizer, destination, progress)
