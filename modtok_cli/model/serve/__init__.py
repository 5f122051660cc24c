"""Serve all languages of a model by vLLM, which runs in processes of its own."""
