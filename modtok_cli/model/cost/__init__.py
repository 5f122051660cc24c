"""Cost of tokenizers: memory and time."""
