"""modtok: modular multilingual tokenizers and the language models trained on them."""

__version__ = "0.1.0"
