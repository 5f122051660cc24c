"""The native core: C in `src/`, loaded by ctypes; bytes and counts in; ids, merges, counts out.

`src/modtok.h` documents it. `reference/` has the algorithms in plain Python.
"""
