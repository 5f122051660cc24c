"""Adding languages to an existing tokenizer, or removing them: checks, proof, old version."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, clear
from modtok_cli.modular.comparison import containment
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.tokenizer import ModularTokenizer


def refuse_disagreement(directory: Path, options: Mapping[str, tuple[object, object]]) -> None:
    """Refuse settings that differ from those of the tokenizer in `directory`.

    `options`: option → value given (None: not given) and value of the tokenizer.

    Raises:
        UsageError: names the first option that differs, and both values.
    """
    for name, (given, existing) in options.items():
        if given is not None and given != existing:
            if isinstance(existing, bool):
                built = "with it" if existing else "without it"
            else:
                built = f"with {_shown(existing)}, not with {_shown(given)}"
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
    kept = directory.parent / f"{directory.name}.{signature}"
    existed = kept.exists()
    if existed and not (is_modular(kept) and ModularTokenizer.load(kept).signature == signature):
        raise ModtokError(
            "exists, but the old version must be kept there",
            where=str(kept),
            remedy="move it away, or write to another directory with -t and -o",
        )
    if not existed:
        with atomic_directory(kept) as beside:
            shutil.copytree(directory, beside, dirs_exist_ok=True)
    try:
        yield kept
    except BaseException:
        if not existed:
            clear(kept)
        raise


def _shown(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
