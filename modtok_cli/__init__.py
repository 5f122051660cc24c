"""modtok: modular multilingual tokenizers and the language models trained on them.

`import modtok_cli as modtok` exports every public name and imports nothing besides the version: a
name loads its module when it is first used. See docs/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from modtok_cli.base.version import __version__ as __version__

if TYPE_CHECKING:
    from modtok_cli.base.errors import ModtokError as ModtokError
    from modtok_cli.base.errors import Unfinished as Unfinished
    from modtok_cli.base.errors import UsageError as UsageError
    from modtok_cli.base.public import ModtokWarning as ModtokWarning
    from modtok_cli.cli.doctor import doctor as doctor
    from modtok_cli.cli.progress_bar import CommandProgress as CommandProgress
    from modtok_cli.construct.bpe import bpe as bpe
    from modtok_cli.construct.bpe_merge import bpe_merge as bpe_merge
    from modtok_cli.construct.bpe_seq import bpe_seq as bpe_seq
    from modtok_cli.construct.unigram import unigram as unigram
    from modtok_cli.construct.unigram_merge import unigram_merge as unigram_merge
    from modtok_cli.corpus.build import corpus_build as corpus_build
    from modtok_cli.corpus.count import corpus_count as corpus_count
    from modtok_cli.evaluate.compare import compare as compare
    from modtok_cli.evaluate.compare import write_examples as write_examples
    from modtok_cli.evaluate.evaluate import evaluate_bpb as evaluate_bpb
    from modtok_cli.evaluate.evaluate import evaluate_mcq as evaluate_mcq
    from modtok_cli.evaluate.evaluate import evaluate_mt as evaluate_mt
    from modtok_cli.evaluate.evaluate import evaluate_sum as evaluate_sum
    from modtok_cli.evaluate.fetch_tasks import fetch_tasks as fetch_tasks
    from modtok_cli.evaluate.pretrain import pretrain as pretrain
    from modtok_cli.measure.check import check as check
    from modtok_cli.measure.corpus_stats import corpus_stats as corpus_stats
    from modtok_cli.measure.fairness import fairness as fairness
    from modtok_cli.measure.nsl import nsl as nsl
    from modtok_cli.measure.origin import origin as origin
    from modtok_cli.model.cost.cost import cost as cost
    from modtok_cli.model.draft.tokens import draft_coverage as draft_coverage
    from modtok_cli.model.draft.tokens import tokens as tokens
    from modtok_cli.model.export.export import export as export
    from modtok_cli.model.generate.generate import generate as generate
    from modtok_cli.model.generate.generate import load_generator as load_generator
    from modtok_cli.model.hf.transplant import transplant as transplant
    from modtok_cli.model.serve.serve import serve as serve
    from modtok_cli.model.slice.graft import graft as graft
    from modtok_cli.model.slice.slice import slice as slice
    from modtok_cli.reports.explore.page import explore as explore
    from modtok_cli.reports.report import report as report
    from modtok_cli.samples.sample import sample as sample
    from modtok_cli.text.reading import Reading as Reading
    from modtok_cli.tokenizer.adopted.adopt import adopt as adopt
    from modtok_cli.tokenizer.comparison import compare_tokenizers as compare_tokenizers
    from modtok_cli.tokenizer.encoding.lines import decode as decode
    from modtok_cli.tokenizer.encoding.lines import encode as encode
    from modtok_cli.tokenizer.extract import extract as extract
    from modtok_cli.tokenizer.inspect import inspect as inspect
    from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer as ModularTokenizer
    from modtok_cli.tokenizer.open import load as load
    from modtok_cli.tokenizer.protocol import Tokenizer as Tokenizer
    from modtok_cli.tokenizer.subset_check import check_subsets as check_subsets
    from modtok_cli.tokenizer.subtokenizer import Subtokenizer as Subtokenizer
    from modtok_cli.training.settings import RunSettings as RunSettings

# What the imports above say to type checkers and editors, at run time; a test compares both.
_NAMES = {
    "base.errors": "ModtokError Unfinished UsageError",
    "base.public": "ModtokWarning",
    "cli.doctor": "doctor",
    "cli.progress_bar": "CommandProgress",
    "construct.bpe": "bpe",
    "construct.bpe_merge": "bpe_merge",
    "construct.bpe_seq": "bpe_seq",
    "construct.unigram": "unigram",
    "construct.unigram_merge": "unigram_merge",
    "corpus.build": "corpus_build",
    "corpus.count": "corpus_count",
    "evaluate.evaluate": "evaluate_bpb evaluate_mcq evaluate_mt evaluate_sum",
    "evaluate.fetch_tasks": "fetch_tasks",
    "evaluate.compare": "compare write_examples",
    "model.cost.cost": "cost",
    "model.draft.tokens": "draft_coverage tokens",
    "model.export.export": "export",
    "model.hf.transplant": "transplant",
    "model.generate.generate": "generate load_generator",
    "model.serve.serve": "serve",
    "model.slice.graft": "graft",
    "model.slice.slice": "slice",
    "measure.check": "check",
    "measure.corpus_stats": "corpus_stats",
    "measure.fairness": "fairness",
    "measure.nsl": "nsl",
    "measure.origin": "origin",
    "tokenizer.adopted.adopt": "adopt",
    "tokenizer.comparison": "compare_tokenizers",
    "tokenizer.encoding.lines": "decode encode",
    "tokenizer.extract": "extract",
    "tokenizer.inspect": "inspect",
    "tokenizer.subset_check": "check_subsets",
    "tokenizer.open": "load",
    "tokenizer.protocol": "Tokenizer",
    "tokenizer.subtokenizer": "Subtokenizer",
    "tokenizer.modular_tokenizer": "ModularTokenizer",
    "reports.explore.page": "explore",
    "reports.report": "report",
    "samples.sample": "sample",
    "text.reading": "Reading",
    "evaluate.pretrain": "pretrain",
    "training.settings": "RunSettings",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    module = f"{__name__}.{_MODULES.get(name, f'cli.commands.{name}')}"
    try:
        value = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
    if hasattr(value, "__wrapped__"):  # a public function: its options complete the docstring
        value.__doc__ = import_module(f"{__name__}.base.public").documented(value)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
