"""Budgets of a construction: `-k` for all languages, and for some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.parameters import MAX_BUDGET
from modtok_cli.text.languages import the_one

Budgets = int | str | Mapping[str, int]


def budgets_text(value: Any) -> int | str:
    """A budget, or text with those of languages: `24000,fi=30000`.

    >>> budgets_text("24000"), budgets_text({"fi": 30000, "en": 18000})
    (24000, 'fi=30000,en=18000')

    Raises:
        ValueError: not a budget, or a language twice.
    """
    k, own = parsed(value)
    if not own:
        assert k is not None
        return k
    return ",".join([*([] if k is None else [str(k)]), *(f"{n}={b}" for n, b in own.items())])


def parsed(value: Any) -> tuple[int | None, dict[str, int]]:
    """The budget of all languages, None if there is none, and those of languages by their names.

    Raises:
        ValueError: as of `budgets_text`.
    """
    if isinstance(value, Mapping):
        value = ",".join(f"{name}={k}" for name, k in value.items())
    elif type(value) is int:
        value = str(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a number, or LANG=N, got {value!r}")
    plain: list[int] = []
    own: dict[str, int] = {}
    for part in value.split(","):
        name, sign, number = (word.strip() for word in part.rpartition("="))
        if not number.isdecimal() or bool(sign) != bool(name):
            raise ValueError(f"expected a number, or LANG=N, got {part!r}")
        if int(number) > MAX_BUDGET:
            raise ValueError(f"expected at most {MAX_BUDGET}, got {number}")
        if name in own or (not name and plain):
            raise ValueError(f"expected one budget for each language, got {value!r}")
        if name:
            own[name] = int(number)
        else:
            plain.append(int(number))
    return (plain[0] if plain else None), own


def own_budgets(
    k: int | None,
    own: Mapping[str, int],
    languages: Sequence[str],
    equal: int,
    before: Mapping[str, int],
) -> dict[str, int]:
    """The budgets of languages that have one of their own, different from `equal`.

    `k`, `own`: as given (`parsed`); `languages`: to learn, beside those with budgets `before`.

    Raises:
        UsageError: a budget is of none of the languages, or of one that has another.
    """
    chosen: dict[str, int] = {}
    for name, budget in own.items():
        label = the_one(name, languages)
        if label is None:
            raise UsageError(
                f"no language '{name}'",
                where="-k",
                remedy=f"expected one of {', '.join(languages)}",
            )
        if label in chosen:
            raise UsageError(f"two budgets for '{label}'", where="-k", remedy=f"omit {name}")
        chosen[label] = budget
    every = {**before, **dict.fromkeys(languages, equal if k is None else k), **chosen}
    return {name: budget for name, budget in every.items() if budget != equal}
