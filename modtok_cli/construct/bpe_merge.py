"""`modtok bpe-merge`: vocabularies learned apart and united, words cut into fewest tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.construct.append_checks import refuse_disagreement
from modtok_cli.construct.cancellable import CancellableProgress, HiddenProgress
from modtok_cli.construct.corpora import corpus_of, count_language, file_stamps
from modtok_cli.construct.existing_output import finished, report_of
from modtok_cli.construct.journal import INTERVAL_SECONDS, Journal, clear_finished
from modtok_cli.construct.references import reference_of
from modtok_cli.construct.report import DEFAULT_K, DEFAULT_SPECIALS, BuildReport, warn_of_small
from modtok_cli.construct.specials import check_specials
from modtok_cli.learn.bpe import learn_plain
from modtok_cli.learn.fewest_tokens import FEWEST_TOKENS
from modtok_cli.learn.prune import OVERTRAIN, LanguageTokens, choose_tokens
from modtok_cli.learn.state import check_budget
from modtok_cli.learn.unite import part, unite, without
from modtok_cli.modular.directory import read_references
from modtok_cli.modular.tokenizer import Corpus, ModularTokenizer
from modtok_cli.text.workspace import language_files

ALGORITHM = "bpe-merge"


def bpe_merge(
    languages: Sequence[str] | None = None,
    *,
    data: Path = Path("data"),
    output: Path = Path("tokenizer"),
    k: int | None = None,
    overtrain: float | None = None,
    whole_characters: bool | None = None,
    append: Sequence[str] | None = None,
    remove: Sequence[str] | None = None,
    references: bool = True,
    specials: Sequence[str] = (),
    errors: str = "strict",
    threads: int | None = None,
    force: bool = False,
    progress: Progress = SILENT,
    journal_seconds: float = INTERVAL_SECONDS,
) -> BuildReport:
    """Learn each language's tokens alone, unite them, and cut words into fewest tokens.

    Args:
        languages: which of those in `data`; None for all.
        output: the modular directory to write.
        k: tokens per language, special tokens and the 256 bytes included; default 24000.
        overtrain: how many tokens of BPE to choose from, as a multiple of k; default 1.25.
        whole_characters: only tokens of whole characters, as SentencePiece needs them.
        append: languages to add to the tokenizer in `output`; its own settings hold, and
            others are refused.
        remove: languages to take out of it.
        references: keep each language's monolingual BPE too.
        specials: special tokens, first in every vocabulary; by default end of text and padding.
        errors: what to do with invalid UTF-8: "strict", "replace", "skip".
        threads: how many languages to learn at a time; default one a core.
        force: replace an output that is there.
        journal_seconds: how often to keep the state of a long build beside the output.

    Returns:
        A row per language: tokens, how many no other language has, size of T.

    Raises:
        ModtokError, UsageError: the text, the settings or the output are not usable.
    """
    if sum(option is not None for option in (languages, append, remove)) > 1:
        raise UsageError("--langs, --append and --remove exclude each other")
    base = _extendable(output) if append or remove else None
    if base is not None:
        own = base.settings
        refuse_disagreement(
            output,
            {
                "-k": (k, base.k),
                "--overtrain": (overtrain, own["overtrain"]),
                "--whole-characters": (whole_characters, own["whole_characters"]),
                "--special": (tuple(specials) or None, base.vocabulary.specials),
            },
        )
        k, specials = base.k, base.vocabulary.specials
        overtrain, whole_characters = own["overtrain"], own["whole_characters"]
    k = DEFAULT_K if k is None else k
    overtrain = OVERTRAIN if overtrain is None else overtrain
    whole_characters = bool(whole_characters)
    if base is not None and remove:
        return _removed(base, output, remove)
    specials = tuple(specials) or DEFAULT_SPECIALS
    check_budget(k, specials)
    check_specials(specials)
    if not 1.0 <= overtrain <= 16.0:
        raise UsageError(f"{overtrain} is not between 1 and 16", where="--overtrain")
    settings = {"overtrain": overtrain, "whole_characters": whole_characters}
    files = language_files(data, append or languages)
    names = sorted(files)
    if base is None:
        done = finished(
            output, ALGORITHM, FEWEST_TOKENS, names, k, settings, specials, force, progress
        )
        if done is not None:
            return done
    else:
        there = sorted(set(names) & set(base.languages))
        if there:
            clear_finished(output)
            raise UsageError(f"{output} has {', '.join(there)} already", where="--append")
    journal = Journal(
        output,
        {
            "algorithm": ALGORITHM,
            "k": k,
            "settings": settings,
            "specials": specials,
            "languages": names,
            "append": base.signature if base else None,
            "references": references,
            "errors": errors,
            "files": file_stamps(files),
        },
        journal_seconds,
        force,
    )
    parts = _saved(journal)
    if parts:
        progress.note(f"going on after {', '.join(parts)}")
    stoppable = CancellableProgress(progress)
    pool = ThreadPoolExecutor(threads or os.cpu_count() or 1)

    def learn(language: str) -> _Part:
        return _learn(
            language, files[language], k, overtrain, whole_characters, references, specials,
            errors, stoppable,
        )  # fmt: skip

    try:
        running = {pool.submit(learn, name): name for name in names if name not in parts}
        with stoppable.task("languages", total=len(running), unit="languages") as task:
            for future in as_completed(running):
                name = running[future]
                parts[name] = future.result()
                task.advance(1)
                if journal.due(parts[name].seconds) and len(parts) < len(names):
                    _keep(journal, parts, specials)
        start = None if base is None else (base.learned(), base.token_counts or ())
        learned, token_counts = unite({name: parts[name].tokens for name in names}, specials, start)
        tokenizer = ModularTokenizer.from_learned(
            learned,
            algorithm=ALGORITHM,
            k=k,
            settings=settings,
            corpora={**(base.corpora if base else {}), **{n: parts[n].corpus for n in names}},
            token_counts=token_counts,
        )
        kept = read_references(output) if base else {}
        made = {name: found for name in names if (found := parts[name].reference) is not None}
        tokenizer.save(output, {**kept, **made})
    except BaseException:
        stoppable.stop()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    journal.remove()
    lines = _lines(tokenizer, parts, names)
    warn_of_small(lines, k, progress)
    return BuildReport(output, tokenizer.signature, lines)


@dataclass(frozen=True)
class _Part:
    """One language, learned alone."""

    tokens: LanguageTokens
    corpus: Corpus
    reference: bytes | None
    seconds: float


def _learn(
    language: str,
    paths: Sequence[Path],
    k: int,
    overtrain: float,
    whole_characters: bool,
    references: bool,
    specials: Sequence[str],
    errors: str,
    progress: CancellableProgress,
) -> _Part:
    counts = count_language(language, paths, errors, progress)
    began = time.perf_counter()
    quiet = HiddenProgress(progress)
    wide = learn_plain(counts, int(k * overtrain), specials, label=language, progress=quiet).merges
    tokens = choose_tokens(
        counts,
        wide.token_data,
        wide.token_offsets,
        len(specials),
        k,
        whole_characters=whole_characters,
        label=language,
        progress=quiet,
    )
    reference = reference_of(language, counts, k, wide) if references else None
    return _Part(tokens, corpus_of(counts), reference, round(time.perf_counter() - began, 3))


def _lines(
    tokenizer: ModularTokenizer, parts: dict[str, _Part], names: Sequence[str]
) -> list[dict[str, Any]]:
    members = tokenizer.token_membership
    alone = members.sum(axis=1) == 1
    lines = []
    for name in names:
        column = members[:, tokenizer.languages.index(name)]
        lines.append(
            {
                "language": name,
                "tokens": int(column.sum()),
                "own": int((column & alone).sum()),
                "total": tokenizer.size,
                "seconds": parts[name].seconds,
            }
        )
    return lines


def _extendable(output: Path) -> ModularTokenizer:
    base = ModularTokenizer.load(output)
    if base.algorithm != ALGORITHM:
        raise UsageError(
            f"a tokenizer made by {base.algorithm} cannot be changed by {ALGORITHM}",
            where=str(output),
            remedy=f"choose a directory that {ALGORITHM} wrote",
        )
    return base


def _removed(base: ModularTokenizer, output: Path, remove: Sequence[str]) -> BuildReport:
    gone = base.resolve(remove)
    if len(gone) == len(base.languages):
        raise UsageError("no language would be left", where="--remove")
    learned, token_counts = without((base.learned(), base.token_counts or ()), sorted(gone))
    tokenizer = ModularTokenizer.from_learned(
        learned,
        algorithm=ALGORITHM,
        k=base.k,
        settings=base.settings,
        corpora={name: corpus for name, corpus in base.corpora.items() if name not in gone},
        token_counts=token_counts,
    )
    kept = read_references(output)
    tokenizer.save(output, {name: kept[name] for name in learned.languages if name in kept})
    return report_of(tokenizer, output)


def _keep(journal: Journal, parts: dict[str, _Part], specials: Sequence[str]) -> None:
    learned, token_counts = unite({name: found.tokens for name, found in parts.items()}, specials)
    notes = {
        "token_counts": [row.tolist() for row in token_counts],
        "corpora": {name: asdict(found.corpus) for name, found in parts.items()},
        "seconds": {name: found.seconds for name, found in parts.items()},
    }
    made = {name: found.reference for name, found in parts.items() if found.reference is not None}
    journal.write(learned, notes, made)


def _saved(journal: Journal) -> dict[str, _Part]:
    """Languages that an interrupted build had done."""
    saved = journal.read()
    if saved is None:
        return {}
    notes = saved.notes
    token_counts = tuple(np.array(row, dtype=np.int64) for row in notes["token_counts"])
    return {
        name: _Part(
            part((saved.learned, token_counts), name),
            Corpus(**notes["corpora"][name]),
            saved.references.get(name),
            notes["seconds"][name],
        )
        for name in saved.learned.languages
    }
