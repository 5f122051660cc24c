"""One file per command: options in, one call into a room, results out."""
