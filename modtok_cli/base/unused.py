"""Options that a call does not use: refused where they were given, else left out.

An option names by `Option.of` the kinds of model that it is for; `@uses(rule)` adds what depends on
other options. Calls of Python and the command line ask here, before any work.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option

F = TypeVar("F", bound=Callable[..., Any])
Unused = Iterable[tuple[Collection[str], str]]
"""Names of options, and why the call does not use them, in words before a colon."""


def uses(rule: Callable[[Mapping[str, Any]], Unused]) -> Callable[[F], F]:
    """State what a public function does not use, given the values of its options by name."""

    def add(function: F) -> F:
        function.unused = rule  # type: ignore[attr-defined]
        return function

    return add


def leave_out(
    function: Callable[..., Any],
    options: Mapping[str, Option],
    values: Mapping[str, Any],
    given: Callable[[str], bool],
) -> set[str]:
    """The names of options that a call with these values does not use.

    Raises:
        UsageError: one of them was `given`.
    """
    left: set[str] = set()
    for name, option in options.items():
        value = values.get(name, option.default)
        kind = option.kind_of(value, values) if option.kind_of and value is not None else None
        for other, each in options.items():
            if kind and each.of and kind not in each.of:
                if given(other):
                    several = isinstance(value, list | tuple)
                    where = ", ".join(map(str, value)) if several else value
                    raise not_for(each, kind, where, values[other])
                left.add(other)
    rule = getattr(function, "unused", lambda values: ())
    for names, why in rule({name: value for name, value in values.items() if name not in left}):
        known = [name for name in names if name in options and given(name)]
        if known:
            flags = sorted(options[name].flag_of(values[name]) for name in known)
            raise UsageError(f"{why}: omit {', '.join(flags)}")
        left.update(names)
    return left


def not_for(option: Option, kind: str, where: Any, value: object) -> UsageError:
    """The error for an option with that value, which is not for the kind of a path."""
    words = ", ".join(option.of[:-1]) + " and " * (len(option.of) > 1) + option.of[-1]
    return UsageError(
        f"{option.flag_of(value)} is for {words}, not for {kind}", where=where, remedy="omit it"
    )
