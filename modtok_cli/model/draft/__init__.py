"""Vocabularies of drafts for speculative decoding: lists of tokens, their files, reduced heads."""
