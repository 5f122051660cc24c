"""Word counts in, merges or pieces with language membership out. Knows no files or models."""
