"""Constructions: text files to a tokenizer directory, by a learner."""
