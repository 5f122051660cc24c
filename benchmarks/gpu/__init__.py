"""Training on a GPU: checks and timings."""
