"""Elementwise challenges, and those that move elements."""

import torch
import torch.nn.functional as F
from peers.inputs import ints, uniform


def halves(x):
    return x[: x.numel() // 2], x[x.numel() // 2 :]


def swiglu(x):
    a, b = halves(x)
    return F.silu(a) * b


def geglu(x):
    a, b = halves(x)
    return a * F.gelu(b)


def rainbow(x, rounds):
    def fnv1a(v):
        h = torch.full_like(v, 2166136261 - 2**32)
        for byte in range(4):
            h = (h ^ ((v >> (8 * byte)) & 0xFF)) * 16777619
        return h

    for _ in range(rounds):
        x = fnv1a(x)
    return x


def grayscale(x):
    return 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]


def rotated(q, cos, sin):
    half = q.shape[1] // 2
    return q * cos + torch.cat([-q[:, half:], q[:, :half]], 1) * sin


def squares_scaled(x, s, size):
    factors = s.repeat_interleave(size, 0)[: x.shape[0]].repeat_interleave(size, 1)[:, : x.shape[1]]
    return x * factors


PEERS = {
    "vector_add": (lambda s: [uniform(-1000, 1000, s["N"]), uniform(-1000, 1000, s["N"])], lambda a, b: a + b),
    "matrix_addition": (lambda s: [uniform(-1000, 1000, s["N"], s["N"]) for _ in "AB"], lambda a, b: a + b),
    "matrix_copy": (lambda s: [uniform(-1000, 1000, s["N"], s["N"])], lambda a: a.clone()),
    "relu": (lambda s: [uniform(-100, 100, s["N"])], torch.relu),
    "leaky_relu": (lambda s: [uniform(-1000, 1000, s["N"])], lambda x: F.leaky_relu(x, 0.01)),
    "silu": (lambda s: [uniform(-50, 50, s["N"])], F.silu),
    "sigmoid": (lambda s: [uniform(-10, 10, s["N"])], torch.sigmoid),
    "swiglu": (lambda s: [uniform(-100, 100, s["N"])], swiglu),
    "geglu": (lambda s: [uniform(-100, 100, s["N"])], geglu),
    "value_clipping": (
        lambda s: [uniform(-100, 100, s["N"]), s["lo"], s["hi"]],
        lambda x, lo, hi: torch.clamp(x, lo, hi),
    ),
    "rainbow_table": (lambda s: [ints(0, 2**31 - 1, torch.int32, s["N"]), s["R"]], rainbow),
    "color_inversion": (
        lambda s: [ints(-(2**31), 2**31 - 1, torch.int32, s["width"] * s["height"])],
        lambda pixels: pixels.bitwise_xor_(0x00FFFFFF),
    ),
    "rgb_to_grayscale": (
        lambda s: [ints(0, 256, torch.int32, s["width"] * s["height"], 3).float()],
        grayscale,
    ),
    "reverse_array": (lambda s: [uniform(-1000, 1000, s["N"])], lambda x: x.copy_(x.flip(0))),
    "matrix_transpose": (lambda s: [uniform(-10, 10, s["rows"], s["cols"])], lambda x: x.t().contiguous()),
    "interleave": (lambda s: [torch.randn(s["N"], device="cuda") for _ in "AB"], lambda a, b: torch.stack([a, b], 1).flatten()),
    "rope_embedding": (lambda s: [torch.randn(s["M"], s["D"], device="cuda") for _ in "Qcs"], rotated),
    "weight_dequantization": (
        lambda s: [
            torch.randn(s["M"], s["N"], device="cuda"),
            torch.randn(-(-s["M"] // s["TILE_SIZE"]), -(-s["N"] // s["TILE_SIZE"]), device="cuda"),
            s["TILE_SIZE"],
        ],
        squares_scaled,
    ),
}
