#!/usr/bin/env bash
# Installs NVIDIA's nvcc wheels into the cache (GIRIH_CACHE, else ~/.cache/girih) unless they are there, and prints nvcc's path.
# The versions fit each other: a newer nvvm writes PTX that this ptxas rejects. cccl has headers that cuda_fp16.h includes.
set -euo pipefail

cache="${GIRIH_CACHE:-$HOME/.cache/girih}/nvcc-13.0.88"
nvcc="$cache/nvidia/cu13/bin/nvcc"
if [ ! -f "$cache/complete" ]; then
    mkdir -p "$(dirname "$cache")"
    fresh="$(mktemp -d "$cache.XXXXXX")"
    trap 'rm -rf "$fresh"' EXIT
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --target "$fresh" \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 \
        nvidia-cuda-cccl==13.0.85 >&2
    touch "$fresh/complete"
    # Of two processes that install at once, the first one wins.
    if ! mv -T "$fresh" "$cache" 2>/dev/null && [ ! -f "$cache/complete" ]; then
        rm -rf "$cache"
        mv -T "$fresh" "$cache"
    fi
fi
echo "$nvcc"
