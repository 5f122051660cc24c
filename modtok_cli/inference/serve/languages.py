"""The languages of a request: which they are, how its prompt is segmented, what it may answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import UsageError
from modtok_cli.inference.run.route import route, routing_references
from modtok_cli.inference.slice.slice_directory import NAME, read_facts
from modtok_cli.inference.vocabularies import FULL
from modtok_cli.measure.references import Reference
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import MODEL, ModularTokenizer, resolve

TOKENIZER = "modular"
"""The modular directory in a served directory."""
KEY = "languages"
"""Field of requests, of vLLM's additional configuration, and of its extra arguments."""
AUTO = "auto"
_SUBSETS = 64  # that keep their tables


@dataclass
class ServedLanguages:
    """The modular tokenizer of a served model.

    Attributes:
        languages: those that the model was trained in; of T by default.
        references: those that find the language of a prompt; empty if there are none.
        default: languages of a request that names none: "auto", "full" or codes; without, "auto" if
            there are references.
    """

    tokenizer: ModularTokenizer
    languages: Sequence[str] = ()
    references: Mapping[str, Reference] = field(default_factory=dict)
    default: str = ""

    def __post_init__(self) -> None:
        self._subsets: OrderedDict[str, Subtokenizer] = OrderedDict()
        self.languages = self.languages or self.tokenizer.languages
        self.default = self.default or (AUTO if self.references else FULL)
        self.chosen(None, [])  # an unknown language is an error here

    @classmethod
    def of(cls, directory: Path, default: str = "") -> ServedLanguages:
        """Those of a served directory.

        Raises:
            UsageError: an unknown language in `default`, or no references for "auto".
            ModtokError: the tokenizer is damaged.
        """
        home = directory / TOKENIZER
        tokenizer = ModularTokenizer.load(home)
        own = read_facts(directory).inputs if (directory / NAME).is_file() else tokenizer.languages
        has = (home / "references").is_dir()
        return cls(tokenizer, own, routing_references(home, own) if has else {}, default)

    def chosen(self, wanted: object, texts: Sequence[str]) -> str:
        """The languages of a request, in T's order with commas between; "" is T.

        Args:
            wanted: the field of the request: a list of codes, or text with commas between codes;
                "full" is T, "auto" finds the languages of the texts, None is the default.
            texts: of the prompts. The languages of several prompts are the union.

        Raises:
            UsageError: an unknown language, another type, or no references for "auto".
        """
        if wanted is None:
            wanted = self.default
        names = wanted.split(",") if isinstance(wanted, str) else wanted
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UsageError('expected a list of languages such as ["fr", "en"]')
        names = [name.strip() for name in names]
        if names == [AUTO]:
            if not self.references:
                raise UsageError(
                    "the tokenizer has no monolingual references, which find the languages of a "
                    "prompt",
                    remedy="name them",
                )
            routes = route([text for text in texts if text.strip()], self.references)
            names = [name for each in routes for name in each.languages] or [FULL]
        if names == [FULL]:
            return ""
        known = resolve(self.languages, names, MODEL)
        return ",".join(name for name in self.tokenizer.languages if name in known)

    def subset(self, languages: str) -> Subtokenizer:
        """The tokenizer of languages as `chosen` returns them."""
        tokenizer = self._subsets.pop(languages, None)
        if tokenizer is None:
            tokenizer = self.tokenizer.subset(languages) if languages else self.tokenizer.full()
        self._subsets[languages] = tokenizer
        if len(self._subsets) > _SUBSETS:
            self._subsets.popitem(last=False)
        return tokenizer

    def encode(self, text: str, languages: str) -> Int32Array:
        """Ids in T of a text by the tokenizer of these languages; special tokens in it are such."""
        tokenizer = self.subset(languages)
        return tokenizer.global_ids[tokenizer.encode(text, specials=True)]


CURRENT: list[ServedLanguages] = []
"""The one of this process, where vLLM's renderer has set it up."""
OF_REQUEST: ContextVar[str] = ContextVar("modtok_languages", default="")
"""Languages of the request that this task answers."""


def current() -> ServedLanguages | None:
    """The one of this process."""
    return CURRENT[-1] if CURRENT else None


def texts_of(body: Mapping[str, Any]) -> list[str]:
    """What a request says in words: its prompts, or the contents of its messages.

    >>> texts_of({"messages": [{"role": "user", "content": [{"type": "text", "text": "Salut"}]}]})
    ['Salut']
    """
    prompt = body.get("prompt", body.get("input"))
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, list) and all(isinstance(each, str) for each in prompt):
        return prompt
    messages = body.get("messages", prompt)
    if not isinstance(messages, list):
        return []
    contents = [each.get("content") for each in messages if isinstance(each, Mapping)]
    words: list[str] = []
    for content in contents:
        parts = content if isinstance(content, list) else [content]
        texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
        words += [text for text in texts if isinstance(text, str)]
    return ["\n".join(words)] if words else []
