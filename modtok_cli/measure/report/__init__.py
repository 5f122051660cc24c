"""One self-contained page of everything measured in a workspace."""
