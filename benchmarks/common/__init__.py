"""What several benchmarks use: facts of the machine, timing, rows, corpora."""
