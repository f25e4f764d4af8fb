#!/usr/bin/env python3
"""Runs exported challenges on a GPU: every `solve`, odd sizes, pointers that are not aligned, against PyTorch.

    autotune export --all --out DIR --arch sm_90a && python3 tests/exports_on_gpu.py DIR

Needs nvcc and a python3 with torch. Compiles each file as a library; where there is a reference below, calls `solve` on fresh random data
and compares; outputs are poisoned before. The exit code is 1 if anything differs or does not compile.
"""

import ctypes
import math
import pathlib
import subprocess
import sys

import torch

FOLDER = pathlib.Path(sys.argv[1])
LENGTHS = [0, 1, 2, 7, 255, 1000, 4098, 100_003, 1 << 20]


def tensor(count, misalign, dtype=torch.float32, low=-100.0, high=100.0):
    """Random numbers; `misalign` elements away from an aligned pointer."""
    if dtype == torch.float32:
        whole = torch.rand(count + misalign, device="cuda") * (high - low) + low
    else:
        whole = torch.randint(0, 256 if dtype == torch.uint8 else 2**31 - 1, (count + misalign,), device="cuda", dtype=dtype)
    return whole[misalign:]


def poison(count, misalign, dtype=torch.float32):
    return torch.full((count + misalign,), -7 if dtype != torch.float32 else float("nan"), device="cuda", dtype=dtype)[misalign:]


def unary(name, reference):
    def run(solve, n, m):
        x, y = tensor(n, m), poison(n, m)
        solve(x.data_ptr(), y.data_ptr(), n)
        return y, reference(x)

    return name, run


