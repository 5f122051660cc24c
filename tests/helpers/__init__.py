"""What several tests use: sample text, small tokenizers, slow twins of kernels, processes."""
