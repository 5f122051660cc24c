"""Compression of the tokenizers, on real parallel text."""
