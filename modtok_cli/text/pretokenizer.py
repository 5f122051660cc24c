"""Pre-tokenizers: how text is split into words before a segmenter splits words into tokens.

Each is one object in one file of `modtok_cli/text/pretokenizers/`, which is found there by
itself. Nothing else in the package names a pattern or a splitting kernel.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import UsageError

if TYPE_CHECKING:
    from modtok_cli.text.indirect import Kernel

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


class Splitter(NamedTuple):
    """What `split_kernel.next_block` needs of a pre-tokenizer.

    entry (3,) int64: addresses of `word_end` and `split_block`, 0 if there is none, and on how many
    bytes behind the end of a word the end may depend, beside the next word; table (T,) uint8: what
    they look up.
    """

    entry: Ints
    table: Bytes


class PreTokenizer:
    r"""A pattern and its compiled twin; compared by identity, pickled by name.

    Attributes:
        name: name in files and on the command line.
        pattern: regular expression of the `tokenizers` library (Oniguruma). Every match is a
            word, and the matches cover the text without gaps.
        llama_cpp: name of the pre-tokenizer in llama.cpp (`tokenizer.ggml.pre`) that splits
            every text in the same way; None if it has none.
        rewrite: what changes a document in UTF-8 before it is split; see `text.rewriting`.
        is_whole: which documents are one word, and neither changed nor split.

    `word_end(data, start, stop, table)` gives the end of the word that begins at `start`
    (start < stop). `split_block(data, start, stop, table, ends)`, optional, writes the
    ends of all words of data[start:stop], relative to `start`, and gives their number; it need
    not be right about the last. Both are plain functions on indexed bytes. They are compiled on
    first use, each by itself: they may call kernels of modules given by `lazy_module`, not each
    other. Bytes that are not UTF-8 must not be skipped. Of what is behind `stop`, up to
    `word_key_kernel.PADDING` bytes may be read, and have no effect.

    >>> find_pretokenizer("bpe").pattern
    ' ?[\\p{L}\\p{M}]+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+'
    """

    rewrite: Callable[[bytes], bytes] | None = None
    is_whole: Callable[[bytes], bool] | None = None

    def __init__(
        self,
        name: str,
        pattern: str,
        *,
        word_end: Callable[..., int],
        split_block: Callable[..., int] | None = None,
        table: Callable[[], Bytes],
        llama_cpp: str | None = None,
    ) -> None:
        self.name = name
        self.pattern = pattern
        self.llama_cpp = llama_cpp
        self._word_end = word_end
        self._split_block = split_block
        self._table = table

    def __repr__(self) -> str:
        return f"PreTokenizer({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return find_pretokenizer, (self.name,)

    @cached_property
    def _kernels(self) -> list[Kernel]:
        # The object keeps what is compiled alive, so that its addresses stay valid.
        from modtok_cli.text import indirect

        kernels = [indirect.compile_word_end(self._word_end)]
        if self._split_block is not None:
            kernels.append(indirect.compile_split_block(self._split_block))
        return kernels

    @cached_property
    def splitter(self) -> Splitter:
        """Its kernels, compiled or loaded on first use."""
        addresses = [kernel.address for kernel in self._kernels]
        entry = np.array([*addresses, 0, 0][:3], dtype=np.int64)
        entry.setflags(write=False)
        return Splitter(entry, self.table)

    @property
    def table(self) -> Bytes:
        """What its functions look up, such as the class of each code point."""
        return self._table()

    def to_json(self, *, byte_level: bool) -> dict[str, Any]:
        """The `pre_tokenizer` of a `tokenizer.json`.

        `byte_level`: whether tokens spell bytes by visible characters, as BPE's do.
        """
        split = {
            "type": "Split",
            "pattern": {"Regex": self.pattern},
            "behavior": "Isolated",
            "invert": False,
        }
        if not byte_level:
            return split
        level = {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        }
        return {"type": "Sequence", "pretokenizers": [split, level]}

    def is_json(self, node: Any, *, byte_level: bool) -> bool:
        """Whether the `pre_tokenizer` of a `tokenizer.json` splits as this one does."""
        expected = self.to_json(byte_level=byte_level)
        if not byte_level:
            return bool(node == expected)
        try:
            split, level = node["pretokenizers"]
            return bool(
                node["type"] == "Sequence"
                and split == expected["pretokenizers"][0]
                # The library's defaults are others: these must be there.
                and level["type"] == "ByteLevel"
                and level["add_prefix_space"] is False
                and level["use_regex"] is False
            )
        except (KeyError, TypeError, ValueError):
            return False


@cache
def pretokenizers() -> Mapping[str, PreTokenizer]:
    """All pre-tokenizers by name: the `PRETOKENIZER` of each module in `pretokenizers/`."""
    from modtok_cli.text import pretokenizers as package

    found: dict[str, PreTokenizer] = {}
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"{package.__name__}.{module.name}")
        found[loaded.PRETOKENIZER.name] = loaded.PRETOKENIZER
    return found


def find_pretokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name.

    Raises:
        UsageError: there is none; names those there are.
    """
    known = pretokenizers()
    if name not in known:
        raise UsageError(
            f"unknown pre-tokenizer '{name}'", remedy=f"choose from: {', '.join(known)}"
        )
    return known[name]


def pretokenizer_of_json(node: Any, *, byte_level: bool) -> PreTokenizer | None:
    """The pre-tokenizer that the `pre_tokenizer` of a `tokenizer.json` is; None if unknown."""
    matches = (p for p in pretokenizers().values() if p.is_json(node, byte_level=byte_level))
    return next(matches, None)


def lazy_module(name: str) -> Any:
    """A module that is imported when an attribute of it is first used.

    Pre-tokenizers call kernels of other modules by it, so that reading a pattern does not import
    numba.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
