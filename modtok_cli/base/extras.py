"""Packages of the extras: whether they are installed, without importing them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from modtok_cli.base.errors import UsageError

# Modules that an extra brings, itself or by what it requires; `pip install` has other names.
EXTRAS = {
    "published": ("tokenizers", "huggingface_hub", "tiktoken"),
    "plot": ("matplotlib",),
    "data": ("pyarrow", "fsspec"),
    "corpus": (
        "datatrove", "fastwarc", "resiliparse", "trafilatura", "py3langid", "fasttext", "regex",
        "loguru", "tldextract", "fasteners", "ahocorasick", "lxml_html_clean", "fsspec",
    ),
    "lm": ("torch", "megatron", "transformers", "accelerate", "gguf", "jinja2", "yaml"),
    "gpu": ("transformer_engine",),
    "serve": ("vllm",),
    "eval": ("lm_eval", "sacrebleu", "rouge_score", "datasets", "jinja2", "yaml"),
    "log": ("tensorboard", "wandb"),
}  # fmt: skip


def missing_package(error: BaseException) -> UsageError | None:
    """The package to install for a module of `EXTRAS` that is not there; None for other errors."""
    if not isinstance(error, ModuleNotFoundError):
        return None
    module = (error.name or "").partition(".")[0]
    extra = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if extra is None or is_installed(module):
        return None
    return UsageError(f"this requires {module}", remedy=f"pip install 'modtok[{extra}]'")


def require(what: str = "this command", /, **extras: Sequence[str]) -> None:
    """Check all modules that `what` needs: extra of the package → modules of it.

    Raises:
        UsageError: some are not installed; names all, and all extras to install.
    """
    missing = {
        extra: [name for name in modules if not is_installed(name)]
        for extra, modules in extras.items()
    }
    if any(missing.values()):
        names = ", ".join(name for names in missing.values() for name in names)
        needed = ",".join(extra for extra, names in missing.items() if names)
        raise UsageError(f"{what} requires {names}", remedy=f"pip install 'modtok[{needed}]'")


def is_installed(name: str) -> bool:
    """Whether a module can be imported, as far as can be known without importing it."""
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # hidden or partly installed
        return False


def transformers() -> Any:
    """The package transformers, complete also if another thread imports it at the same time.

    It replaces itself in `sys.modules` while it loads. An `import` statement that waits for this
    gives the module without its classes; `import_module` reads `sys.modules` again.
    """
    return import_module("transformers")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the advice and the bars of transformers."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
