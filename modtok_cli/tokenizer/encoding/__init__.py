"""Texts and files to ids by a segmenter."""
