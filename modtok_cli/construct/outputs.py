"""Outputs that exist: finished with the same settings, replaced, or extended with the old kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, check_new, clear, is_vacant
from modtok_cli.construct.learner_settings import LearnerSettings
from modtok_cli.construct.request import Destination
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.modular_directory import check_place, is_modular
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

REPLACE = "choose another -o, or --force to replace it"


def check_modular(
    destination: Destination,
    learner: LearnerSettings,
    languages: Sequence[str],
    *,
    ordered: bool,
) -> ModularTokenizer | None:
    """Return the modular directory that exists with these settings; None to build it.

    Settings that it records beyond the learner's are results, and are not compared.
    The order of the languages is compared if `ordered`.

    Raises:
        UsageError: something else exists there and `force` was not given.
    """
    output = destination.path
    if destination.force or is_vacant(output):
        check_place(output)  # now, not after hours of learning
        check_new(output, force=destination.force)
        return None
    if not (output / "manifest.json").is_file():
        raise UsageError("exists but is not a tokenizer directory", where=output, remedy=REPLACE)
    existing = ModularTokenizer.load(output)
    settings = learner.recorded()
    names = settings.keys() | learner.optional.keys()
    same = (
        existing.algorithm == learner.algorithm
        and existing.segmentation == learner.segmentation
        # With superwords the tokenizer has another one.
        and learner.settings_of(existing)["pretokenizer"] == learner.pretokenizer.name
        and sorted(existing.languages) == sorted(languages)
        and (not ordered or list(existing.languages) == list(languages))
        and existing.k == learner.k
        # Those that parallel text chooses follow from it and are not known yet.
        and (learner.is_fair or existing.budgets == learner.budgets)
        and all(existing.settings.get(name) == settings.get(name) for name in names)
        and existing.vocabulary.specials == learner.specials
    )
    if not same:
        raise UsageError(
            f"exists with other settings ({existing.algorithm}; "
            f"{', '.join(existing.languages)}; k = {existing.k_text})",
            where=output,
            remedy=REPLACE,
        )
    return existing


def refuse_disagreement(directory: Path, options: Mapping[str, tuple[object, object]]) -> None:
    """Refuse settings that differ from the settings of the tokenizer in `directory`.

    `options`: option → value given (None: not given) and value of the tokenizer.

    Raises:
        UsageError: names the first option that differs, and both values.
    """
    for name, (wanted, existing) in options.items():
        if wanted is not None and wanted != existing:
            if existing is None or isinstance(existing, bool):
                built = "with it" if existing else "without it"
            else:
                built = f"with {_shown(existing)}, not with {_shown(wanted)}"
            raise UsageError(
                f"{directory} was built {built}",
                where=name,
                remedy=f"omit {name}, or build another tokenizer",
            )


def prove_unchanged(extended: ModularTokenizer, base: ModularTokenizer) -> str:
    """Compare a tokenizer with the one it extends; gives the proof as text.

    Raises:
        ModtokError: an id, merge or language of `base` would change.
    """
    proof = containment(extended, base)
    if not proof.holds:
        raise ModtokError(
            f"the extended tokenizer does not contain the old one: {proof}",
            remedy="nothing was written; please report this",
        )
    return str(proof)


@contextmanager
def previous_version(directory: Path, signature: str) -> Iterator[Path]:
    """Keep a copy of a tokenizer directory that the block replaces, as `NAME.SIGNATURE`.

    Yields the path of the copy; removes it if the block fails, unless it existed before.

    Raises:
        ModtokError: the copy cannot be written, or another entry has its name.
    """
    place = directory.parent / f"{directory.name}.{signature}"
    existed = place.exists()
    if existed and not (is_modular(place) and ModularTokenizer.load(place).signature == signature):
        raise ModtokError(
            "exists, but the old version must be kept there",
            where=place,
            remedy="move it away, or write to another directory with -t and -o",
        )
    if not existed:
        with atomic_directory(place) as beside:
            shutil.copytree(directory, beside, dirs_exist_ok=True)
    try:
        yield place
    except BaseException:
        if not existed:
            clear(place)
        raise


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
