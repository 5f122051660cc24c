"""Outputs that exist already: finished with the same settings, replaceable, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import refuse_others
from modtok_cli.construct.journal import clear_finished
from modtok_cli.construct.request import BuildReport, Request
from modtok_cli.modular.directory import check_place
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.languages import is_language

if TYPE_CHECKING:
    from modtok_cli.construct.learner import Learner

_REPLACE = "choose another -o, or --force to replace it"


def check_modular(
    request: Request, learner: Learner, languages: Sequence[str], *, ordered: bool
) -> BuildReport | None:
    """The report of a modular directory that exists with these settings; None to build it.

    Settings that it records beyond those of the learner are results, and are not compared.
    The order of the languages is compared if `ordered`.

    Raises:
        UsageError: something else exists there and `force` was not given.
    """
    output = request.output
    if not output.exists():
        return None
    if request.force:
        check_place(output)  # now, not after hours of learning
        return None
    if not (output / "manifest.json").is_file():
        raise UsageError(
            "exists but is not a tokenizer directory", where=str(output), remedy=_REPLACE
        )
    existing = ModularTokenizer.load(output)
    settings = learner.recorded()
    same = (
        existing.algorithm == learner.algorithm
        and existing.segmentation == learner.segmentation
        and existing.pretokenizer is learner.pretokenizer
        and sorted(existing.languages) == sorted(languages)
        and (not ordered or list(existing.languages) == list(languages))
        and existing.k == learner.k
        and {name: existing.settings.get(name) for name in settings} == settings
        and existing.vocabulary.specials == learner.specials
    )
    if not same:
        raise UsageError(
            f"exists with other settings ({existing.algorithm}; "
            f"{', '.join(existing.languages)}; k = {existing.k})",
            where=str(output),
            remedy=_REPLACE,
        )
    clear_finished(output)
    request.progress.warn(
        f"{output} is already finished with these settings; --force builds it again"
    )
    return report_of(existing, output)


def check_files(request: Request, suffixes: Sequence[str]) -> None:
    """Refuse an existing directory of plain tokenizers, or with `force` one of anything else.

    Raises:
        UsageError: it exists and `force` was not given, or it holds other files than
            `<lang>` with one of `suffixes`.
    """
    check_absent(request)

    def ours(name: str) -> bool:
        path = Path(name)
        return path.suffix in suffixes and is_language(path.stem)

    refuse_others(request.output, ours)


def check_absent(request: Request) -> None:
    """Refuse an output that exists, unless `force` was given.

    Raises:
        UsageError: it exists.
    """
    if request.output.exists() and not request.force:
        clear_finished(request.output)
        raise UsageError(
            "already exists", where=str(request.output), remedy="choose another -o, or --force"
        )


def report_of(tokenizer: ModularTokenizer, output: Path) -> BuildReport:
    """A row per language of an existing tokenizer."""
    sizes = tokenizer.token_membership.sum(axis=0)
    lines = [
        {"language": language, "tokens": int(size), "total": tokenizer.size}
        for language, size in zip(tokenizer.languages, sizes, strict=True)
    ]
    return BuildReport(output, tokenizer.signature, lines)
