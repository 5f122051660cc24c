"""The pipeline of every construction: checks, counting, learning, saving.

    text → word counts → Learner → tokenizer directory

A killed build resumes from its journal; the output appears complete or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.construct.append_checks import refuse_disagreement
from modtok_cli.construct.corpora import file_stamps
from modtok_cli.construct.existing_output import report_of
from modtok_cli.construct.journal import JournalDir, clear_finished
from modtok_cli.construct.learner import Learner, option, resolved
from modtok_cli.construct.request import (
    DEFAULT_K,
    DEFAULT_SPECIALS,
    BuildReport,
    Request,
    warn_of_small,
)
from modtok_cli.construct.work import Work
from modtok_cli.modular.directory import read_references
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.workspace import language_files


def construct(
    kind: type[Learner[Any]], request: Request, given: Mapping[str, Any] | None = None
) -> BuildReport:
    """Build a tokenizer with a learner of type `kind`.

    Args:
        kind: the learner.
        request: text, output and resources.
        given: values of its settings; None for a setting that was not given.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    chosen = (request.languages, request.append, request.remove)
    if sum(names is not None for names in chosen) > 1:
        raise UsageError("--langs, --append and --remove exclude each other")
    base = None
    if request.append or request.remove:
        base = ModularTokenizer.load(request.output)
    learner = _learner(kind, request, dict(given or {}), base)
    if base is not None and request.remove:
        return _remove(learner, base, request)
    learner.check()
    if base is not None:
        learner.start(base)
    files = language_files(request.data, request.append or request.languages)
    languages = learner.order(list(files), request.append or request.languages)
    if base is None:
        finished = learner.check_output(request, languages)
        if finished is not None:
            return finished
    else:
        _refuse_present(base, request, languages)
    key = {
        "algorithm": learner.algorithm,
        "k": learner.k,
        "specials": learner.specials,
        "segmentation": learner.segmentation,
        "settings": learner.recorded(),
        "languages": languages,
        "append": base.signature if base else None,
        "references": request.references,
        "errors": request.errors,
        "files": file_stamps(files),
    }
    seconds = (
        learner.journal_seconds if request.journal_seconds is None else request.journal_seconds
    )
    journal = JournalDir(request.output, learner.journal_key(key), seconds, request.force)
    with Work(request, learner, files, languages, journal, base) as work:
        work.resume()
        learner.learn(work)
        output = learner.result(work)
        kept = read_references(request.output) if base else {}
        # The files of T are written while the last references are still being learned.
        output.save(request.output, lambda: {**kept, **work.references()})
    journal.remove()
    report = BuildReport(request.output, output.signature, learner.rows(output))
    warn_of_small(report.lines, learner.k, request.progress)
    return report


def _learner(
    kind: type[Learner[Any]],
    request: Request,
    given: dict[str, Any],
    base: ModularTokenizer | None,
) -> Learner[Any]:
    """The learner with its settings: those given, or those of the tokenizer to extend."""
    specials = (*kind.first_specials, *request.specials) if request.specials else None
    if base is None:
        k = DEFAULT_K if request.k is None else request.k
        specials = specials or (*kind.first_specials, *DEFAULT_SPECIALS)
        return kind(k, specials, resolved(kind.settings_type, given))
    if base.algorithm != kind.algorithm:
        raise UsageError(
            f"was built by {base.algorithm} and cannot be changed by {kind.algorithm}",
            where=str(request.output),
            remedy=f"choose a directory that {kind.algorithm} wrote",
        )
    existing = kind.settings_of(base)
    refuse_disagreement(
        request.output,
        {
            "-k": (request.k, base.k),
            "--special": (specials, base.vocabulary.specials),
            **{option(name): (value, existing.get(name)) for name, value in given.items()},
        },
    )
    settings = resolved(kind.settings_type, {}, existing)
    return kind(base.k, base.vocabulary.specials, settings)


def _refuse_present(base: ModularTokenizer, request: Request, languages: list[str]) -> None:
    present = sorted(set(languages) & set(base.languages))
    if present:
        clear_finished(request.output)
        raise UsageError(f"{request.output} already has {', '.join(present)}", where="--append")


def _remove(learner: Learner[Any], base: ModularTokenizer, request: Request) -> BuildReport:
    removed = base.resolve(request.remove or ())
    if len(removed) == len(base.languages):
        raise UsageError("no language would remain", where="--remove")
    tokenizer = learner.without(base, sorted(removed))
    kept = read_references(request.output)
    tokenizer.save(
        request.output, {name: kept[name] for name in tokenizer.languages if name in kept}
    )
    return report_of(tokenizer, request.output)
