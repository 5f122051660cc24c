"""Compile the kernels of a construction before it starts.

Otherwise the first language would wait for them, and its seconds would include them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from modtok_cli.base.compiling import compiling
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import scratch_directory
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.learner import Learner
from modtok_cli.construct.request import Request
from modtok_cli.text.counter import WordCounter

# Long and short words, digits, repetitions; enough words for each kernel to run.
TEXTS = {
    "en": "one two three, one two 33 threes\n" * 5 + "a" * 200,
    "fi": "yksi kaksi kolme, yksi kaksi 3\n" * 5 + "a" * 200,
}
_TOKENS = 20

Build = Callable[[type[Learner[Any]], Request, dict[str, Any]], object]


def warm_up(learner: Learner[Any], build: Build, progress: Progress) -> None:
    """Load the kernels of `learner`, or compile them and report it.

    A small example in memory loads the kernels of learning. If any had to be compiled here, a
    small build by `build` compiles those of reading and writing as well.
    """
    with compiling(progress) as compilation:
        counter = WordCounter(learner.pretokenizer)
        counter.add_documents([text.encode() for text in TEXTS.values()])
        learner.warm_up(counter.result())
        if compilation.kernels:
            # Whatever is wrong with this example is not the user's concern.
            with suppress(ModtokError, OSError), scratch_directory() as scratch:
                build(type(learner), _small_request(learner, scratch), {})


def _small_request(learner: Learner[Any], scratch: Path) -> Request:
    data = scratch / "data"
    data.mkdir()
    for language, text in TEXTS.items():
        (data / f"{language}.txt").write_text(text, encoding="utf-8")
    return Request(
        output=scratch / "output",
        data=data,
        k=len(learner.specials) + 256 + _TOKENS,
        references=True,
        progress=SILENT,
    )