def gated(name, reference):
    def run(solve, n, m):
        n -= n % 2
        x, y = tensor(n, m), poison(n // 2, m)
        solve(x.data_ptr(), y.data_ptr(), n)
        return y, reference(x[: n // 2], x[n // 2 :])

    return name, run


def vector_add(solve, n, m):
    a, b, c = tensor(n, m), tensor(n, 0), poison(n, m)
    solve(a.data_ptr(), b.data_ptr(), c.data_ptr(), n)
    return c, a + b


def matrix_addition(solve, n, m):
    n = math.isqrt(n)
    a, b, c = tensor(n * n, m), tensor(n * n, m), poison(n * n, 0)
    solve(a.data_ptr(), b.data_ptr(), c.data_ptr(), n)
    return c, a + b


def matrix_copy(solve, n, m):
    n = math.isqrt(n)
    a, b = tensor(n * n, m), poison(n * n, m)
    solve(a.data_ptr(), b.data_ptr(), n)
    return b, a


def matrix_transpose(solve, n, m):
    rows, cols = math.isqrt(n), math.isqrt(n) + n % 3
    x, y = tensor(rows * cols, m), poison(rows * cols, m)
    solve(x.data_ptr(), y.data_ptr(), rows, cols)
    return y, x.view(rows, cols).t().reshape(-1)


def reverse_array(solve, n, m):
    x = tensor(n, m)
    wanted = x.flip(0)
    solve(x.data_ptr(), n)
    return x, wanted


def color_inversion(solve, n, m):
    width = 1 + n % 61
    height = n // width
    image = tensor(4 * width * height, 4 * m, torch.uint8)
    wanted = image.view(-1, 4).clone()
    wanted[:, :3] = 255 - wanted[:, :3]
    solve(image.data_ptr(), width, height)
    return image, wanted.reshape(-1)


def rgb_to_grayscale(solve, n, m):
    width = 1 + n % 61
    height = n // width
    x, y = tensor(3 * width * height, m, low=0, high=255), poison(width * height, m)
    solve(x.data_ptr(), y.data_ptr(), width, height)
    weights = torch.tensor([0.299, 0.587, 0.114], device="cuda", dtype=torch.float64)
    return y, (x.view(-1, 3).double() * weights).sum(1).float()


def value_clipping(solve, n, m):
    x, y = tensor(n, m), poison(n, m)
    solve(x.data_ptr(), y.data_ptr(), ctypes.c_float(-51.24), ctypes.c_float(39.51), n)
    return y, x.clamp(-51.24, 39.51)


def rainbow_table(solve, n, m, rounds=3):
    x, y = tensor(n, m, torch.int32), poison(n, m, torch.int32)
    solve(x.data_ptr(), y.data_ptr(), n, rounds)
    h = x.long()
    for _ in range(rounds):
        value, h = h, torch.full_like(h, 2166136261)
        for byte in range(4):
            h = ((h ^ (value >> (8 * byte) & 255)) * 16777619) & 0xFFFFFFFF
    return y.long() & 0xFFFFFFFF, h


def folded(name, arrays, reference, low=0.0, high=1.0):
    """One number of one or more arrays; of at least one element."""

    def run(solve, n, m):
        n = max(n, 1)
        inputs, result = [tensor(n, m, low=low, high=high) for _ in range(arrays)], poison(1, 0)
        solve(*(x.data_ptr() for x in inputs), result.data_ptr(), n)
        return result, reference(*(x.double() for x in inputs)).view(1)

    return name, run


def monte_carlo_integration(solve, n, m):
    n = max(n, 1)
    y, result = tensor(n, m, low=0, high=1), poison(1, 0)
    solve(y.data_ptr(), result.data_ptr(), ctypes.c_float(-1.0), ctypes.c_float(3.0), n)
    return result, 4.0 * y.double().mean().view(1)


def count_array_element(solve, n, m):
    x, result = tensor(n, m, torch.int32) % 5, poison(1, 0, torch.int32)
    solve(x.data_ptr(), result.data_ptr(), n, 3)
    return result, (x == 3).sum().view(1)


def subarray_sum(solve, n, m):
    n = max(n, 1)
    x, result = tensor(n, m, torch.int32) % 1000, poison(1, 0, torch.int32)
    first, last = n // 3, n - 1 - n // 7
    solve(x.data_ptr(), result.data_ptr(), n, first, last)
    return result, x[first : last + 1].long().sum().to(torch.int32).view(1)


def max_subarray_sum(solve, n, m):
    n = max(n, 1)
    x, result, window = tensor(n, m, torch.int32) % 2001 - 1000, poison(1, 0, torch.int32), 1 + n // 5
    solve(x.data_ptr(), result.data_ptr(), n, window)
    sums = torch.nn.functional.pad(x.long().cumsum(0), (1, 0))
    return result, (sums[window:] - sums[:-window]).max().view(1)


def histogramming(solve, n, m, bins=97):
    x, found = tensor(n, m, torch.int32) % (bins + 3), poison(bins, 0, torch.int32)
    solve(x.data_ptr(), found.data_ptr(), n, bins)
    return found, torch.bincount(x, minlength=bins)[:bins]


def softmax(solve, n, m):
    x, y = tensor(n, m, low=-5, high=5), poison(n, m)
    solve(x.data_ptr(), y.data_ptr(), n)
    return y, x.double().softmax(0)


def rms_normalization(solve, n, m):
    x, y = tensor(n, m), poison(n, m)
    solve(x.data_ptr(), ctypes.c_float(1.5), ctypes.c_float(0.25), y.data_ptr(), n, ctypes.c_float(1e-5))
    return y, 1.5 * x.double() * torch.rsqrt(x.double().square().mean() + 1e-5) + 0.25


def prefix_sum(solve, n, m):
    x, y = tensor(n, m, low=0, high=1), poison(n, m)
    solve(x.data_ptr(), y.data_ptr(), n)
    return y, x.double().cumsum(0)


def categorical_cross_entropy_loss(solve, n, m):
    classes = 1 + n % 133
    rows = max(n // classes, 1)
    logits, labels, loss = tensor(rows * classes, m, low=-5, high=5), tensor(rows, m, torch.int32) % classes, poison(1, 0)
    solve(logits.data_ptr(), labels.data_ptr(), loss.data_ptr(), rows, classes)
    return loss, torch.nn.functional.cross_entropy(logits.view(rows, classes).double(), labels.long()).view(1)


def ssm_selective_scan(solve, n, m):
    batch, length, channels, states = 2, 1 + n % 300, 1 + n % 41, 1 + n % 19
    u, delta = tensor(batch * length * channels, m, low=-1, high=1), tensor(batch * length * channels, m, low=0.01, high=1)
    a, skip = tensor(channels * states, m, low=-1, high=-0.01), tensor(channels, m, low=0, high=1)
    b, c = tensor(batch * length * states, m, low=-1, high=1), tensor(batch * length * states, m, low=-1, high=1)
    y = poison(batch * length * channels, m)
    solve(*(x.data_ptr() for x in (u, delta, a, b, c, skip, y)), batch, length, channels, states)
    per_channel, per_state = (batch, length, channels, 1), (batch, length, 1, states)
    decay = (delta.double().view(per_channel) * a.double().view(channels, states)).exp()
    inflow = (delta * u).double().view(per_channel) * b.double().view(per_state)
    h, rows = torch.zeros_like(inflow[:, 0]), []
    for t in range(length):
        h = decay[:, t] * h + inflow[:, t]
        rows.append((h * c.double().view(per_state)[:, t]).sum(-1))
    return y, (torch.stack(rows, 1) + skip.double() * u.double().view(batch, length, channels)).reshape(-1)


CASES = dict(
    [
        unary("relu", torch.relu),
        unary("leaky_relu", lambda x: torch.where(x > 0, x, 0.01 * x)),
        unary("silu", lambda x: (x.double() * torch.sigmoid(x.double())).float()),
        unary("sigmoid", lambda x: torch.sigmoid(x.double()).float()),
        gated("swiglu", lambda a, b: (a.double() * torch.sigmoid(a.double()) * b.double()).float()),
        folded("reduction", 1, torch.sum),
        folded("dot_product", 2, torch.dot),
        folded("mean_squared_error", 2, lambda a, b: (a - b).square().mean()),
        gated("geglu", lambda a, b: (a.double() * torch.nn.functional.gelu(b.double())).float()),
    ]
)
for function in [
    vector_add,
    matrix_addition,
    matrix_copy,
    matrix_transpose,
    reverse_array,
    color_inversion,
    rgb_to_grayscale,
    value_clipping,
    rainbow_table,
    monte_carlo_integration,
    count_array_element,
    subarray_sum,
    max_subarray_sum,
    histogramming,
    softmax,
    rms_normalization,
    prefix_sum,
    categorical_cross_entropy_loss,
    ssm_selective_scan,
]:
    CASES[function.__name__] = function


def main():
    wrong = 0
    files = sorted(FOLDER.glob("*.cu"))
    libraries = []
    for file in files:
        library = file.with_suffix(".so")
        command = ["nvcc", "-O3", "-arch=sm_90a", "-shared", "-Xcompiler", "-fPIC", "-o", library, file]
        libraries.append((file.stem, library, subprocess.Popen(command)))
    for name, library, compiler in libraries:
        if compiler.wait() != 0:
            print(f"{name}: nvcc failed")
            wrong += 1
            continue
        if name not in CASES:
            print(f"{name}: compiles; no reference here")
            continue
        solve = ctypes.CDLL(str(library.resolve())).solve
        solve.restype = None

        def call(*args):
            solve(*[ctypes.c_void_p(a) if isinstance(a, int) and a > 1 << 32 else a for a in args])

        bad = []
        for n in LENGTHS:
            for misalign in (0, 1, 3):
                # An empty tensor has no pointer of its own.
                found, wanted = CASES[name](call, n, misalign)
                torch.cuda.synchronize()
                close = torch.allclose(found.double(), wanted.double(), rtol=1e-4, atol=1e-4)
                if not close:
                    bad.append(f"n={n} misaligned by {misalign}")
        wrong += bool(bad)
        print(f"{name:20} {len(LENGTHS) * 3} calls: {'ok' if not bad else 'WRONG at ' + ', '.join(bad)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
