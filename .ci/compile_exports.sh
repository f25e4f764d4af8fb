#!/usr/bin/env bash
# Compiles and links every exported .cu of a folder, each with the flags that its first lines ask for.
# Usage: .ci/compile_exports.sh DIR
set -euo pipefail

dir="${1:?usage: .ci/compile_exports.sh DIR}"
nvcc="$("$(dirname "$0")/nvcc.sh")"
libraries="$(dirname "$(dirname "$nvcc")")/lib"
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
compile() {
    local file="$1" flags name
    name="$(basename "$file" .cu)"
    flags="$(sed -n 's|^// build: nvcc ||p' "$file" | head -1)"
    # Linked as a library, as judges do. The wheels have lib, not lib64.
    if "$nvcc" $(machine_code_alone $flags) -Werror all-warnings -shared -Xcompiler -fPIC -L"$libraries" -o "$out/$name.so" "$file"; then
        echo "ok      $name.cu  ($flags)"
    else
        echo "FAILED  $name.cu  ($flags)"
        return 1
    fi
}
# `-arch=sm_90a` also asks for PTX, for which nvcc runs its front end a second time. Here the machine code is enough.
machine_code_alone() {
    printf '%s\n' "$@" | sed -E 's/^-arch=sm_(.*)$/-gencode=arch=compute_\1,code=sm_\1/'
}
export -f compile machine_code_alone
export nvcc libraries out
# One file per core at a time; xargs fails where one of them does.
printf '%s\0' "$dir"/*.cu | xargs -0 -P "$(nproc)" -I{} bash -c 'compile "$1"' compile {}
