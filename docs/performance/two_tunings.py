"""Whether two runs of the same tuning agree: tunes each challenge twice, from an empty cache each, and times both winners in turns by `autotune diff`.
Prints a table; a share of 1.02 says that one winner takes 2 % longer than the other.

    python3 docs/performance/two_tunings.py --autotune target/release/autotune --budget 12 > two_tunings.md
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# Kernels and programs of different kinds.
NAMES = [
    "vector_add",
    "matrix_transpose",
    "2d_convolution",
    "3d_convolution",
    "gaussian_blur",
    "rope_embedding",
    "layer_normalization",
    "batch_normalization",
    "histogramming",
    "softmax",
    "prefix_sum",
    "gemm",
]


def told(given, cache, *command):
    """The JSON objects that a command prints."""
    command = [given.autotune, *command, "--json", *given.more]
    done = subprocess.run(command, env={**os.environ, "GIRIH_CACHE": cache}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-800:]}", file=sys.stderr, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def winner(given, name):
    """The schedule that a tuning from nothing elects, as `diff` reads it."""
    with tempfile.TemporaryDirectory() as cache:
        found = told(given, cache, "tune", name, "--budget", f"{given.budget}s")
    schedule = found[-1]["schedule"] if found else None
    parts = [part.partition(": ") for part in (schedule or "").split("; ")]
    return schedule and "; ".join(f"{site}: {knobs.replace(' ', ',')}" if knobs else site if "; " in schedule else site.replace(" ", ",") for site, _, knobs in parts)


def in_turns(given, name, pair):
    """Microseconds of two schedules, and how many times faster the second one is, round by round."""
    with tempfile.TemporaryDirectory() as cache:
        found = told(given, cache, "diff", name, "--a", pair[0], "--b", pair[1], "--no-text", "--rounds", "101")
    times = found[-1] if found else {}
    return [times.get(key) for key in ("a_us", "b_us", "faster")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autotune", required=True, help="the program")
    parser.add_argument("--budget", type=int, default=12, help="seconds for each tuning")
    parser.add_argument("--names", nargs="*", default=NAMES, help="challenges")
    parser.add_argument("--more", nargs="*", default=[], help="what the program is told besides")
    given = parser.parse_args()
    print("| challenge | first winner | µs | second winner | µs | share |")
    print("|---|---|--:|---|--:|--:|")
    for name in given.names:
        pair = [winner(given, name) for _ in range(2)]
        if None in pair:
            print(f"| {name} | none was elected: {pair} | | | | |", flush=True)
        elif pair[0] == pair[1]:
            print(f"| {name} | {pair[0]} | | the same | | 1 |", flush=True)
        else:
            a, b, faster = in_turns(given, name, pair)
            share = f"{max(faster, 1 / faster):.3f}" if faster else "not timed"
            print(f"| {name} | {pair[0]} | {a} | {pair[1]} | {b} | {share} |", flush=True)


if __name__ == "__main__":
    main()
