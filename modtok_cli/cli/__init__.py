"""The command line: parse, call one function of a room, print."""
