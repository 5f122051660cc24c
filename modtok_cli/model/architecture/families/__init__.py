"""One module per architecture; the registry finds them by name, so a new one is one file here."""
