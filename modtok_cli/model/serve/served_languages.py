"""The languages of a request: which they are, how its prompt is segmented, what it may answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import UsageError
from modtok_cli.measure.references import Reference
from modtok_cli.model.generate.route import route, routing_references
from modtok_cli.model.kinds import FACTS
from modtok_cli.model.vocabularies import FULL
from modtok_cli.tokenizer.modular_tokenizer import MODEL, ModularTokenizer, resolve
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

TOKENIZER = "modular"
"""The modular directory in a served directory."""
KEY = "languages"
"""Field of requests, of vLLM's additional configuration, and of its extra arguments."""
OVER = "prompt_logprobs_over"
"""Field of requests, and of vLLM's extra arguments: what log-probabilities of prompts are over."""
AUTO = "auto"
_SUBSETS = 64  # that keep their tables
_SIDES = ("input", "output")


class Chosen(NamedTuple):
    """Languages of a prompt and of its answer, in T's order with commas between; "" is T.

    Attributes:
        scored: whether log-probabilities of the prompt are over `input`, and not over T.
    """

    input: str
    output: str
    scored: bool = False

    def __str__(self) -> str:
        """`en,fr`, `en|fr` if they differ, and `full` for T.

        >>> str(Chosen("en,fr", "en,fr")), str(Chosen("", "fr"))
        ('en,fr', 'full|fr')
        """
        sides = [side or FULL for side in self[:2]]
        return sides[0] if self.input == self.output else "|".join(sides)


