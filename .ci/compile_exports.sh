#!/usr/bin/env bash
# Compiles and links every exported .cu of a folder, each with the flags that its first lines ask for.
# Usage: .ci/compile_exports.sh DIR
set -euo pipefail

dir="${1:?usage: .ci/compile_exports.sh DIR}"
nvcc="$("$(dirname "$0")/nvcc.sh")"
libraries="$(dirname "$(dirname "$nvcc")")/lib"
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
failed=0
for file in "$dir"/*.cu; do
    flags="$(sed -n 's|^// build: nvcc ||p' "$file" | head -1)"
    # Linked as a library, as judges do. The wheels have lib, not lib64.
    if "$nvcc" $flags -Werror all-warnings -shared -Xcompiler -fPIC -L"$libraries" -o "$out/solve.so" "$file"; then
        echo "ok      $(basename "$file")  ($flags)"
    else
        echo "FAILED  $(basename "$file")  ($flags)"
        failed=1
    fi
done
exit $failed
