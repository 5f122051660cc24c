"""A directory that `AutoTokenizer.from_pretrained` opens, with EOS, padding and chat template."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from modtok_cli.base.errors import IN_COMMAND, ModtokError, UsageError
from modtok_cli.base.files import atomic_directory, check_new, refuse_others
from modtok_cli.base.read_file import read_file
from modtok_cli.tokenizer.adopted.file_ids import check_written
from modtok_cli.tokenizer.adopted.restrict import tokens_of, with_places
from modtok_cli.tokenizer.chat_template import LARGEST, check_template
from modtok_cli.tokenizer.model_card import README, readme
from modtok_cli.tokenizer.segmenters.json_frame import added_tokens
from modtok_cli.tokenizer.tokenizer_card import part_card

FILES = ("tokenizer.json", "tokenizer_config.json")
END_OF_TEXT, PAD = "<|endoftext|>", "<|pad|>"

# Each: special tokens, the one that ends a turn, and the template, in the language of Jinja.
TEMPLATES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "chatml": (
        ("<|im_start|>", "<|im_end|>"),
        "<|im_end|>",
        "{% for message in messages %}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    ),
    "headers": (
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        "<|eot_id|>",
        "{% for message in messages %}"
        "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
        " + message['content'] + '<|eot_id|>' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
    ),
}
_BETWEEN = re.compile(r"([>\])}|](?:=[0-9]+)?)\s*,\s*(?=[<\[({|])")  # an id may end each
_MARK = re.compile(r"<\|[^|<>\s]+\|>")


def write_hf_directory(
    directory: Path,
    tokenizer_json: bytes,
    *,
    specials: Sequence[str] = (),
    chat_template: str | None = None,
    force: bool = False,
) -> dict[str, Any]:
    """Write `tokenizer.json`, `tokenizer_config.json` and a card; returns what they contain.

    Args:
        directory: output, complete or absent.
        tokenizer_json: content of a `tokenizer.json`; its ids do not change.
        specials: special tokens to add after the last id; tokens that it has are not added again.
        chat_template: name in `TEMPLATES`, or a file with a Jinja template. A named template adds
            its special tokens and makes the token that ends a turn the EOS token.
        force: replace an existing directory of this kind.

    Returns:
        `output`, `tokens` (number of ids), `added` (special token to id), `eos`, `pad`,
        `chat_template` (its name, or None).
    """
    check_new(directory, force=force, flag="--hf")
    refuse_others(directory, (*FILES, README).__contains__)
    document = orjson.loads(tokenizer_json)
    ends, template = None, None
    if chat_template is not None:
        more, ends, template = template_of(chat_template)
        specials = [*specials, *more]
    added = _add(document, specials)
    document = with_places(document)
    names = [token["content"] for token in document["added_tokens"] if token["special"]]
    if template is not None:
        _check_template(template, document, chat_template or "")
    end = ends or (END_OF_TEXT if END_OF_TEXT in names else None)
    pad = PAD if PAD in names else end
    config = _config(names, end, pad, template)
    row = {
        "output": str(directory),
        "tokens": _size(document),
        "added": added,
        "eos": end,
        "pad": pad,
        "chat_template": chat_template,
    }
    with atomic_directory(directory) as place:
        data = check_written(orjson.dumps(document) + b"\n", str(directory))
        (place / FILES[0]).write_bytes(data)
        option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
        (place / FILES[1]).write_bytes(orjson.dumps(config, option=option))
        (place / README).write_bytes(readme(part_card(document, row), directory))
    return row


def template_of(name: str) -> tuple[tuple[str, ...], str | None, str]:
    """Special tokens, end of a turn, and text of a template; a file has neither of the former."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"chat template {name!r} does not exist",
            where="--chat-template",
            remedy=f"expected a file or one of: {', '.join(TEMPLATES)}",
        )
    try:
        text = read_file(path, largest=LARGEST).decode()
    except UnicodeDecodeError as error:
        raise ModtokError("is not UTF-8", where=name) from error
    check_template(text, name)
    return (), None, text


def refuse_joined(specials: Sequence[str]) -> None:
    """Refuse a list of special tokens in place of one, such as `<a>,<b>`."""
    for text in specials:
        if len(parts := _BETWEEN.sub(r"\1\0", text).split("\0")) > 1:
            each = " ".join(f"--special '{part}'" for part in parts)
            each = f"{each}; in modtok.toml {parts}" if IN_COMMAND.get() else str(parts)
            raise UsageError(
                "has a comma between special tokens",
                where=f"--special '{text}'",
                remedy=f"give each of them: {each}",
            )


def _check_template(template: str, document: dict[str, Any], where: str) -> None:
    names = {token["content"] for token in document["added_tokens"]}
    missing = [mark for mark in dict.fromkeys(_MARK.findall(template)) if mark not in names]
    if missing:
        raise UsageError(
            f"the chat template contains {', '.join(missing)}, not a special token",
            where=where,
            remedy=f"add it: {' '.join(f'--special {chr(39)}{mark}{chr(39)}' for mark in missing)}",
        )


def _add(document: dict[str, Any], specials: Sequence[str]) -> dict[str, int]:
    refuse_joined(specials)
    added = document["added_tokens"] = document.get("added_tokens") or []
    present = {token["content"] for token in added}
    known = tokens_of(document)
    new = [text for text in dict.fromkeys(specials) if text not in present]
    for text in new:
        if not text or text in known:
            raise UsageError(
                "is an ordinary token" if text else "is empty", where=f"--special {text!r}"
            )
    first = _size(document)
    ids = {text: first + index for index, text in enumerate(new)}
    added += [{**token, "id": ids[token["content"]]} for token in added_tokens(new)]
    return ids


def _size(document: dict[str, Any]) -> int:
    """The highest id + 1."""
    return max(tokens_of(document).values(), default=-1) + 1


def _config(
    names: Sequence[str], end: str | None, pad: str | None, template: str | None
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "additional_special_tokens": [name for name in names if name not in (end, pad, "<unk>")],
    }
    values = {
        "eos_token": end,
        "pad_token": pad,
        "bos_token": END_OF_TEXT if END_OF_TEXT in names else None,
        "unk_token": "<unk>" if "<unk>" in names else None,
        "chat_template": template,
    }
    return config | {key: value for key, value in values.items() if value is not None}
