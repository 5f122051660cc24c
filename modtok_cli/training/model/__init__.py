"""The decoder on Megatron-Core, its loss and its optimizers."""
