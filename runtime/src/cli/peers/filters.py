"""Convolutions, pooling, stencils."""

import torch
import torch.nn.functional as F
from peers.inputs import uniform


def image(rows, cols, low=-1, high=1):
    return uniform(low, high, 1, 1, rows, cols)


def jacobi(x):
    y = x.clone()
    y[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return y


def causal_depthwise(x, weight, bias):
    taps = weight.shape[1]
    rows = F.pad(x.transpose(1, 2), (taps - 1, 0))
    return F.conv1d(rows, weight.flip(1).unsqueeze(1), bias, groups=x.shape[2]).transpose(1, 2)


PEERS = {
    "1d_convolution": (
        lambda s: [uniform(-1, 1, 1, 1, s["input_size"]), uniform(-1, 1, 1, 1, s["kernel_size"])],
        F.conv1d,
    ),
    "2d_convolution": (
        lambda s: [image(s["input_rows"], s["input_cols"]), image(s["kernel_rows"], s["kernel_cols"])],
        F.conv2d,
    ),
    "gaussian_blur": (
        lambda s: [image(s["input_rows"], s["input_cols"], 0, 255), image(s["kernel_rows"], s["kernel_cols"], 0.0001, 0.02)],
        lambda x, w: F.conv2d(x, w, padding="same"),
    ),
    "2d_max_pooling": (
        lambda s: [
            torch.randn(s["N"], s["C"], s["H"], s["W"], device="cuda"),
            s["kernel_size"],
            s["stride"],
            s["padding"],
        ],
        F.max_pool2d,
    ),
    "jacobi_stencil_2d": (lambda s: [uniform(-1, 1, s["rows"], s["cols"])], jacobi),
    "3d_convolution": (
        lambda s: [
            uniform(-1, 1, 1, 1, s["input_depth"], s["input_rows"], s["input_cols"]),
            uniform(-1, 1, 1, 1, s["kernel_depth"], s["kernel_rows"], s["kernel_cols"]),
        ],
        F.conv3d,
    ),
    "causal_depthwise_conv1d": (
        lambda s: [
            torch.randn(s["B"], s["L"], s["D"], device="cuda"),
            torch.randn(s["D"], s["K"], device="cuda"),
            torch.randn(s["D"], device="cuda"),
        ],
        causal_depthwise,
    ),
}
