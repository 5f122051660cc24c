"""Tokenizers and texts in, tables out."""
