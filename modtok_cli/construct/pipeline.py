"""The pipeline of every construction: checks, counting, learning, saving.

    text → word counts → Learner → tokenizer directory

A killed build resumes from its journal; the output appears complete or not at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.locks import locked
from modtok_cli.base.memory import return_large_blocks
from modtok_cli.base.option import Option, options_of
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
    Request,
    warn_of_small,
)
from modtok_cli.construct.work import Work
from modtok_cli.text.workspace import language_files
from modtok_cli.tokenizer.modular_directory import read_references
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


def construct(
    kind: type[Learner],
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    output: str = "tokenizer",
) -> BuildReport:
    """Build a tokenizer with a learner of type `kind`.

    Args:
        kind: the learner.
        function: the public function, which declares the options.
        arguments: its arguments. What `Request` does not have are settings of the learner.
        output: where the tokenizer is written by default.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    request = Request.of(arguments, output)
    shared = {each.name for each in fields(Request)}
    settings = {
        name: (option, arguments[name])
        for name, option in options_of(function).items()
        if name not in shared
    }
    lists = {
        "--langs": request.languages,
        "--append": request.append,
        "--remove": request.remove,
    }
    flags = [flag for flag, names in lists.items() if names is not None]
    if len(flags) > 1:
        raise UsageError(f"{' and '.join(flags)} exclude each other")
    if request.tokenizer is not None and not (request.append or request.remove):
        change = "--append or --remove" if "remove" in arguments else "--append"
        raise UsageError(f"--tokenizer requires {change}", where=request.tokenizer)
    return_large_blocks()
    with locked(request.output):
        return _construct(kind, request, settings)


Declared = Mapping[str, tuple[Option, Any]]
"""Settings of a learner: how they are declared, and the value, None if it was not given."""


def _construct(
    kind: type[Learner],
    request: Request,
    settings: Declared,
) -> BuildReport:
    base = None
    if request.append or request.remove:
        base = ModularTokenizer.load(request.source)
    learner = _learner(kind, request, settings, base)
    if base is not None and request.remove:
        return _remove(learner, base, request)
    learner.check()
    if base is not None:
        learner.start(base)
    named = request.append or request.languages
    files = language_files(request.data, named, request.reading, progress=request.progress)
    languages = learner.order(list(files), named)
    if base is not None:
        _refuse_present(base, request, languages)
    if base is None or not request.is_in_place:
        every = [*(base.languages if base else ()), *languages]
        existing = learner.check_output(request, every)
        if existing is not None:
            return _finished(learner, existing, request, languages if base else None)
    key = {
        "algorithm": learner.algorithm,
        "k": learner.k,
        "specials": learner.specials,
        "segmentation": learner.segmentation,
        "pretokenizer": learner.pretokenizer.name,
        "settings": learner.recorded(),
        "languages": languages,
        "append": base.signature if base else None,
        "references": request.references,
        "memory": request.memory,
        "reading": request.reading.as_json(),
        "files": file_stamps(files),
    }
    seconds = (
        learner.journal_seconds if request.journal_seconds is None else request.journal_seconds
    )
    journal = JournalDir(request.output, learner.journal_key(key), seconds, request.force)
    with Work(request, learner, files, languages, journal, base) as work:
        work.resume()
        work.prepare()
        learner.learn(work)
        output = learner.result(work)
        # The files of T are written while the last references are still being learned.
        _save(output, request, base, work.references.all)
    journal.remove()
    return _report(learner, output, request, languages if base else None)


def _report(
    learner: Learner, output: LearnedTokenizer, request: Request, languages: Sequence[str] | None
) -> BuildReport:
    """The report of an output, of `languages` that were added to another tokenizer or of all."""
    lines = [
        row | ({"seconds": learner.seconds[name]} if name in learner.seconds else {})
        for row in learner.rows(output)
        for name in [row["language"]]
        if languages is None or name in languages
    ]
    warn_of_small(lines, learner.k, request.progress)
    return BuildReport(request.output, output.signature, lines)


def _finished(
    learner: Learner,
    output: LearnedTokenizer,
    request: Request,
    languages: Sequence[str] | None = None,
) -> BuildReport:
    """The report of an output that exists; says so."""
    clear_finished(request.output)
    request.progress.warn(
        f"{request.output} is already finished with these settings; --force builds it again"
    )
    return _report(learner, output, request, languages)


def _save(
    output: LearnedTokenizer,
    request: Request,
    base: ModularTokenizer | None,
    references: Callable[[], Mapping[str, bytes]],
) -> None:
    """Write the output; for an extended tokenizer, prove that nothing else changed."""
    if base is None:
        output.save(request.output, references)
        return
    assert isinstance(output, ModularTokenizer)
    old = read_references(request.source)

    def remaining() -> dict[str, bytes]:
        every = {**old, **references()}
        return {name: every[name] for name in output.languages if name in every}

    proof = prove_unchanged(output, base) if request.append else None
    if request.is_in_place:
        with previous_version(request.output, base.signature) as previous:
            output.save(request.output, remaining)
        request.progress.note(f"previous version kept in {previous}")
    else:
        output.save(request.output, remaining)
    if proof:
        request.progress.note(f"{request.output}: {proof}")


def _learner(
    kind: type[Learner],
    request: Request,
    settings: Declared,
    base: ModularTokenizer | None,
) -> Learner:
    """The learner with its settings: as given, or from the tokenizer to extend."""
    specials = request.special_tokens(kind.first_specials)
    if base is None:
        k = DEFAULT_K if request.k is None else request.k
        values = {
            name: option.default if value is None else value
            for name, (option, value) in settings.items()
        }
        return kind(k, specials, values)
    if base.algorithm != kind.algorithm:
        raise UsageError(
            f"was built by {base.algorithm} and cannot be changed by {kind.algorithm}",
            where=request.source,
            remedy=f"choose a directory that {kind.algorithm} wrote",
        )
    existing = kind.settings_of(base)
    chosen = specials if request.specials or not request.default_specials else None
    refuse_disagreement(
        request.source,
        {
            "-k": (request.k, base.k),
            "--special": (chosen, base.vocabulary.specials),
            **{
                option.flag: (value, existing.get(name))
                for name, (option, value) in settings.items()
            },
        },
    )
    values = {name: existing.get(name, option.default) for name, (option, _) in settings.items()}
    return kind(base.k, base.vocabulary.specials, values)


def _refuse_present(base: ModularTokenizer, request: Request, languages: list[str]) -> None:
    present = sorted(set(languages) & set(base.languages))
    if present:
        clear_finished(request.output)
        raise UsageError(f"{request.source} already has {', '.join(present)}", where="--append")


def _remove(learner: Learner, base: ModularTokenizer, request: Request) -> BuildReport:
    removed = base.resolve(request.remove or ())
    if len(removed) == len(base.languages):
        raise UsageError("no language would remain", where="--remove")
    remaining = [name for name in base.languages if name not in removed]
    if not request.is_in_place:
        existing = learner.check_output(request, remaining)
        if existing is not None:
            return _finished(learner, existing, request)
    tokenizer = learner.without(base, sorted(removed))
    _save(tokenizer, request, base, dict)
    return _report(learner, tokenizer, request, None)
