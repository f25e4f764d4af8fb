"""Sums, counts, histograms, normalisations and losses."""

import torch
import torch.nn.functional as F
from peers.inputs import ints, uniform


def count(x, value):
    return (x == value).sum(dtype=torch.int32)


def half_dot(a, b):
    return (a.float() * b.float()).sum().half()


def rms_norm(x, gamma, beta, eps):
    return gamma * x * torch.rsqrt(x.square().mean() + eps) + beta


def dpo_loss(chosen, rejected, chosen_ref, rejected_ref, beta):
    return F.softplus(-beta * ((chosen - rejected) - (chosen_ref - rejected_ref))).mean()


def grpo_loss(rewards, log_pi, log_pi_old, log_ref, eps, beta):
    mean = rewards.mean(1, keepdim=True)
    advantage = ((rewards - mean) / (rewards.std(1, keepdim=True, correction=0) + 1e-8)).view(-1, 1)
    ratio = torch.exp(log_pi - log_pi_old)
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - eps, 1 + eps) * advantage)
    d = log_ref - log_pi
    return -(surrogate - beta * (torch.exp(d) - d - 1)).mean()


def row_reductions(x):
    return x.amax(1), x.sum(1), torch.linalg.vector_norm(x, dim=1), x.min()


def clipped_loss(advantages, new, old, eps):
    ratio = torch.exp(new - old)
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - eps, 1 + eps) * advantages).mean()


def embedded(tokens, positions, words, places, gamma, beta, eps):
    return F.layer_norm(words[tokens] + places[positions], gamma.shape, gamma, beta, eps)


def nearest(points):
    distances = (points[:, None] - points[None]).square().sum(-1)
    distances.fill_diagonal_(torch.inf)
    return distances.argmin(1).int()


