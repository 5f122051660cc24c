"""What tokenizers cost: memory and time."""
