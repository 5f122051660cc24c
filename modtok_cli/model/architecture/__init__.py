"""One object per model family: shape, weight names in other programs, FLOPs and memory."""
