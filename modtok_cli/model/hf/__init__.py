"""Models of transformers: run, sliced and transplanted, of any architecture."""
