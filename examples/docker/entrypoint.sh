#!/bin/sh
# Start modtok with the kernels that the image compiled.
# numba only uses a cache directory that it can write to. The image's is read-only, so a private copy
# (12 MB) goes to the first writable directory.
set -eu

if [ ! -w "$NUMBA_CACHE_DIR" ]; then
    copy=
    for place in "${TMPDIR:-/tmp}" /dev/shm; do
        copy=$(mktemp -d "$place/modtok-kernels.XXXXXX" 2>/dev/null) && break
    done
    if [ -z "$copy" ]; then
        echo "modtok: no writable directory for temporary files; add --tmpfs /tmp" >&2
        exit 1
    fi
    cp -R -p "$NUMBA_CACHE_DIR/." "$copy"
    export NUMBA_CACHE_DIR="$copy"
fi
exec modtok "$@"
