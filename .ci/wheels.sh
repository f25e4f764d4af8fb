#!/usr/bin/env bash
# Installs wheels into a folder of the cache (GIRIH_CACHE, else ~/.cache/girih) unless they are there, and prints where it lies:
# wheels.sh FOLDER WHEEL==VERSION ..
set -euo pipefail

folder="${GIRIH_CACHE:-$HOME/.cache/girih}/$1"
if [ ! -f "$folder/complete" ]; then
    mkdir -p "$(dirname "$folder")"
    fresh="$(mktemp -d "$folder.XXXXXX")"
    trap 'rm -rf "$fresh"' EXIT
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --target "$fresh" "${@:2}" >&2
    touch "$fresh/complete"
    # Of two processes that install at once, the first one wins.
    if ! mv -T "$fresh" "$folder" 2>/dev/null && [ ! -f "$folder/complete" ]; then
        rm -rf "$folder"
        mv -T "$fresh" "$folder"
    fi
fi
echo "$folder"