@dataclass
class ServedLanguages:
    """The modular tokenizer of a served model.

    Attributes:
        languages: languages of the training; by default of T.
        references: references that find the language of a prompt; may be empty.
        default: languages of a request that names none: "auto", "full" or codes; without, "auto" if
            there are references.
        can_score: whether this vLLM can compute log-probabilities of prompts over languages.
        subset: the tokenizer of one side of `Chosen`; threads may call it.
    """

    tokenizer: ModularTokenizer
    languages: Sequence[str] = ()
    references: Mapping[str, Reference] = field(default_factory=dict)
    default: str = ""
    can_score: bool = True
    subset: Callable[[str], Subtokenizer] = field(init=False)

    def __post_init__(self) -> None:
        whole = self.tokenizer
        self.subset = lru_cache(_SUBSETS)(
            lambda names: whole.subset(names) if names else whole.full()
        )
        self.languages = self.languages or self.tokenizer.languages
        self.default = self.default or (AUTO if self.references else FULL)
        self.chosen(None, [])  # an unknown language is an error here

    @classmethod
    def of(cls, directory: Path, default: str = "") -> ServedLanguages:
        """The languages of a served directory.

        Raises:
            UsageError: an unknown language in `default`, or no references for "auto".
            ModtokError: the tokenizer is damaged.
        """
        from modtok_cli.model.slice.slice_directory import read_facts  # torch

        own = read_facts(directory).inputs if (directory / FACTS).is_file() else ()
        return cls.with_tokenizer(directory / TOKENIZER, own, default)

    @classmethod
    def with_tokenizer(
        cls, home: Path, languages: Sequence[str] = (), default: str = ""
    ) -> ServedLanguages:
        """The languages of a modular directory, by default all of them.

        Raises:
            UsageError, ModtokError: as `of`.
        """
        tokenizer = ModularTokenizer.load(home)
        own = languages or tokenizer.languages
        has = (home / "references").is_dir()
        return cls(tokenizer, own, routing_references(home, own) if has else {}, default)

    def chosen(self, wanted: object, texts: Sequence[str]) -> Chosen:
        """The languages of a request.

        Args:
            wanted: the field of the request: a list of codes, or text with commas between codes;
                "full" is T, "auto" finds the languages of the texts, None is the default. An
                object with "input" and "output", or text with a bar between them, has different
                ones for prompt and answer.
            texts: of the prompts. The languages of several prompts are the union; without text,
                "auto" is all languages.

        Raises:
            UsageError: an unknown language, another type, or no references for "auto".
        """
        if wanted is None:
            wanted = self.default
        if isinstance(wanted, str) and "|" in wanted:
            wanted = dict(zip(_SIDES, wanted.split("|", 1), strict=True))
        if not isinstance(wanted, Mapping):
            one = self._side(wanted, texts)
            return Chosen(one, one)
        if wanted.keys() != set(_SIDES):
            raise UsageError('expected "input" and "output", each with a list of languages')
        before, after = (self._side(wanted[side], texts) for side in _SIDES)
        return Chosen(before, after)

    def _side(self, wanted: object, texts: Sequence[str]) -> str:
        names = wanted.split(",") if isinstance(wanted, str) else wanted
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UsageError('expected a list of languages such as ["fr", "en"]')
        names = [name.strip() for name in names]
        if len({*names}) < len(names):
            raise UsageError("repeats a language", remedy="give each language once")
        if names == [AUTO]:
            if not self.references:
                raise UsageError(
                    "the tokenizer has no monolingual references, which find the languages of a "
                    "prompt",
                    remedy="name them",
                )
            routes = route([text for text in texts if text.strip()], self.references)
            names = [name for each in routes for name in each.languages] or [*self.languages]
        if names == [FULL]:
            return ""
        known = resolve(self.languages, names, MODEL)
        return ",".join(name for name in self.tokenizer.languages if name in known)

    def texts_of(self, body: Mapping[str, Any]) -> list[str]:
        """`texts_of`, and the text of prompts that are ids in T."""
        prompts = self._ids_of(body)
        return (
            texts_of(body) if prompts is None else [self.tokenizer.decode(ids) for ids in prompts]
        )

    def _ids_of(self, body: Mapping[str, Any]) -> list[list[int]] | None:
        """Ids in T of the prompts, without what is none; None if prompts are no ids."""
        prompt = body.get("prompt", body.get("token_ids"))  # of /v1/completions, or rendered
        if not isinstance(prompt, list) or not prompt or isinstance(prompt[0], str):
            return None
        prompts = [each for each in prompt if isinstance(each, list)] or [prompt]
        size = self.tokenizer.size
        return [[i for i in ids if isinstance(i, int) and 0 <= i < size] for ids in prompts]

    def scored(self, wanted: object) -> bool:
        """Whether a request has log-probabilities of its prompt over its languages.

        Args:
            wanted: the field of the request: "languages", "full" (T), or None, which is T.

        Raises:
            UsageError: another value, or this vLLM cannot.
        """
        if wanted is None or wanted == FULL:
            return False
        if wanted != KEY:
            raise UsageError(f'expected "{KEY}" or "{FULL}"')
        if not self.can_score:
            raise UsageError(
                "this version of vLLM computes them over all tokens", remedy="leave it out"
            )
        return True

    def check_allowed(self, ids: Sequence[int], languages: str) -> None:
        """Check that a request's `allowed_token_ids` leave it something to answer.

        Raises:
            UsageError: no id belongs to these languages.
        """
        if languages and not np.isin(ids, self.subset(languages).global_ids).any():
            raise UsageError(f"none is a token of {languages}", where="allowed_token_ids")

    def check_scored(self, body: Mapping[str, Any], chosen: Chosen) -> None:
        """Check that each token that is scored has a probability.

        These are the labels of `/generative_scoring`, and the tokens of a prompt of ids, from its
        second one on, if they are scored over languages.

        Raises:
            UsageError: one is not of the languages.
        """
        labels = body.get("label_token_ids")
        scored = {"label_token_ids": (chosen.output, labels if isinstance(labels, list) else [])}
        if chosen.scored:
            tokens = [token for ids in self._ids_of(body) or () for token in ids[1:]]
            scored["prompt" if "prompt" in body else "token_ids"] = (chosen.input, tokens)
        for name, (languages, ids) in scored.items():
            if not languages or not ids:
                continue
            own = {*self.subset(languages).global_ids.tolist()}
            for token in ids:
                if isinstance(token, int) and token not in own:
                    raise UsageError(
                        f"token {token} is not one of {languages}, so its probability is 0",
                        where=name,
                        remedy="choose tokens of these languages, or name further languages",
                    )

    def spellings(self, word: str, languages: str) -> list[list[int]]:
        """Ids in T that spell a forbidden word in these languages: alone, and after a space."""
        found = [self.encode(text, languages).tolist() for text in (word, f" {word.lstrip()}")]
        return [ids for at, ids in enumerate(found) if ids and ids not in found[:at]]

    def encode(self, text: str, languages: str) -> Int32Array:
        """Ids in T of a text by the tokenizer of these languages; special tokens in it are such."""
        tokenizer = self.subset(languages)
        return tokenizer.global_ids[tokenizer.encode(text, specials=True)]


