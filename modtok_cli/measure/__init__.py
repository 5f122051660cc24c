"""Measurements of tokenizers on texts."""
