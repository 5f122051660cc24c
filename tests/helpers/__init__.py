"""What several tests use: sample text, small tokenizers, processes."""
