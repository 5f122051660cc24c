"""The ids of a `tokenizer.json` as the `tokenizers` library gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import is_installed
from modtok_cli.tokenizer.adopted.restrict import tokens_of
from modtok_cli.tokenizer.encoding.external import in_library, library_tokenizer
from modtok_cli.tokenizer.segmenters.json_frame import added_tokens, parse_document

_SHOWN = 3


def check_written(data: bytes, where: str) -> bytes:
    """`data` itself, a `tokenizer.json`, after `check_ids` if the library is installed."""
    if is_installed("tokenizers"):
        check_ids(data, where)
    return data


def check_ids(data: bytes, where: str, ids: Mapping[str, int] | None = None) -> None:
    """Ask the library for the id of each token of a file, for the token of each id, and for the
    flags of added tokens.

    Args:
        ids: token → id of what the file was made from, compared too.

    Raises:
        ModtokError: the library gives others, or does not read the file; names three tokens.
    """
    odd = [*odd_ids(data, where, ids)]
    if odd:
        remedy = "give each added token its id in 'model.vocab' too"
        raise ModtokError(said(odd), where=where, remedy=remedy)


def said(odd: Sequence[str]) -> str:
    """The first three of `odd_ids`, in a line."""
    more = f"; {len(odd):,} tokens in all" if len(odd) > _SHOWN else ""
    return f"the tokenizers library has other ids: {'; '.join(odd[:_SHOWN])}{more}"


def odd_ids(data: bytes, where: str, ids: Mapping[str, int] | None = None) -> Iterator[str]:
    """A line for each token that the library has otherwise; see `check_ids`.

    The library numbers an added token that 'model.vocab' lacks by its position.
    """
    document, library = parse_document(data, where), library_tokenizer(data, where)
    with in_library("has no vocabulary", where):
        given: dict[str, int] = library.get_vocab(with_added_tokens=True)
        flags = library.get_added_tokens_decoder()
    named = tokens_of(document)
    for name, index in [*named.items(), *((ids or {}).items() - named.items())]:
        if given.get(name) != index:
            yield f"{name!r} is {given.get(name)}, not {index}"
        elif (other := library.id_to_token(index)) != name:
            yield f"{index} is {other!r}, not {name!r}"
    fields = added_tokens([""])[0].keys() - {"id"}
    for token in document.get("added_tokens") or ():
        found = flags.get(token["id"])
        wanted: dict[str, Any] = {name: token.get(name) for name in fields}
        if found is None or {name: getattr(found, name) for name in fields} != wanted:
            yield f"{token['content']!r} is no such added token"
