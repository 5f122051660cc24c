"""Sections on the tokenizers of a workspace."""

import shlex
from collections.abc import Mapping

from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.reports.charts import Heat
from modtok_cli.reports.page import Section
from modtok_cli.reports.present import named, presented
from modtok_cli.reports.tables import Column, Table, cell, table_of


def tokenizer_section(name: str, tokenizer: ModularTokenizer) -> Section:
    """Languages of a modular tokenizer and the tokens they share."""
    languages = tokenizer.languages
    text = (
        f"{tokenizer.algorithm}, {len(languages)} languages, {tokenizer.k:,} tokens per "
        f"language, {tokenizer.size:,} in total."
    )
    return Section(
        f"tokenizer-{name}",
        f"Shared tokens of {name}",
        [text],
        [presented(shared_tokens(tokenizer))],
        [named(tokenizer_table(tokenizer))],
        shlex.join(["modtok", "inspect", name]),
        [f"tokenizer|{tokenizer.signature}"],
    )


def shared_tokens(tokenizer: ModularTokenizer) -> Heat:
    """Share of each language's vocabulary that every other language has too."""
    names = tokenizer.languages
    members = tokenizer.token_membership.astype("float32")
    common = members.T @ members
    values = {
        (row, column): float(100 * common[i, j] / common[i, i])
        for i, row in enumerate(names)
        for j, column in enumerate(names)
        if i != j
    }
    return Heat(
        "Shared tokens",
        "% of the row's tokens that are also in the column's language",
        "language",
        "shared with",
        names,
        names,
        values,
    )


def tokenizer_table(tokenizer: ModularTokenizer) -> Table:
    """Per language: tokens, exclusive tokens, and share of shared tokens."""
    members = tokenizer.token_membership
    owners = members.sum(axis=1)
    body = []
    for column, language in enumerate(tokenizer.languages):
        mine = members[:, column]
        corpus = tokenizer.corpora.get(language)
        body.append(
            [
                language,
                cell(mine.sum(), "int"),
                cell((mine & (owners == 1)).sum(), "int"),
                cell(float((mine & (owners > 1)).sum() / mine.sum()), "percent"),
                "–" if corpus is None else _size(corpus.bytes),
            ]
        )
    headings = ["language", "tokens", "exclusive", "shared %", "trained on"]
    return Table("Languages in training order", headings, body)


def _size(value: int) -> str:
    return f"{value / 1e6:.1f} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


_COLUMNS = (
    Column("name", "name"),
    Column("algorithm", "algorithm"),
    Column("languages", "languages", "count"),
    Column("k", "tokens per language", "int"),
    Column("size", "total tokens", "int"),
    Column("signature", "signature"),
)


def all_tokenizers_table(tokenizers: Mapping[str, ModularTokenizer]) -> Table:
    """One row for each tokenizer of the workspace."""
    keys = [column.key for column in _COLUMNS[1:]]
    rows = [
        {"name": name, **{key: getattr(tokenizer, key) for key in keys}}
        for name, tokenizer in tokenizers.items()
    ]
    return table_of("Tokenizers in the workspace", rows, _COLUMNS)
