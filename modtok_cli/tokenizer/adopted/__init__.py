"""Tokenizers of other programs made modular: T is their own file."""
