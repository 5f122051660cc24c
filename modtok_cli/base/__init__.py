"""What every room stands on: errors, whole-or-nothing files, progress, signatures."""
