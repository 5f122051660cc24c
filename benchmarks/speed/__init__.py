"""Throughput and memory, most beside the usual library."""