PEERS = {
    "reduction": (lambda s: [uniform(0, 1000, s["N"])], torch.sum),
    "dot_product": (lambda s: [uniform(-1, 1, s["N"]) for _ in "AB"], lambda a, b: (a * b).sum()),
    "fp16_dot_product": (lambda s: [uniform(-1, 1, s["N"]).half() for _ in "AB"], half_dot),
    "mean_squared_error": (lambda s: [uniform(-1000, 1000, s["N"]) for _ in "AB"], F.mse_loss),
    "monte_carlo_integration": (
        lambda s: [uniform(-1000, 1000, s["n_samples"]), s["a"], s["b"]],
        lambda y, a, b: (b - a) * y.mean(),
    ),
    "count_array_element": (lambda s: [ints(1, 100_001, torch.int32, s["N"]), s["K"]], count),
    "count_2d_array_element": (lambda s: [ints(1, 3, torch.int32, s["N"], s["M"]), s["K"]], count),
    "count_3d_array_element": (lambda s: [ints(1, 3, torch.int32, s["N"], s["M"], s["K"]), s["P"]], count),
    "subarray_sum": (
        lambda s: [ints(1, 11, torch.int32, s["N"])[s["S"] : s["E"] + 1]],
        lambda x: x.sum(dtype=torch.int32),
    ),
    "2d_subarray_sum": (
        lambda s: [ints(1, 11, torch.int32, s["N"], s["M"])[s["S_ROW"] : s["E_ROW"] + 1, s["S_COL"] : s["E_COL"] + 1]],
        lambda x: x.sum(dtype=torch.int32),
    ),
    "3d_subarray_sum": (
        lambda s: [
            ints(1, 11, torch.int32, s["N"], s["M"], s["K"])[
                s["S_DEP"] : s["E_DEP"] + 1, s["S_ROW"] : s["E_ROW"] + 1, s["S_COL"] : s["E_COL"] + 1
            ]
        ],
        lambda x: x.sum(dtype=torch.int32),
    ),
    # torch.bincount waits for the host to know the largest value.
    "histogramming": (
        lambda s: [ints(0, 256, torch.int32, s["N"]), s["num_bins"]],
        lambda x, bins: torch.histc(x, bins, 0, bins - 1),
    ),
    "histogramming_one_bin": (
        lambda s: [ints(200, 201, torch.int32, s["N"]), s["num_bins"]],
        lambda x, bins: torch.histc(x, bins, 0, bins - 1),
    ),
    "koalabear_column_sums": (
        lambda s: [ints(0, 2**31 - 2**24 + 1, torch.int32, s["rows"], s["cols"])],
        lambda x: x.sum(0, dtype=torch.int64) % (2**31 - 2**24 + 1),
    ),
    "softmax": (lambda s: [uniform(-10, 10, s["N"])], lambda x: torch.softmax(x, 0)),
    # torch wants 64-bit labels: 40 kB more than ours.
    "categorical_cross_entropy_loss": (
        lambda s: [uniform(-10, 10, s["N"], s["C"]), ints(0, s["C"], torch.int64, s["N"])],
        F.cross_entropy,
    ),
    "dpo_sequence_loss": (
        lambda s: [*(torch.randn(s["B"], device="cuda") for _ in range(4)), s["beta"]],
        dpo_loss,
    ),
    "grpo_surrogate_loss": (
        lambda s: [
            torch.randn(s["B"], s["G"], device="cuda"),
            *(torch.randn(s["B"] * s["G"], s["S"], device="cuda") for _ in range(3)),
            s["clip_eps"],
            s["beta"],
        ],
        grpo_loss,
    ),
    "rms_normalization": (lambda s: [uniform(-10, 10, s["N"]), s["gamma"], s["beta"], s["eps"]], rms_norm),
    "layer_normalization": (
        lambda s: [uniform(-5, 10, s["N"], s["C"]), uniform(0.5, 2, s["C"]), uniform(-1, 1, s["C"]), s["eps"]],
        lambda x, weight, bias, eps: F.layer_norm(x, weight.shape, weight, bias, eps),
    ),
    "batch_normalization": (
        lambda s: [uniform(-10, 10, s["N"], s["C"]), uniform(0.5, 2, s["C"]), uniform(-2, 2, s["C"]), s["eps"]],
        lambda x, gamma, beta, eps: F.batch_norm(x, None, None, gamma, beta, training=True, eps=eps),
    ),
    "fused_residual_add_rms_norm": (
        lambda s: [
            torch.randn(s["N"], s["C"], device="cuda"),
            torch.randn(s["N"], s["C"], device="cuda"),
            uniform(0.5, 1.5, s["C"]),
            s["eps"],
        ],
        lambda x, residual, weight, eps: F.rms_norm(x + residual, weight.shape, weight, eps),
    ),
    "row_reductions": (lambda s: [uniform(-10, 10, s["rows"], s["cols"])], row_reductions),
    "ppo_clipped_surrogate_loss": (
        lambda s: [*(torch.randn(s["B"], s["S"], device="cuda") for _ in "apo"), s["clip_eps"]],
        clipped_loss,
    ),
    "group_normalization": (
        lambda s: [
            uniform(-3, 3, s["N"], s["C"], s["H"], s["W"]),
            s["G"],
            uniform(0.5, 1.5, s["C"]),
            uniform(-0.5, 0.5, s["C"]),
            s["eps"],
        ],
        F.group_norm,
    ),
    "token_embedding_layer": (
        lambda s: [
            ints(0, s["V"], torch.int32, s["B"], s["T"]),
            ints(0, s["P"], torch.int32, s["T"]),
            uniform(-0.3, 0.3, s["V"], s["D"]),
            uniform(-0.3, 0.3, s["P"], s["D"]),
            uniform(0.8, 1.2, s["D"]),
            uniform(-0.1, 0.1, s["D"]),
            s["eps"],
        ],
        embedded,
    ),
    "nearest_neighbor": (lambda s: [uniform(-1000, 1000, s["N"], 3)], nearest),
}
