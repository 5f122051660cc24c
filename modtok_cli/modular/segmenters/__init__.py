"""Segmenters: how a word is split into tokens, one way a file; see `segmenters.registry`."""
