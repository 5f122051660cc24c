"""The modular tokenizer: directory format, subsets, encoding. Knows not how it was learned."""
