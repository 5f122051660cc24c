"""Conversations as documents: rendered by a chat template, the answers between marks.

A conversation is stored as its rendered text. A byte 0xFF, which no text in UTF-8 has, stands at
its begin, and at the begin and end of each answer of the assistant. Only tokens of answers are in
the loss. Text is split at special tokens and at the ends of answers before it is encoded, as a
program does that encodes a prompt and generates the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.read_file import read_object
from modtok_cli.base.signature import digest
from modtok_cli.model.architecture.stored_model import HfDirectory, is_hf_directory
from modtok_cli.tokenizer.chat_template import check_template
from modtok_cli.tokenizer.hf_directory import TEMPLATES, template_of

MARK = b"\xff"
FIELD = "messages"
FILE = "chat_template.json"
"""File of a run with its template and the special tokens that the template may name."""
OF_MODEL = "model"
_ANSWERS = re.compile(r"\{%-?\s*generation\s*-?%\}")
_EXAMPLE = 'a conversation is a list such as [{"role": "user", "content": "…"}, …]'
_LARGEST = 64 << 20


class MaskedText(NamedTuple):
    """A part of a document, to be encoded on its own.

    Attributes:
        start: its first byte in the document.
        in_loss: whether its tokens are predicted.
        special: whether it is a special token.
    """

    start: int
    text: bytes
    in_loss: bool
    special: bool


def pieces(document: bytes, specials: re.Pattern[bytes]) -> list[MaskedText]:
    """The parts of a conversation between special tokens and ends of answers, without the marks.

    >>> for piece in pieces(b"\\xff<s>Hi? \\xffHi!<s>\\xff", re.compile(b"(<s>)")):
    ...     print(*piece)
    1 b'<s>' False True
    4 b'Hi? ' False False
    9 b'Hi!' True False
    12 b'<s>' True True
    """
    found, at = [], 0
    for number, part in enumerate(document.split(MARK)):
        for index, text in enumerate(specials.split(part)):
            if text:
                found.append(MaskedText(at, text, number % 2 == 0, index % 2 == 1))
            at += len(text)
        at += 1
    return found


def in_loss(document: bytes) -> bool:
    """Whether a document is plain text, or has an answer.

    >>> in_loss(b"text"), in_loss(b"\\xffHi? \\xffHi!\\xff"), in_loss(b"\\xffHi? \\xff\\xff")
    (True, True, False)
    """
    return any(document.split(MARK)[::2])


@dataclass(frozen=True)
class ChatFormat:
    """How a list of messages becomes a document.

    Attributes:
        template: in the language of Jinja. It runs in the sandbox of transformers.
        variables: special tokens that it may name, such as `eos_token`.
        specials: special tokens of the tokenizer; messages may not contain them.
    """

    template: str
    variables: Mapping[str, str]
    specials: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """Digest of all that changes a document."""
        return digest(self.to_json(), orjson.dumps(self.specials))

    def to_json(self) -> bytes:
        """The file `chat_template.json`."""
        fields = {"chat_template": self.template, **self.variables}
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)

    def __call__(self, value: Any, where: str) -> bytes:
        """The document of a conversation, a list of messages; `where` is its place, for errors."""
        messages = value
        if not isinstance(messages, list) or not all(
            isinstance(each, dict) and isinstance(each.get("role"), str) for each in messages
        ):
            raise ModtokError(f"field '{FIELD}' is no conversation", where=where, remedy=_EXAMPLE)
        for text in _strings(messages):
            special = next((each for each in self.specials if each in text), None)
            if special is not None:
                raise ModtokError(
                    f"a message contains {special!r}, a special token of the tokenizer",
                    where=where,
                    remedy="remove it from the message, or leave out the conversation",
                )
        text, spans = self._rendered(messages, where)
        if not text:
            raise ModtokError("the chat template writes nothing", where=where,
                              remedy="correct it, or leave out the conversation")  # fmt: skip
        parts = [b"", text[: spans[0][0] if spans else None].encode()]
        for number, (start, stop) in enumerate(spans):
            at = spans[number + 1][0] if number + 1 < len(spans) else len(text)
            parts += [text[start:stop].encode(), text[stop:at].encode()]
        return MARK.join(parts)

    def _rendered(self, messages: list[Any], where: str) -> tuple[str, list[tuple[int, int]]]:
        """The text, and where its answers start and stop."""
        if _ANSWERS.search(self.template):
            text, spans = self._render(messages, where, spans=True)
            return text, [(start, stop) for start, stop in spans if start < stop]
        text, spans = self._render(messages, where)[0], []
        for index, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            prompt = self._render(messages[:index], where, prompt=True)[0]
            until = self._render(messages[: index + 1], where)[0]
            if not until.startswith(prompt) or not text.startswith(until):
                raise ModtokError(
                    f"the chat template changes what is before message {index + 1} or its answer",
                    where=where,
                    remedy="put {% generation %} and {% endgeneration %} around answers in it",
                )
            # White space between a special token that ends a turn and the next turn is no answer.
            ends = [text.rfind(each, len(prompt), len(until)) + len(each) for each in self.specials
                    if each in text[len(prompt) : len(until)]]  # fmt: skip
            end = max(ends, default=len(until))
            stop = len(until) if text[end : len(until)].strip() else end
            spans.append((len(prompt), stop))
        return text, spans

    def _render(
        self, messages: list[Any], where: str, *, prompt: bool = False, spans: bool = False
    ) -> tuple[str, list[tuple[int, int]]]:
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            rendered, found = render_jinja_template(
                [messages],
                chat_template=self.template,
                add_generation_prompt=prompt,
                return_assistant_tokens_mask=spans,
                **self.variables,
            )
        except Exception as error:  # any that a template raises
            reason = " ".join(str(error).split())[:300]
            raise ModtokError(
                f"the chat template fails ({type(error).__name__}: {reason})",
                where=where,
                remedy="correct the conversation or the template",
            ) from error
        return rendered[0], list(found[0]) if spans else []


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def chat_format(
    name: str, specials: tuple[str, ...], end: str, *, model: Path | None, run: Path | None
) -> ChatFormat:
    """The format that `--chat-template` names: of a run that was started, what it stored.

    Args:
        specials: special tokens of the tokenizer; `end` is that between documents.
        model: the directory of `--init-from`.
        run: the directory of a run that is resumed.

    Raises:
        UsageError: no such template, or the tokenizer lacks its special tokens.
    """
    if run is not None and (run / FILE).is_file():
        fields = read_object(run / FILE)
        return ChatFormat(str(fields.pop("chat_template", "")), fields, specials)
    variables = dict.fromkeys(("bos_token", "eos_token", "pad_token"), end)
    if name == OF_MODEL:
        own, template = _of_model(model)
        return ChatFormat(template, {**variables, **own}, specials)
    needed, turn_end, template = template_of(name)
    missing = [mark for mark in needed if mark not in specials]
    if missing:
        raise UsageError(
            f"the tokenizer has no special token {', '.join(missing)}",
            where="--chat-template",
            remedy=f"learn it with {' '.join(f'--special {chr(39)}{m}{chr(39)}' for m in missing)}"
            f", or name a file; {', '.join(TEMPLATES)} need such tokens",
        )
    return ChatFormat(template, {**variables, "eos_token": turn_end or end}, specials)


def _of_model(model: Path | None) -> tuple[dict[str, str], str]:
    """Special tokens and template of a Hugging Face directory."""
    if model is None or not is_hf_directory(model):
        raise UsageError(
            "needs a Hugging Face model",
            where="--chat-template model",
            remedy="give one with --init-from, or name a template",
        )
    directory = HfDirectory(model)
    fields, template = directory.tokenizer_config, directory.chat_templates.get("default")
    if template is None:
        raise UsageError("has no chat template", where=model, remedy="name one: chatml, or a file")
    check_template(template, str(model))
    contents = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in fields.items()
        if name.endswith("_token")
    }
    return {name: value for name, value in contents.items() if isinstance(value, str)}, template
