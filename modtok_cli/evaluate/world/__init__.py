"""The claims of the paper, tested in invented languages that a small model can learn."""
