"""`modtok bpe-parity`: parity-aware BPE, a fairness baseline, by the `tokenizers` library.

Parity-aware BPE (Foroutan et al. 2025) merges at each step for the language that is worst
compressed on a parallel development text. The trainer is that of newer releases of the
library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson

from modtok_cli.base import parameters
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import require
from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.construct.outputs import check_absent
from modtok_cli.construct.request import BuildReport, Request, check_specials
from modtok_cli.learn.merges import check_budget
from modtok_cli.modular.open import open_bytes
from modtok_cli.text.pretokenizer import BPE, PretokenizerName, find_pretokenizer
from modtok_cli.text.readers import read_documents
from modtok_cli.text.reading import Reading
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import language_files


def parity_trainer() -> Any | None:
    """The library's trainer class; None where the installed release has none."""
    require("parity-aware BPE", published=["tokenizers"])
    from tokenizers import trainers

    return getattr(trainers, "ParityBpeTrainer", None)


@public
def bpe_parity(
    parallel: Annotated[
        parameters.FilePath,
        Option(
            "Directory of line-aligned text that compression is balanced on.",
            argument=True,
            metavar="PARALLEL",
        ),
    ],
    languages: parameters.Langs = None,
    *,
    k: Annotated[
        int,
        Option(
            "Total vocabulary size, including bytes.",
            flags="-k --budget",
            key="k",
            metavar="N",
            high=parameters.MAX_BUDGET,
        ),
    ] = 128000,
    pretokenizer: PretokenizerName = None,
    specials: parameters.Specials = (),
    default_specials: parameters.DefaultSpecials = True,
    data: parameters.Data = "data",
    output: parameters.OutputFile = "bpe-parity.json",
    reading: Reading = Reading(),
    force: parameters.Force = False,
    progress: Progress = SILENT,
) -> BuildReport:
    """Learn parity-aware BPE, a fairness baseline.

    One vocabulary of N tokens for all languages. Each merge is chosen for the language with
    the worst compression on `parallel` so far. Requires a version of the tokenizers library
    with this trainer. Do not evaluate on `parallel`.

    Returns:
        A report, as `bpe`, with one row.

    Raises:
        ModtokError: the installed `tokenizers` has no such trainer; text is not usable.
        UsageError: `output` exists, a language has no parallel text, or an unknown pre-tokenizer.
    """
    request = Request.of(locals())
    trainer_class = parity_trainer()
    if trainer_class is None:
        raise ModtokError(
            "the installed tokenizers library has no trainer for parity-aware BPE",
            remedy="install a newer release: pip install -U tokenizers",
        )
    splits = find_pretokenizer(pretokenizer or BPE.name)
    specials = request.special_tokens()
    check_budget(k, specials)
    check_specials(specials)
    check_absent(request)
    files = language_files(request.data, request.languages, reading, progress=progress)
    balance = language_files(Path(parallel), list(files), reading)
    for language, paths in [*files.items(), *balance.items()]:
        tables = [path for path in paths if is_table(path)]
        if tables:
            raise ModtokError(
                f"is a table of word counts, but parity-aware BPE needs the text of {language}",
                where=str(tables[0]),
            )
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    document = orjson.loads(Tokenizer(models.BPE()).to_str())
    document["pre_tokenizer"] = splits.to_json(byte_level=True)
    tokenizer = Tokenizer.from_str(orjson.dumps(document).decode())
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainer_class(
        num_merges=k - 256 - len(specials),
        special_tokens=list(specials),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    total = sum(path.stat().st_size for paths in files.values() for path in paths)
    with progress.task("parity-aware BPE", total=total, unit="B") as task:

        def texts(language: str, paths: Sequence[Path], counted: bool) -> Iterator[str]:
            for path in paths:
                own = reading.of(language)
                for document in read_documents(path, own, progress=progress):
                    yield document.text.decode()
                if counted:
                    task.advance(path.stat().st_size)

        trainer.train_from_iterator(
            tokenizer,
            train_iterators=[texts(name, paths, counted=True) for name, paths in files.items()],
            dev_iterators=[texts(name, balance[name], counted=False) for name in files],
        )
    data_out = tokenizer.to_str().encode()
    made = open_bytes(data_out, str(output), str(output))
    write_bytes(request.output, data_out)
    if made.size < k:
        progress.warn(f"the text gives {made.size:,} tokens, not {k:,}")
    line = {"language": ",".join(files), "tokens": made.size}
    return BuildReport(request.output, made.signature, [line])