CURRENT: list[ServedLanguages] = []
"""The one of this process, where vLLM's renderer has set it up."""
OF_REQUEST: ContextVar[Chosen | None] = ContextVar("modtok_languages", default=None)
"""Languages of the request that this task answers; None if the middleware has not read it."""


def admit(params: Any, most_words: int = 128) -> None:
    """Give vLLM's parameters of sampling the languages of the request that they belong to.

    Each request passes here, whatever its address, and so do the steps of beam search.

    Args:
        most_words: spellings of forbidden words that vLLM takes; more would end its engine.

    Raises:
        UsageError: the request has no languages, or other ones than its parameters say; no allowed
            token is one of its languages; too many forbidden words.
        ModtokError: a forbidden word is not valid Unicode.
    """
    served, chosen = current(), OF_REQUEST.get()
    if served is None or chosen is None:
        raise UsageError(
            "the languages of the request are not known at this address",
            remedy="use /v1/completions or /v1/chat/completions, of modtok serve",
        )
    extra = dict(params.extra_args or {})
    own = extra.get(KEY)  # the steps of a beam search share parameters, with what is set below
    if own not in (None, chosen.output) and served.chosen(own, []).output != chosen.output:
        raise UsageError(f"the request is in {chosen}, its parameters say {extra[KEY]}")
    if params.allowed_token_ids:
        served.check_allowed(params.allowed_token_ids, chosen.output)
    if params.bad_words:  # vLLM would spell them with all of T
        words = [served.spellings(word, chosen.output) for word in params.bad_words]
        params._bad_words_token_ids = [ids for each in words for ids in each]
        if (spellings := len(params._bad_words_token_ids)) > most_words:
            raise UsageError(
                f"{spellings} spellings, vLLM takes {most_words}",
                where="bad_words",
                remedy="set VLLM_MAX_NUM_BAD_WORDS of the server",
            )
        params.bad_words = []
    extra.pop(OVER, None)  # only the field says it
    if chosen.scored and params.prompt_logprobs is not None:
        extra[OVER] = chosen.input
    params.extra_args = {**extra, KEY: chosen.output}


_WORKER = ThreadPoolExecutor(1, thread_name_prefix="modtok")


async def apart(work: Callable[[], Any]) -> Any:
    """Return the result of `work` from another thread, which knows the request.

    One thread: a long prompt delays other prompts, and not the answers that are under way.
    """
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(_WORKER, context.run, work)


def current() -> ServedLanguages | None:
    """The one of this process."""
    return CURRENT[-1] if CURRENT else None


def texts_of(body: Mapping[str, Any]) -> list[str]:
    """The texts of a request: its prompts, or the contents of its messages.

    >>> texts_of({"messages": [{"role": "user", "content": [{"type": "text", "text": "Salut"}]}]})
    ['Salut']
    """
    query, items = body.get("query"), body.get("items")  # of /generative_scoring
    if isinstance(query, str) and isinstance(items, list):
        return [query, *(each for each in items if isinstance(each, str))]
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
