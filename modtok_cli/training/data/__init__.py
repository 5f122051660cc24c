"""Text to batches: storage, sampling, packing and prefetching."""
