"""One file per command: parse options, call one function of a package, print the result."""
