"""What tokenizers cost: memory and time."""

CONTEXT = 4096
"""Tokens of a forward pass that is timed, as in the paper."""
