"""Agreement with other programs, damaged files, kills and hostile input."""
