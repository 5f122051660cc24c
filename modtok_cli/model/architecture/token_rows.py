"""Which rows of a model directory the tokens of another tokenizer get."""

from collections.abc import Mapping

import numpy as np

from modtok_cli.base.arrays import BoolArray
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.read_file import read_object
from modtok_cli.model.architecture.stored_model import HfDirectory
from modtok_cli.tokenizer.adopted.segmenter import Library
from modtok_cli.tokenizer.segmenters.interface import Segmenter
from modtok_cli.tokenizer.spelling import Spelling, spell_by_merges

PEFT = "modtok-peft.json"
"""File with the arguments of `peft.LoraConfig`. Not PEFT's own name: transformers would look for an
adapter."""
TRAINABLE = "trainable_token_indices"
"""Its field: module → ids of the tokens whose rows `modtok transplant` made."""

# Special tokens that start or end a text, by table: the model reads one and predicts the other.
_ENDS = {
    "table": ("bos_token_id", "eos_token_id"),
    "input": ("bos_token_id", "eos_token_id"),
    "output": ("eos_token_id", "bos_token_id"),
}


def spelling(model: HfDirectory, new: Segmenter, *, encode: bool = True) -> Spelling:
    """How tokens of a model spell the tokens of another tokenizer: whose rows they get.

    A tokenizer that was adopted from the model's has its ids, and one that grew from it the first
    ones; merges tell how the tokens of the model spell the others. Any other is spelled as text;
    special tokens with the same text are the same token.

    Raises:
        ModtokError: a special token that both have would get another row.
    """
    specials = {i: new.names[i] for i in np.flatnonzero(new.special).tolist()}
    known = _shared_ids(model, new) if isinstance(new, Library) else None
    if isinstance(new, Library) and known is not None:
        rows = new.selection.global_ids
        found = spell_by_merges(new.file, known, encode=encode).take(rows)
    else:
        found = model.vocabulary.spell(new.vocabulary, specials=specials, encode=encode)
    own = {token["content"]: token["id"] for token in model.tokenizer.get("added_tokens") or ()}
    for index, name in specials.items():
        if own.get(name) not in (None, *found.ids[found.offsets[index] :][:1]):
            raise ModtokError(
                f"special token {name!r} would get another row",
                where=model.path,
                remedy="adopt the tokenizer of this model: modtok adopt MODEL",
            )
    return found


def with_end(model: HfDirectory, found: Spelling, end: int, table: str) -> Spelling:
    """A spelling in which the token between documents, `end`, has the row of a table that begins or
    ends the texts of the model, unless it has one."""
    index = model.token_id(*_ENDS[table])
    given = index is None or found.lengths[end]
    return found if index is None or given else found.spelled_by(end, index)


def made_rows(model: HfDirectory, found: Spelling) -> BoolArray:
    """Which tokens have no row in a model, or one that `modtok transplant` made; (V,) bool."""
    made: BoolArray = found.lengths == 0
    if (model.path / PEFT).is_file():
        modules = read_object(model.path / PEFT).get(TRAINABLE)
        lists = modules.values() if isinstance(modules, Mapping) else ()
        ids = {index for each in lists if isinstance(each, list) for index in each}
        same = np.flatnonzero(found.lengths == 1)
        made[same] = [index in ids for index in found.ids[found.offsets[same]].tolist()]
    return made


def _shared_ids(model: HfDirectory, new: Library) -> int | None:
    """How many first ids a tokenizer shares with the model, None if it has others."""
    ids, tokens = new.file.ids, model.tokens
    if not (model.has_ids(ids) or tokens.items() <= ids.items()):
        return None
    own = {*tokens.values()}
    others = (index for index in ids.values() if index not in own)
    return min(model.vocab_size, min(others, default=model.vocab_size))
