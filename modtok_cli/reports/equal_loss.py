"""What runs needed for an equal loss: tokens and FLOPs until one reaches the last value of another.

Loss is the mean of bits per byte over the languages of held-out text, interpolated between
evaluations. Runs compare over the same text only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from modtok_cli.reports.tables import Table, cell

Point = tuple[float, float, float]
"""Tokens, FLOPs, bits per byte."""


@dataclass(frozen=True)
class Course:
    """The evaluations of a run.

    Attributes:
        texts: what identifies the held-out text of each language.
        tokenizer: its signature.
        points: by ascending tokens, since the start of the run.
    """

    name: str
    texts: Mapping[str, Any]
    tokenizer: str
    points: Sequence[Point]


def reached(points: Sequence[Point], bits: float) -> tuple[float, float] | None:
    """Tokens and FLOPs at which a course first comes down to `bits`; None if it does not.

    Of a course that begins below, the values of its first point.

    >>> reached([(100, 7, 3.0), (200, 9, 2.0)], 2.25)
    (175.0, 8.5)
    """
    if points[0][2] <= bits:
        return points[0][:2]
    for before, after in pairwise(points):
        if after[2] <= bits:
            share = (before[2] - bits) / (before[2] - after[2])
            tokens, flops = [a + share * (b - a) for a, b in zip(before, after, strict=True)][:2]
            return tokens, flops
    return None


def equal_loss(courses: Sequence[Course]) -> list[Table]:
    """For each held-out text that several runs have, the best of them beside each other one."""
    tables, alone = [], []
    groups: dict[str, list[Course]] = {}
    for course in courses:
        groups.setdefault(repr(sorted(course.texts.items())), []).append(course)
    for group in groups.values():
        if len(group) == 1 or not group[0].texts:
            alone += [course.name for course in group]
            continue
        best = min(group, key=lambda course: course.points[-1][2])
        rows = [
            _row(one, other)
            for course in group
            if course is not best
            for one, other in ((best, course), (course, best))
        ]
        note = "≤: at the first evaluation."
        if len({course.tokenizer for course in group}) > 1:
            note += " Tokens of different tokenizers stand for different amounts of text."
        count = len(group[0].texts)
        caption = f"Equal loss on held-out text, {count} language{'s' * (count != 1)}"
        tables.append(Table(caption, _HEADINGS, rows, 2, note))
    if len(courses) > 1 and alone:
        left_out = f"Left out, as no other run has their held-out text: {', '.join(alone)}."
        tables.append(Table("Equal loss on held-out text", _HEADINGS, [], 2, left_out))
    return tables


_HEADINGS = ["run", "until it is as good as", "bits per byte", "tokens", "% of its tokens",
             "FLOPs", "% of its FLOPs"]  # fmt: skip


def _row(one: Course, other: Course) -> list[str]:
    """What `one` needed for the last value of `other`, and shares of what `other` did."""
    tokens, flops, bits = other.points[-1]
    found = reached(one.points, bits)
    if found is None:
        return [one.name, other.name, cell(bits, "ratio"), "not reached", "–", "not reached", "–"]
    first = "≤ " if one.points[0][2] <= bits else ""
    return [
        one.name,
        other.name,
        cell(bits, "ratio"),
        f"{first}{cell(found[0], 'int')}",
        cell(found[0] / tokens, "percent"),
        f"{first}{found[1]:.3g}",
        cell(found[1] / flops if flops else None, "percent"),
    ]
