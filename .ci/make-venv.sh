#!/bin/sh
# Make a virtual environment with the first Python that is new enough: make-venv.sh DIR
set -eu
trap 'rm -rf "$1" "$1.log"; exit 130' HUP INT TERM  # half an environment would look like a whole one

wanted="import sys; sys.exit(sys.version_info < (3, 11))"
for python in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$python" -c "$wanted" 2>/dev/null; then
        echo "making $1 with $("$python" --version) ($python)"
        if ! "$python" -m venv "$1" 2>"$1.log"; then
            cat "$1.log" >&2
            rm -rf "$1" "$1.log"
            echo "make: $python cannot make a virtual environment;" \
                "on Debian and Ubuntu: apt install python3-venv" >&2
            exit 1
        fi
        rm -f "$1.log"
        exit 0
    fi
done

echo "make: modtok needs Python 3.11 or newer, and none was found;" \
    "install one, or name it: make PYTHON=/path/to/python3" >&2
exit 1
