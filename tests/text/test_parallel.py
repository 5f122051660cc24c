"""`text.parallel.read_each`: results in order, and one failure ends all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT
from modtok_cli.text.parallel import read_each

DEADLINE = 60.0


def each(read: Callable, items: list[str], threads: int) -> list[str]:
    return read_each(read, items, files=[], label="reading", threads=threads, progress=SILENT)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert each(lambda item, advance: item * 2, list("dacb"), threads) == ["dd", "aa", "cc", "bb"]


def test_pending_items_are_cancelled() -> None:
    begun = []
    failed = threading.Event()

    def read(item: int, advance: Callable[[int], None]) -> int:
        begun.append(item)
        if item == 1:
            failed.set()
            raise ModtokError("damaged")
        failed.wait(DEADLINE)
        while True:  # until it is stopped
            advance(0)
            time.sleep(0.001)

    items = list(range(50))
    with pytest.raises(ModtokError, match="damaged"):
        read_each(read, items, files=[], label="reading", threads=2, progress=SILENT)
    # The thread that failed may take up one more before the others are called off.
    assert len(begun) <= 3


def test_first_of_several_failures_in_order_is_raised() -> None:
    """The second item would go on for a minute, and is stopped when the third fails."""
    under_way = threading.Event()

    def read(item: str, advance: Callable[[int], None]) -> str:
        if item == "c":
            under_way.wait(DEADLINE)
            raise ModtokError("c is damaged")
        until = time.monotonic() + DEADLINE
        try:
            while item == "b" and time.monotonic() < until:
                advance(0)
                under_way.set()
                time.sleep(0.001)
        except BaseException:
            raise ModtokError("b is damaged") from None
        return item

    with pytest.raises(ModtokError, match="b is damaged"):
        each(read, ["a", "b", "c"], 3)
