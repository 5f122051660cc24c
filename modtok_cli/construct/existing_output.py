"""Is the output of a build there already, and may it be replaced?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import refuse_others
from modtok_cli.base.progress import Progress
from modtok_cli.construct.journal import clear_finished
from modtok_cli.construct.report import BuildReport
from modtok_cli.modular.directory import check_place
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.languages import is_language


def finished(
    output: Path,
    algorithm: str,
    segmentation: str,
    languages: Sequence[str],
    k: int,
    settings: Mapping[str, Any],
    specials: Sequence[str],
    force: bool,
    progress: Progress,
    ordered: bool = False,
) -> BuildReport | None:
    """The report of an output that is there already with these settings, None to go on.

    Settings that the output records beyond `settings` are results, and do not matter; nor
    does the order of the languages unless they are `ordered`.

    Raises:
        UsageError: something else is there and `force` was not given.
    """
    if not output.exists():
        return None
    if force:
        check_place(output)  # now, not after hours of learning
        return None
    remedy = "choose another -o, or --force to replace it"
    if not (output / "manifest.json").is_file():
        raise UsageError("is there and is no tokenizer directory", where=str(output), remedy=remedy)
    there = ModularTokenizer.load(output)
    same = (
        there.algorithm == algorithm
        and there.segmentation == segmentation
        and sorted(there.languages) == sorted(languages)
        and (not ordered or list(there.languages) == list(languages))
        and there.k == k
        and {name: there.settings.get(name) for name in settings} == dict(settings)
        and there.vocabulary.specials == tuple(specials)
    )
    if not same:
        raise UsageError(
            f"is there, made by {there.algorithm} with other settings "
            f"({', '.join(there.languages)}; k = {there.k})",
            where=str(output),
            remedy=remedy,
        )
    clear_finished(output)
    progress.warn(f"{output} is finished already, with these settings; --force makes it again")
    return report_of(there, output)


def check_files(output: Path, joint: bool, suffixes: Sequence[str], force: bool) -> None:
    """Refuse an output of `bpe` or `unigram` that is there, or that holds other things.

    With `joint` it is a modular directory, else a file `<lang>` with each of `suffixes`.

    Raises:
        UsageError: so.
    """
    if not output.exists():
        return
    if not force:
        clear_finished(output)
        raise UsageError(
            "is there already", where=str(output), remedy="choose another -o, or --force"
        )
    if joint:
        check_place(output)
        return

    def ours(name: str) -> bool:
        path = Path(name)
        return path.suffix in suffixes and is_language(path.stem)

    refuse_others(output, ours)


def report_of(tokenizer: ModularTokenizer, output: Path) -> BuildReport:
    """A row per language of a tokenizer that is there."""
    sizes = tokenizer.token_membership.sum(axis=0)
    lines = [
        {"language": language, "tokens": int(size), "total": tokenizer.size}
        for language, size in zip(tokenizer.languages, sizes, strict=True)
    ]
    return BuildReport(output, tokenizer.signature, lines)
