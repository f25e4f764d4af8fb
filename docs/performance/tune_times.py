"""How a search keeps to its budget: runs `autotune tune` on calls that are slow to prepare, and prints when the first trial was measured, how many
there were, and when the program ended, as a table.

    python3 docs/performance/tune_times.py --autotune target/release/autotune --budget 6 > tune_times.md
    python3 docs/performance/tune_times.py --autotune target/release/autotune --budget 3.3 --gallery > gallery.md
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

# Gigabytes of tensors, work that grows with the square, kernels that NVRTC takes seconds for, several ways to run.
CALLS = [
    ("group_normalization", "N=112,C=64,H=512,W=512,G=32,eps=1e-5"),
    ("row_reductions", "rows=65536,cols=8192"),
    ("mean_squared_error", "N=268435456"),
    ("matrix_copy", "N=23000"),
    ("nearest_neighbor", ""),
    ("matrix_multiplication", "M=1024,N=8192,K=8192"),
    ("lora_linear", ""),
    ("gemm_f16_nn", ""),
    ("batched_matrix_multiplication", ""),
    ("int8_kv_cache_attention", ""),
    ("bfs_shortest_path", ""),
    ("sorting", ""),
    ("top_k_selection", ""),
    ("flash_attention_backward_bf16_d128", ""),
]


def tuned(autotune, name, size, budget):
    """Seconds to the first measured trial, trials, seconds to the end, and the best time in words."""
    with tempfile.TemporaryDirectory() as cache:
        command = [autotune, "tune", name, "--budget", f"{budget:g}s"] + (["--size", size] if size else [])
        start = time.monotonic()
        process = subprocess.Popen(
            command, env={**os.environ, "GIRIH_CACHE": cache}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        first, trials, best, said = None, 0, "none", []
        for line in process.stdout:
            said.append(line)
            if first is None and re.search(r"\bmeasured [0-9.]+ us ", line):
                first = time.monotonic() - start
            if found := re.search(r": (\d+) trials, ", line):
                trials += int(found[1])
            if found := re.search(r"(?:best (?!at ).*median|whole program:) ([0-9.]+ us)", line):
                best = found[1]
        if process.wait() != 0 or best == "none":
            print(f"{name} ended with {process.returncode}:", *said[-12:], sep="\n", file=sys.stderr, flush=True)
        return first, trials, time.monotonic() - start, best


def gallery(autotune):
    """Names of all challenges."""
    listed = subprocess.run([autotune, "list", "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [found["challenge"] for found in map(json.loads, listed.splitlines()) if "challenge" in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autotune", required=True, help="the program")
    parser.add_argument("--budget", type=float, default=6, help="seconds for each call")
    parser.add_argument("--gallery", action="store_true", help="every challenge instead")
    given = parser.parse_args()
    calls = [(name, "") for name in gallery(given.autotune)] if given.gallery else CALLS
    print("| challenge | size | first trial s | trials | end s | of the budget | best |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for name, size in calls:
        first, trials, end, best = tuned(given.autotune, name, size, given.budget)
        shown = f"{first:.1f}" if first is not None else "none"
        print(f"| {name} | {size or 'perf'} | {shown} | {trials} | {end:.1f} | {end / given.budget:.2f} | {best} |", flush=True)


if __name__ == "__main__":
    main()
