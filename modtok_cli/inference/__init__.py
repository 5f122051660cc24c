"""Checkpoint × languages → a sliced model: slice, generate, export, latency, memory."""
