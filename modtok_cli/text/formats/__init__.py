"""Formats of text files, one module each; see `text_format`."""
