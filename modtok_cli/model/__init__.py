"""Checkpoint × languages → a sliced model: slice, generate, serve, export, cost."""
